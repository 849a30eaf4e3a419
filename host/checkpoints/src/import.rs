//! Changes that were made in a copy of the directory.
//!
//! A copy has a store of its own. After the work in it, the store of the directory takes over the snapshots before and
//! after the work, so that the copy can be removed. [`Plan::applying`] then makes the same changes in the directory.

use crate::error::Error;
use crate::objects::Objects;
use crate::path::RelPath;
use crate::plan::{Plan, StepKind, UndoStep};
use crate::root::TreeRoot;
use crate::store::CheckpointStore;
use crate::tree::{Digest, GapReason, Tree, TreeEntry};
use pinion_files::open::open_file;
use std::collections::BTreeMap;

/// Snapshots of this directory as it would be before and after work in a copy.
#[derive(Debug, Clone)]
pub struct ImportedChanges {
    /// The snapshot before the work.
    pub before: Digest,
    /// The snapshot after the work.
    pub after: Digest,
    /// Files, links and directories that differ between the two.
    pub changed: usize,
    /// Changed paths that are not in the snapshots, because a content has no copy.
    pub missing: Vec<(RelPath, GapReason)>,
}

impl CheckpointStore {
    /// Takes over two snapshots of a copy of this directory, with the contents that differ. Leaves out changes of paths
    /// that this store leaves alone, or that rules of this directory ignore.
    ///
    /// # Errors
    /// A content was removed or is damaged, or this store cannot be written.
    pub fn import(&self, from: &Self, before: &Tree, after: &Tree) -> Result<ImportedChanges, Error> {
        let _lock = self.lock()?;
        let root = TreeRoot::open(&self.root)?;
        let root = root.own_stat().map_err(Error::system("open", &self.root))?.inode;
        let excluded = self.left_alone()?;
        let mut missing = Vec::new();
        let (mut changed, mut entries) = (0, copied_entries(before));
        let first = write(self, &entries, root)?;
        for change in before.changes(after) {
            let mut above = std::iter::successors(Some(change.path.clone()), RelPath::parent);
            if above.any(|path| excluded.paths.contains(&path)) || self.ignores(change.path) {
                continue;
            }
            let gap = [change.before, change.after].into_iter().flatten().find_map(gap_reason);
            if let Some(reason) = gap {
                missing.push((change.path.clone(), reason));
                continue;
            }
            for side in [change.before, change.after].into_iter().flatten() {
                if let TreeEntry::File { content, .. } = side {
                    self.objects.import(&from.objects, *content)?;
                }
            }
            match change.after {
                Some(entry) => entries.insert(change.path.clone(), entry.clone()),
                None => entries.remove(change.path),
            };
            changed += 1;
        }
        let is_closed = |path: &&RelPath| after.get(path).is_some_and(TreeEntry::is_excluded);
        let files = before.iter().filter(|(_, entry)| matches!(entry, TreeEntry::File { .. } | TreeEntry::Link { .. }));
        missing.extend(files.map(|(path, _)| path).filter(is_closed).map(|path| (path.clone(), GapReason::Excluded)));
        Ok(ImportedChanges { before: first, after: write(self, &entries, root)?, changed, missing })
    }
}

impl Plan {
    /// Plans to make the changes between two snapshots in a directory in the state `current`. Paths that do not have
    /// their state from `before`, nor the one from `after`, are conflicts.
    pub fn applying(before: &Tree, after: &Tree, current: &Tree) -> Self {
        let step = UndoStep { before: after.clone(), after: Some(before.clone()), kind: StepKind::Whole };
        let mut plan = Self::new([step], current, false);
        let unknown = before.changes(after).filter(|change| current.lookup(change.path).is_none());
        plan.conflicts.extend(unknown.map(|change| change.path.clone()));
        plan.conflicts.append(&mut plan.kept);
        plan.conflicts.extend(plan.created.drain(..).map(|(path, _)| path));
        plan.conflicts.sort();
        plan.conflicts.dedup();
        plan
    }
}

impl Objects {
    /// Takes over a content of another store, unless it is there already.
    fn import(&self, from: &Self, content: Digest) -> Result<(), Error> {
        if self.path(content).exists() && self.is_sound(content) {
            return Ok(());
        }
        let path = from.path(content);
        let mut file = open_file(&path).map_err(Error::io("read", &path))?;
        match self.copy_all(&mut file)? == Some(content) {
            true => Ok(()),
            false => Err(Error::Damaged(path)),
        }
    }
}

/// Returns the entries of a tree that are known.
fn copied_entries(tree: &Tree) -> BTreeMap<RelPath, TreeEntry> {
    let known = tree.iter().filter(|(_, entry)| gap_reason(entry).is_none() && **entry != TreeEntry::Absent);
    known.map(|(path, entry)| (path.clone(), entry.clone())).collect()
}

fn gap_reason(entry: &TreeEntry) -> Option<GapReason> {
    match entry {
        TreeEntry::Uncovered { reason, .. } => Some(*reason),
        TreeEntry::Excluded | TreeEntry::Ignored { .. } => Some(GapReason::Excluded),
        TreeEntry::File { .. } | TreeEntry::Link { .. } | TreeEntry::Directory { .. } | TreeEntry::Absent => None,
    }
}

fn write(store: &CheckpointStore, entries: &BTreeMap<RelPath, TreeEntry>, root: u64) -> Result<Digest, Error> {
    let tree = entries.iter().map(|(path, entry)| (path.clone(), entry.clone())).collect::<Tree>();
    store.write_tree(&tree.with_root(root))
}
