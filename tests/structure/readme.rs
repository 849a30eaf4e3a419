//! The README and the pages for users: each command is run by a test or by the test script, each config block is valid,
//! and outputs and tables match the program's.

use pinion_plugin_runtime::GrantTable;
use pinion_tests::{Document, Pinion, blocks, document, pages, shell_blocks};
use std::collections::BTreeSet;

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
    ("tar -xf pinion-", File("tests/product/install.rs", r#""tar", &["-xf", "#)),
    ("./pinion-", File("tests/product/install.rs", "/pinion demo")),
    ("sha256sum --check ", File("tests/product/install.rs", r#""sha256sum", &["--check", "#)),
    ("tests/run.sh", Nothing("it runs the tests")),
    ("cargo test ", Nothing("it runs tests")),
    ("PINION_LONG=1 cargo test ", Nothing("it runs tests")),
    ("export ", Nothing("it sets a variable")),
    ("cd ", Nothing("it changes the directory")),
    ("pinion demo", File("tests/product/command.rs", r#"(["demo"])"#)),
    ("pinion --plan ", File("tests/product/plan.rs", r#""--plan""#)),
    ("pinion --execute ", File("tests/product/plan.rs", r#""--execute""#)),
    ("pinion -p --record ", File("tests/product/providers.rs", r#"["--record", "#)),
    ("pinion -p --replay ", File("tests/product/providers.rs", r#"["-p", "--replay", "#)),
    ("pinion -p ", File("tests/product/command.rs", r#"["-p", "#)),
    ("git diff | pinion -p ", File("tests/product/command.rs", "run_with_stdin(arguments, ")),
    ("pinion -c", File("tests/product/sessions.rs", r#"&["-c"]"#)),
    ("pinion -r ", File("tests/hostile/secrets.rs", r#""-r", &id, "#)),
    ("pinion eval ", File("tests/product/evaluation.rs", r#"["eval", "run", "#)),
    ("pinion trust add", File("tests/hostile/trust.rs", r#"(["trust", "add""#)),
    ("pinion trust list", File("tests/hostile/trust.rs", r#"(["trust", "list"])"#)),
    ("pinion plugin new ", File("tests/plugins/components.rs", r#"["plugin", "new", "#)),
    ("pinion plugin build", File("tests/plugins/components.rs", r#"["plugin", "build"]"#)),
    (
        "pinion plugin build --install",
        File("tests/plugins/components.rs", r#"["plugin", "build", "word-count", "--install"]"#),
    ),
    ("pinion plugin call ", File("tests/plugins/components.rs", r#""plugin", "call", "#)),
    ("pinion plugin add ", File("tests/product/packages/mod.rs", r#"["plugin", "add", "#)),
    ("pinion plugin info ", File("tests/product/packages/servers.rs", r#"["plugin", "info", "kit"]"#)),
    ("pinion plugin install", File("tests/product/packages/projects.rs", r#""plugin", "install""#)),
    ("pinion mcp disable ", File("tests/product/packages/servers.rs", r#"["mcp", "disable", "kit:db"]"#)),
    ("pinion plugin update", File("tests/product/packages/mod.rs", r#"["plugin", "update"]"#)),
    ("pinion plugin diff ", File("tests/product/packages/mod.rs", r#"["plugin", "diff", "#)),
    ("pinion plugin outdated", File("tests/product/packages/registry.rs", r#"["plugin", "outdated", "#)),
    ("pinion plugin storage ", File("tests/product/packages/values.rs", r#"["plugin", "storage", "#)),
    ("pinion plugin replay ", File("tests/product/replay.rs", r#"["plugin", "replay", "#)),
    ("pinion report ", File("tests/product/replay.rs", r#"["report", "#)),
    ("pinion mcp add ", File("tests/product/mcp_command.rs", r#"["mcp", "add", "files", "#)),
    ("pinion mcp test ", File("tests/product/mcp_servers.rs", r#"["mcp", "test", "own"]"#)),
    ("pinion mcp list", File("tests/product/mcp_command.rs", r#"["mcp", "list"]"#)),
    ("pinion mcp call ", File("tests/product/mcp_servers.rs", r#"["mcp", "call", "own", "#)),
    ("pinion mcp import", File("tests/product/mcp_command.rs", r#"["mcp", "import"]"#)),
    ("pinion mcp serve ", File("tests/product/mcp_serve/http.rs", r#"["mcp", "serve", "--http", "#)),
    ("pinion session list", File("tests/product/command.rs", r#"(["session", "list"])"#)),
    ("pinion session show ", File("tests/product/command.rs", r#"(["session", "show", &id])"#)),
    ("pinion session cost ", File("tests/product/cost.rs", r#"["session", "cost", &id"#)),
    ("pinion session rewind", File("tests/product/undo/mod.rs", r#"["session", "rewind"]"#)),
    ("pinion eval swe-bench ", File("tests/product/swe_bench.rs", r#"["eval", "swe-bench", "#)),
    ("pinion session step ", File("tests/product/session_calls.rs", r#"["session", "step", "#)),
    ("pinion session bisect ", File("tests/product/session_calls.rs", r#"["session", "bisect", "#)),
    ("pinion session diff ", File("tests/product/undo/patches.rs", r#"["session", "diff", "#)),
    ("pinion session export ", File("tests/hostile/repository.rs", r#"["session", "export", "#)),
    ("cargo bench -p ", Nothing("it measures")),
    (".ci/contract ", Nothing("it publishes the contract")),
    ("tests/benches/mcp.py", Nothing("it measures, and downloads")),
    ("tests/benches/evaluation.py", Nothing("it measures")),
    ("tests/compare-swe-agents.py", Nothing("it downloads")),
    ("pinion\n", Nothing("it is an interactive conversation")),
    ("pinion \"", File("tests/hostile/prompts.rs", r#"script.to_str().unwrap(), "go"]"#)),
    ("pinion -m ", Nothing("it needs a key")),
];

/// Returns the documents whose commands this module checks. `guide_commands.rs` runs the commands of the guide for
/// authors.
fn documents() -> Vec<Document> {
    let mut documents =
        ["README.md", "CONTRIBUTING.md", "tests/README.md"].map(document).into_iter().collect::<Vec<_>>();
    documents.extend(pages("").into_iter().filter(|page| !page.path.starts_with("docs/plugins/")));
    documents
}

/// Returns the commands in the documents, each with a line break.
fn commands() -> Vec<String> {
    let commands = documents().into_iter().flat_map(|document| shell_blocks(&document.text).concat());
    commands.map(|command| command + "\n").collect()
}

#[test]
fn every_readme_command_is_tested() {
    let commands = commands();
    assert!(commands.len() > 8);
    for command in &commands {
        assert!(COMMANDS.iter().any(|(prefix, _)| command.starts_with(prefix)), "no test runs `{command}`");
    }
    for (prefix, by) in COMMANDS {
        assert!(commands.iter().any(|command| command.starts_with(prefix)), "no document has `{prefix}`");
        match by {
            File(file, words) => {
                let Document { text, .. } = document(file);
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

/// `--help` at the end runs nothing, but the options before it must be known.
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

/// Blocks of other files than Pinion's config.
const OTHER_FILES: &[&str] = &["[namespace_registries]"];

#[test]
fn every_config_block_of_the_documents_is_accepted() {
    let (mut count, pinion) = (0, Pinion::default());
    for document in documents() {
        for block in blocks(&document.text, "toml") {
            if OTHER_FILES.iter().any(|beginning| block.starts_with(beginning)) {
                continue;
            }
            pinion.config(&block);
            let ended = pinion.run(["config", "show"]);
            assert_eq!(ended.code, Some(0), "{} has this block:\n{block}\n{ended:?}", document.path);
            assert!(!ended.stderr.contains("unknown"), "{} has this block:\n{block}\n{ended:?}", document.path);
            count += 1;
        }
    }
    assert!(count > 15, "{count} blocks");
    pinion.config("[permissions]\nallows = []\n");
    assert_ne!(pinion.run(["config", "show"]).code, Some(0), "an unknown key passes");
}

/// The table of the page on grants has a row for each capability, and no others.
#[test]
fn readme_lists_every_capability() {
    let page = document("docs/user/grants.md").text;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" = "));
    let rows: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    let table = serde_json::to_value(GrantTable::default()).unwrap();
    let names: BTreeSet<String> = table.as_object().unwrap().keys().cloned().collect();
    assert!(names.len() > 10 && rows == names, "rows: {rows:?}\ncapabilities: {names:?}");
}

/// Separates the numbers of a line from the rest. In the rest, each number is `#`, and nouns do not depend on them.
fn figures(line: &str) -> (String, Vec<f64>) {
    let (mut shape, mut numbers) = (String::new(), Vec::new());
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let singular = line.replace("calls", "call").replace("files", "file");
    let mut rest = singular.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let (number, after) = from.split_at(from.find(|c| !is_of_number(c)).unwrap_or(from.len()));
        shape.push_str(before);
        shape.push('#');
        // A version such as 0.2.0 is not a number.
        numbers.push(number.replace(',', "").parse().unwrap_or_default());
        rest = after;
    }
    (shape + rest, numbers)
}

#[test]
fn figures_of_a_line_are_separated_from_its_words() {
    let (shape, numbers) = figures("fs #1 · 1.64 ms · 1,024 files");
    assert_eq!((shape.as_str(), numbers), ("fs ## · # ms · # file", vec![1.0, 1.64, 1024.0]));
}

/// The lines of the demo are those in the README. Of the figures, times may be others, and the rest are at most a quarter or
/// one off, because paths have different lengths and a host call may be repeated.
#[test]
fn readme_shows_what_the_demo_prints() {
    let readme = document("README.md").text;
    let excerpt = readme.split("$ pinion demo\n").nth(1).unwrap().split("```").next().unwrap();
    let printed = Pinion::default().run(["demo"]).stdout;
    let mut lines = printed.lines();
    for line in excerpt.lines().filter(|line| *line != "…") {
        let (shape, numbers) = figures(line);
        let is_ledger = shape.contains(" ms · ");
        let is_alike = |other: &str| match figures(other) {
            (other, found) if is_ledger => {
                let mut both = numbers.iter().zip(&found).enumerate();
                other == shape
                    && both.all(|(at, (number, found))| {
                        at == 1 || (number - found).abs() <= (number.max(*found) / 4.0).max(1.0)
                    })
            }
            _ => other == line,
        };
        assert!(lines.any(is_alike), "`{line}` is not in order in:\n{printed}");
    }
}
