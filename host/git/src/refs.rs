//! The refs of a repository: branches, tags, stashes and `HEAD`, as its files have them.

use crate::layout::common;
use crate::look_budget::read_at_most;
use crate::reftable;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Refs of a repository that are read; one with more counts as unreadable.
pub const MAX_REFS: usize = 20_000;
/// Files and directories below `refs` that are looked at.
const MAX_LOOSE: usize = 5_000;
/// Directories below `refs` in each other.
const MAX_DEPTH: usize = 20;
/// Bytes of a file with many refs.
const MAX_PACKED: u64 = 4 << 20;
/// Bytes of a file with one ref.
const MAX_LOOSE_BYTES: u64 = 4_096;
/// Bytes of the log of the stash.
const MAX_LOG: u64 = 1 << 20;
/// The beginning of the names of stashes. Git changes their numbers when one is dropped.
const STASH: &str = "stash/";

/// Names of refs, with their targets: the name of an object, or `ref: ` and the name of another ref. A stash has the
/// name of its object behind `stash/`.
pub type Refs = BTreeMap<String, String>;

/// Reads the refs of the repository `git`, with those that it shares with others; `None` if there are too many, or if
/// it is no repository. Follows no names of refs that git would refuse.
pub fn refs(git: &Path) -> Option<Refs> {
    let shared = common(git).unwrap_or_else(|| git.to_owned());
    let mut refs = match shared.join("reftable").is_dir() {
        true => {
            let mut refs = reftable::read(&shared.join("reftable"))?;
            // A linked worktree has a separate `HEAD`.
            if shared != git {
                refs.remove("HEAD");
                refs.extend(reftable::read(&git.join("reftable"))?.remove_entry("HEAD"));
            }
            refs
        }
        false => files(git, &shared)?,
    };
    refs.retain(|name, target| is_name(name) && is_target(target));
    if let Some(stashes) = stashes(&shared) {
        refs.remove("refs/stash");
        refs.extend(stashes);
    }
    (refs.len() <= MAX_REFS).then_some(refs)
}

/// Reads `packed-refs` and the files that overrule it.
fn files(git: &Path, shared: &Path) -> Option<Refs> {
    let mut refs = Refs::new();
    let packed = shared.join("packed-refs");
    if fs::symlink_metadata(&packed).is_ok() {
        let packed = read_at_most(&packed, MAX_PACKED)?;
        let lines = packed.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let lines = lines.filter_map(|line| line.trim_end().split_once(' '));
        refs.extend(lines.map(|(object, name)| (name.to_owned(), object.to_owned())));
    }
    let mut left = MAX_LOOSE;
    loose(&shared.join("refs"), "refs", MAX_DEPTH, &mut left, &mut refs)?;
    refs.insert("HEAD".to_owned(), one(&git.join("HEAD"))?);
    Some(refs)
}

fn loose(directory: &Path, name: &str, depth: usize, left: &mut usize, refs: &mut Refs) -> Option<()> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        *left = left.checked_sub(1)?;
        let Ok(kind) = entry.file_type() else { continue };
        let Ok(last) = entry.file_name().into_string() else { continue };
        let name = format!("{name}/{last}");
        if kind.is_dir() {
            loose(&entry.path(), &name, depth.checked_sub(1)?, left, refs)?;
        } else if let Some(target) = one(&entry.path()) {
            refs.insert(name, target);
        }
    }
    Some(())
}

/// Reads a file with one ref.
fn one(file: &Path) -> Option<String> {
    let text = String::from_utf8(read_at_most(file, MAX_LOOSE_BYTES)?).ok()?;
    Some(text.trim_end().to_owned())
}

/// Reads the stashes of a repository that keeps a log of them in a file.
fn stashes(shared: &Path) -> Option<Refs> {
    let log = read_at_most(&shared.join("logs/refs/stash"), MAX_LOG)?;
    let lines = log.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let objects = lines.filter_map(|line| line.split(' ').nth(1)).filter(|object| is_object(object));
    Some(objects.map(|object| (format!("{STASH}{object}"), object.to_owned())).collect())
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_target(text: &str) -> bool {
    is_object(text) || text.strip_prefix("ref: ").is_some_and(is_name)
}

/// Returns whether git accepts the name of a ref.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_strange = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    (name == "HEAD" || name.starts_with("refs/"))
        && name.split('/').all(is_part)
        && !name.ends_with('.')
        && !name.contains(is_strange)
        && ["..", "@{"].iter().all(|text| !name.contains(text))
}

/// Returns the arguments of git that give a ref with the value `now` the value `was` again, or remove it if `was` is
/// `None`. Returns `None` if nothing needs to be done, as for a new stash.
pub fn command_to_restore(name: &str, was: Option<&str>, now: Option<&str>) -> Option<Vec<String>> {
    let words: Vec<&str> = match was {
        Some(object) if name.starts_with(STASH) => vec!["stash", "store", object],
        None if name.starts_with(STASH) || name == "HEAD" => return None,
        None => vec!["update-ref", "-d", name],
        Some(was) => match was.strip_prefix("ref: ") {
            Some(target) => vec!["symbolic-ref", name, target],
            None if now.is_some_and(|now| now.starts_with("ref: ")) => vec!["update-ref", "--no-deref", name, was],
            None => vec!["update-ref", name, was],
        },
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
#[cfg(unix)]
#[path = "refs_tests.rs"]
mod tests;
