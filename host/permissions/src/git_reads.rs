//! Commands of git that only read a repository.

use crate::command_scene::Scene;
use crate::repository;
use crate::shell::{Simple, Word, WordKind};
use crate::words::{is_banned, is_below, names_secret};
use std::path::PathBuf;

/// Subcommands of git that only read, with banned options.
const GIT: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "describe",
    "blame",
    "shortlog",
    "cat-file",
    "grep",
    "rev-list",
    "merge-base",
    "name-rev",
    "diff-tree",
    "count-objects",
    "cherry",
];
const GIT_BANNED: &[&str] = &[
    "--ext-diff",
    "--textconv",
    "--output",
    "--open-files-in-pager",
    "--exec",
    "--no-index",
    "--filters",
    "--show-signature",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--config-env",
    "--namespace",
    "--super-prefix",
    "--contents",
    "--ignore-revs-file",
    "--parseopt",
    "--sq-quote",
    "--batch-command",
    "--path-format",
    "--recurse-submodules",
    "--submodule",
];
/// Banned options of one subcommand: they start a pager, or name a file that holds expressions or revisions.
const GIT_BANNED_OF: &[(&str, &[&str])] =
    &[("blame", &["-S"]), ("grep", &["-O", "-f"]), ("ls-files", &["-X", "--exclude-from", "--exclude-per-directory"])];
/// Options of `git branch`, `tag` and `remote` that list.
const GIT_LISTS: &[&str] =
    &["-a", "-r", "-v", "-vv", "-l", "--list", "--all", "--remotes", "--show-current", "--verbose", "-n"];

/// Returns whether a command of git only reads.
pub(crate) fn is_git(command: &Simple, scene: &Scene<'_>) -> bool {
    let skipped =
        command.words[1..].iter().take_while(|word| matches!(word.literal(), Some("--no-pager" | "-P"))).count();
    let Some([subcommand, arguments @ ..]) = command.words.get(1 + skipped..) else { return false };
    let is_list = |word: &Word| word.literal().is_some_and(|text| GIT_LISTS.contains(&text));
    let name = subcommand.literal().unwrap_or_default();
    let own = GIT_BANNED_OF.iter().find(|(subcommand, _)| *subcommand == name).map_or(&[][..], |(_, own)| own);
    let is_harmless = |word: &Word| {
        // The placeholder `%G` of `log` starts a program that verifies signatures.
        let is_program = is_banned(word, own) || word.text.contains("%G");
        !is_program && !is_banned(word, GIT_BANNED) && is_object(word, command, scene)
    };
    let texts: Vec<Option<&str>> = arguments.iter().map(Word::literal).collect();
    let reads = match name {
        "remote" if matches!(texts.as_slice(), [Some("get-url"), Some(_)]) => true,
        "branch" | "tag" | "remote" => arguments.iter().all(is_list),
        "stash" => matches!(texts.as_slice(), [Some("list"), ..]) && arguments.iter().all(is_harmless),
        "reflog" => arguments.is_empty(),
        "worktree" => texts == [Some("list")],
        _ => GIT.contains(&name) && arguments.iter().all(is_harmless),
    };
    let compares_files = matches!(name, "status" | "diff" | "describe");
    // Outside of a repository, `diff` compares any two directories.
    let has_repository = name != "diff" || scene.workspace.join(".git").is_dir();
    let is_plain = |directory: &PathBuf| repository::is_plain(directory, scene.workspace, compares_files);
    reads && has_repository && command.directories.iter().flatten().all(is_plain)
}

/// Returns whether a word names a revision or a file that may be read.
fn is_object(word: &Word, command: &Simple, scene: &Scene<'_>) -> bool {
    let is_format =
        word.text.starts_with("--format") || word.text.starts_with("--pretty") || word.text.starts_with("--since");
    // Without a revision, `..` is a directory outside.
    let is_range = |text: &str| {
        text.contains("..") && !text.contains("/..") && !text.contains("../") && text.chars().any(|c| c != '.')
    };
    word.kind == WordKind::Literal
        && (is_format || is_range(&word.text) || is_below(word, command, scene))
        && !names_secret(&word.text)
}
