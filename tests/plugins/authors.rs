//! The way of authors in every language: the guide's commands, the examples, and the commands of `pinion plugin`.
//!
//! A language whose toolchain is not installed is tested for the error that says how to install it.
//! `plugins/setup-languages.sh` installs toolchains for tests; `PINION_LANGUAGES_REQUIRED` lists those that must be there.

use pinion_tests::{Ended, Pinion, binary, document, example, shell_blocks};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The languages: name, heading in the guide, example, and tools that the build needs.
const LANGUAGES: &[(&str, &str, &str, &[&[&str]])] = &[
    ("js", "JavaScript", "json-query", &[&["jco"]]),
    ("ts", "TypeScript", "todo-list", &[&["jco"], &["tsc"]]),
    ("python", "Python", "csv-sql", &[&["componentize-py"]]),
    ("go", "Go", "go-outline", &[&["go"]]),
    ("c", "C", "hex-dump", &[&["wasm32-wasip1-clang", "zig", "python-zig"]]),
    ("zig", "Zig", "log-patterns", &[&["zig", "python-zig"]]),
    ("rust", "Rust", "repeated-lines", &[]),
];

/// Beginnings of the commands that install toolchains.
const INSTALLATIONS: &[&str] = &["npm install", "python3 -m venv .venv && .venv/bin/pip install "];

/// Seconds that the start of a language in the guide may take, installation of the toolchain included.
const MAX_SECONDS: u64 = 300;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap()
}

/// Returns PATH with the toolchains that `plugins/setup-languages.sh` installed.
pub(crate) fn path() -> OsString {
    let own = std::env::var_os("PINION_LANGUAGES_PATH").unwrap_or_default();
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&own).chain(std::env::split_paths(&usual))).unwrap()
}

fn has(program: &str) -> bool {
    std::env::split_paths(&path()).any(|directory| directory.join(program).is_file())
}

/// Returns whether the toolchain of a language is there. A required one must be.
pub(crate) fn is_there(language: &str) -> bool {
    let (.., tools) = LANGUAGES.iter().find(|(name, ..)| *name == language).unwrap();
    let is_there = tools.iter().all(|any| any.iter().any(|program| has(program)));
    let required = std::env::var("PINION_LANGUAGES_REQUIRED").unwrap_or_default();
    assert!(is_there || !required.split_whitespace().any(|name| name == language), "no toolchain for {language}");
    is_there
}

/// Returns a command and a home for projects in other languages. Compiled code is shared, because each component contains the
/// runtime of its language.
pub(crate) fn author() -> Pinion {
    Pinion::sharing_code()
}

/// Runs `pinion` with the toolchains in PATH.
pub(crate) fn run<S: AsRef<OsStr>>(pinion: &Pinion, arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(with_toolchains(&mut pinion.command(arguments)))
}

/// Puts the toolchains in PATH, with caches that tests share: each builds a library for WebAssembly first.
fn with_toolchains(command: &mut Command) -> &mut Command {
    let caches = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directories = [("ZIG_GLOBAL_CACHE_DIR", "zig"), ("GOCACHE", "go"), ("CARGO_TARGET_DIR", "rust")]
        .map(|(name, directory)| (name, caches.join(directory)));
    command.env("PATH", path()).envs(directories)
}

pub(crate) fn finish(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a shell that runs a command line as an author would type it, with this `pinion` first in PATH and the toolchains
/// after it.
pub(crate) fn shell(pinion: &Pinion, directory: &Path, line: &str) -> Command {
    let usual = pinion.command([""; 0]);
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(directory).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with_toolchains(&mut command).env("PATH", with_pinion(&path())).stdin(Stdio::null());
    command
}

/// Puts the directory of the command before others.
fn with_pinion(path: &OsStr) -> OsString {
    let own = binary().parent().unwrap().to_owned();
    std::env::join_paths([own].into_iter().chain(std::env::split_paths(path))).unwrap()
}

/// Lets a shell install toolchains from the registries of the user's settings, and use no others.
fn installing(shell: &mut Command) {
    let is_setting =
        |name: &OsString| ["PIP_", "npm_config_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
    shell.envs(std::env::vars_os().filter(|(name, _)| is_setting(name)));
    shell.env("PATH", with_pinion(&std::env::var_os("PATH").unwrap_or_default()));
    for shared in ["ZIG_GLOBAL_CACHE_DIR", "GOCACHE", "CARGO_TARGET_DIR"] {
        shell.env_remove(shared);
    }
}

/// Returns whether a command installs a toolchain from a registry, as only the long mode does.
fn is_installation(line: &str) -> bool {
    INSTALLATIONS.iter().any(|beginning| line.starts_with(beginning))
}

/// Returns the commands that start a plugin in each language, as the guide has them.
pub(crate) fn starts() -> impl Iterator<Item = Vec<String>> {
    LANGUAGES.iter().map(|(_, heading, ..)| start(heading))
}

/// Returns the commands of the first shell block below a heading of the guide's first page.
fn start(heading: &str) -> Vec<String> {
    let page = document("docs/plugins/start.md").text;
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
    shell_blocks(section).remove(0)
}

/// Runs the commands of a language's start as they are in the guide. Toolchains are installed in the long mode alone.
///
/// Returns the project; `None` if there is no toolchain.
fn follow_the_guide(language: &str) -> Option<Pinion> {
    let (_, heading, ..) = LANGUAGES.iter().find(|(name, ..)| *name == language).unwrap();
    let pinion = author();
    let mut directory = pinion.workspace();
    let installs = std::env::var_os("PINION_LONG").is_some();
    let is_there = installs || is_there(language);
    let mut built = 0;
    let began = Instant::now();
    for line in start(heading) {
        if let Some(name) = line.strip_prefix("cd ") {
            directory.push(name);
            continue;
        }
        if !installs && is_installation(&line) {
            continue;
        }
        let mut command = shell(&pinion, &directory, &line);
        if installs {
            installing(&mut command);
        }
        let ended = finish(&mut command);
        if !is_there && line.starts_with("pinion plugin build") {
            assert!(ended.code == Some(1) && ended.stderr.contains("is not installed\nhint: "), "{line}: {ended:?}");
            return None;
        }
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        built += usize::from(line.starts_with("pinion plugin build"));
        if line.starts_with("pinion plugin test") {
            assert!(ended.stdout.contains("5 passed, 0 failed"), "{ended:?}");
        }
        if line.starts_with("pinion plugin call") {
            assert!(ended.stdout.ends_with(" words\n"), "{ended:?}");
        }
    }
    assert_eq!(built, 1);
    let seconds = began.elapsed().as_secs();
    // Unlike `println`, this is not captured.
    let _ = writeln!(std::io::stderr(), "{language}: {seconds} s from the first command of the guide to the last");
    assert!(!installs || seconds <= MAX_SECONDS, "{language}: {seconds} s, of at most {MAX_SECONDS}");
    Some(pinion)
}

#[test]
fn guide_leads_to_a_working_plugin_in_rust() {
    follow_the_guide("rust").unwrap();
}

#[test]
fn guide_leads_to_a_working_plugin_in_javascript() {
    follow_the_guide("js");
}

#[test]
fn guide_leads_to_a_working_plugin_in_typescript() {
    follow_the_guide("ts");
}

#[test]
fn guide_leads_to_a_working_plugin_in_python() {
    follow_the_guide("python");
}

/// The host passes 1 MB to the plugin again and again, to fresh instances and to one that stays.
#[test]
fn guide_leads_to_a_working_plugin_in_go() {
    let Some(pinion) = follow_the_guide("go") else { return };
    let code = fs::read_to_string(pinion.workspace().join("word-count/plugin.go")).unwrap();
    let code = code.replace("\t\"os\"\n", "").replace(
        "\"project/pinion\"\n",
        "\"project/pinion\"\n\tworkspace \"project/pinion/contract/pinion_plugin_workspace\"\n",
    );
    let read = "text, err := os.ReadFile(call.Path(in.Path))";
    assert!(code.contains(read) && code.contains(", err\n"), "{code}");
    let code = code.replace(read, "text := workspace.ReadText(call.Path(in.Path)).Ok()").replace(", err\n", ", nil\n");
    pinion.write("word-count/plugin.go", code.replace("string(text)", "text"));
    let built = run(&pinion, ["plugin", "build", "word-count"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    let component = pinion.workspace().join("word-count/build/word-count.wasm");
    pinion.write("large.txt", "word ".repeat(200_000));
    let input = r#"{"path": "large.txt"}"#;
    for lifetime in ["call", "session"] {
        let packed = format!("{lifetime}.wasm");
        let pack = ["plugin", "pack", component.to_str().unwrap(), "--name", "large", "--lifetime", lifetime];
        let packing = run(&pinion, pack.iter().chain(&["--ask", "files=read", "--out", &packed]));
        assert_eq!(packing.code, Some(0), "{packing:?}");
        let bench = ["plugin", "bench", &packed, "word_count", input, "--grant", "files=read", "-n", "300", "--json"];
        let benched = run(&pinion, bench);
        let report: Value = serde_json::from_str(&benched.stdout).unwrap_or_else(|_| panic!("{benched:?}"));
        assert!(report["max"]["memory"].as_u64().unwrap() < 64 << 20, "memory is used again: {report}");
    }
    let called = run(&pinion, ["plugin", "call", "call.wasm", "word_count", input, "--grant", "files=read"]);
    assert_eq!(called.stdout, "200000 words\n");
}

#[test]
fn guide_leads_to_a_working_plugin_in_c() {
    let Some(pinion) = follow_the_guide("c") else { return };
    // Uninitialized memory has other values without optimizations.
    let project = fs::read_to_string(pinion.workspace().join("word-count/pinion-plugin.toml")).unwrap();
    pinion.write("word-count/pinion-plugin.toml", project.replace("\"-Oz\"", "\"-O0\""));
    let tested = run(&pinion, ["plugin", "test", "word-count"]);
    assert!(tested.stdout.ends_with("5 passed, 0 failed\n"), "{tested:?}");
}

#[test]
fn guide_leads_to_a_working_plugin_in_zig() {
    follow_the_guide("zig");
}

/// Copies a directory with the targets of its links.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        let is_output =
            ["build", "target", "node_modules", ".venv", "__pycache__"].iter().any(|output| name == *output);
        match path.is_dir() {
            true if is_output => {}
            true => copy(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

fn test_example(language: &str) {
    let &(_, _, example, _) = LANGUAGES.iter().find(|(name, ..)| *name == language).unwrap();
    let pinion = author();
    copy(&root().join("examples/plugins").join(example), &pinion.workspace().join(example));
    let is_there = is_there(language);
    let tested = run(&pinion, ["plugin", "test", example, "--json"]);
    if !is_there {
        assert!(tested.code == Some(1) && tested.stderr.contains("is not installed\nhint: "), "{tested:?}");
        return;
    }
    assert_all_pass(&tested);
}

/// Asserts that `pinion plugin test` ran cases and that all of them passed.
fn assert_all_pass(tested: &Ended) {
    let report: Value = serde_json::from_str(&tested.stdout).unwrap_or_else(|_| panic!("{tested:?}"));
    assert!(report["passed"].as_u64() > Some(1) && report["failed"] == 0, "{report:#}");
    assert_eq!(tested.code, Some(0), "{tested:?}");
}

#[test]
fn example_in_javascript_passes_its_cases() {
    test_example("js");
}

#[test]
fn example_in_typescript_passes_its_cases() {
    test_example("ts");
}

#[test]
fn example_in_python_passes_its_cases() {
    test_example("python");
}

#[test]
fn example_in_go_passes_its_cases() {
    test_example("go");
}

#[test]
fn example_in_c_passes_its_cases() {
    test_example("c");
}

#[test]
fn example_in_zig_passes_its_cases() {
    test_example("zig");
}

#[test]
fn every_template_and_example_is_tested() {
    let names = |directory: &str| {
        let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().is_dir() && entry.file_name() != "target")
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let mut languages: Vec<&str> = LANGUAGES.iter().map(|(name, ..)| *name).collect();
    languages.sort_unstable();
    assert_eq!(names("host/cli/templates"), languages);
    let mut examples: Vec<&str> = LANGUAGES.iter().map(|(_, _, example, _)| *example).collect();
    examples.extend(super::examples::EXAMPLES.iter().map(|(name, _)| *name));
    // `personal_data.rs` tests it: its hooks are in a package that the SDK does not have.
    examples.push("personal-data");
    examples.sort_unstable();
    assert_eq!(names("examples/plugins"), examples);
}

/// The toolchains for JavaScript and Python load no module through a link, so those examples have copies.
#[test]
fn copies_of_the_helpers_in_the_examples_are_current() {
    for (helper, example, file) in [
        ("plugin-sdk/js", "json-query", "index.js"),
        ("plugin-sdk/js", "json-query", "files.js"),
        ("plugin-sdk/python/pinion", "csv-sql", "__init__.py"),
    ] {
        let copy = format!("examples/plugins/{example}/src/pinion");
        let read = |directory: &str| fs::read_to_string(root().join(directory).join(file)).unwrap();
        assert!(read(helper) == read(&copy), "copy `{helper}/{file}` to `{copy}`");
    }
}

/// Components that were built when the version was released: every later host loads them.
const RELEASED: &[(&str, &str, &str, &str)] = &[
    ("hex-dump", "hex_dump", r#"{"path": "a.json", "length": 1}"#, "00000000: 7b"),
    ("json-query", "json_query", r#"{"path": "a.json", "query": "a.*"}"#, "1\n2\n"),
    ("repeated-lines", "repeated_lines", r#"{"path": "a.json"}"#, "none\n"),
];

#[test]
fn components_built_against_0_1_0_work_in_three_languages() {
    let directory = root().join("tests/fixtures/contract-0.1.0");
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let components = files.filter(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    assert_eq!(components.count(), RELEASED.len());
    let pinion = Pinion::default();
    pinion.write("a.json", r#"{"a": [1, 2]}"#);
    for &(name, tool, input, expected) in RELEASED {
        let file = directory.join(format!("{name}.wasm"));
        let file = file.to_str().unwrap();
        let called = run(&pinion, ["plugin", "call", file, tool, input, "--grant", "files=read"]);
        assert!(called.code == Some(0) && called.stdout.starts_with(expected), "{called:?}");
        let refused = run(&pinion, ["plugin", "call", file, tool, input]);
        assert!(refused.code == Some(1) && refused.stderr.contains("denied"), "{refused:?}");
    }
}

/// Its own build, which compiles all of its dependencies, takes a minute, so that only the long mode has it. Otherwise
/// the component comes from `tests/build-guests.sh`, which keeps its dependencies.
#[test]
fn example_in_rust_without_the_sdk_passes_its_cases() {
    if std::env::var_os("PINION_LONG").is_some() {
        return test_example("rust");
    }
    let (pinion, name) = (author(), "repeated-lines");
    copy(&root().join("examples/plugins").join(name), &pinion.workspace().join(name));
    fs::copy(example("repeated_lines"), pinion.workspace().join(name).join("built.wasm")).unwrap();
    let project = pinion.workspace().join(name).join("pinion-plugin.toml");
    let lines = fs::read_to_string(&project).unwrap();
    let lines = lines.lines().map(|line| match line.split_once(" = ") {
        Some(("steps", _)) => "steps = [[\"true\"]]",
        Some(("output", _)) => "output = \"built.wasm\"",
        _ => line,
    });
    let lines: Vec<&str> = lines.collect();
    fs::write(&project, lines.join("\n")).unwrap();
    assert_all_pass(&run(&pinion, ["plugin", "test", name, "--json"]));
}
