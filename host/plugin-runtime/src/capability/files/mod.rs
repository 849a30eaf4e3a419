//! The capability `files`: directories that a plugin may read or write, through WASI and `workspace`.
//!
//! A decision takes two steps. [`roots`](pinion_workspace::grants::roots) holds the granted directories, each opened once;
//! everything is found beneath their handles. [`policy`](pinion_workspace::grants::policy) decides what may be done at the
//! location that was found.

pub(crate) mod account;
pub(crate) mod import;
pub(crate) mod place;

use self::account::FilesAccount;
use super::definition::{Capability, GrantContext};
use pinion_protocol::Authority;
use pinion_workspace::grants::access::FileAccess;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The widest access that a manifest asks for.
pub(crate) type Ask = Option<FileAccess>;
/// Directories, absolute or relative to the workspace.
pub(crate) type Entry = BTreeMap<PathBuf, FileAccess>;
/// Directories by absolute path.
pub(crate) type Grant = BTreeMap<PathBuf, FileAccess>;

/// The capability.
pub(crate) struct Files;

impl Capability for Files {
    const NAME: &'static str = "files";
    const INTERFACES: &'static [&'static str] = &["workspace"];
    const FORMS: &'static [&'static str] = &["files=read", "files=write", "files=DIR:read", "files=DIR:write"];
    const MOST: Ask = Some(FileAccess::Write);

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = Grant;
    type Account = FilesAccount;

    fn parse(value: Option<&str>, workspace: &Path) -> Option<Entry> {
        let value = value?;
        let (directory, access) = match value.rsplit_once(':') {
            Some(("", _)) => return None,
            Some((directory, access)) => (workspace.join(directory), access),
            None => (PathBuf::from("."), value),
        };
        Some(BTreeMap::from([(directory, FileAccess::parse(access)?)]))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.values().max().copied()
    }

    fn resolve(entry: &Entry, context: &GrantContext<'_>) -> Grant {
        let absolute = |path: &Path| match path.as_os_str().is_empty() || path == Path::new(".") {
            true => context.workspace.to_owned(),
            false => context.workspace.join(path),
        };
        entry.iter().map(|(path, access)| (absolute(path), *access)).collect()
    }

    fn held(grant: &Grant) -> Option<&Grant> {
        (!grant.is_empty()).then_some(grant)
    }

    fn phrase(ask: Ask) -> &'static str {
        match ask {
            Some(FileAccess::Write) => "write files",
            _ => "read files",
        }
    }

    fn needed(ask: Ask, declared: Authority) -> Ask {
        match declared {
            Authority { writes: true, .. } => ask,
            Authority { reads: true, .. } => ask.map(|_| FileAccess::Read),
            _ => None,
        }
    }

    fn effects(grant: &Grant) -> Authority {
        let most = Self::ask_for(grant);
        Authority { reads: most.is_some(), writes: most == Some(FileAccess::Write), ..Authority::default() }
    }

    fn line(ask: Ask) -> String {
        place::grant_line(Path::new("."), ask.unwrap_or(FileAccess::Read))
    }

    fn ask_word(ask: Ask) -> Option<String> {
        ask.map(|access| format!("files={}", access.verb()))
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        let word = |(path, access): (&PathBuf, &FileAccess)| match path.as_os_str() == "." {
            true => format!("files={}", access.verb()),
            false => format!("files={}:{}", shell_word(path), access.verb()),
        };
        entry.iter().map(word).collect()
    }

    fn extent(grant: &Grant) -> Option<String> {
        let directories: Vec<String> =
            grant.iter().map(|(path, access)| format!("{} {}", access.verb(), path.display())).collect();
        (!directories.is_empty()).then(|| format!(": {}", directories.join(", ")))
    }

    fn merge(entry: &mut Entry, more: &Entry) {
        entry.extend(more.iter().map(|(path, access)| (path.clone(), *access)));
    }

    /// Removes the directories in `less`; `.` removes all.
    fn remove(entry: &mut Entry, less: &Entry) {
        let is_all = less.contains_key(Path::new("."));
        entry.retain(|path, _| !is_all && !less.contains_key(path));
    }

    fn widen(grant: &mut Grant, more: Grant) {
        for (path, access) in more {
            let granted = grant.entry(path).or_insert(access);
            *granted = access.max(*granted);
        }
    }

    fn cut(grant: &mut Grant, ask: Ask) {
        match ask {
            Some(most) => grant.values_mut().for_each(|access| *access = most.min(*access)),
            None => grant.clear(),
        }
    }
}

/// A path as a shell reads it; an unusual one in escaped form.
pub fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ':');
    match text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.escape_debug().to_string().replace("\\'", "'\\''").replace("\\\"", "\"")),
    }
}
