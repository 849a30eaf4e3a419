//! Each command in the README is run by a test or by the test script.

use pinion_tests::Pinion;
use std::path::Path;

/// Prefixes of commands, and where each is run.
const RUN: &[(&str, &str)] = &[
    ("git clone ", "tests/run.sh"),
    ("cargo install --path host/cli", "tests/run.sh"),
    ("tests/run.sh", "CI"),
    ("export ", "sets a variable"),
    ("cd ", "changes the directory"),
    ("mkdir -p ~/.config/pinion", "creates a directory"),
    ("echo 'model = ", "writes a file"),
    ("pinion demo", "tests/command.rs"),
    ("pinion --plan ", "tests/plan.rs"),
    ("pinion --execute ", "tests/plan.rs"),
    ("pinion -p --record ", "tests/providers.rs"),
    ("pinion -p --replay ", "tests/providers.rs"),
    ("pinion -p ", "tests/command.rs"),
    ("git diff | pinion -p ", "tests/command.rs"),
    ("pinion -c", "tests/command.rs"),
    ("pinion -r ", "tests/command.rs"),
    ("pinion trust add", "tests/untrusted.rs"),
    ("pinion trust list", "tests/hostile/trust.rs"),
    ("pinion plugin new ", "tests/plugins.rs"),
    ("pinion plugin build", "tests/plugins.rs"),
    ("pinion plugin call ", "tests/plugins.rs"),
    ("pinion plugin list", "tests/hostile/loading.rs"),
    ("pinion session list", "tests/command.rs"),
    ("pinion session show ", "tests/hostile/secrets.rs"),
    ("pinion session export ", "tests/hostile/repository.rs"),
    ("cargo bench -p ", "manually: it measures"),
    ("pinion\n", "manually: an interactive conversation"),
    ("pinion \"", "tests/hostile/prompts.rs"),
    ("pinion -m ", "manually: it needs a key"),
];

#[test]
fn every_readme_command_is_tested() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let mut in_shell = false;
    let mut commands = 0;
    for line in readme.lines() {
        match line.trim() {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            command if in_shell && !command.is_empty() && !command.starts_with('#') => {
                commands += 1;
                let line = format!("{command}\n");
                assert!(RUN.iter().any(|(beginning, _)| line.starts_with(beginning)), "no test runs `{command}`");
            }
            _ => {}
        }
    }
    assert!(commands > 8);
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
