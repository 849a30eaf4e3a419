//! The checkpoints of one directory.
//!
//! ```text
//! lock              held while a process works here
//! index             the last snapshot, with the facts that reveal a change of a file
//! trees/DIGEST      snapshots
//! objects/XX/...    contents of files
//! restoration       the plan of a restoration, while it runs
//! collected         its time is the time of the last removal of old snapshots
//! tmp/              files that are being written
//! activity          who works here at the same time
//! working/WORKER    locked by a process while it works
//! ```

use crate::error::Error;
use crate::index::{KnownPath, SnapshotIndex};
use crate::objects::{Copied, Objects};
use crate::path::RelPath;
use crate::refs;
use crate::root::{Stat, TreeRoot};
use crate::rules::{DirectoryRules, FILES};
use crate::sealed;
use crate::tree::{Digest, GapReason, Tree, TreeEntry};
use crate::walk::{Excluded, SnapshotLimits, TemporaryModes, WalkedPath, What, walk};
use pinion_exclusions::Finder;
use pinion_files::open::{create_directory, open_regular, read_file};
use rustix::fs::FileType;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Threads that read and write contents at most.
const THREADS: usize = 4;
/// Files at most while undoing.
const MAX_FILES: usize = 5_000_000;
/// Time to wait for another process.
const WAIT: Duration = Duration::from_secs(10);

/// The checkpoints of one directory.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    pub(crate) directory: PathBuf,
    pub(crate) root: PathBuf,
    excluded: Arc<Late<Excluded>>,
    pub(crate) secrets: Arc<Finder>,
    pub(crate) limits: SnapshotLimits,
    pub(crate) objects: Objects,
    last: Arc<Mutex<Option<Last>>>,
    /// Locked files of those who work in this process.
    pub(crate) held: Arc<Mutex<HashMap<Digest, File>>>,
}

/// A value that is found when it is needed, which takes system calls.
type Late<T> = LazyLock<T, Box<dyn FnOnce() -> T + Send>>;

/// The last snapshot, in memory.
#[derive(Debug, Clone)]
struct Last {
    /// The index file that it was read from or written to.
    file: Stat,
    index: Arc<SnapshotIndex>,
    tree: Tree,
}

/// A tree, and its name in the store.
#[derive(Debug, Clone)]
pub struct TreeSnapshot {
    /// The name.
    pub id: Digest,
    /// The state of the directory.
    pub tree: Tree,
}

/// The right to work with a store, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl CheckpointStore {
    /// Creates a store of the directory `root` in a private `directory`, which is created when it is needed. Leaves
    /// `excluded` paths alone, also when links lead to them; paths that are not below `root` have no effect. The paths
    /// are read at the first snapshot, because most stores never take one.
    pub fn new<Paths>(directory: &Path, root: &Path, excluded: Paths, limits: SnapshotLimits) -> Self
    where
        Paths: IntoIterator<Item = PathBuf> + Send + 'static,
    {
        let (own, below) = (directory.to_owned(), root.to_owned());
        let find = move || Excluded::new(&below, excluded.into_iter().chain([own]).collect());
        Self {
            directory: directory.to_owned(),
            root: root.to_owned(),
            excluded: Arc::new(LazyLock::new(Box::new(find))),
            secrets: Arc::default(),
            limits,
            objects: Objects::new(directory),
            last: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Also leaves alone files that the config excludes, so that no secret is copied. Undoing does not restore it.
    #[must_use]
    pub fn without(self, secrets: Arc<Finder>) -> Self {
        Self { secrets, ..self }
    }

    /// Returns the same store with limits for undoing, which must not fail because of files that the agent created:
    /// five million files, and a minute.
    #[must_use]
    pub fn patient(&self) -> Self {
        let time = self.limits.time.max(Duration::from_secs(60));
        Self { limits: SnapshotLimits { files: MAX_FILES, time, ..self.limits.clone() }, ..self.clone() }
    }

    /// Returns the same store with limits for a patch, which has to be complete: files of any size, and ten minutes.
    #[must_use]
    pub fn complete(&self) -> Self {
        let limits =
            SnapshotLimits { files: MAX_FILES, file_bytes: u64::MAX, bytes: u64::MAX, time: Duration::from_secs(600) };
        Self { limits, ..self.clone() }
    }

    /// Returns the directory whose snapshots these are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    pub(crate) fn tree_file(&self, id: Digest) -> PathBuf {
        self.directory.join("trees").join(id.to_string())
    }

    /// Waits for other processes that work with the store.
    ///
    /// # Errors
    /// The store cannot be created, or another process takes longer than ten seconds.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = self.directory.join("lock");
        let deadline = Instant::now() + WAIT;
        let file = loop {
            let file = self.open_lock(&path)?;
            match file.try_lock() {
                // Another process may have removed the store, and the lock with it.
                Ok(()) if file.metadata().is_ok_and(|found| found.nlink() > 0) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => return Err(Error::Locked),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        };
        // The time of the lock is the time of the last use.
        let _ = file.set_modified(SystemTime::now());
        // Files that a killed process left.
        for left in fs::read_dir(self.temporary()).into_iter().flatten().flatten() {
            let _ = fs::remove_file(left.path());
        }
        Ok(Lock(file))
    }

    fn open_lock(&self, path: &Path) -> Result<File, Error> {
        let failed = |error| Error::io("create", &self.directory)(error);
        for directory in ["objects", "trees", "tmp"] {
            create_directory(&self.directory.join(directory)).map_err(failed)?;
        }
        let file = open_regular(path, OpenOptions::new().write(true).create(true).truncate(false));
        file.map_err(Error::io("open", path))
    }

    /// Takes a snapshot. If nothing changed since the last one, this costs one look at each file.
    ///
    /// # Errors
    /// The directory has too many files, the store cannot be written, or a restoration was interrupted.
    pub fn snapshot(&self) -> Result<TreeSnapshot, Error> {
        self.snapshot_covering(&BTreeSet::new())
    }

    /// Takes a snapshot that also covers paths that are ignored. So do all later ones.
    ///
    /// # Errors
    /// As [`CheckpointStore::snapshot`].
    pub fn snapshot_covering(&self, paths: &BTreeSet<RelPath>) -> Result<TreeSnapshot, Error> {
        self.take_snapshot(&self.lock_to_change()?, paths)
    }

    /// Waits for other processes, unless a restoration has to be completed first.
    pub(crate) fn lock_to_change(&self) -> Result<Lock, Error> {
        let lock = self.lock()?;
        match self.restoration_file().exists() {
            true => Err(Error::Interrupted),
            false => Ok(lock),
        }
    }

    pub(crate) fn take_snapshot(&self, _: &Lock, more: &BTreeSet<RelPath>) -> Result<TreeSnapshot, Error> {
        let started = SystemTime::now();
        let root = TreeRoot::open(&self.root)?;
        let inode = root.own_stat().map_err(Error::system("open", &self.root))?.inode;
        let last = LazyLock::new(|| self.last());
        let may_open = |path: &RelPath| last.as_ref().is_some_and(|last| last.index.may_open(path));
        let opened = TemporaryModes::new(&root, &may_open);
        let (left_alone, mut found) = std::thread::scope(|scope| {
            scope.spawn(|| LazyLock::force(&last).is_some());
            let left_alone = self.left_alone()?;
            let found = walk(&root, &left_alone, &opened, &self.limits);
            Ok::<_, Error>((left_alone, found?))
        })?;
        let index = last.as_ref().map_or_else(Arc::default, |last| last.index.clone());
        index.add_covered(&root, &left_alone, more, &mut found);
        let refs = refs::read(&self.root, &found);
        if let Some((last, id)) = last.as_ref().and_then(|last| Some((last, last.index.tree?)))
            && index.root == inode
            && index.refs == refs
            && index.is_same(&found, &self.limits)
            && touch(&self.tree_file(id)).is_ok()
        {
            return Ok(TreeSnapshot { id, tree: last.tree.clone() });
        }
        let (mut known, work) = self.compare(&index, found);
        self.copy(&root, &index, work, &mut known, started)?;
        drop(opened);
        let tree = known.iter().filter_map(KnownPath::entry).collect::<Tree>();
        let tree = tree.with_root(inode).with_refs(refs.clone());
        let id = self.write_tree(&tree)?;
        let index = SnapshotIndex { version: SnapshotIndex::VERSION, tree: Some(id), root: inode, refs, known };
        let path = SnapshotIndex::file(&self.directory);
        sealed::write(&path, &self.temporary(), &index, false).map_err(Error::io("write", &path))?;
        self.keep(index, tree.clone());
        Ok(TreeSnapshot { id, tree })
    }

    /// Returns the last snapshot, from memory unless another process has taken one since.
    fn last(&self) -> Option<Last> {
        let file = self.index_stat()?;
        let kept = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = kept.filter(|last| last.file == file) {
            return Some(last);
        }
        let index = SnapshotIndex::read(&self.directory);
        let tree = index.known.iter().filter_map(KnownPath::entry).collect::<Tree>();
        let tree = tree.with_root(index.root).with_refs(index.refs.clone());
        self.keep(index, tree)
    }

    /// Keeps the last snapshot in memory.
    fn keep(&self, index: SnapshotIndex, tree: Tree) -> Option<Last> {
        let last = self.index_stat().map(|file| Last { file, index: Arc::new(index), tree });
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&last);
        last
    }

    fn index_stat(&self) -> Option<Stat> {
        Some(Stat::from_stat(&rustix::fs::stat(SnapshotIndex::file(&self.directory)).ok()?))
    }

    /// Returns the paths that a snapshot leaves alone.
    pub(crate) fn left_alone(&self) -> Result<Excluded, Error> {
        let found = self.secrets.find_excluded().map_err(|error| Error::NotSearched(error.to_string()))?;
        Ok(self.excluded.with(&self.root, found.places.iter().map(|place| place.path.clone())))
    }

    pub(crate) fn write_tree(&self, tree: &Tree) -> Result<Digest, Error> {
        let bytes = tree.encode().map_err(Error::io("encode", &self.root))?;
        let id = Digest::from_bytes(&bytes);
        let path = self.tree_file(id);
        if touch(&path).is_err() {
            sealed::replace(&path, &self.temporary(), &bytes, false).map_err(Error::io("write", &path))?;
        }
        Ok(id)
    }

    /// Returns whether ignore rules exclude a path, so that a snapshot does not cover it unless it is asked to.
    pub fn ignores(&self, path: &RelPath) -> bool {
        let Ok(root) = TreeRoot::open(&self.root) else { return false };
        let mut above: Vec<RelPath> = std::iter::successors(path.parent(), RelPath::parent).collect();
        above.reverse();
        let mut rules = DirectoryRules::above(&self.root);
        let mut directory = root.handle();
        let mut place = None;
        for here in above.iter().map(Some).chain([None]) {
            if let Ok(fd) = &directory {
                rules = rules.add_directory(place, fd, &FILES);
            }
            let Some(here) = here else { break };
            if rules.ignore(here, true) {
                return true;
            }
            (directory, place) = (root.directory(here), Some(here));
        }
        rules.ignore(path, false)
    }

    /// Returns whether a snapshot is kept.
    pub fn has_tree(&self, id: Digest) -> bool {
        self.tree_file(id).exists()
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// It was removed, or is damaged.
    pub fn tree(&self, id: Digest) -> Result<Tree, Error> {
        let path = self.tree_file(id);
        let bytes = match read_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoSuchTree(id)),
            read => read.map_err(Error::io("read", &path))?,
        };
        if Digest::from_bytes(&bytes) != id {
            return Err(Error::Damaged(path));
        }
        Tree::decode(&bytes).ok_or(Error::Damaged(path))
    }

    /// Takes over entries that did not change since the last snapshot. Returns the places of the files to copy.
    fn compare(&self, index: &SnapshotIndex, found: Vec<WalkedPath>) -> (Vec<KnownPath>, Vec<usize>) {
        let mut known: Vec<KnownPath> = Vec::with_capacity(found.len());
        let mut before = index.known.iter().peekable();
        let mut work = Vec::new();
        // Files that have copies keep them: a new large file takes nothing from those.
        let mut bytes: u64 = 0;
        let (mut changed, mut new) = (Vec::new(), Vec::new());
        for WalkedPath { path, what } in found {
            while before.next_if(|known| known.path < path).is_some() {}
            let last = before.peek().filter(|known| known.path == path);
            let uncovered =
                |reason, stat| KnownPath { path: path.clone(), stat: None, entry: Some(uncovered(reason, stat)) };
            let next = match what {
                What::File(stat) if stat.size > self.limits.file_bytes => uncovered(GapReason::LargeFile, Some(stat)),
                What::File(stat) => {
                    let stored = last.filter(|last| last.is_stored());
                    let same = stored.filter(|last| last.stat == Some(stat));
                    match (stored, same) {
                        (_, Some(_)) => bytes = bytes.saturating_add(stat.size),
                        (Some(_), None) => changed.push(known.len()),
                        (None, None) => new.push(known.len()),
                    }
                    same.map_or_else(|| KnownPath { stat: Some(stat), entry: None, path }, |same| (*same).clone())
                }
                What::Special(stat) => uncovered(GapReason::Special, Some(stat)),
                What::Unreadable(stat) => uncovered(GapReason::Unreadable, stat),
                What::Deep(stat) => uncovered(GapReason::Depth, Some(stat)),
                What::Link(target) => KnownPath { path, stat: None, entry: Some(TreeEntry::Link { target }) },
                What::Directory(stat) => {
                    let entry = TreeEntry::Directory { mode: stat.bits(), owner: stat.foreign_owner() };
                    KnownPath { path, stat: None, entry: Some(entry) }
                }
                What::Absent => KnownPath { path, stat: None, entry: Some(TreeEntry::Absent) },
                What::Ignored(stat) if stat.kind() == FileType::RegularFile => {
                    let entry = TreeEntry::Ignored { size: stat.size, changed: stat.changed };
                    KnownPath { path, stat: None, entry: Some(entry) }
                }
                What::Ignored(_) | What::Protected => KnownPath { path, stat: None, entry: Some(TreeEntry::Excluded) },
            };
            known.push(next);
        }
        for at in changed.into_iter().chain(new) {
            let Some(file) = known.get_mut(at) else { continue };
            let size = file.stat.map_or(0, |stat| stat.size);
            if bytes.saturating_add(size) > self.limits.bytes {
                file.entry = Some(uncovered(GapReason::LargeTree, file.stat.take()));
                continue;
            }
            bytes = bytes.saturating_add(size);
            work.push(at);
        }
        (known, work)
    }

    /// Copies the content of files, with a few threads.
    fn copy(
        &self,
        root: &TreeRoot,
        index: &SnapshotIndex,
        work: Vec<usize>,
        known: &mut [KnownPath],
        started: SystemTime,
    ) -> Result<(), Error> {
        if work.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + self.limits.time;
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results = Mutex::new(Vec::with_capacity(work.len()));
        let failure = Mutex::new(None);
        let files = &*known;
        let run = || {
            let mut done = Vec::new();
            while let Some(at) = work.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                let Some(file) = files.get(at).filter(|_| !failed.load(Ordering::Relaxed)) else { break };
                let may_open = index.may_open(&file.path);
                match self.objects.copy(root, &file.path, may_open, self.limits.file_bytes, deadline) {
                    Ok(copied) => done.push((at, copied)),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(work.len());
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(run)));
            run();
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (at, copied) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let Some(file) = known.get_mut(at) else { continue };
            match copied {
                Copied::Stored(entry, stat) => {
                    file.stat = Some(stat).filter(|stat| is_settled(stat, started));
                    file.entry = Some(entry);
                }
                Copied::Uncovered(reason) => {
                    file.entry = Some(uncovered(reason, file.stat));
                    file.stat = None;
                }
                Copied::Gone => *file = KnownPath { stat: None, entry: None, path: file.path.clone() },
            }
        }
        Ok(())
    }
}

fn uncovered(reason: GapReason, stat: Option<Stat>) -> TreeEntry {
    let (size, changed) = stat.map_or((0, 0), |stat| (stat.size, stat.changed));
    TreeEntry::Uncovered { reason, size, changed }
}

/// Returns whether a change after `started` gives a file another time than it has. The clocks of file systems go in steps:
/// of at most 10 ms where times have nanoseconds, and of up to 2 s elsewhere.
fn is_settled(stat: &Stat, started: SystemTime) -> bool {
    let step = if stat.changed % 1_000_000 == 0 { 2_000_000_000 } else { 20_000_000 };
    let started = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    stat.changed < i64::try_from(started).unwrap_or(i64::MAX).saturating_sub(step)
}

/// Makes a file one of now.
pub(crate) fn touch(path: &Path) -> io::Result<()> {
    open_regular(path, OpenOptions::new().append(true))?.set_modified(SystemTime::now())
}
