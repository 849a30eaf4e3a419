//! The rules of `docs/internals/overview.md`: dependencies between crates, licences, duplicate dependencies.

use super::dependencies::{FORBIDDEN, OURS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the build dependencies of each of our crates, by name.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let ours = metadata["packages"].as_array().unwrap().iter().filter(|package| package["source"].is_null());
    ours.map(|package| {
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        (text(&package["name"]).to_owned(), normal.map(|d| text(&d["name"]).to_owned()).collect())
    })
    .collect()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let metadata = metadata();
    let dependencies = dependencies(&metadata);
    for (name, allowed) in OURS {
        let ours: Vec<&String> = dependencies[*name].iter().filter(|d| d.starts_with("pinion-")).collect();
        for dependency in ours {
            assert!(allowed.contains(&dependency.as_str()), "`{name}` must not depend on `{dependency}`");
        }
    }
    for (name, forbidden) in FORBIDDEN {
        for dependency in *forbidden {
            assert!(!dependencies[*name].contains(*dependency), "`{name}` must not depend on `{dependency}`");
        }
    }
}

#[test]
fn every_crate_has_dependency_rules() {
    let known: BTreeSet<&str> =
        OURS.iter().map(|(name, _)| *name).chain(["pinion-examples", "pinion-proxy-server", "pinion-tests"]).collect();
    for name in dependencies(&metadata()).keys() {
        assert!(known.contains(name.as_str()), "`{name}` has no line in tests/structure/architecture.rs");
    }
}

#[test]
fn test_build_leaves_every_crate_unoptimised() {
    let profile = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/profile.toml")).unwrap();
    for name in dependencies(&metadata()).keys() {
        let section = format!("[profile.release.package.{name}]\nopt-level = 0\n");
        assert!(profile.contains(&section), "tests/profile.toml does not name `{name}`");
    }
}

/// Returns the sources of a target: those below the directory of a library, and the one file of a program.
fn sources(target: &Value) -> Vec<String> {
    let root = Path::new(text(&target["src_path"]));
    let mut paths = match text(&target["kind"][0]) {
        "lib" => vec![root.parent().unwrap().to_owned()],
        _ => vec![root.to_owned()],
    };
    let mut sources = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(std::fs::read_to_string(path).unwrap());
        }
    }
    sources
}

/// Returns whether a doc comment contains code that rustdoc would run.
fn has_doc_test(source: &str) -> bool {
    let docs = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = docs.filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second fence ends a block.
    let mut opening = fences.step_by(2);
    opening.any(|words| ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&words))
}

/// A target whose manifest turns its tests off, so that it is not compiled and linked a second time for nothing.
#[test]
fn targets_whose_tests_are_not_built_have_none() {
    let metadata = metadata();
    let ours = metadata["packages"].as_array().unwrap().iter().filter(|package| package["source"].is_null());
    let targets = ours.flat_map(|package| package["targets"].as_array().unwrap());
    let mut seen = 0;
    for target in targets.filter(|target| ["lib", "bin"].contains(&text(&target["kind"][0]))) {
        let (name, is_lib) = (text(&target["name"]), target["kind"][0] == "lib");
        let (builds_tests, runs_docs) = (target["test"] == true, !is_lib || target["doctest"] == true);
        for source in sources(target) {
            assert!(builds_tests || !source.contains("#[test]"), "`{name}` has unit tests");
            assert!(runs_docs || !has_doc_test(&source), "`{name}` has documentation tests");
            seen += 1;
        }
    }
    assert!(seen > 500, "the sources are somewhere else");
    assert!(
        has_doc_test("/// ```text\n/// ```\n/// ```\n/// f();\n/// ```\n") && !has_doc_test("//! ```json\n//! ```\n")
    );
}

/// The loop must not read the environment, the home directory or the disk.
#[test]
fn loop_does_no_io() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let crates = ["protocol/src", "redact/src", "schema/src", "interaction/src", "agent/src", "orchestration/src"];
    let mut directories = crates.map(|path| host.join(path)).to_vec();
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let (subdirectories, sources): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
        directories.extend(subdirectories);
        files.extend(sources);
    }
    assert!(files.len() > 20, "the sources are somewhere else");
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        for word in ["std::env", "std::fs", "std::net", "std::process", "println!", "eprintln!"] {
            assert!(!source.contains(word), "`{word}` in {}", path.display());
        }
    }
}

/// Requests on behalf of plugins depend on their policy alone. Names are resolved and connections opened in one file,
/// so that every address is checked.
#[test]
fn egress_reads_no_environment_and_connects_in_one_place() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/egress/src");
    let mut directories = vec![source.clone()];
    let mut connecting = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["std::env", "std::fs", "std::process", "tokio::fs"] {
                assert!(!text.contains(word), "`{word}` in {}", path.display());
            }
            if ["TcpStream::connect", "lookup_host(", "UdpSocket", "TcpSocket", "ToSocketAddrs"]
                .iter()
                .any(|word| text.contains(word))
            {
                connecting.insert(path.strip_prefix(&source).unwrap().to_owned());
            }
        }
    }
    assert_eq!(connecting, [Path::new("dial.rs").to_owned()].into());
}

/// Code fragments that write to a terminal or make others do so.
const PRINTING: &[&str] = &[
    "print!(",
    "println!(",
    "dbg!(",
    "stdout()",
    "stderr()",
    "execute!(",
    "queue!(",
    "/dev/tty",
    "/dev/stdout",
    "/dev/stderr",
    "/proc/self/fd",
    "Stdio::inherit",
    ".print()",
    ".exit()",
    "Cli::parse()",
    "clap_complete::generate",
    "readline",
    "with_writer",
    "set_hook",
    "\\x1b[",
];

/// Fragments that contain those but write nothing: stream queries, and a guest's pipe.
const HARMLESS: &[&str] = &[
    "stdout().is_terminal()",
    "stderr().is_terminal()",
    "of_stdout()",
    "of_stderr()",
    "use_stderr()",
    ".stdout(stderr.stdout())",
];

/// Code outside of `output/streams.rs` that contains these fragments but writes nothing untrusted, by file and line.
const PRINTS_SAFELY: &[(&str, &str)] = &[
    // A literal around neutralized text.
    ("app/src/output/text.rs", "Self(format!(\"\\x1b[{code}m{}\\x1b[0m\", self.0))"),
    // The line editor shows the user's input; text that plugins add is checked.
    ("conversation/src/line_editor.rs", "editor.readline_with_initial("),
    // The output of cargo for the user's own project.
    ("devkit/src/cargo.rs", ".stderr(Stdio::inherit());"),
    // Compared with the terminal's input.
    ("tui/src/terminal/decoder.rs", "const PASTE_END: &[u8] = b\"\\x1b[201~\";"),
    // Opened for reading only.
    ("tui/src/terminal/inputs.rs", "File::open(\"/dev/tty\")"),
    // The source of a link, which opens nothing.
    ("files/src/new_file.rs", "format!(\"/proc/self/fd/{}\", file.as_raw_fd())"),
    // Imports of components, whose streams the host gives them.
    ("plugin-journal/src/wasi.rs", "\"get-stdout\" fn get_stdout()"),
    ("plugin-journal/src/wasi.rs", "\"get-stderr\" fn get_stderr()"),
    ("plugin-journal/src/wasi.rs", "fn get_terminal_stdout()"),
    ("plugin-journal/src/wasi.rs", "fn get_terminal_stderr()"),
    // Writes into a buffer.
    (
        "cli/src/commands/completions.rs",
        "clap_complete::generate(self.shell, &mut Cli::command(), \"pinion\", &mut script);",
    ),
    // Writes into the module that prints.
    ("console/src/process/logging.rs", ".with_writer(crate::output::Log)"),
    // Constant bytes, on immediate exit, when another thread may hold the lock of stdout forever.
    ("console/src/process/signals.rs", "rustix::io::write(stdout(), b\"\\x1b[?2004l\\x1b[?25h\\n\")"),
    ("console/src/process/signals.rs", "let _ = rustix::io::write(stdout(), sequences.as_bytes());"),
    // The UI's own sequences, as bytes and text for the module that prints; the other text of frames is neutralized.
    ("tui/src/inline.rs", "\\x1b["),
    ("tui/src/cell_writer.rs", "\\x1b["),
    ("tui/src/screen.rs", "\\x1b["),
    ("tui/src/terminal_indicators.rs", "\\x1b["),
    ("tui/src/terminal.rs", "\\x1b["),
    // The sequences of programs that are recognized.
    ("tui/src/ansi.rs", "\\x1b["),
    // The name of an open directory, to change its mode.
    ("checkpoints/src/root.rs", "chmod(format!(\"/proc/self/fd/{}\", file.as_raw_fd()), mode)"),
    // Places in the file tree of confined programs, and in the profile for macOS.
    ("sandbox/src/linux/mounts.rs", "\"/proc/self/fd"),
    // The name of an open file or directory, to change its mode.
    ("sandbox/src/protection/place.rs", "chmod(format!(\"/proc/self/fd/{}\", file.as_raw_fd()), mode)"),
    // Bytes of a server for the program that started the helper.
    ("sandbox/src/tunnel.rs", "let streams = (io::stdin(), io::stdout());"),
    ("sandbox/src/linux/grants.rs", "[\"/dev/tty\""),
    ("sandbox/src/seatbelt.rs", "^/dev/ttys[0-9]+$"),
    // Names in commands that are decided on.
    ("permissions/src/judge.rs", "Some(\"/dev/null\" | \"/dev/stdout\""),
    // The message of the sandbox's helper, neutralized.
    ("cli/src/bin/pinion-sandbox.rs", "eprintln!(\"{}\", printable(message));"),
    // Compiled code for the pipe of the requesting process.
    ("plugin-engine/src/compiler.rs", "let mut out = io::stdout().lock();"),
];

#[test]
fn only_one_module_prints() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let mut directories: Vec<_> =
        std::fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    let (mut files, mut used) = (0, BTreeSet::new());
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(&host).unwrap().to_string_lossy().into_owned();
            let is_test = name.ends_with("tests.rs") || name.contains("_tests/");
            match path.is_dir() {
                true => directories.push(path),
                false if name == "console/src/output/streams.rs" || is_test => {}
                false => {
                    files += 1;
                    prints_of(&name, &std::fs::read_to_string(&path).unwrap(), &mut used);
                }
            }
        }
    }
    assert!(files > 150, "the sources are somewhere else");
    assert_eq!(used.len(), PRINTS_SAFELY.len(), "an exception is not used any more: only {used:?} are");
}

fn prints_of(name: &str, source: &str, used: &mut BTreeSet<usize>) {
    for line in source.split("#[cfg(test)]\nmod tests").next().unwrap().lines().map(str::trim) {
        let code = line.split("// ").next().unwrap();
        let code = HARMLESS.iter().fold(code.to_owned(), |code, word| code.replace(word, ""));
        for word in PRINTING.iter().filter(|word| code.contains(*word)) {
            let known = PRINTS_SAFELY.iter().position(|(file, safe)| name.ends_with(file) && line.contains(safe));
            assert!(
                known.is_some(),
                "`{word}` in {name}: only `console/src/output/streams.rs` writes to the terminal: {line}"
            );
            used.extend(known);
        }
    }
}

/// Text that is declared neutral reaches the terminal as it is.
#[test]
fn only_modules_of_output_declare_text_neutral() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let mut directories = ["app", "cli", "console", "conversation"].map(|name| host.join(name).join("src")).to_vec();
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true if !path.ends_with("src/output") => directories.push(path),
                true => {}
                false => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let declares = ["Text::neutral(", ".painted("].iter().any(|call| text.contains(call));
                    assert!(!declares, "{} declares text neutral", path.display());
                    files += 1;
                }
            }
        }
    }
    assert!(files > 150, "the sources are somewhere else");
}

/// The blocks of unsafe code, by file. `docs/internals/unsafe.md` gives the reasons.
const UNSAFE: &[(&str, usize)] = &[
    ("app/src/process/hardening.rs", 5),
    ("console/src/process/closed_stdout.rs", 1),
    ("plugin-engine/src/engine.rs", 1),
    ("plugin-programs/src/process_guard.rs", 1),
    ("sandbox/src/linux/passing.rs", 3),
    ("sandbox/src/linux/sys.rs", 9),
];

#[test]
fn unsafe_blocks_are_those_of_the_document() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let document = std::fs::read_to_string(host.join("../docs/internals/unsafe.md")).unwrap();
    let mut directories: Vec<_> =
        std::fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    let mut found = BTreeMap::new();
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let blocks = code.filter(|line| line.contains("unsafe {")).count();
            if blocks > 0 {
                found.insert(path.strip_prefix(&host).unwrap().to_string_lossy().into_owned(), blocks);
            }
        }
    }
    let expected: BTreeMap<String, usize> = UNSAFE.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect();
    assert_eq!(found, expected);
    let total: usize = UNSAFE.iter().map(|(_, count)| count).sum();
    assert!(document.contains(&format!("**{total} blocks are `unsafe`**")), "the document names another number");
    for (file, count) in UNSAFE {
        assert!(document.contains(&format!("`{file}` ({count})")), "the document does not name `{file}` ({count})");
    }
}

/// Licences that require no more than their own text.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Returns whether an SPDX expression is permissive: one alternative whose parts are all permissive suffices.
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    expression
        .split(" OR ")
        .any(|alternative| alternative.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn all_licences_are_permissive() {
    for package in metadata()["packages"].as_array().unwrap() {
        let licence = text(&package["license"]);
        assert!(is_permissive(licence), "{} has the licence `{licence}`", package["name"]);
    }
}

/// Crates in several versions, each with a reason: `tests/duplicates.toml`.
#[test]
fn duplicate_dependencies_have_a_reason() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("duplicates.toml");
    let reasons: BTreeMap<String, String> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, reason)| (name.to_owned(), reason.to_owned()))
        .collect();
    let metadata = metadata();
    // Uses only this platform's dependency graph; the list of packages includes packages of other platforms.
    let used: BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|n| text(&n["id"])).collect();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap().iter().filter(|p| used.contains(text(&p["id"]))) {
        versions.entry(text(&package["name"])).or_default().insert(text(&package["version"]));
    }
    let twice: BTreeSet<&str> = versions.iter().filter(|(_, v)| v.len() > 1).map(|(name, _)| *name).collect();
    for name in &twice {
        assert!(
            reasons.contains_key(*name),
            "`{name}` comes as {:?}, and has no reason in tests/duplicates.toml",
            versions[name]
        );
    }
    for name in reasons.keys() {
        assert!(twice.contains(name.as_str()), "`{name}` comes once; take it out of tests/duplicates.toml");
    }
}
