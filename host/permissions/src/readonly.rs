//! Commands that only read the project, which run without a question where the mode permits reading.

use crate::git_reads::is_git;
use crate::readers::{self, Arguments, is_find};
use crate::rule::glob;
use crate::scene::{Scene, expansions};
use crate::shell::{Kind, Simple, Word};
use std::path::PathBuf;

/// Programs whose version may be asked for. Not those that a project replaces, such as `cargo` with `rust-toolchain.toml`.
const VERSIONS: &[&str] = &[
    "node", "python", "python3", "git", "gcc", "g++", "clang", "make", "cmake", "java", "ruby", "perl", "php",
    "docker", "kubectl", "bash", "jq", "rg", "grep", "sed", "curl",
];

/// Names of files with secrets, to compare with patterns.
const SECRETS: &[&str] = &[
    ".env",
    ".env.local",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pgpass",
    "credentials",
    "id_rsa",
    "id_ed25519",
    "secrets.yml",
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

/// Returns the first variable of a command that may change what it does.
pub(crate) fn strange_variable(command: &Simple) -> Option<&str> {
    let strange = |(name, value): &&(String, Word)| !VARIABLES.contains(&name.as_str()) || value.kind == Kind::Dynamic;
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
        _ => readers::of(name).is_some_and(|reader| reader.permits(command, scene)),
    }
}

/// Returns whether a word is one of the options, in any of their spellings. Those behind `=` are not grouped.
pub(crate) fn is_banned(word: &Word, banned: &[&str]) -> bool {
    let Some(text) = word.text.strip_prefix('-').filter(|text| !text.is_empty()) else { return false };
    let name = text.split('=').next().unwrap_or_default();
    banned.iter().any(|option| {
        // Programs of Go take long options behind a single dash.
        if let Some(exact) = option.strip_prefix("=-") {
            return name == exact || text.strip_prefix('-').is_some_and(|text| text.split('=').next() == Some(exact));
        }
        let option = &option[1..];
        match option.strip_prefix('-') {
            // Long options may be abbreviated.
            Some(_) => name.len() > 2 && option.starts_with(name),
            None if option.len() == 1 => !text.starts_with('-') && text.contains(option),
            None => name == option,
        }
    })
}

/// Returns whether a word names nothing that is outside of the workspace or secret.
pub(crate) fn is_readable(word: &Word, arguments: Arguments, command: &Simple, scene: &Scene<'_>) -> bool {
    match (word.kind, arguments) {
        (Kind::Dynamic, _) | (Kind::Pattern, Arguments::Content | Arguments::Trees) => return false,
        (_, Arguments::Texts) => return word.kind == Kind::Literal,
        (Kind::Pattern, Arguments::Names | Arguments::Measures) if !stays_inside(word, command, scene) => return false,
        _ => {}
    }
    let shows_names = matches!(arguments, Arguments::Names | Arguments::Measures);
    is_below(word, command, scene) && (shows_names || !names_secret(&word.text))
}

/// Returns whether a pattern stands for files of the workspace only, wherever links among them lead.
fn stays_inside(word: &Word, command: &Simple, scene: &Scene<'_>) -> bool {
    let is_inside = |path: &PathBuf| scene.contains(path, ".");
    let mut directories = command.directories.iter().flatten();
    !word.may_be_option()
        && directories
            .all(|directory| expansions(directory, &word.text).is_some_and(|paths| paths.iter().all(is_inside)))
}

/// Returns whether a word, or the value in it, names nothing outside of the workspace.
pub(crate) fn is_below(word: &Word, command: &Simple, scene: &Scene<'_>) -> bool {
    let text = word.text.as_str();
    if text.split(['/', '=', ':', ',']).any(|part| part == "..") && word.kind != Kind::Literal {
        return false;
    }
    let mut parts = vec![text];
    if text.starts_with('-') {
        parts.extend(text.split_once('=').map(|(_, value)| value));
        parts.extend(text.get(2..).filter(|_| !text.starts_with("--")));
        parts.extend(text.find('/').map(|at| &text[at..]));
    } else {
        parts.extend(text.split_once(['=', ':', '@']).map(|(_, value)| value));
    }
    let directories = command.directories.as_deref().unwrap_or_default();
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .all(|part| part == "/dev/null" || directories.iter().all(|directory| scene.contains(directory, part)))
}

pub(crate) fn names_secret(text: &str) -> bool {
    // The config of a repository may have passwords in addresses.
    let mut parts = text.split(['/', '=']).skip_while(|part| !part.eq_ignore_ascii_case(".git")).skip(1);
    let is_repository = text.split(['/', '=']).any(|part| part.eq_ignore_ascii_case(".git"));
    let has_config = |part: &str| part.is_empty() || part == "." || part.to_ascii_lowercase().starts_with("config");
    if is_repository && !text.starts_with("--exclude") && parts.next().is_none_or(has_config) {
        return true;
    }
    text.split(['/', ':', '=']).any(is_secret_name)
        || text.get(2..).is_some_and(|rest| text.starts_with('-') && is_secret_name(rest))
}

/// Returns whether a word of a search selects files that usually hold secrets, as in `--include=.env*`.
pub(crate) fn selects_secret(arguments: &[Word]) -> bool {
    const SELECTING: &[&str] = &["-g", "--glob", "--iglob", "--include"];
    // Patterns that begin with a star are about an extension.
    let is_about = |pattern: &str| {
        let loose = pattern.replace(['?', '[', ']'], "*");
        !pattern.starts_with('*') && SECRETS.iter().any(|name| glob(&loose, name))
    };
    let apart = arguments.windows(2).filter(|words| SELECTING.contains(&words[0].text.as_str()));
    let glued = arguments.iter().filter_map(|word| word.text.split_once('=').map(|(_, value)| value));
    let short = arguments.iter().filter_map(|word| word.text.strip_prefix("-g"));
    apart.map(|words| words[1].text.as_str()).chain(glued).chain(short).any(is_about)
}

/// Returns whether a file of this name usually holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
        ".htpasswd",
        "credentials",
        "credentials.json",
        "terraform.tfstate",
        "secrets.yml",
        "secrets.yaml",
        "secrets.json",
        "secrets.toml",
        ".envrc",
        "auth.json",
        "kubeconfig",
        "master.key",
    ];
    const ENDS: &[&str] =
        &[".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".tfvars", ".ppk", ".asc", ".gpg"];
    const STARTS: &[&str] = &["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"];
    const SAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];
    let name = name.to_ascii_lowercase();
    let is_public = name.ends_with(".pub") || SAMPLES.contains(&name.as_str());
    let is_env = name == ".env" || name.starts_with(".env.") || name.ends_with(".env");
    !is_public
        && (is_env
            || NAMES.contains(&name.as_str())
            || STARTS.iter().any(|start| name.starts_with(start))
            || ENDS.iter().any(|end| name.ends_with(end)))
}

/// Returns whether `sed` only prints lines: `sed -n 1,20p FILE`.
fn is_page(arguments: &[Word]) -> bool {
    let [option, script, files @ ..] = arguments else { return false };
    let is_address = |c: char| c.is_ascii_digit() || ",$p; ".contains(c);
    option.literal() == Some("-n")
        && script.literal().is_some_and(|script| script.chars().all(is_address) && script.ends_with('p'))
        && files.iter().all(|file| !file.text.starts_with('-'))
}
