//! The state of a directory at one time.

use crate::path::RelPath;
use pinion_git::Refs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// The beginning of a tree's file, which names the format.
const HEADER: &[u8] = b"pinion tree 4\n";

/// A BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub(crate) [u8; 32]);

impl Digest {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blake3::Hash::from_bytes(self.0).to_hex().fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The user and the group that own a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

/// One path of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeEntry {
    /// A regular file.
    File {
        /// The permission bits, at most 0o7777.
        mode: u32,
        /// Bytes.
        size: u64,
        /// The digest of the content.
        content: Digest,
        /// The owner, if it is not the user who took the snapshot, or if the mode gives programs the owner's rights.
        owner: Option<Owner>,
    },
    /// A symbolic link.
    Link {
        /// Its text.
        target: Vec<u8>,
    },
    /// A directory.
    Directory {
        /// The permission bits, at most 0o7777.
        mode: u32,
        /// The owner, as for a file.
        owner: Option<Owner>,
    },
    /// A path that is left alone with everything in it: an ignored directory, a protected path, or a repository.
    Excluded,
    /// A file that has no copy. Its size and times show whether it changed.
    Uncovered {
        /// The reason.
        reason: GapReason,
        /// Bytes.
        size: u64,
        /// Time of the last change of its content or attributes, in nanoseconds since 1970.
        changed: i64,
    },
    /// Nothing, at a path that is covered inside a gap.
    Absent,
    /// A file that is left alone because a rule ignores it. Its size and times show whether it changed.
    Ignored {
        /// Bytes.
        size: u64,
        /// Time of the last change of its content or attributes, in nanoseconds since 1970.
        changed: i64,
    },
}

impl TreeEntry {
    /// Returns whether the path is left alone.
    pub(crate) fn is_excluded(&self) -> bool {
        matches!(self, Self::Excluded | Self::Ignored { .. })
    }
}

/// The reason why a file has no copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GapReason {
    /// It is larger than the limit for one file.
    LargeFile,
    /// The tree is larger than the limit.
    LargeTree,
    /// The time for the snapshot was over.
    Time,
    /// A socket, a pipe or a device.
    Special,
    /// The system refuses to read it, or it kept changing.
    Unreadable,
    /// Its copy was removed or damaged.
    Missing,
    /// It is ignored, protected, or a repository.
    Excluded,
    /// Directories are nested too deeply there.
    Depth,
}

impl fmt::Display for GapReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LargeFile => "larger than the limit for a file",
            Self::LargeTree => "beyond the limit for a directory",
            Self::Time => "not copied in time",
            Self::Special => "a socket, pipe or device",
            Self::Unreadable => "not readable",
            Self::Missing => "its copy is missing",
            Self::Excluded => "ignored or protected, so it has no copy",
            Self::Depth => "in too many directories",
        })
    }
}

/// For each directory where git finds a repository, its refs. `None` is the root of the tree.
pub(crate) type AllRefs = BTreeMap<Option<RelPath>, Refs>;

/// The state of a directory at one time: everything below it, and its gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    entries: Arc<BTreeMap<RelPath, TreeEntry>>,
    /// The inode of the directory; 0 if it is not known. Its device may have another number after a restart.
    root: u64,
    refs: Arc<AllRefs>,
}

impl FromIterator<(RelPath, TreeEntry)> for Tree {
    fn from_iter<T: IntoIterator<Item = (RelPath, TreeEntry)>>(entries: T) -> Self {
        Self { entries: Arc::new(entries.into_iter().collect()), root: 0, refs: Arc::default() }
    }
}

impl Tree {
    /// Encodes the tree as the content of its file.
    ///
    /// # Errors
    /// The tree cannot be encoded.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        Ok([HEADER, &postcard::to_stdvec(self).map_err(io::Error::other)?].concat())
    }

    /// Reads a tree from the content of its file; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes.strip_prefix(HEADER)?).ok()
    }

    pub(crate) fn with_root(self, root: u64) -> Self {
        Self { root, ..self }
    }

    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    pub(crate) fn with_refs(self, refs: Arc<AllRefs>) -> Self {
        Self { refs, ..self }
    }

    /// Returns the refs of the repositories in the directory.
    pub(crate) fn refs(&self) -> &Arc<AllRefs> {
        &self.refs
    }

    /// Returns whether another tree describes the same directory; trees that do not identify theirs count as the same.
    /// A directory that replaced it, or that a link in its place leads to, is another one.
    pub fn is_of_same_directory(&self, other: &Self) -> bool {
        self.root == 0 || other.root == 0 || self.root == other.root
    }

    /// Returns the known state of a path: its entry or its absence; `None` if the tree does not cover it.
    pub fn lookup(&self, path: &RelPath) -> Option<Option<&TreeEntry>> {
        match self.entries.get(path) {
            Some(entry) if entry.is_excluded() => None,
            Some(TreeEntry::Absent) => Some(None),
            Some(entry) => Some(Some(entry)),
            None => (!self.is_in_gap(path)).then_some(None),
        }
    }

    /// Returns whether a directory above the path is not covered.
    fn is_in_gap(&self, path: &RelPath) -> bool {
        let mut above = path.parent();
        while let Some(directory) = above {
            if let Some(entry) = self.entries.get(&directory) {
                return entry.is_excluded() || matches!(entry, TreeEntry::Uncovered { .. });
            }
            above = directory.parent();
        }
        false
    }

    pub(crate) fn get(&self, path: &RelPath) -> Option<&TreeEntry> {
        self.entries.get(path)
    }

    /// Iterates over all entries, directories before their content.
    pub fn iter(&self) -> Iter<'_, RelPath, TreeEntry> {
        self.entries.iter()
    }

    /// Iterates over everything in a directory.
    pub(crate) fn below<'a>(&'a self, directory: &'a RelPath) -> impl Iterator<Item = (&'a RelPath, &'a TreeEntry)> {
        let from = (Bound::Included(directory.below()), Bound::Unbounded);
        self.entries.range(from).take_while(move |(path, _)| path.is_below(directory))
    }

    /// Returns the files without copies.
    pub fn uncovered(&self) -> impl Iterator<Item = (&RelPath, GapReason)> {
        self.entries.iter().filter_map(|(path, entry)| match entry {
            TreeEntry::Uncovered { reason, .. } => Some((path, *reason)),
            _ => None,
        })
    }

    /// Returns the paths that are left alone here, and that are gone or changed in a later tree.
    pub fn lost<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = &'a RelPath> {
        let is_lost = |path: &RelPath, entry: &TreeEntry| match (entry, later.entries.get(path)) {
            (TreeEntry::Ignored { .. }, Some(now @ TreeEntry::Ignored { .. })) => entry != now,
            _ => entry.is_excluded() && later.lookup(path) == Some(None),
        };
        self.entries.iter().filter(move |(path, entry)| is_lost(path, entry)).map(|(path, _)| path)
    }

    /// Returns whether rules ignore every file in the directory, and there is one.
    pub fn covers_nothing(&self) -> bool {
        let is_covered = |entry: &TreeEntry| matches!(entry, TreeEntry::File { .. } | TreeEntry::Link { .. });
        let is_ignored = |entry: &TreeEntry| matches!(entry, TreeEntry::Ignored { .. });
        self.entries.values().any(is_ignored) && !self.entries.values().any(is_covered)
    }

    /// Returns the paths that differ between this tree and a later one, among those that both cover.
    pub fn changes<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = TreeChange<'a>> {
        let gone_or_changed = self.entries.iter().filter_map(move |(path, before)| {
            let before = match before {
                entry if entry.is_excluded() => return None,
                TreeEntry::Absent => None,
                before => Some(before),
            };
            let after = later.lookup(path)?;
            (before != after).then_some(TreeChange { path, before, after })
        });
        let new = later.entries.iter().filter(|(path, _)| !self.entries.contains_key(*path));
        let new = new.filter_map(move |(path, after)| {
            let is_there = !after.is_excluded() && *after != TreeEntry::Absent;
            let is_known = is_there && self.lookup(path)?.is_none();
            is_known.then_some(TreeChange { path, before: None, after: Some(after) })
        });
        gone_or_changed.chain(new)
    }
}

/// A difference between two trees.
#[derive(Debug, Clone, Copy)]
pub struct TreeChange<'a> {
    /// The path.
    pub path: &'a RelPath,
    /// Its entry in the earlier tree.
    pub before: Option<&'a TreeEntry>,
    /// Its entry in the later tree.
    pub after: Option<&'a TreeEntry>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::SnapshotIndex;
    use crate::restore::Restoration;
    use std::path::Path;

    fn path(text: &str) -> RelPath {
        RelPath::try_from(Path::new(text)).unwrap()
    }

    fn file(content: &str) -> TreeEntry {
        TreeEntry::File {
            mode: 0o644,
            size: content.len() as u64,
            content: Digest::from_bytes(content.as_bytes()),
            owner: None,
        }
    }

    fn tree(entries: &[(&str, TreeEntry)]) -> Tree {
        entries.iter().map(|(name, entry)| (path(name), entry.clone())).collect()
    }

    #[test]
    fn paths_that_one_tree_does_not_cover_are_no_changes() {
        let directory = TreeEntry::Directory { mode: 0o755, owner: None };
        let before = tree(&[("a", file("1")), ("target", TreeEntry::Excluded), ("b", directory.clone())]);
        let after =
            tree(&[("a", file("2")), ("target", directory), ("target/x", file("3")), ("b", TreeEntry::Excluded)]);
        let changed: Vec<_> = before.changes(&after).map(|change| change.path.to_string()).collect();
        assert_eq!(changed, ["a"]);
        assert_eq!(after.below(&path("target")).count(), 1);
    }

    #[test]
    fn ignored_files_that_changed_or_vanished_are_lost() {
        let ignored = |changed| TreeEntry::Ignored { size: 1, changed };
        let before =
            tree(&[("build", TreeEntry::Excluded), ("kept", ignored(1)), (".env", ignored(1)), ("log", ignored(1))]);
        let after = tree(&[("kept", ignored(1)), ("log", ignored(2))]);
        assert_eq!(before.lost(&after).map(ToString::to_string).collect::<Vec<_>>(), [".env", "build", "log"]);
        assert!(before.covers_nothing() && before.changes(&after).next().is_none());
    }

    fn sample() -> Tree {
        let content = Digest::from_bytes(b"1");
        let entries = [
            ("d", TreeEntry::Directory { mode: 0o755, owner: None }),
            ("d/f", TreeEntry::File { mode: 0o644, size: 1, content, owner: None }),
            ("l", TreeEntry::Link { target: b"d".to_vec() }),
            ("u", TreeEntry::Uncovered { reason: GapReason::LargeFile, size: 1 << 40, changed: -1 }),
            ("x", TreeEntry::Excluded),
        ];
        let refs = [("HEAD".to_owned(), "ref: refs/heads/main".to_owned())].into();
        let refs = [(None, refs), (Some(path("sub")), pinion_git::Refs::new())].into();
        let entries = entries.into_iter().map(|(text, entry)| (path(text), entry));
        entries.collect::<Tree>().with_root(7).with_refs(std::sync::Arc::new(refs))
    }

    #[test]
    fn damaged_and_random_bytes_are_read_as_sound_values_or_not_at_all() {
        let tree = sample();
        let bytes = tree.encode().unwrap();
        assert_eq!(Tree::decode(&bytes), Some(tree));
        let mut random = fastrand::Rng::with_seed(14);
        for round in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(HEADER.len()..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(HEADER.len() + 1)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            if round % 10 == 0 {
                let length = random.usize(..200);
                bytes = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            }
            // Every path that is read stays below the root.
            for (path, _) in Tree::decode(&bytes).iter().flat_map(Tree::iter) {
                let mut parts = path.as_path().components();
                assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))), "{path:?}");
            }
            let body = bytes.strip_prefix(HEADER).unwrap_or(&bytes);
            let _ = postcard::from_bytes::<SnapshotIndex>(body);
            let _ = postcard::from_bytes::<Restoration>(body);
        }
    }
}
