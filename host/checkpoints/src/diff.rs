//! Differences between two snapshots, for people.

use crate::path::RelPath;
use crate::refs::{RefChange, RefChanges};
use crate::store::CheckpointStore;
use crate::tree::{Tree, TreeChange, TreeEntry};
use similar::TextDiff;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Bytes of a file that is compared line by line.
const MAX_FILE: u64 = 1 << 20;
/// Time for the comparison of one file. After that, larger parts of it count as changed.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Bytes of the link's text that are shown.
const MAX_TARGET: usize = 1_000;

/// The differences between two snapshots.
#[derive(Debug, Clone, Default)]
pub struct Diff {
    /// Unified diffs of text files, and a line for every other change. Contains the bytes of files and names as they are,
    /// except for those that are no text.
    pub text: String,
    /// Changed paths.
    pub changes: usize,
    /// Changed paths that are not in `text`, because it would be too long.
    pub omitted: usize,
}

/// The changes that several pieces of work made, without those that others made between them.
#[derive(Debug, Clone, Default)]
pub struct WorkChanges {
    /// For each path, its entries before the first and after the last change.
    paths: BTreeMap<RelPath, (Option<TreeEntry>, Option<TreeEntry>)>,
    refs: RefChanges,
}

impl WorkChanges {
    /// Adds the changes from one tree to a later one.
    pub fn add(&mut self, before: &Tree, after: &Tree) {
        for change in before.changes(after) {
            let (_, last) = self.paths.entry(change.path.clone()).or_insert_with(|| (change.before.cloned(), None));
            *last = change.after.cloned();
        }
        self.refs.add_later(before, after);
    }

    /// Iterates over the refs that are not as they were.
    pub fn refs(&self) -> impl Iterator<Item = RefChange> {
        self.refs.iter()
    }

    /// Iterates over the paths that are not as they were.
    pub fn iter(&self) -> impl Iterator<Item = TreeChange<'_>> {
        let changes = self.paths.iter();
        let changes =
            changes.map(|(path, (before, after))| TreeChange { path, before: before.as_ref(), after: after.as_ref() });
        changes.filter(|change| change.before != change.after)
    }
}

/// Returns the hunks of a unified diff between two texts; empty if they are equal.
pub fn unified(old: &str, new: &str) -> String {
    TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new).unified_diff().to_string()
}

impl CheckpointStore {
    /// Describes changes in at most about `limit` bytes.
    pub fn diff(&self, changes: &WorkChanges, limit: usize) -> Diff {
        let mut diff = Diff::default();
        for change in changes.iter() {
            diff.changes += 1;
            if diff.text.len() >= limit {
                diff.omitted += 1;
                continue;
            }
            let described = self.describe(change);
            if diff.text.len() + described.len() > limit {
                diff.omitted += 1;
                continue;
            }
            diff.text.push_str(&described);
        }
        diff
    }

    fn describe(&self, TreeChange { path, before, after }: TreeChange<'_>) -> String {
        let mut text = String::new();
        if let (Some(from), Some(to)) = (before.and_then(mode), after.and_then(mode))
            && from != to
        {
            let _ = writeln!(text, "mode of {path}: {from:o} → {to:o}");
        }
        match (before, after) {
            (Some(TreeEntry::Directory { .. }), Some(TreeEntry::Directory { .. })) | (None, None) => {}
            (None, Some(TreeEntry::Directory { .. })) => drop(writeln!(text, "new directory {path}")),
            (Some(TreeEntry::Directory { .. }), None) => drop(writeln!(text, "removed directory {path}")),
            (before, after) => self.content(path, before, after, &mut text),
        }
        text
    }

    fn content(&self, path: &RelPath, before: Option<&TreeEntry>, after: Option<&TreeEntry>, text: &mut String) {
        if digest_of(before) == digest_of(after) && digest_of(before).is_some() {
            return;
        }
        let name = |entry: Option<&TreeEntry>, side: &str| match entry {
            Some(_) => format!("{side}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (name(before, "a"), name(after, "b"));
        let _ = match (self.lines(before), self.lines(after)) {
            (Some(old), Some(new)) => {
                writeln!(text, "--- {from}\n+++ {to}").and_then(|()| write!(text, "{}", unified(&old, &new)))
            }
            _ => writeln!(text, "--- {from}\n+++ {to}\n{} → {}", kind(before), kind(after)),
        };
    }

    /// Returns the text of a file, empty if there is no file; `None` if the content is not text.
    fn lines(&self, entry: Option<&TreeEntry>) -> Option<String> {
        match entry {
            None => Some(String::new()),
            Some(TreeEntry::File { content, .. }) => {
                let bytes = self.objects.read(*content, MAX_FILE)?;
                String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
            }
            Some(_) => None,
        }
    }
}

fn mode(entry: &TreeEntry) -> Option<u32> {
    match entry {
        TreeEntry::File { mode, .. } | TreeEntry::Directory { mode, .. } => Some(*mode),
        _ => None,
    }
}

fn digest_of(entry: Option<&TreeEntry>) -> Option<crate::Digest> {
    match entry {
        Some(TreeEntry::File { content, .. }) => Some(*content),
        _ => None,
    }
}

fn kind(entry: Option<&TreeEntry>) -> String {
    match entry {
        None | Some(TreeEntry::Absent) => "nothing".to_owned(),
        Some(TreeEntry::File { size, .. }) => format!("file of {size} bytes"),
        Some(TreeEntry::Link { target }) => {
            let shown = target.get(..MAX_TARGET).unwrap_or(target);
            format!("link to {}", String::from_utf8_lossy(shown))
        }
        Some(TreeEntry::Directory { .. }) => "directory".to_owned(),
        Some(TreeEntry::Uncovered { reason, size, .. }) => format!("{size} bytes, {reason}"),
        Some(TreeEntry::Excluded | TreeEntry::Ignored { .. }) => "ignored".to_owned(),
    }
}
