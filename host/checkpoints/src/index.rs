//! The last snapshot, and the facts that reveal a change of a file since then.

use crate::path::RelPath;
use crate::root::{Stat, TreeRoot};
use crate::sealed;
use crate::tree::{AllRefs, Digest, GapReason, TreeEntry};
use crate::walk::{Excluded, SnapshotLimits, WalkedPath, What};
use rustix::fs::{FileType, readlinkat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The last snapshot. One that is missing or damaged only costs time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SnapshotIndex {
    /// [`SnapshotIndex::VERSION`]; an index of another version counts as missing.
    pub(crate) version: u32,
    pub(crate) tree: Option<Digest>,
    /// The inode of the directory.
    pub(crate) root: u64,
    pub(crate) refs: Arc<AllRefs>,
    /// All entries, in the order of their paths.
    pub(crate) known: Vec<KnownPath>,
}

/// An entry of the last snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownPath {
    pub(crate) path: RelPath,
    /// The facts about a file whose content is stored; `None` if the file must be read again in any case.
    pub(crate) stat: Option<Stat>,
    /// `None` for a file that was gone when it was read.
    pub(crate) entry: Option<TreeEntry>,
}

impl KnownPath {
    pub(crate) fn entry(&self) -> Option<(RelPath, TreeEntry)> {
        Some((self.path.clone(), self.entry.clone()?))
    }

    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.entry, Some(TreeEntry::File { .. }))
    }

    /// Returns whether the path is as it was. False in cases that need a closer look.
    fn is_same(&self, what: &What, limits: &SnapshotLimits) -> bool {
        match (what, &self.entry) {
            (What::File(stat), Some(TreeEntry::File { .. })) => {
                self.stat == Some(*stat) && stat.size <= limits.file_bytes
            }
            (What::File(stat), Some(TreeEntry::Uncovered { reason: GapReason::LargeFile, size, changed })) => {
                stat.size > limits.file_bytes && (stat.size, stat.changed) == (*size, *changed)
            }
            (What::Link(now), Some(TreeEntry::Link { target })) => now == target,
            (What::Directory(stat), Some(TreeEntry::Directory { mode, owner })) => {
                (stat.bits(), stat.foreign_owner()) == (*mode, *owner)
            }
            (What::Ignored(stat), Some(TreeEntry::Ignored { size, changed })) => {
                stat.kind() == FileType::RegularFile && (stat.size, stat.changed) == (*size, *changed)
            }
            (What::Ignored(stat), Some(TreeEntry::Excluded)) => stat.kind() != FileType::RegularFile,
            (What::Protected, Some(TreeEntry::Excluded)) | (What::Absent, Some(TreeEntry::Absent)) => true,
            _ => false,
        }
    }
}

impl SnapshotIndex {
    /// The number of the format. It is neither 0 nor 1, because the first format began with these.
    pub(crate) const VERSION: u32 = 4;

    pub(crate) fn file(store: &Path) -> PathBuf {
        store.join("index")
    }

    pub(crate) fn read(store: &Path) -> Self {
        let index: Option<Self> = sealed::read(&Self::file(store)).ok().flatten();
        index.filter(|index| index.version == Self::VERSION).unwrap_or_default()
    }

    /// Returns whether a path was closed since the last snapshot, which could read its content. A path that was closed
    /// before is left alone, and so is everything before the first snapshot.
    pub(crate) fn may_open(&self, path: &RelPath) -> bool {
        let known = self.known.binary_search_by(|known| known.path.cmp(path)).ok().and_then(|at| self.known.get(at));
        let is_unreadable =
            |known: &KnownPath| matches!(known.entry, Some(TreeEntry::Uncovered { reason: GapReason::Unreadable, .. }));
        self.tree.is_some() && !known.is_some_and(is_unreadable)
    }

    /// Returns whether a walk found exactly the content of the last snapshot, so that there is nothing to read.
    pub(crate) fn is_same(&self, found: &[WalkedPath], limits: &SnapshotLimits) -> bool {
        let is_same =
            |(found, known): (&WalkedPath, &KnownPath)| found.path == known.path && known.is_same(&found.what, limits);
        found.len() == self.known.len() && found.iter().zip(&self.known).all(is_same)
    }

    /// Adds files that are ignored now and that the last snapshot covers, because a new ignore rule hides no change, or that
    /// are in `more`.
    pub(crate) fn add_covered(
        &self,
        root: &TreeRoot,
        excluded: &Excluded,
        more: &BTreeSet<RelPath>,
        found: &mut Vec<WalkedPath>,
    ) {
        let is_covered = |known: &&KnownPath| {
            matches!(known.entry, Some(TreeEntry::File { .. } | TreeEntry::Link { .. } | TreeEntry::Absent))
        };
        let known = self.known.iter().filter(is_covered).map(|known| (&known.path, false));
        let mut added = Vec::new();
        for (path, is_wanted) in known.chain(more.iter().map(|path| (path, true))) {
            let there = found.binary_search_by(|found| found.path.cmp(path)).ok();
            let is_hidden = match there {
                Some(at) => matches!(found[at].what, What::Ignored(_)),
                None => above(path, found).is_some_and(|what| matches!(what, What::Ignored(_))),
            };
            // A path that is absent now may be ignored when it is created.
            let is_wanted = is_wanted && there.is_none();
            if (is_hidden || is_wanted)
                && !is_protected(path, excluded)
                && !above(path, found).is_some_and(|what| matches!(what, What::Protected))
                && let Some(what) = inspect_path(root, path)
            {
                match there {
                    // A directory that is ignored contains more than this path.
                    Some(_) if matches!(what, What::Absent) => {}
                    Some(at) => found[at].what = what,
                    None => added.push(WalkedPath { path: path.clone(), what }),
                }
            }
        }
        if !added.is_empty() {
            found.extend(added);
            found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            found.dedup_by(|a, b| a.path == b.path);
        }
    }
}

/// Returns the nearest directory above a path that was found.
fn above<'a>(path: &RelPath, found: &'a [WalkedPath]) -> Option<&'a What> {
    let mut above = path.parent();
    while let Some(directory) = above {
        if let Ok(at) = found.binary_search_by(|found| found.path.cmp(&directory)) {
            return Some(&found[at].what);
        }
        above = directory.parent();
    }
    None
}

fn is_protected(path: &RelPath, excluded: &Excluded) -> bool {
    let mut part = Some(path.clone());
    while let Some(here) = part {
        if here.name() == ".git" || excluded.paths.contains(&here) {
            return true;
        }
        part = here.parent();
    }
    false
}

fn inspect_path(root: &TreeRoot, path: &RelPath) -> Option<What> {
    let Some(stat) = root.stat(path).ok()? else { return Some(What::Absent) };
    match stat.kind() {
        FileType::RegularFile => Some(What::File(stat)),
        FileType::Symlink => {
            let target = readlinkat(root.parent(path).ok()?, path.name(), Vec::new()).ok()?;
            Some(What::Link(target.into_bytes()))
        }
        _ => None,
    }
}
