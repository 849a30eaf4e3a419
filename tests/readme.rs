//! Each command in the README is run by a test or by the test script.

use pinion_plugin_runtime::GrantTable;
use pinion_tests::{Pinion, shell_blocks};
use std::collections::BTreeSet;
use std::path::Path;

/// The test or script that runs the commands with a prefix.
enum By {
    /// A file, which holds these words.
    File(&'static str, &'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}
use By::{File, Nothing};

const COMMANDS: &[(&str, By)] = &[
    ("git clone ", File("tests/checkout.sh", "git clone ")),
    ("cargo install --path host/cli", File("tests/run.sh", "cargo install --path host/cli")),
    ("tests/run.sh", Nothing("it runs the tests")),
    ("export ", Nothing("it sets a variable")),
    ("cd ", Nothing("it changes the directory")),
    ("pinion demo", File("tests/command.rs", r#"(["demo"])"#)),
    ("pinion --plan ", File("tests/plan.rs", r#""--plan""#)),
    ("pinion --execute ", File("tests/plan.rs", r#""--execute""#)),
    ("pinion -p --record ", File("tests/providers.rs", r#"["--record", "#)),
    ("pinion -p --replay ", File("tests/providers.rs", r#"["-p", "--replay", "#)),
    ("pinion -p ", File("tests/command.rs", r#"["-p", "#)),
    ("git diff | pinion -p ", File("tests/command.rs", "run_with_stdin(arguments, ")),
    ("pinion -c", File("tests/sessions.rs", r#"&["-c"]"#)),
    ("pinion -r ", File("tests/hostile/secrets.rs", r#""-r", &id, "#)),
    ("pinion trust add", File("tests/hostile/trust.rs", r#"(["trust", "add""#)),
    ("pinion trust list", File("tests/hostile/trust.rs", r#"(["trust", "list"])"#)),
    ("pinion plugin new ", File("tests/plugins.rs", r#"["plugin", "new", "#)),
    ("pinion plugin build", File("tests/plugins.rs", r#"["plugin", "build"]"#)),
    ("pinion plugin build --install", File("tests/plugins.rs", r#"["plugin", "build", "word-count", "--install"]"#)),
    ("pinion plugin call ", File("tests/plugins.rs", r#""plugin", "call", "#)),
    ("pinion plugin list", File("tests/hostile/loading.rs", r#"["plugin", "list"]"#)),
    ("pinion mcp add ", File("tests/mcp_command.rs", r#"["mcp", "add", "files", "#)),
    ("pinion mcp test ", File("tests/mcp_servers.rs", r#"["mcp", "test", "own"]"#)),
    ("pinion mcp list", File("tests/mcp_command.rs", r#"["mcp", "list"]"#)),
    ("pinion mcp call ", File("tests/mcp_servers.rs", r#"["mcp", "call", "own", "#)),
    ("pinion mcp import", File("tests/mcp_command.rs", r#"["mcp", "import"]"#)),
    ("pinion mcp serve ", File("tests/mcp_serve/http.rs", r#"["mcp", "serve", "--http", "#)),
    ("pinion session list", File("tests/command.rs", r#"(["session", "list"])"#)),
    ("pinion session show ", File("tests/command.rs", r#"(["session", "show", &id])"#)),
    ("pinion session rewind", File("tests/undo/mod.rs", r#"["session", "rewind"]"#)),
    ("pinion session export ", File("tests/hostile/repository.rs", r#"["session", "export", "#)),
    ("cargo bench -p ", Nothing("it measures")),
    ("tests/bench/mcp.py", Nothing("it measures, and downloads")),
    ("pinion\n", Nothing("it is an interactive conversation")),
    ("pinion \"", File("tests/hostile/prompts.rs", r#"script.to_str().unwrap(), "go"]"#)),
    ("pinion -m ", Nothing("it needs a key")),
];

/// Returns the commands in the README, each with a line break.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    shell_blocks(&readme).concat().into_iter().map(|command| command + "\n").collect()
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_readme_command_is_tested() {
    let commands = commands();
    assert!(commands.len() > 8);
    for command in &commands {
        assert!(COMMANDS.iter().any(|(prefix, _)| command.starts_with(prefix)), "no test runs `{command}`");
    }
    for (prefix, by) in COMMANDS {
        assert!(commands.iter().any(|command| command.starts_with(prefix)), "the README has no `{prefix}`");
        match by {
            File(file, words) => {
                let text = std::fs::read_to_string(root().join(file)).unwrap();
                assert!(text.contains(words), "`{file}` does not run `{prefix}`: it lacks `{words}`");
            }
            Nothing(reason) => assert!(!reason.is_empty()),
        }
    }
}

/// Returns the arguments of `pinion` in a command line of a shell, which may end with a comment.
fn arguments(line: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.trim().chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '#') if words.last()?.is_empty() => break,
            (None, ' ') if words.last()?.is_empty() => {}
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut()?.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let at = words.iter().position(|word| word == "pinion")?;
    Some(words.split_off(at + 1))
}

#[test]
fn command_line_of_a_shell_is_split_into_arguments() {
    let split = |line| arguments(line).unwrap_or_default();
    assert_eq!(split("git diff | pinion -p \"a 'b' #c\"  # d"), ["-p", "a 'b' #c"]);
    assert_eq!(arguments("git clone https://example.com/pinion"), None);
}

/// `--help` at the end runs nothing, but what precedes it must be known.
#[test]
fn every_readme_command_has_only_known_options() {
    let pinion = Pinion::default();
    let lines: Vec<Vec<String>> = commands().iter().filter_map(|line| arguments(line)).collect();
    assert!(lines.len() > 25, "{lines:?}");
    for mut line in lines.into_iter().filter(|line| !line.is_empty()) {
        let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
        line.insert(end, "--help".to_owned());
        let ended = pinion.run(&line);
        assert_eq!(ended.code, Some(0), "{line:?}: {ended:?}");
    }
    let ended = pinion.run(["mcp", "add", "files", "--networkx", "--help"]);
    assert_eq!(ended.code, Some(2), "an unknown option passes: {ended:?}");
}

/// The table of the section on grants has a row for each capability, and no others.
#[test]
fn readme_lists_every_capability() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split("\n### Grants\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" = "));
    let rows: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    let table = serde_json::to_value(GrantTable::default()).unwrap();
    let names: BTreeSet<String> = table.as_object().unwrap().keys().cloned().collect();
    assert!(names.len() > 10 && rows == names, "rows: {rows:?}\ncapabilities: {names:?}");
}

/// The excerpt of the demo in the README is what the demo prints, except for measured values.
#[test]
fn readme_shows_what_the_demo_prints() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let excerpt = readme.split("$ pinion demo\n").nth(1).unwrap().split("```").next().unwrap();
    let printed = Pinion::default().run(["demo"]).stdout;
    let mut lines = printed.lines();
    for line in excerpt.lines().filter(|line| *line != "…" && !line.contains(" ms · ")) {
        assert!(lines.any(|printed| printed == line), "`{line}` is not in order in:\n{printed}");
    }
}
