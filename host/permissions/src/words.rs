//! Words of commands: options in their spellings, and files that may be read.

use crate::command_scene::{Scene, expansions, glob};
use crate::shell::{Simple, Word, WordKind};
use std::path::PathBuf;

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

/// The meaning of a program's arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// Texts. The options have no effect on files either.
    Texts,
    /// Files; only their names and attributes are shown.
    Names,
    /// Files that are opened; only numbers or a kind are shown.
    Measures,
    /// Files, whose content is shown.
    Content,
    /// Files and directories, whose content is shown without following links in the directories.
    Trees,
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
        (WordKind::Dynamic, _) | (WordKind::Pattern, Arguments::Content | Arguments::Trees) => return false,
        (_, Arguments::Texts) => return word.kind == WordKind::Literal,
        (WordKind::Pattern, Arguments::Names | Arguments::Measures) if !stays_inside(word, command, scene) => {
            return false;
        }
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
    if text.split(['/', '=', ':', ',']).any(|part| part == "..") && word.kind != WordKind::Literal {
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

/// Returns whether a word is the address of a file.
pub(crate) fn is_local(text: &str) -> bool {
    text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}
