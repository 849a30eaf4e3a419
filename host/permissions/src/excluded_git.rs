//! Commands of git that may show an excluded file, from the working tree or from a commit.
//!
//! A command that only shows names shows no content, even if it reads files. Other commands that look at the working
//! tree show files of the index. Commands that look at commits may show any file that has ever been there.

use crate::command_scene::{Scene, normal};
use crate::git::subcommand;
use crate::shell::{Simple, Word, WordKind};
use std::path::{Path, PathBuf};

/// Maximum bytes of an index that is searched for a name.
const MAX_INDEX: u64 = 16 * 1024 * 1024;
/// Subcommands that never show the content of a file.
const NAMES: &[&str] = &[
    "branch",
    "cherry",
    "count-objects",
    "describe",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "reflog",
    "remote",
    "rev-list",
    "rev-parse",
    "shortlog",
    "tag",
    "worktree",
];
/// Options that hide the changed lines of a comparison or a commit.
const SUMMARIES: &[&str] = &[
    "--dirstat",
    "--name-only",
    "--name-status",
    "--no-patch",
    "--numstat",
    "--quiet",
    "--raw",
    "--shortstat",
    "--stat",
    "--summary",
    "-s",
];
/// Options that make commands that list commits show no lines of files.
const LISTS: &[&str] = &[
    "--abbrev",
    "--abbrev-commit",
    "--after",
    "--all",
    "--ancestry-path",
    "--author",
    "--author-date-order",
    "--before",
    "--branches",
    "--cherry",
    "--cherry-mark",
    "--cherry-pick",
    "--color",
    "--committer",
    "--compact-summary",
    "--count",
    "--date",
    "--date-order",
    "--decorate",
    "--diff-filter",
    "--exit-code",
    "--find-copies",
    "--find-renames",
    "--first-parent",
    "--follow",
    "--format",
    "--full-history",
    "--graph",
    "--grep",
    "--invert-grep",
    "--left-only",
    "--left-right",
    "--max-count",
    "--merges",
    "--min-parents",
    "--no-abbrev-commit",
    "--no-color",
    "--no-decorate",
    "--no-merges",
    "--no-renames",
    "--oneline",
    "--parents",
    "--pretty",
    "--regexp-ignore-case",
    "--relative-date",
    "--remotes",
    "--reverse",
    "--right-only",
    "--show-pulls",
    "--simplify-by-decoration",
    "--since",
    "--skip",
    "--source",
    "--tags",
    "--topo-order",
    "--until",
    "-E",
    "-F",
    "-i",
    "-n",
    "-z",
];
/// Options of a search or a comparison that lead beyond the files of the index.
const BEYOND: &[&str] = &["--cached", "--merge-base", "--no-exclude-standard", "--no-index", "--staged", "--untracked"];

/// Returns whether a command of git that only reads may show the content of an excluded path.
pub(crate) fn git_may_show(command: &Simple, excluded: &Path, scene: &Scene<'_>) -> bool {
    let Some((at, name)) = subcommand(command) else { return true };
    let arguments = &command.words[at + 1..];
    let name = name.text.as_str();
    let is_option = |word: &&Word| word.text.starts_with('-') && word.text != "-";
    let end = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
    let options = || arguments[..end].iter().filter(is_option);
    let is_in = |word: &Word, list: &[&str]| {
        let option = word.text.split('=').next().unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        list.contains(&option) || is_number(option.trim_start_matches("-n").trim_start_matches('-'))
    };
    let lists = || options().all(|word| is_in(word, LISTS) || is_in(word, SUMMARIES));
    let is_summary = || lists() && options().any(|word| is_in(word, SUMMARIES));
    let names_object = arguments[..end].iter().any(|word| !is_option(&word) && word.text.contains(':'));
    let shows_names = match name {
        _ if NAMES.contains(&name) => true,
        "status" => !options().any(|word| word.text.starts_with("-v") || "--verbose".starts_with(&word.text)),
        "log" | "stash" => lists(),
        "show" => is_summary() && !names_object,
        "diff" | "diff-tree" => is_summary(),
        "cat-file" => matches!(arguments.first().map(|word| word.text.as_str()), Some("-t" | "-s" | "-e")),
        _ => false,
    };
    if shows_names {
        return false;
    }
    let reaches = |word: &Word, is_object: bool| reaches(word, is_object, command, excluded, scene);
    // The expression of a search is not a path.
    let has_expression = name == "grep" && !options().any(|word| word.text.contains('e'));
    let operands: Vec<&Word> =
        arguments[..end].iter().filter(|word| !is_option(word)).skip(usize::from(has_expression)).collect();
    if let Some(paths) = arguments.get(end + 1..).filter(|paths| !paths.is_empty()) {
        return paths.iter().any(|path| reaches(path, false)) || operands.iter().any(|word| word.text.contains(':'));
    }
    let is_file = |word: &&Word| {
        let mut directories = command.directories.iter().flatten();
        directories.any(|directory| directory.join(&word.text).exists())
    };
    let is_blob = |word: &&Word| word.text.split_once(':').is_some_and(|(_, path)| !path.is_empty());
    let is_tree = matches!(name, "diff" | "grep") && !options().any(|word| is_in(word, BEYOND));
    if is_tree && operands.iter().all(is_file) {
        return may_be_tracked(excluded, scene)
            && (operands.is_empty() || operands.iter().any(|word| reaches(word, false)));
    }
    match name {
        "show" | "cat-file"
            if !operands.is_empty() && operands.iter().skip_while(|word| word.text == "blob").all(is_blob) =>
        {
            operands.iter().any(|word| reaches(word, true))
        }
        "blame" if operands.last().is_some_and(is_file) => operands.last().is_some_and(|word| reaches(word, false)),
        _ => true,
    }
}

/// Returns whether a path of a command, or the path behind the revision of an object, may stand for an excluded one, for one
/// below or for a directory around it.
fn reaches(word: &Word, is_object: bool, command: &Simple, excluded: &Path, scene: &Scene<'_>) -> bool {
    let text = match word.text.split_once(':') {
        Some((_, path)) if is_object => path,
        _ => &word.text,
    };
    // Git has its own patterns, which the shell does not expand.
    if word.kind != WordKind::Literal || text.starts_with(':') || text.contains(['*', '?', '[', '\\']) {
        return true;
    }
    let lower = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
    let excluded = lower(excluded);
    let top = [scene.workspace.to_owned()];
    let directories = command.directories.as_deref().unwrap_or_default();
    directories.iter().chain(&top).any(|directory| {
        let path = normal(&directory.join(text));
        let is_hit = |path: &Path| excluded.starts_with(path) || path.starts_with(&excluded);
        is_hit(&lower(&path)) || path.canonicalize().is_ok_and(|path| is_hit(&lower(&path)))
    })
}

/// Returns whether the index may have a file at an excluded path or below.
fn may_be_tracked(excluded: &Path, scene: &Scene<'_>) -> bool {
    /// Version with shortened names.
    const SHORTENED: &[u8] = &4_u32.to_be_bytes();
    let Ok(name) = excluded.strip_prefix(scene.workspace) else { return true };
    let index = scene.workspace.join(".git/index");
    if index.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return false;
    }
    let name = name.to_string_lossy().to_ascii_lowercase();
    let Some(bytes) = pinion_git::read_at_most(&index, MAX_INDEX) else { return true };
    // Entries of a shared index are elsewhere.
    let has_all = bytes.get(4..8).is_some_and(|version| version != SHORTENED);
    let is_split = bytes.windows(4).any(|window| window == b"link" || window == b"sdir");
    let lower: Vec<u8> = bytes.to_ascii_lowercase();
    !has_all || is_split || name.is_empty() || lower.windows(name.len()).any(|window| window == name.as_bytes())
}
