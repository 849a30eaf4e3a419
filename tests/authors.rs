//! The way of authors in every language: the guide's commands, the examples, and the commands of `pinion plugin`.
//!
//! A language whose toolchain is not installed is tested for the error that says how to install it.
//! `plugins/setup-languages.sh` installs toolchains for tests; `PINION_LANGUAGES_REQUIRED` lists those that must be there.

use pinion_tests::{Ended, Pinion, guest};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap()
}

/// Returns PATH with the toolchains that `plugins/setup-languages.sh` installed.
pub(super) fn path() -> OsString {
    let own = std::env::var_os("PINION_LANGUAGES_PATH").unwrap_or_default();
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&own).chain(std::env::split_paths(&usual))).unwrap()
}

fn has(program: &str) -> bool {
    std::env::split_paths(&path()).any(|directory| directory.join(program).is_file())
}

/// Returns whether the toolchain of a language is there. A required one must be.
pub(super) fn is_there(language: &str) -> bool {
    let (.., tools) = LANGUAGES.iter().find(|(name, ..)| *name == language).unwrap();
    let is_there = tools.iter().all(|any| any.iter().any(|program| has(program)));
    let required = std::env::var("PINION_LANGUAGES_REQUIRED").unwrap_or_default();
    assert!(is_there || !required.split_whitespace().any(|name| name == language), "no toolchain for {language}");
    is_there
}

/// Runs `pinion` with the toolchains in PATH.
pub(super) fn run<S: AsRef<std::ffi::OsStr>>(pinion: &Pinion, arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(pinion.command(arguments).env("PATH", path()))
}

fn finish(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the commands of the first shell block below a heading of the guide.
fn guide(heading: &str) -> Vec<String> {
    let guide = fs::read_to_string(root().join("plugin-sdk/GUIDE.md")).unwrap();
    let section = guide.split(&format!("\n### {heading}\n")).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
    let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    block.lines().map(str::to_owned).collect()
}

/// Runs the commands of a language's start as they are in the guide. Installing a toolchain is left out when it is there.
fn follow_the_guide(language: &str) {
    let (_, heading, ..) = LANGUAGES.iter().find(|(name, ..)| *name == language).unwrap();
    let pinion = Pinion::default();
    let mut directory = pinion.workspace();
    let is_there = is_there(language);
    let mut built = 0;
    for line in guide(heading) {
        if let Some(name) = line.strip_prefix("cd ") {
            directory.push(name);
            continue;
        }
        if line.starts_with("npm install") || line.starts_with("python3 -m venv") {
            continue;
        }
        let binary = pinion.command([""; 0]).get_program().to_owned();
        let script = line.replacen("pinion", "\"$PINION\"", 1);
        let mut command = pinion.command([""; 0]);
        let environment: Vec<(OsString, OsString)> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        command = Command::new("sh");
        command.args(["-c", &script]).current_dir(&directory).env_clear().envs(environment);
        let ended = finish(command.env("PINION", binary).env("PATH", path()));
        if !is_there && line.starts_with("pinion plugin build") {
            assert!(ended.code == Some(1) && ended.stderr.contains("is not installed\nhint: "), "{line}: {ended:?}");
            return;
        }
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        built += usize::from(line.starts_with("pinion plugin build"));
        if line.starts_with("pinion plugin test") {
            assert!(ended.stdout.contains("4 passed, 0 failed"), "{ended:?}");
        }
        if line.starts_with("pinion plugin call") {
            assert!(ended.stdout.ends_with(" words\n"), "{ended:?}");
        }
    }
    assert_eq!(built, 1);
}

#[test]
fn guide_leads_to_a_working_plugin_in_rust() {
    follow_the_guide("rust");
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

#[test]
fn guide_leads_to_a_working_plugin_in_go() {
    follow_the_guide("go");
}

#[test]
fn guide_leads_to_a_working_plugin_in_c() {
    follow_the_guide("c");
}

#[test]
fn guide_leads_to_a_working_plugin_in_zig() {
    follow_the_guide("zig");
}

/// Commands of the guide outside the starts of the languages, with the words that show that a test runs them.
const OTHERS: &[(&str, &str)] = &[
    ("pinion plugin watch", r#"["plugin", "watch", "#),
    ("pinion plugin build --install", r#"["plugin", "build", "word-count", "--install"]"#),
    ("pinion plugin grant ", r#"["plugin", "grant", "#),
    ("pinion plugin check ", r#"["plugin", "check", "#),
    ("pinion plugin bench ", r#"["plugin", "bench", "#),
    ("pinion plugin wit --reference", r#"["plugin", "wit", "--reference"]"#),
    ("pinion plugin wit --package ", r#"["plugin", "wit", "--package", "pinion-plugin.wasm"]"#),
    ("pinion plugin wit ", r#"["plugin", "wit", "."]"#),
    ("pinion plugin pack ", r#"["plugin", "pack", "#),
];

#[test]
fn every_command_of_the_guide_is_tested() {
    let text = fs::read_to_string(root().join("plugin-sdk/GUIDE.md")).unwrap();
    let mut commands: Vec<&str> =
        text.split("```sh\n").skip(1).flat_map(|block| block.split("```").next().unwrap().lines()).collect();
    let starts: Vec<String> = LANGUAGES.iter().flat_map(|(_, heading, ..)| guide(heading)).collect();
    commands.retain(|command| !starts.iter().any(|start| start == command));
    let tests = ["authors.rs", "plugins.rs", "hostile/grants.rs"];
    let tests: String = tests.iter().map(|file| fs::read_to_string(root().join("tests").join(file)).unwrap()).collect();
    for command in commands {
        let found = OTHERS.iter().find(|(prefix, _)| command.starts_with(prefix));
        let (_, words) = found.unwrap_or_else(|| panic!("no test runs `{command}`"));
        // Once in the table above.
        assert!(tests.matches(words).count() > 1, "no test runs `{command}`: `{words}`");
    }
}

/// Copies a directory with the targets of its links.
pub(super) fn copy(from: &Path, to: &Path) {
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
    let pinion = Pinion::default();
    copy(&root().join("examples/plugins").join(example), &pinion.workspace().join(example));
    let is_there = is_there(language);
    let tested = run(&pinion, ["plugin", "test", example, "--json"]);
    if !is_there {
        assert!(tested.code == Some(1) && tested.stderr.contains("is not installed\nhint: "), "{tested:?}");
        return;
    }
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
    assert_eq!(fs::read_dir(&directory).unwrap().count(), RELEASED.len());
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

/// It compiles for a minute.
#[test]
fn example_in_rust_without_the_sdk_passes_its_cases_in_the_long_mode() {
    if std::env::var_os("PINION_LONG").is_some() {
        test_example("rust");
    }
}

#[test]
fn contract_is_written_where_toolchains_look_for_it() {
    let pinion = Pinion::default();
    let printed = run(&pinion, ["plugin", "wit"]);
    assert!(printed.stdout.contains("interface tools") && printed.stdout.contains("world plugin"), "{printed:?}");
    assert_eq!(run(&pinion, ["plugin", "wit", "."]).code, Some(0));
    let types = pinion.workspace().join("wit/deps/pinion-plugin/types.wit");
    assert_eq!(fs::read(&types).unwrap(), fs::read(root().join("wit/types.wit")).unwrap());
    let reference = run(&pinion, ["plugin", "wit", "--reference"]);
    assert_eq!(reference.stdout, fs::read_to_string(root().join("plugin-sdk/REFERENCE.md")).unwrap());
    let again: Value = serde_json::from_str(&run(&pinion, ["plugin", "wit", ".", "--json"]).stdout).unwrap();
    assert_eq!(again["files"], serde_json::json!([]));
    fs::write(&types, "my notes").unwrap();
    let refused = run(&pinion, ["plugin", "wit", "."]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("types.wit` is not a file of the contract"),
        "{refused:?}"
    );
}

/// The unit test of the command decodes it.
#[test]
fn contract_is_written_as_a_binary_package() {
    let pinion = Pinion::default();
    let wrote = run(&pinion, ["plugin", "wit", "--package", "pinion-plugin.wasm", "--json"]);
    let report: Value = serde_json::from_str(&wrote.stdout).unwrap_or_else(|_| panic!("{wrote:?}"));
    assert_eq!(report["package"], "pinion:plugin@0.1.0");
    let package = fs::read(pinion.workspace().join("pinion-plugin.wasm")).unwrap();
    // The layer of a component: WIT packages are components without code.
    assert_eq!((&package[..8], report["bytes"].as_u64()), (&b"\0asm\x0d\0\x01\0"[..], Some(package.len() as u64)));
    let again = run(&pinion, ["plugin", "wit", "--package", "pinion-plugin.wasm"]);
    assert!(again.stdout.contains("pinion-plugin.wasm, pinion:plugin@0.1.0, "), "{again:?}");
    assert_eq!(
        fs::read(pinion.workspace().join("pinion-plugin.wasm")).unwrap(),
        package,
        "the package is reproducible"
    );
}

#[test]
fn pack_sets_limits_and_lifetime_and_installs() {
    let pinion = Pinion::default();
    let file = pinion.write("echo.wasm", fs::read(guest("echo")).unwrap());
    let file = file.to_str().unwrap();
    let pack = ["plugin", "pack", file, "--name", "parrot", "--json"];
    let more = ["--limit", "memory-bytes=1000000", "--lifetime", "session", "--install"];
    let packed = run(&pinion, pack.iter().chain(&more));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let report: Value = serde_json::from_str(&packed.stdout).unwrap();
    assert_eq!(report["file"].as_str(), pinion.home().join("plugins/parrot.wasm").to_str());
    let info = run(&pinion, ["plugin", "info", "parrot"]);
    assert!(info.stdout.contains("lifetime     session"), "{info:?}");
    let wrong = run(&pinion, pack.iter().chain(&["--limit", "memory=1"]));
    assert!(wrong.code == Some(2) && wrong.stderr.contains("unknown field `memory`"), "{wrong:?}");
}

#[test]
fn pack_writes_nothing_that_does_not_load() {
    let pinion = Pinion::default();
    let file = pinion.write("broken.wasm", fs::read(guest("broken")).unwrap());
    let packed = run(&pinion, ["plugin", "pack", "broken.wasm", "--name", "broken", "--out", "packed.wasm"]);
    assert_eq!(packed.code, Some(1), "{packed:?}");
    assert!(!file.with_file_name("packed.wasm").exists());
    let module = pinion.write("core.wasm", b"\0asm\x01\0\0\0");
    let packed = run(&pinion, ["plugin", "pack", module.to_str().unwrap(), "--name", "core"]);
    assert!(packed.code == Some(2) && packed.stderr.contains("`pinion plugin wit` writes one"), "{packed:?}");
}

#[test]
fn tool_that_reads_without_asking_for_files_is_reported() {
    let pinion = Pinion::default();
    let file = pinion.write("echo.wasm", fs::read(guest("echo")).unwrap());
    let file = file.to_str().unwrap();
    assert_eq!(run(&pinion, ["plugin", "pack", file, "--name", "parrot"]).code, Some(0));
    let checked = run(&pinion, ["plugin", "check", file]);
    assert!(checked.stdout.contains("but the plugin asks for no files"), "{checked:?}");
    let report: Value = serde_json::from_str(&run(&pinion, ["plugin", "check", file, "--json"]).stdout).unwrap();
    assert!(
        report["tools"][0]["declares"].is_array() && !report["warnings"].as_array().unwrap().is_empty(),
        "{report:#}"
    );
}

#[test]
fn bench_reports_percentiles() {
    let pinion = Pinion::default();
    let file = guest("echo");
    let bench = ["plugin", "bench", file.to_str().unwrap(), "echo", r#"{"message": "a"}"#, "--json"];
    let benched = run(&pinion, bench.iter().chain(&["--grant", "files=read", "--calls", "5"]));
    let report: Value = serde_json::from_str(&benched.stdout).unwrap_or_else(|_| panic!("{benched:?}"));
    assert_eq!(report["calls"], 5);
    assert!(report["p50"]["time_us"].as_u64() <= report["p95"]["time_us"].as_u64(), "{report:#}");
    assert!(report["p50"]["fuel"].as_u64() > Some(0), "{report:#}");
}

/// Saving a file builds and installs the plugin; a build that fails leaves it as it was.
#[cfg(unix)]
#[test]
fn watch_installs_each_saved_version() {
    use std::io::{BufRead as _, BufReader};
    let pinion = Pinion::default();
    let project = "name = \"parrot\"\nversion = \"0.1.0\"\n[build]\nsteps = [[\"cp\", \"source.wasm\", \"build/out.wasm\"]]\noutput = \"build/out.wasm\"\n";
    pinion.write("pinion-plugin.toml", project);
    pinion.write("source.wasm", fs::read(guest("echo")).unwrap());
    let mut child = pinion.start(["plugin", "watch", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["version"], "0.1.0");
    pinion.write("pinion-plugin.toml", project.replace("0.1.0", "0.2.0"));
    assert_eq!(next()["version"], "0.2.0");
    pinion.write("source.wasm", "not a component");
    assert!(next()["error"].is_string());
    let info = run(&pinion, ["plugin", "info", "parrot"]);
    assert!(info.stdout.starts_with("parrot 0.2.0\n"), "{info:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
