//! Commands that only read the project, which run without a question where the mode permits reading.

use crate::command_scene::Scene;
use crate::git_reads::is_git;
use crate::readers::{self, is_find};
use crate::shell::{Simple, Word, WordKind};
use crate::words::{Arguments, is_readable};

/// Programs whose version may be asked for. Not those that a project replaces, such as `cargo` with `rust-toolchain.toml`.
const VERSIONS: &[&str] = &[
    "node", "python", "python3", "git", "gcc", "g++", "clang", "make", "cmake", "java", "ruby", "perl", "php",
    "docker", "kubectl", "bash", "jq", "rg", "grep", "sed", "curl",
];

/// Variables that change nothing but how much programs print.
const VARIABLES: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "RUST_LIB_BACKTRACE",
    "CARGO_INCREMENTAL",
    "RUST_TEST_THREADS",
    "PROPTEST_CASES",
];

/// Returns the first variable of a command that may change its behaviour.
pub(crate) fn strange_variable(command: &Simple) -> Option<&str> {
    let strange =
        |(name, value): &&(String, Word)| !VARIABLES.contains(&name.as_str()) || value.kind == WordKind::Dynamic;
    command.assignments.iter().find(strange).map(|(name, _)| name.as_str())
}

/// Returns whether a command only reads the project.
pub(crate) fn reads_only(command: &Simple, scene: &Scene<'_>) -> bool {
    let Some(name) = command.words[0].literal() else { return false };
    let Some(directories) = command.directories.as_ref().filter(|all| !all.is_empty()) else { return name == "cd" };
    let is_inside = directories.iter().all(|directory| scene.contains(directory, "."));
    if strange_variable(command).is_some() || command.unknown.is_some() || !is_inside {
        return false;
    }
    let arguments = &command.words[1..];
    if let [only] = arguments
        && VERSIONS.contains(&name)
        && matches!(only.literal(), Some("--version" | "-version" | "-V"))
    {
        return true;
    }
    match name {
        // Alone, it prints all variables.
        "set" if arguments.is_empty() => false,
        // An index is computed, and may contain commands.
        "test" if arguments.iter().any(|word| word.text.contains('[')) => false,
        "git" => is_git(command, scene),
        "find" => is_find(command, scene),
        "sed" => {
            is_page(arguments)
                && arguments.iter().skip(2).all(|word| is_readable(word, Arguments::Content, command, scene))
        }
        "command" => {
            matches!(arguments, [option, word] if matches!(option.literal(), Some("-v" | "-V")) && word.literal().is_some())
        }
        "hostname" => arguments.is_empty(),
        _ => readers::find_reader(name).is_some_and(|reader| reader.permits(command, scene)),
    }
}

/// Returns whether `sed` only prints lines: `sed -n 1,20p FILE`.
fn is_page(arguments: &[Word]) -> bool {
    let [option, script, files @ ..] = arguments else { return false };
    let is_address = |c: char| c.is_ascii_digit() || ",$p; ".contains(c);
    option.literal() == Some("-n")
        && script.literal().is_some_and(|script| script.chars().all(is_address) && script.ends_with('p'))
        && files.iter().all(|file| !file.text.starts_with('-'))
}
