//! Commands that a program may start because they are somewhere in its arguments.
//!
//! Wrappers without end exist: `npx`, `uv run`, `direnv exec`, `git rebase -x`. So every program that is not known to start
//! nothing may be one. Rules that deny or ask then lead to a question, and never to a denial: the words may be a text.

use crate::git;
use crate::readers::shows_no_content;
use crate::scene::Scene;
use crate::shell::{self, Simple, Word};

/// Programs that never start any of their arguments.
const STARTS_NOTHING: &[&str] = &[
    "[", "basename", "cat", "chgrp", "chmod", "chown", "cp", "cut", "diff", "dirname", "du", "echo", "egrep", "false",
    "fgrep", "file", "grep", "head", "install", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "pwd",
    "readlink", "realpath", "rg", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "tail", "tee", "test", "touch",
    "tr", "true", "truncate", "uniq", "wc", "which",
];
/// Arguments of one command that are looked at, and how many of them are read as lines.
const MAX_WORDS: usize = 40;
const MAX_LINES: usize = 8;

/// Returns the commands that a command may start with its arguments.
pub(crate) fn wrapped(command: &Simple, scene: &Scene<'_>) -> Vec<Simple> {
    let Some(name) = command.program() else { return Vec::new() };
    if STARTS_NOTHING.contains(&name) || shows_no_content(name) || (name == "git" && !starts_more(command)) {
        return Vec::new();
    }
    let arguments = 1..command.words.len().min(MAX_WORDS);
    let suffixes = arguments.clone().map(|at| Simple { words: command.words[at..].to_vec(), ..command.clone() });
    let is_line = |word: &&Word| word.literal().is_some_and(|text| text.contains(char::is_whitespace));
    let lines = command.words[arguments].iter().filter(is_line).take(MAX_LINES);
    // Text that cannot be read may be no command at all.
    let lines = lines.filter_map(|word| shell::parse(word.literal()?, scene).ok());
    let lines = lines.flat_map(|script| script.commands);
    suffixes.chain(lines).filter(|command| command.words[0].literal().is_some()).collect()
}

/// Returns whether a command of git starts others that its arguments name.
fn starts_more(command: &Simple) -> bool {
    let Some((at, subcommand)) = git::subcommand(command) else { return true };
    let has = |options: &[&str]| {
        command.words[at + 1..].iter().any(|word| options.iter().any(|option| word.text.starts_with(option)))
    };
    match subcommand.text.as_str() {
        "submodule" => has(&["foreach"]),
        "bisect" => has(&["run"]),
        "rebase" => has(&["-x", "--exec"]),
        "filter-branch" | "for-each-repo" | "difftool" | "mergetool" => true,
        _ => false,
    }
}
