//! Removes old snapshots.

use crate::error::Error;
use crate::index::SnapshotIndex;
use crate::store::{CheckpointStore, touch};
use crate::tree::{Digest, TreeEntry};
use pinion_files::open::open_regular;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Time between two removals.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Time after its last use during which a store is not removed.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// Bounds on the snapshots that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of all snapshots and of their contents.
    pub bytes: u64,
    /// Age of a snapshot since it was last taken.
    pub age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { bytes: 2 << 30, age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl CheckpointStore {
    /// Removes old snapshots except these and the last one, unless that was done in the last hour.
    ///
    /// # Errors
    /// As [`CheckpointStore::collect`].
    pub fn collect_when_due(&self, retention: Retention, keep: &[Digest]) -> Result<(), Error> {
        let stamp = self.directory.join("collected");
        let is_recent = age(&stamp).is_some_and(|age| age < INTERVAL);
        if is_recent || !self.directory.exists() {
            return Ok(());
        }
        self.collect(retention, keep)?;
        if touch(&stamp).is_err() {
            let opened = open_regular(&stamp, fs::OpenOptions::new().write(true).create(true).truncate(true));
            opened.map_err(Error::io("write", &stamp))?;
        }
        Ok(())
    }

    /// Removes snapshots that are too old, then the oldest ones until the others fit, and contents that no snapshot
    /// needs. The last snapshot stays, and so do those to `keep`.
    ///
    /// # Errors
    /// The store is in use or cannot be read.
    pub fn collect(&self, retention: Retention, keep: &[Digest]) -> Result<(), Error> {
        let lock = self.lock()?;
        if self.restoration_file().exists() {
            return Ok(());
        }
        let last = SnapshotIndex::read(&self.directory).tree;
        let mut needed: HashSet<Digest> = HashSet::new();
        let (mut bytes, mut is_full) = (0_u64, false);
        let is_kept = |id: Digest| Some(id) == last || keep.contains(&id);
        for (path, id, age) in self.trees(is_kept)? {
            let stays = is_kept(id);
            let tree = self.tree(id).ok().filter(|_| stays || (!is_full && age <= retention.age));
            let Some(tree) = tree else {
                let _ = fs::remove_file(&path);
                continue;
            };
            let mut more: Vec<Digest> = Vec::new();
            let mut added = fs::metadata(&path).map_or(0, |found| found.len());
            for (_, entry) in tree.iter() {
                if let TreeEntry::File { size, content, .. } = entry
                    && !needed.contains(content)
                {
                    more.push(*content);
                    added = added.saturating_add(*size);
                }
            }
            if !stays && bytes.saturating_add(added) > retention.bytes {
                is_full = true;
                let _ = fs::remove_file(&path);
                continue;
            }
            bytes = bytes.saturating_add(added);
            needed.extend(more);
        }
        self.remove_objects(&needed);
        drop(lock);
        Ok(())
    }

    /// Returns all snapshots with their ages: first those that are kept, then the youngest first.
    fn trees(&self, is_kept: impl Fn(Digest) -> bool) -> Result<Vec<(PathBuf, Digest, Duration)>, Error> {
        let directory = self.directory.join("trees");
        let listed = fs::read_dir(&directory).map_err(Error::io("list", &directory))?;
        let tree = |entry: fs::DirEntry| {
            let id = Digest::parse(entry.file_name().to_str()?)?;
            Some((entry.path(), id, age(&entry.path())?))
        };
        let mut trees: Vec<_> = listed.flatten().filter_map(tree).collect();
        trees.sort_by_key(|(_, id, age)| (!is_kept(*id), *age));
        Ok(trees)
    }

    fn remove_objects(&self, needed: &HashSet<Digest>) {
        let needed: BTreeSet<PathBuf> = needed.iter().map(|content| self.objects.path(*content)).collect();
        for part in fs::read_dir(self.objects.directory()).into_iter().flatten().flatten() {
            for object in fs::read_dir(part.path()).into_iter().flatten().flatten() {
                if !needed.contains(&object.path()) {
                    let _ = fs::remove_file(object.path());
                }
            }
        }
    }
}

/// Removes the stores in a directory whose last snapshot is older than `limit`, such as stores of directories that do
/// not exist any more. A store in use stays, and so does one that was used in the last day.
pub fn remove_unused(stores: &Path, limit: Duration) {
    let is_unused = |store: &Path| {
        let used = ["index", "lock"].iter().filter_map(|name| age(&store.join(name))).min();
        used.is_some_and(|age| age > limit.max(RECENT))
    };
    for store in fs::read_dir(stores).into_iter().flatten().flatten() {
        let store = store.path();
        let Some(lock) = Some(&store).filter(|store| is_unused(store)).and_then(|store| try_lock(store)) else {
            continue;
        };
        // It may have been used just before it was locked.
        if is_unused(&store) {
            let _ = fs::remove_dir_all(&store);
        }
        drop(lock);
    }
}

/// Locks a store, unless it is in use.
fn try_lock(store: &Path) -> Option<fs::File> {
    let lock = open_regular(&store.join("lock"), fs::OpenOptions::new().append(true)).ok()?;
    lock.try_lock().ok().map(|()| lock)
}

/// Returns the time since a file was changed.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default())
}
