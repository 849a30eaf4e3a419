//! Carries out plans.
//!
//! A plan is on the disk before the first change and until after the last one, so that a killed process leaves either
//! nothing or a plan that [`CheckpointStore::recover`] completes. Each path is compared with the plan just before it is changed:
//! changes made in the meantime are kept. Files are written next to their places and renamed, so that no reader sees a
//! part of one.

use crate::error::Error;
use crate::index::SnapshotIndex;
use crate::path::RelPath;
use crate::path_restoration::RestoreWork;
use crate::plan::Plan;
use crate::root::TreeRoot;
use crate::sealed;
use crate::store::{CheckpointStore, Lock};
use crate::tree::{GapReason, TreeEntry};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The outcome of a restoration.
#[derive(Debug, Clone, Default)]
pub struct RestoreReport {
    /// Paths that are as planned.
    pub restored: Vec<RelPath>,
    /// Paths that were changed in the meantime, and that stay as they are.
    pub kept: Vec<RelPath>,
    /// Paths that could not be changed, with the causes.
    pub failed: Vec<(RelPath, String)>,
    /// Restored paths whose owner could not be restored, so that they do not have its rights either.
    pub unowned: Vec<RelPath>,
    /// Paths without copies that were in the way, and the names that they have now.
    pub aside: Vec<(RelPath, RelPath)>,
}

/// A plan on the disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Restoration {
    /// [`Restoration::VERSION`].
    version: u32,
    /// Part of the names of files that are being written.
    pub(crate) id: u64,
    /// The inode of the directory. Its device may have another number after a restart.
    root: u64,
    pub(crate) changes: Vec<Planned>,
    note: String,
}

impl Restoration {
    const VERSION: u32 = 2;
}

/// A restoration that is written down and not begun. The store stays locked for others until it ends.
#[derive(Debug)]
#[must_use]
pub struct PreparedRestoration<'a> {
    store: &'a CheckpointStore,
    restoration: Restoration,
    lock: Lock,
}

impl PreparedRestoration<'_> {
    /// Carries out the plan.
    ///
    /// # Errors
    /// The directory cannot be opened. Single paths that cannot be changed are in the report.
    pub fn run(self) -> Result<RestoreReport, Error> {
        self.store.carry_out(&self.restoration, &self.lock)
    }

    /// Changes nothing.
    ///
    /// # Errors
    /// The plan cannot be removed.
    pub fn discard(self) -> Result<(), Error> {
        let path = self.store.restoration_file();
        fs::remove_file(&path).map_err(Error::io("remove", &path))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) path: RelPath,
    pub(crate) from: Option<TreeEntry>,
    pub(crate) to: Option<TreeEntry>,
}

impl CheckpointStore {
    pub(crate) fn restoration_file(&self) -> PathBuf {
        self.directory.join("restoration")
    }

    /// Moves the changes of files whose copies are missing or damaged from a plan to its losses. Reads the copies.
    /// Damaged ones are removed, and the next snapshot copies everything that has no copy.
    pub fn check(&self, plan: &mut Plan) {
        let lost = plan.changes.iter().filter_map(|(path, (_, to))| match to {
            Some(TreeEntry::File { content, .. }) if !self.objects.is_sound(*content) => Some(path.clone()),
            _ => None,
        });
        let lost: Vec<RelPath> = lost.collect();
        if !lost.is_empty() {
            let _ = fs::remove_file(SnapshotIndex::file(&self.directory));
        }
        for path in lost {
            plan.changes.remove(&path);
            plan.lost.push((path, GapReason::Missing));
        }
    }

    /// Carries out a plan. `note` is returned by [`CheckpointStore::recover`] if this process is killed meanwhile.
    ///
    /// # Errors
    /// The plan cannot be written, so that nothing was changed. Single paths that cannot be changed are in the report.
    pub fn restore(&self, plan: &Plan, note: &str) -> Result<RestoreReport, Error> {
        self.prepare(plan, note)?.run()
    }

    /// Writes a plan down, so that it is known before anything changes because of it.
    ///
    /// # Errors
    /// The plan cannot be written, another process takes longer than ten seconds, or a restoration was interrupted.
    pub fn prepare(&self, plan: &Plan, note: &str) -> Result<PreparedRestoration<'_>, Error> {
        let lock = self.lock_to_change()?;
        let changes = plan.changes.iter().map(|(path, (from, to))| Planned {
            path: path.clone(),
            from: from.clone(),
            to: to.clone(),
        });
        let mut changes: Vec<Planned> = changes.collect();
        self.add_closed_directories(&mut changes)?;
        let (version, root) = (Restoration::VERSION, self.root_inode(&TreeRoot::open(&self.root)?)?);
        let restoration = Restoration { version, id: fastrand::u64(..), root, changes, note: note.to_owned() };
        let path = self.restoration_file();
        sealed::write(&path, &self.temporary(), &restoration, true).map_err(Error::io("write", &path))?;
        Ok(PreparedRestoration { store: self, restoration, lock })
    }

    fn root_inode(&self, root: &TreeRoot) -> Result<u64, Error> {
        Ok(root.own_stat().map_err(Error::system("open", &self.root))?.inode)
    }

    /// Adds the directories that have to be made writable for a while, so that they get their modes back even if this
    /// process is killed.
    fn add_closed_directories(&self, changes: &mut Vec<Planned>) -> Result<(), Error> {
        let root = TreeRoot::open(&self.root)?;
        let planned: BTreeSet<RelPath> = changes.iter().map(|change| change.path.clone()).collect();
        let above = |change: &Planned| std::iter::successors(change.path.parent(), RelPath::parent);
        let directories: BTreeSet<RelPath> = changes.iter().flat_map(above).collect();
        for path in directories.difference(&planned).cloned() {
            let Ok(Some(stat)) = root.stat(&path) else { continue };
            if stat.kind() == FileType::Directory && stat.bits() & 0o700 != 0o700 {
                let entry = Some(TreeEntry::Directory { mode: stat.bits(), owner: stat.foreign_owner() });
                changes.push(Planned { path, from: entry.clone(), to: entry });
            }
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Completes a restoration that a kill interrupted, if `is_begun` says so of its note, or else discards it. Returns
    /// its report and its note; `None` if no restoration was interrupted. A restoration of a directory that was
    /// replaced since fails for all paths.
    ///
    /// # Errors
    /// The directory cannot be opened. A plan that is damaged is removed: nothing was changed because of it.
    pub fn recover(&self, is_begun: impl FnOnce(&str) -> bool) -> Result<Option<(RestoreReport, String)>, Error> {
        let path = self.restoration_file();
        if !path.exists() {
            return Ok(None);
        }
        let lock = self.lock()?;
        let restoration = sealed::read::<Restoration>(&path).ok().flatten();
        let restoration = restoration.filter(|found| found.version == Restoration::VERSION && is_begun(&found.note));
        let Some(restoration) = restoration else {
            let _ = fs::remove_file(&path);
            return Ok(None);
        };
        let report = self.carry_out(&restoration, &lock)?;
        Ok(Some((report, restoration.note)))
    }

    fn carry_out(&self, restoration: &Restoration, _: &Lock) -> Result<RestoreReport, Error> {
        let root = TreeRoot::open(&self.root)?;
        let report = match self.root_inode(&root)? == restoration.root {
            true => RestoreWork { store: self, root: &root, restoration }.run(),
            false => {
                let planned = restoration.changes.iter().filter(|change| change.from != change.to);
                let failed = |change: &Planned| (change.path.clone(), "the directory was replaced".to_owned());
                RestoreReport { failed: planned.map(failed).collect(), ..RestoreReport::default() }
            }
        };
        let path = self.restoration_file();
        fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(report)
    }
}
