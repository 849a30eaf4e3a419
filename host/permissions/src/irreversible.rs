//! Commands that stay in the sandbox and destroy data that no snapshot restores: commits that only a repository has.
//!
//! This guards against accidents and not against malice: a script may do the same unnoticed.

use crate::git;
use crate::shell::{Simple, Word};

/// Programs that remove or replace the files that they name.
const REMOVERS: &[&str] = &["dd", "mv", "rm", "rmdir", "shred", "truncate", "unlink"];

/// Subcommands of git, with words that each make them lose commits; `*` if no word is needed.
const LOSES: &[(&str, &[&str])] = &[
    ("branch", &["-D"]),
    ("filter-branch", &["*"]),
    ("filter-repo", &["*"]),
    ("gc", &["--prune"]),
    ("prune", &["*"]),
    ("reflog", &["delete", "expire"]),
    ("stash", &["clear", "drop"]),
    ("tag", &["-d", "--delete"]),
    ("update-ref", &["-d", "--stdin"]),
];

/// Returns whether a command destroys a part of a repository's history.
pub(crate) fn destroys_history(command: &Simple) -> bool {
    let Some(name) = command.program() else { return false };
    if command.redirects.iter().any(|redirect| redirect.writes && is_in_repository(&redirect.target)) {
        return true;
    }
    if REMOVERS.contains(&name) {
        return command.words[1..].iter().any(is_in_repository);
    }
    name == "git" && loses_commits(command)
}

/// Returns whether a word names a repository or something in it, except for the locks that a killed `git` leaves.
fn is_in_repository(word: &Word) -> bool {
    let path = word.text.rsplit('=').next().unwrap_or_default();
    !path.ends_with(".lock") && path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

fn loses_commits(command: &Simple) -> bool {
    let Some((at, subcommand)) = git::subcommand(command) else { return false };
    let Some((name, words)) = LOSES.iter().find(|(name, _)| *name == subcommand.text) else { return false };
    let arguments = &command.words[at + 1..];
    let has = |option: &str| arguments.iter().any(|word| word.text.split('=').next() == Some(option));
    // The long form of `-D`.
    let is_forced = *name == "branch" && has("--delete") && (has("--force") || has("-f"));
    let only_shows = has("-n") || has("--dry-run");
    !only_shows && (is_forced || words.iter().any(|word| *word == "*" || has(word)))
}
