//! All work of the host for a guest is bounded in bytes, time and count.
//!
//! Memory is measured in a separate process: these tests start themselves again with the name of an attack in
//! [`ATTACK`], and read the output of [`measured_attack`].

use pinion_agent::Content;
use pinion_agent::output_bounds::OutputBounds;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::PartialLimits;
use pinion_tests::{Progress, Sandbox, SandboxBuilder, Seen};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio_util::sync::CancellationToken;

/// Name of the variable that selects the attack in the separate process.
const ATTACK: &str = "PINION_TESTS_ATTACK";
const MIB: u64 = 1024 * 1024;

/// A directory tree, a tool to call in it, and its arguments.
struct Attack {
    name: &'static str,
    tree: fn(&Path),
    tool: &'static str,
    arguments: Value,
}

fn attacks() -> Vec<Attack> {
    let attack = |name, tree, tool, arguments| Attack { name, tree, tool, arguments };
    vec![
        attack("long paths", long_paths, "walk_all", json!({})),
        attack("deep paths", deep_paths, "walk_all", json!({})),
        attack("waiting directories", waiting_directories, "walk_all", json!({ "globs": ["nothing"] })),
        attack("ignore files", ignore_files, "walk_all", json!({ "ignore_files": true })),
        attack("many globs", empty, "walk_all", json!({ "globs": ["**/a*b?c"], "times": 200_000 })),
        attack("match of newlines", newlines, "search_all", json!({ "pattern": "(?s).+", "multiline": true })),
        attack("matches of newlines", newlines, "search_all", json!({ "pattern": "^" })),
        attack("long lines", long_lines, "search_all", json!({ "pattern": "x$", "line_bytes": u32::MAX })),
        attack("large files", long_lines, "search_all", json!({ "pattern": "x+", "multiline": true })),
        attack("context", context, "search_all", json!({ "pattern": "needle", "context": 100, "line_bytes": 65_536 })),
        attack("long pattern", empty, "search_all", json!({ "pattern": "(a|b)", "times": 1_000_000 })),
        attack(
            "heavy pattern",
            newlines,
            "search_all",
            json!({ "pattern": r"(?s)[\w\s]{60}.*[\w\s]{60}", "multiline": true }),
        ),
    ]
}

fn empty(_: &Path) {}

/// Creates a directory whose path has 3.7 KiB.
fn far_directory(workspace: &Path) -> PathBuf {
    let directory = workspace.join(vec!["d".repeat(250); 14].join("/"));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Creates 12,000 files, each with a path of 3.7 KiB.
fn long_paths(workspace: &Path) {
    let directory = far_directory(workspace);
    for part in 0..4 {
        let directory = directory.join(part.to_string());
        fs::create_dir(&directory).unwrap();
        (0..3000).for_each(|file| drop(File::create(directory.join(file.to_string())).unwrap()));
    }
}

/// Creates 120 levels of long names, longer in total than any system call accepts.
fn deep_paths(workspace: &Path) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let name = "d".repeat(250);
    let mut directory = openat(CWD, workspace, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..120 {
        mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = openat(&directory, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for file in 0..10 {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            openat(&directory, format!("{file}{}", "f".repeat(250)), flags, Mode::RWXU).unwrap();
        }
    }
}

/// Creates 8,000 directories to list, each with a path of 3.7 KiB.
fn waiting_directories(workspace: &Path) {
    let directory = far_directory(workspace);
    (0..8000).for_each(|number| fs::create_dir(directory.join(number.to_string())).unwrap());
}

/// Creates 100 nested directories, each with thousands of ignore patterns, some of them pathological.
fn ignore_files(workspace: &Path) {
    let mut directory = workspace.to_owned();
    let nested = format!("{}a{}", "{a,".repeat(50_000), "}".repeat(50_000));
    let alternatives = "{a,b,c,d}*?".repeat(80);
    let plain: String = (0..8000).map(|n| format!("name-{n}\n")).collect();
    let globs: String = (0..2000).map(|n| format!("**/a*{n}?b*[a-z]c*/**\n")).collect();
    for level in 0..100 {
        directory.push(format!("d{level}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
        fs::write(directory.join(".gitignore"), format!("{nested}\n{alternatives}\n{plain}")).unwrap();
        fs::write(directory.join(".ignore"), &globs).unwrap();
    }
}

fn newlines(workspace: &Path) {
    for file in 0..2 {
        fs::write(workspace.join(file.to_string()), vec![b'\n'; 30 << 20]).unwrap();
    }
    fs::write(workspace.join("small"), vec![b'\n'; 4 << 20]).unwrap();
}

fn long_lines(workspace: &Path) {
    for (file, mib) in [3, 7, 20, 70].into_iter().enumerate() {
        fs::write(workspace.join(file.to_string()), vec![b'x'; mib << 20]).unwrap();
    }
}

/// Creates a file of long lines; every 200th matches.
fn context(workspace: &Path) {
    for file in 0..3 {
        let mut file = BufWriter::new(File::create(workspace.join(file.to_string())).unwrap());
        for line in 0..600 {
            let text = if line % 200 == 0 { "needle" } else { "hay" };
            writeln!(file, "{text}{}", "y".repeat(100_000)).unwrap();
        }
    }
}

/// Measurements of one attack.
struct Measured {
    /// The text of the call's result.
    said: String,
    /// Memory that the host used for the call, in MiB, without the guest's.
    mib: u64,
    /// Duration of the call in seconds.
    seconds: u64,
}

/// Runs an attack in a separate process.
fn measure(name: &str) -> Measured {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::bounds::measured_attack", "--nocapture"])
        .env(ATTACK, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("measured: "));
    let (_, line) = line.unwrap_or_else(|| panic!("{name}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let value: Value = serde_json::from_str(line).unwrap();
    let number = |field: &str| value[field].as_u64().unwrap();
    Measured {
        said: value["said"].as_str().unwrap().to_owned(),
        mib: number("bytes") / MIB,
        seconds: number("seconds"),
    }
}

/// Runs in the process that [`measure`] starts; does nothing otherwise.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout, reason = "it is read by the process that started this one")]
async fn measured_attack() {
    let Ok(name) = std::env::var(ATTACK) else { return };
    let attack = attacks().into_iter().find(|attack| attack.name == name).unwrap();
    let sandbox = Sandbox::with(&["hostile"]).await;
    (attack.tree)(&sandbox.workspace());
    // A first call, so that one-time allocations are not counted.
    sandbox.error("walk_all", json!({ "root": "nowhere" })).await;
    // Resets the peak, where the system allows it.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (before, started) = (status("VmRSS:"), std::time::Instant::now());
    let progress = Progress::default();
    let call = sandbox.call_with(attack.tool, attack.arguments, &progress, CancellationToken::new());
    let (result, ledger) = call.await;
    let bytes = status("VmHWM:").saturating_sub(before + ledger.memory);
    let said = match result {
        Ok(output) => output.content.iter().filter_map(Content::as_text).collect(),
        Err(error) => error.to_string(),
    };
    let seconds = started.elapsed().as_secs();
    println!("measured: {}", json!({ "said": said, "bytes": bytes, "seconds": seconds }));
}

/// Returns a field of this process's status in bytes.
fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Asserts that the attack ends in time and within `mib` of memory, and that the result contains `said`.
#[cfg(target_os = "linux")]
fn assert_bounded(name: &str, mib: u64, said: &str) {
    let measured = measure(name);
    let Measured { mib: took, seconds, .. } = measured;
    assert!(measured.said.contains(said), "{name}: {}", measured.said);
    assert!(took <= mib, "{name}: the host took {took} MiB, of {mib}: {}", measured.said);
    assert!(seconds < 60, "{name}: {seconds} s");
}

#[cfg(target_os = "linux")]
mod memory {
    use super::assert_bounded;

    #[test]
    fn walk_over_long_paths_is_bounded() {
        assert_bounded("long paths", 64, "truncated: true");
    }

    #[test]
    fn walk_over_deep_paths_is_bounded() {
        assert_bounded("deep paths", 64, "truncated: true");
    }

    #[test]
    fn queue_of_directories_is_bounded() {
        assert_bounded("waiting directories", 64, "0 entries, truncated: true");
    }

    #[test]
    fn hostile_ignore_files_are_bounded_in_memory_and_time() {
        assert_bounded("ignore files", 64, "entries, truncated: false");
    }

    #[test]
    fn oversized_globs_are_rejected_before_compilation() {
        assert_bounded("many globs", 64, "200000 globs, of at most 100");
    }

    #[test]
    fn multiline_match_is_bounded() {
        assert_bounded("match of newlines", 100, "truncated: true");
        assert_bounded("matches of newlines", 100, "truncated: true");
    }

    #[test]
    fn long_lines_and_large_files_are_bounded() {
        assert_bounded("long lines", 100, "3 matches");
        assert_bounded("large files", 100, "2 matches");
    }

    #[test]
    fn context_is_bounded() {
        assert_bounded("context", 100, "truncated: true");
    }

    #[test]
    fn patterns_are_bounded() {
        assert_bounded("long pattern", 64, "5000000 bytes, of at most 16384");
        assert_bounded("heavy pattern", 100, "truncated: true");
    }
}

async fn sandbox() -> Sandbox {
    Sandbox::with(&["hostile"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_globs_are_rejected() {
    let sandbox = sandbox().await;
    let nested = "{a,".repeat(5000);
    for globs in [vec![nested], vec!["x".repeat(1025)], vec!["[a-z]*".repeat(100); 50]] {
        let error = sandbox.error("walk_all", json!({ "globs": globs })).await;
        assert!(error.contains("of at most") || error.contains("longer than"), "{error}");
    }
    let types = json!({ "types": ["rust"], "times": 100_000 });
    assert!(sandbox.error("walk_all", types).await.contains("100000 file types, of at most 100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_parts_are_dropped_and_too_many_parts_rejected() {
    let sandbox = sandbox().await;
    let output = sandbox.call("give_parts", json!({ "amount": 100_000 })).await.unwrap();
    assert_eq!(output.content, [Content::text("")]);
    let error = sandbox.error("give_texts", json!({ "amount": 1001 })).await;
    assert!(error.contains("plugin `hostile`") && error.contains("1001 parts, of at most 1000"), "{error}");
    assert_eq!(sandbox.text("give_texts", json!({ "amount": 1000 })).await, "x".repeat(1000));
}

/// Each part counts, so that the output limit also holds for empty parts.
#[tokio::test(flavor = "multi_thread")]
async fn empty_parts_count_towards_the_output_limit() {
    let sandbox = sandbox().await;
    let error = sandbox.error("give_parts", json!({ "amount": 600_000 })).await;
    assert!(error.contains("too much output") && error.contains("raise `output-bytes`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_have_few_and_no_empty_parts() {
    let (sandbox, progress) = (sandbox().await, Progress::default());
    let arguments = json!({ "amount": 50_000 });
    let (result, _) = sandbox.call_with("update_parts", arguments, &progress, CancellationToken::new()).await;
    result.unwrap();
    for seen in progress.seen() {
        let Seen::Update(parts) = seen else { panic!("{seen:?}") };
        assert!(parts.len() <= 1000 && !parts.contains(&Content::text("")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_image_is_an_error_of_its_plugin() {
    let sandbox = sandbox().await;
    for (media_type, start) in [
        ("image/png", "474946383961"),
        ("image/jpeg", "89504e470d0a1a0a"),
        ("image/webp", "5249464600000000574156"),
        ("image/gif", ""),
        ("image/svg+xml", "3c7376672f3e"),
        ("image/png\u{1b}[2J", "89504e470d0a1a0a"),
    ] {
        let arguments = json!({ "media_type": media_type, "start": start, "bytes": 20 });
        let error = sandbox.error("give_picture", arguments).await;
        assert!(error.contains("plugin `hostile` broke the contract: an image"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
}

/// Content of the history: an image that a vendor rejects would make the session unusable.
#[tokio::test(flavor = "multi_thread")]
async fn images_that_vendors_reject_stay_out_of_the_history() {
    let sandbox = sandbox().await;
    let huge = "89504e470d0a1a0a0000000d49484452000100000001000008";
    let large = "89504e470d0a1a0a0000000d49484452000000100000001008";
    let cut_off = "89504e470d0a1a0a";
    for (start, bytes, why) in
        [(huge, 100, "65536 x 65536"), (large, 6_000_000, "6000000 bytes"), (cut_off, 8, "its bytes")]
    {
        let arguments = json!({ "media_type": "image/png", "start": start, "bytes": bytes });
        let output = sandbox.call("give_picture", arguments).await.unwrap();
        let Content::Image(image) = &output.content[0] else { panic!("{output:?}") };
        let problem = image.check().unwrap_err().to_string();
        assert!(problem.contains(why), "{problem}");
    }
    assert!(OutputBounds::default().max_image_bytes <= 20 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn details_and_languages_are_bounded() {
    let sandbox = sandbox().await;
    let error = sandbox.error("give_details", json!({ "amount": 1_000_000 })).await;
    assert!(error.contains("details of more than 100000 values"), "{error}");
    let error = sandbox.error("give_details", json!({ "amount": 5_000_000 })).await;
    assert!(error.contains("details of 10000001 bytes"), "{error}");
    let output = sandbox.call("give_language", json!({ "amount": 1_000_000 })).await.unwrap();
    assert!(format!("{:?}", output.display).len() < 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_text_counts_as_output() {
    let sandbox = sandbox().await;
    let result = sandbox.call("fail_loudly", json!({ "amount": 34 * MIB })).await;
    assert!(matches!(result, Err(ToolError::Fault { .. })));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("raise `output-bytes`"), "{}", &error[..error.len().min(200)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_file_names_are_unpredictable() {
    let sandbox = sandbox().await;
    for number in 0..200 {
        sandbox.write(&format!(".pinion-{}-{number}.tmp", std::process::id()), "taken");
        sandbox.write(&format!(".pinion-{number:016x}.tmp"), "taken");
    }
    let count = || fs::read_dir(sandbox.workspace()).unwrap().count();
    let before = count();
    sandbox.text("write_much", json!({ "path": "new", "how": "replace", "bytes": 10, "times": 50 })).await;
    assert_eq!((sandbox.read("new"), count()), ("x".repeat(10), before + 1));
}

async fn limited(limits: PartialLimits) -> Sandbox {
    SandboxBuilder::default().guest("hostile").trust("hostile").limits("hostile", limits).build().await
}

async fn written(sandbox: &Sandbox, how: &str, bytes: u64, times: u64) -> Result<(), String> {
    let arguments = json!({ "path": "file", "how": how, "bytes": bytes, "times": times });
    sandbox.call("write_much", arguments).await.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_written_are_bounded_on_every_path() {
    let limits = PartialLimits { bytes_written: Some(MIB), ..PartialLimits::default() };
    let sandbox = limited(limits).await;
    for how in ["write", "append", "replace"] {
        for (bytes, times) in [(2 * MIB, 1), (1000, 2000)] {
            let error = written(&sandbox, how, bytes, times).await.unwrap_err();
            let said =
                error.contains("wrote too much (limit 1 MiB): it wanted ") && error.contains("raise `bytes-written`");
            assert!(said && error.contains("plugin `hostile`"), "{how}: {error}");
            assert!(fs::metadata(sandbox.workspace().join("file")).map_or(0, |file| file.len()) <= MIB, "{how}");
            let _ = fs::remove_file(sandbox.workspace().join("file"));
        }
        written(&sandbox, how, 1000, 1000).await.unwrap();
        fs::remove_file(sandbox.workspace().join("file")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sparse_file_cannot_exceed_the_size_limit() {
    let sandbox = sandbox().await;
    for (how, bytes) in [("set_len", 1 << 40), ("set_len", i64::MAX as u64), ("far", 1 << 40), ("far", 1 << 30)] {
        let error = written(&sandbox, how, bytes, 1).await.unwrap_err();
        assert!(
            error.contains("too large a file (limit 1 GiB)") && error.contains("raise `file-bytes`"),
            "{how}: {error}"
        );
        assert_eq!(fs::metadata(sandbox.workspace().join("file")).unwrap().len(), 0, "{how} {bytes}");
    }
    written(&sandbox, "set_len", 1 << 30, 1).await.unwrap();
    let error = written(&sandbox, "append", 1, 1).await.unwrap_err();
    assert!(error.contains("raise `file-bytes`"), "{error}");
    written(&sandbox, "set_len", 0, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn user_can_raise_the_file_size_limit() {
    let limits = PartialLimits { file_bytes: Some(2 << 40), ..PartialLimits::default() };
    written(&limited(limits).await, "set_len", 1 << 40, 1).await.unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn number_of_programs_is_bounded() {
    let sandbox = limited(PartialLimits { programs: Some(3), ..PartialLimits::default() }).await;
    sandbox.text("spawn", json!({ "script": "true", "times": 3 })).await;
    let error = sandbox.error("spawn", json!({ "script": "true", "times": 4 })).await;
    assert!(error.contains("ran more than 3 programs") && error.contains("raise `programs`"), "{error}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn invalid_program_arguments_are_a_clean_error() {
    let sandbox = sandbox().await;
    let error = sandbox.error("spawn", json!({ "script": "true", "argument_bytes": 8 * MIB })).await;
    assert!(error.contains("`sh` did not start"), "{error}");
    assert_eq!(&sandbox.text("spawn", json!({ "script": "exit 3" })).await[..12], "code=Some(3)");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn spilled_program_output_counts_as_written() {
    let sandbox = limited(PartialLimits { bytes_written: Some(100_000), ..PartialLimits::default() }).await;
    let script = "head -c 10000000 /dev/zero | tr '\\0' x";
    let said = sandbox.text("spawn", json!({ "script": script, "times": 3 })).await;
    assert!(said.contains("code=Some(0)") && said.contains("total=10000000"), "{said}");
    let spill = fs::read_dir(sandbox.outside().join("spill")).unwrap();
    let bytes: u64 = spill.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(bytes, 100_000);
}
