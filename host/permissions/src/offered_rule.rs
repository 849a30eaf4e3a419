//! The rule that a question offers to add.

use crate::command_scene::Scene;
use crate::judge::{ModePolicy, Otherwise, Verdict, judge};
use crate::rules::{PermissionRules, RuleSource};
use crate::shell::{self, Simple, Word};
use std::path::PathBuf;

/// Programs with the subcommands that a rule may allow, because they build, test or check. `*` stands for any word that
/// names a target of the project.
const OFFERED: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "nextest", "test", "tree", "metadata", "run"]),
    ("npm", &["test", "t", "run *", "start", "ls", "outdated"]),
    ("pnpm", &["test", "run *", "build", "lint"]),
    ("yarn", &["test", "run *", "build", "lint"]),
    ("bun", &["test", "run *"]),
    ("deno", &["test", "lint", "fmt", "check"]),
    ("go", &["build", "fmt", "test", "vet", "list"]),
    ("make", &["*"]),
    ("just", &["*"]),
    ("ninja", &["*", ""]),
    ("cmake", &["--build"]),
    ("pytest", &[""]),
    ("python -m", &["pytest", "unittest", "mypy", "ruff", "black", "flake8"]),
    ("python3 -m", &["pytest", "unittest", "mypy", "ruff", "black", "flake8"]),
    ("uv run", &["pytest", "ruff", "mypy"]),
    ("poetry run", &["pytest", "ruff", "mypy"]),
    ("ruff", &["check", "format"]),
    ("mypy", &[""]),
    ("black", &[""]),
    ("flake8", &[""]),
    ("tox", &[""]),
    ("tsc", &[""]),
    ("npx", &["tsc", "eslint", "prettier", "jest", "vitest"]),
    ("eslint", &[""]),
    ("prettier", &[""]),
    ("jest", &[""]),
    ("vitest", &[""]),
    ("rustfmt", &[""]),
    ("gofmt", &[""]),
    ("mvn", &["compile", "test", "verify", "package"]),
    ("gradle", &["build", "check", "test"]),
    ("./gradlew", &["build", "check", "test"]),
    ("dotnet", &["build", "test", "format"]),
    ("bundle exec", &["rspec", "rubocop", "rake"]),
    ("rspec", &[""]),
    ("mix", &["compile", "format", "test"]),
    ("swift", &["build", "test"]),
    ("zig", &["build", "test", "fmt"]),
    ("terraform", &["validate", "fmt"]),
    ("git", &["add", "commit", "fetch"]),
    ("docker", &["ps", "images", "logs"]),
    ("kubectl", &["logs"]),
    ("mkdir", &[""]),
    ("touch", &[""]),
];

/// Returns the rule that would allow a line in this project, if there is one that a person can overlook: the beginning
/// of a command that builds or tests. There is no such rule for commands that destroy, publish, are computed, or are
/// not known.
pub fn offer(command: &str, scene: &Scene<'_>, rules: &PermissionRules) -> Option<String> {
    let policy = ModePolicy { reads: true, otherwise: Otherwise::Ask };
    let judgement = judge(command, scene, rules, policy);
    if judgement.verdict != Verdict::Ask {
        return None;
    }
    let script = shell::parse(command, scene).ok()?;
    let mut offers = script.commands.iter().filter(|command| !command.is_contained).filter_map(prefix);
    let rule = offers.find(|rule| {
        let mut more = rules.clone();
        let added = more.add(Verdict::Allow, rule, RuleSource::File(PathBuf::new()), scene.home);
        added.is_ok() && judge(command, scene, &more, policy).verdict == Verdict::Allow
    })?;
    Some(rule)
}

/// Returns the beginning of a command that a rule may allow.
fn prefix(command: &Simple) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map_while(Word::literal).collect();
    for (program, subcommands) in OFFERED {
        let program_words: Vec<&str> = program.split(' ').collect();
        if !words.starts_with(&program_words) {
            continue;
        }
        let next = words.get(program_words.len()).copied();
        for subcommand in *subcommands {
            let chosen = match (*subcommand, next) {
                ("", _) => Some((*program).to_owned()),
                ("*", Some(target)) if is_target(target) => Some(format!("{program} {target}")),
                ("run *", Some("run")) => {
                    let target = words.get(program_words.len() + 1).filter(|target| is_target(target))?;
                    Some(format!("{program} run {target}"))
                }
                (subcommand, Some(next)) if subcommand == next => Some(format!("{program} {subcommand}")),
                _ => None,
            };
            if chosen.is_some() {
                return chosen;
            }
        }
    }
    None
}

/// Returns whether a word names a target: a plain name that does not sound like damage or publication.
fn is_target(word: &str) -> bool {
    const LOUD: &[&str] = &[
        "deploy", "publish", "release", "push", "upload", "install", "clean", "purge", "destroy", "drop", "reset",
        "delete", "rm", "prod", "migrate", "apply", "nuke", "wipe", "sudo", "root", "ship",
    ];
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c)) && !word.starts_with('-');
    let lower = word.to_ascii_lowercase();
    is_plain && !word.is_empty() && word.len() <= 40 && !LOUD.iter().any(|loud| lower.contains(loud))
}
