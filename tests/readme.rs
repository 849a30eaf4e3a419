//! Each command in the README is run by a test or by the test script.

use std::path::Path;

/// Prefixes of commands, and where each is run.
const RUN: &[(&str, &str)] = &[
    ("cargo run --release -- demo", "tests/run.sh"),
    ("tests/run.sh", "CI"),
    ("cargo install --path host/cli", "tests/run.sh"),
    ("export ", "sets a variable"),
    ("pinion --plan ", "tests/plan.rs"),
    ("pinion --execute ", "tests/plan.rs"),
    ("pinion -p --record ", "tests/providers.rs"),
    ("pinion -p --replay ", "tests/providers.rs"),
    ("pinion -p ", "tests/command.rs"),
    ("git diff | pinion -p ", "tests/command.rs"),
    ("pinion -c", "tests/command.rs"),
    ("pinion plugin new ", "tests/plugins.rs"),
    ("cd ", "moves"),
    ("pinion plugin build", "tests/plugins.rs"),
    ("pinion plugin call ", "tests/plugins.rs"),
    ("pinion plugin check ", "tests/plugins.rs"),
    ("pinion doctor", "tests/command.rs"),
    ("pinion model list", "tests/command.rs"),
    ("pinion session list", "tests/command.rs"),
    ("plugins/build.sh", "tests/run.sh"),
    ("plugins/setup-toolchain.sh", "tests/run.sh"),
    ("cargo bench -p ", "by hand: it measures"),
    ("pinion\n", "an interactive conversation, by hand"),
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
                assert!(RUN.iter().any(|(beginning, _)| line.starts_with(beginning)), "nothing runs `{command}`");
            }
            _ => {}
        }
    }
    assert!(commands > 8);
}
