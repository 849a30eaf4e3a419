//! Commands of git: its own ones, and the meaning of others.
//!
//! A word that is not a command of git is an alias, which the config of the repository or of the user defines, or a
//! program `git-WORD`. An alias stands for other arguments, or for a line of the shell. An alias cannot replace a
//! command of git itself.

use crate::command_scene::Scene;
use crate::shell::script::Simple;
use crate::shell::word::Word;
use pinion_git::read_at_most;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum bytes of a config.
const MAX_CONFIG: u64 = 256 * 1024;
/// Commands that every git of the last years has, and that no alias replaces.
const COMMANDS: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "daemon",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "for-each-repo",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "http-push",
    "index-pack",
    "init",
    "instaweb",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-index",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "receive-pack",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-file",
    "unpack-objects",
    "update-index",
    "update-ref",
    "update-server-info",
    "upload-archive",
    "upload-pack",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "worktree",
    "write-tree",
];
/// Commands that send branches as `push` does, with its options.
const PUSHES: &[&str] = &["send-pack", "http-push"];

/// The meaning of a word in the place of a command of git.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A command of git, or no command at all.
    Command,
    /// No config defines it, so that it is a separate program.
    Program,
    /// Configs define it, with the arguments or, behind `!`, the line of the shell that it stands for.
    Alias {
        codes: Vec<String>,
        /// True if the repository defines it, or may have replaced the user's alias.
        is_repositorys: bool,
    },
    /// The meaning is not known.
    Unknown,
}

/// Returns the word in the place of a command of git; `None` without one, or if its place is not known.
pub(crate) fn subcommand(command: &Simple) -> Option<(usize, &Word)> {
    const VALUES: &[&str] = &[
        "-C",
        "-c",
        "--attr-source",
        "--config-env",
        "--exec-path",
        "--git-dir",
        "--namespace",
        "--super-prefix",
        "--work-tree",
    ];
    let mut at = 1;
    while let Some(text) = command.words.get(at)?.literal().filter(|text| text.starts_with('-')) {
        // `--exec-path` without a value prints it.
        at += if VALUES.contains(&text) && text != "--exec-path" { 2 } else { 1 };
    }
    command.words.get(at).map(|word| (at, word))
}

/// Returns whether the word is a command of git itself.
pub(crate) fn is_command(word: &Word) -> bool {
    word.literal().is_some_and(|text| COMMANDS.contains(&text))
}

/// Returns the meaning of a call of git, by the configs that it would read.
pub(crate) fn meaning(command: &Simple, scene: &Scene<'_>) -> Meaning {
    let Some((at, word)) = subcommand(command) else { return Meaning::Command };
    if is_command(word) {
        return Meaning::Command;
    }
    let Some(name) = word.literal().map(str::to_ascii_lowercase) else { return Meaning::Unknown };
    let options = &command.words[1..at];
    let on_line = |word: &Word| word.text.to_ascii_lowercase().starts_with(&format!("alias.{name}="));
    if options.iter().any(on_line) {
        // The command of an alias that the line defines is found in the option.
        return Meaning::Program;
    }
    let is_elsewhere = |word: &Word| {
        let text = word.text.to_ascii_lowercase();
        word.literal().is_none()
            || ["-C", "--git-dir", "--work-tree", "--config-env", "--exec-path"]
                .iter()
                .any(|name| word.text.starts_with(name))
            || text.starts_with("include")
    };
    let changes_config = |name: &str| name.starts_with("GIT_") || name.starts_with("XDG_") || name == "HOME";
    if options.iter().any(is_elsewhere) || command.assignments.iter().any(|(name, _)| changes_config(name)) {
        return Meaning::Unknown;
    }
    let of_user = scene.home.map(|home| vec![home.join(".config/git/config"), home.join(".gitconfig")]);
    let of_user = std::iter::once(PathBuf::from("/etc/gitconfig")).chain(of_user.unwrap_or_default());
    let Some(of_repository) = command.directories.as_deref().and_then(configs) else { return Meaning::Unknown };
    let Some(mut codes) = defined(of_repository.into_iter(), &name) else { return Meaning::Unknown };
    let is_repositorys = !codes.is_empty();
    let Some(users) = defined(of_user, &name) else { return Meaning::Unknown };
    codes.extend(users);
    if codes.is_empty() { Meaning::Program } else { Meaning::Alias { codes, is_repositorys } }
}

/// Returns a command in other words that do the same: `git-push` and `git send-pack` are `git push`.
pub(crate) fn in_other_words(command: &Simple) -> Option<Simple> {
    let name = command.program()?;
    let is_push = |word: &Word| word.literal().is_some_and(|text| PUSHES.contains(&text));
    let mut words = command.words.clone();
    if let Some(subcommand) = name.strip_prefix("git-").filter(|name| COMMANDS.contains(name)) {
        words.splice(..1, [Word::from_text("git"), Word::from_text(subcommand)]);
    } else if name != "git" || !words.iter().any(is_push) {
        return None;
    }
    words.iter_mut().filter(|word| is_push(word)).for_each(|word| *word = Word::from_text("push"));
    Some(Simple { words, ..command.clone() })
}

/// Returns the configs of the repositories where git may start; `None` if one is not in the usual place.
fn configs(directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let mut configs = Vec::new();
    for directory in directories {
        let exists = |path: &Path| path.symlink_metadata().is_ok();
        let is_one = |path: &&Path| exists(&path.join(".git")) || exists(&path.join("HEAD"));
        let Some(root) = directory.ancestors().find(is_one) else { continue };
        let repository = root.join(".git");
        let is_plain = repository.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_plain || exists(&root.join("HEAD")) || exists(&repository.join("commondir")) {
            return None;
        }
        configs.extend([repository.join("config"), repository.join("config.worktree")]);
    }
    (!directories.is_empty()).then_some(configs)
}

/// Returns all definitions of an alias in configs; `None` if one cannot be read with certainty.
fn defined(configs: impl Iterator<Item = PathBuf>, name: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for path in configs {
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() <= MAX_CONFIG => {
                let text = String::from_utf8(read_at_most(&path.canonicalize().ok()?, MAX_CONFIG)?).ok()?;
                found.extend(aliases(&text, name)?);
            }
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

/// Returns the definitions of an alias in the text of a config; `None` if they are not certain, as with another file
/// that it includes.
fn aliases(text: &str, name: &str) -> Option<Vec<String>> {
    let (mut found, mut is_alias) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        let mut setting = line;
        if let Some(header) = line.strip_prefix('[') {
            let (section, rest) = header.split_once(']')?;
            let section = section.trim().to_ascii_lowercase();
            if section.starts_with("include") || section.starts_with("alias") && section != "alias" {
                return None;
            }
            is_alias = section == "alias";
            setting = rest.trim();
        }
        if setting.is_empty() || setting.starts_with(['#', ';']) {
            continue;
        }
        // A line that goes on may hide a section.
        if setting.ends_with('\\') {
            return None;
        }
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        if is_alias && key.trim().eq_ignore_ascii_case(name) {
            found.push(unquoted(value.trim())?);
        }
    }
    Some(found)
}

/// Returns the value of a setting without its quotes and comment; `None` if it is not valid.
fn unquoted(value: &str) -> Option<String> {
    let (mut text, mut is_quoted, mut chars) = (String::new(), false, value.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            '#' | ';' if !is_quoted => break,
            c => text.push(c),
        }
    }
    (!is_quoted).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_of_a_config_are_read_as_git_reads_them() {
        let config = "[core]\n\tst = no\n[ALIAS]\n\tST = status # short\n\tp = \"push --force\"\n\tq=!echo \\\"a\\\"; b\n\
            [alias] r = reset --hard\n[user]\n\tx = y\n";
        let found = |name: &str| aliases(config, name).unwrap();
        assert_eq!(found("st"), ["status "]);
        assert_eq!(found("p"), ["push --force"]);
        assert_eq!(found("q"), ["!echo \"a\""]);
        assert_eq!(found("r"), ["reset --hard"]);
        assert!(found("x").is_empty());
        for uncertain in
            ["[include]\n\tpath = x", "[includeIf \"a\"]", "[alias \"x\"]\n\tp = y", "[core]\n\ta = b\\", "[x"]
        {
            assert_eq!(aliases(uncertain, "p"), None, "{uncertain}");
        }
        assert_eq!(aliases("[alias]\n\tp = \"x", "p"), None);
        // A comment does not go on.
        for comment in ["# x\\", "; x\\", ""] {
            let config = format!("[alias]\n{comment}\n\tp = push\n");
            assert_eq!(aliases(&config, "p").unwrap(), ["push"], "{comment}");
        }
    }
}
