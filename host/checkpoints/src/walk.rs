//! Lists everything below a directory except the paths that a store leaves alone, with a few threads.

use crate::error::Error;
use crate::path::RelPath;
use crate::root::{Stat, TreeRoot, open_directory, set_mode, stat_in};
use crate::rules::{DirectoryRules, FILES};
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, readlinkat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads that list directories. The system spends more time than they do.
const THREADS: usize = 2;
/// Levels of directories. Each is an open descriptor while the ones below are listed.
const MAX_DEPTH: usize = 128;

/// The limits of a snapshot. The snapshot names the paths that exceed them; too many files prevent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Files, directories and links.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Time for listing, and again for copying.
    pub time: Duration,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { files: 200_000, file_bytes: 512 << 20, bytes: 2 << 30, time: Duration::from_secs(5) }
    }
}

/// The paths that a store leaves alone: its own files, the application's files, and protected ones.
#[derive(Debug, Clone)]
pub(crate) struct Excluded {
    /// As they are spelled, and where links lead, below the root.
    pub(crate) paths: BTreeSet<RelPath>,
    /// All of them, also those that are below the root only by another name.
    all: Vec<PathBuf>,
}

impl Excluded {
    pub(crate) fn new(root: &Path, all: Vec<PathBuf>) -> Self {
        // Most of these paths do not exist, and lie in a few directories.
        let mut known = BTreeMap::new();
        let real_root = real(root, &mut known);
        let spelled = all.iter().filter_map(|path| inside(path, root));
        let real = all.iter().filter_map(|path| inside(&real(path, &mut known), &real_root));
        Self { paths: spelled.chain(real).collect(), all }
    }

    /// Adds paths as they are spelled.
    pub(crate) fn with(&self, root: &Path, more: impl Iterator<Item = PathBuf>) -> Self {
        let mut excluded = self.clone();
        for path in more {
            excluded.paths.extend(inside(&path, root));
            excluded.all.push(path);
        }
        excluded
    }

    /// Returns the devices and inodes of those that exist.
    pub(crate) fn identities(&self) -> BTreeSet<(u64, u64)> {
        let identity = |path: &PathBuf| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        self.all.iter().filter_map(identity).collect()
    }
}

/// Returns the path below a directory.
fn inside(path: &Path, root: &Path) -> Option<RelPath> {
    RelPath::try_from(path.strip_prefix(root).ok()?).ok()
}

/// Returns the path without links; if it does not exist, only in the part up to the nearest directory that does. `known`
/// caches the result for each directory.
fn real(path: &Path, known: &mut BTreeMap<PathBuf, PathBuf>) -> PathBuf {
    if let Some(real) = known.get(path) {
        return real.clone();
    }
    let found = path.is_symlink().then(|| fs::canonicalize(path).ok()).flatten();
    let found = found.unwrap_or_else(|| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent, known).join(name),
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
    });
    known.insert(path.to_owned(), found.clone());
    found
}

/// A path that a walk found.
#[derive(Debug)]
pub(crate) struct WalkedPath {
    pub(crate) path: RelPath,
    pub(crate) what: What,
}

/// The kind of a path that a walk found.
#[derive(Debug)]
pub(crate) enum What {
    File(Stat),
    Link(Vec<u8>),
    Directory(Stat),
    /// Ignored by a rule.
    Ignored(Stat),
    /// A protected path, a repository, or another file system.
    Protected,
    /// Nothing, at a path that was asked for.
    Absent,
    /// A socket, pipe or device.
    Special(Stat),
    /// The system does not show its kind, or does not list it.
    Unreadable(Option<Stat>),
    /// A directory in too many others.
    Deep(Stat),
}

/// A directory that is to be listed.
struct Task {
    /// `None` for the root.
    path: Option<RelPath>,
    fd: DirectoryHandle,
    rules: Arc<DirectoryRules>,
    depth: usize,
}

enum DirectoryHandle {
    Open(OwnedFd),
    In(Arc<OwnedFd>),
}

struct TreeWalk<'a> {
    excluded: &'a Excluded,
    opened: &'a TemporaryModes<'a>,
    /// The files that are excluded, under any name.
    identities: BTreeSet<(u64, u64)>,
    device: u64,
    limits: &'a SnapshotLimits,
    deadline: Instant,
    found: AtomicUsize,
    queue: Mutex<WalkQueue>,
    wake: Condvar,
}

#[derive(Default)]
struct WalkQueue {
    tasks: Vec<Task>,
    /// Tasks that a thread works on.
    busy: usize,
    failure: Option<Error>,
}

/// Directories that their modes close, and that are open for a while. They get their modes back when this is dropped.
pub(crate) struct TemporaryModes<'a> {
    root: &'a TreeRoot,
    /// Returns whether a directory may be opened.
    may_open: &'a (dyn Fn(&RelPath) -> bool + Sync),
    directories: Mutex<Vec<(RelPath, u32)>>,
}

impl<'a> TemporaryModes<'a> {
    pub(crate) fn new(root: &'a TreeRoot, may_open: &'a (dyn Fn(&RelPath) -> bool + Sync)) -> Self {
        Self { root, may_open, directories: Mutex::default() }
    }

    /// Opens a directory, if it may be opened.
    fn open(&self, parent: &OwnedFd, path: &RelPath, stat: &Stat) {
        let name = path.name().as_encoded_bytes();
        if stat.is_closed() && (self.may_open)(path) && set_mode(parent, name, stat.bits() | 0o700).is_ok() {
            let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
            directories.push((path.clone(), stat.bits()));
        }
    }
}

impl Drop for TemporaryModes<'_> {
    fn drop(&mut self) {
        let directories = self.directories.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Those inside others first.
        directories.sort();
        for (path, bits) in directories.iter().rev() {
            // A path that is gone in the meantime needs no mode.
            let _ = self.root.parent(path).and_then(|parent| set_mode(&parent, path.name().as_encoded_bytes(), *bits));
        }
    }
}

/// Lists everything below a root in the order of paths, except paths that are ignored or `excluded`.
///
/// # Errors
/// There are too many files, the time is over, or the root cannot be read.
pub(crate) fn walk(
    root: &TreeRoot,
    excluded: &Excluded,
    opened: &TemporaryModes<'_>,
    limits: &SnapshotLimits,
) -> Result<Vec<WalkedPath>, Error> {
    let failed = |errno| Error::system("open", root.path())(errno);
    let first = Task {
        path: None,
        fd: DirectoryHandle::Open(root.handle().map_err(failed)?),
        rules: DirectoryRules::above(root.path()),
        depth: 0,
    };
    let walk = TreeWalk {
        excluded,
        opened,
        identities: excluded.identities(),
        device: root.own_stat().map_err(failed)?.device,
        limits,
        deadline: Instant::now() + limits.time,
        found: AtomicUsize::new(0),
        queue: Mutex::new(WalkQueue { tasks: vec![first], ..WalkQueue::default() }),
        wake: Condvar::new(),
    };
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(|| walk.work(root.path()))).collect();
        let mut found = walk.work(root.path());
        for other in others {
            found.extend(other.join().unwrap_or_default());
        }
        found
    });
    if let Some(failure) = walk.lock().failure.take() {
        return Err(failure);
    }
    // Merges the sorted parts of the threads.
    found.sort_by(order);
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Compares by path. A directory is found by its name, and again if it cannot be listed or is a repository, which comes first.
fn order(a: &WalkedPath, b: &WalkedPath) -> std::cmp::Ordering {
    let is_listed = |found: &WalkedPath| matches!(found.what, What::Directory(_));
    a.path.cmp(&b.path).then_with(|| is_listed(a).cmp(&is_listed(b)))
}

impl TreeWalk<'_> {
    fn lock(&self) -> MutexGuard<'_, WalkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists directories until there are no more.
    fn work(&self, root: &Path) -> Vec<WalkedPath> {
        let mut found = Vec::new();
        let mut queue = self.lock();
        loop {
            if queue.failure.is_some() || (queue.tasks.is_empty() && queue.busy == 0) {
                self.wake.notify_all();
                drop(queue);
                found.sort_unstable_by(order);
                return found;
            }
            let Some(task) = queue.tasks.pop() else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.busy += 1;
            drop(queue);
            let listed = self.list(task, root, &mut found);
            queue = self.lock();
            queue.busy -= 1;
            match listed {
                Ok(tasks) => queue.tasks.extend(tasks),
                Err(failure) => queue.failure = Some(failure),
            }
            self.wake.notify_all();
        }
    }

    /// Lists one directory, and returns those in it.
    fn list(&self, task: Task, root: &Path, found: &mut Vec<WalkedPath>) -> Result<Vec<Task>, Error> {
        if Instant::now() > self.deadline {
            return Err(Error::TooSlow(self.limits.time.as_secs()));
        }
        let opened = match (task.fd, &task.path) {
            (DirectoryHandle::Open(fd), _) => Ok(fd),
            (DirectoryHandle::In(parent), Some(path)) => open_directory(&parent, path.name().as_encoded_bytes()),
            (DirectoryHandle::In(_), None) => Err(Errno::INVAL),
        };
        let names = opened.and_then(|fd| Ok((names(&fd)?, fd)));
        let (names, fd) = match (names, task.path.as_ref()) {
            (Ok(listed), _) => listed,
            (Err(error), None) => return Err(Error::system("list", root)(error)),
            // Deleted in the meantime, or replaced by something that a later walk finds.
            (Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP), Some(_)) => return Ok(Vec::new()),
            (Err(_), Some(path)) => {
                found.push(WalkedPath { path: path.clone(), what: What::Unreadable(None) });
                return Ok(Vec::new());
            }
        };
        if is_repository(&fd, &names) {
            match &task.path {
                Some(path) => found.push(WalkedPath { path: path.clone(), what: What::Protected }),
                None => {
                    let paths = names.iter().map(|name| RelPath::join(None, name));
                    found.extend(paths.map(|path| WalkedPath { path, what: What::Protected }));
                }
            }
            return Ok(Vec::new());
        }
        let files: Vec<&[u8]> = FILES.into_iter().filter(|file| names.iter().any(|name| name == *file)).collect();
        let rules = task.rules.add_directory(task.path.as_ref(), &fd, &files);
        let fd = Arc::new(fd);
        let mut tasks = Vec::new();
        for name in names.iter() {
            let path = RelPath::join(task.path.as_ref(), name);
            let what = self.inspect_path(&fd, name, &path, &rules, task.depth);
            let Some(what) = what else { continue };
            if let What::Directory(stat) = &what {
                self.opened.open(&fd, &path, stat);
                let (path, rules) = (Some(path.clone()), rules.clone());
                tasks.push(Task { path, fd: DirectoryHandle::In(fd.clone()), rules, depth: task.depth + 1 });
            }
            found.push(WalkedPath { path, what });
            if self.found.fetch_add(1, Ordering::Relaxed) >= self.limits.files {
                return Err(Error::TooManyFiles(self.limits.files));
            }
        }
        Ok(tasks)
    }

    /// Returns the kind of a path; `None` if it is gone.
    fn inspect_path(
        &self,
        fd: &OwnedFd,
        name: &[u8],
        path: &RelPath,
        rules: &DirectoryRules,
        depth: usize,
    ) -> Option<What> {
        if name == b".git" || self.excluded.paths.contains(path) {
            return Some(What::Protected);
        }
        let stat = match stat_in(fd, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return None,
            Err(_) => return Some(What::Unreadable(None)),
        };
        let is_directory = stat.kind() == FileType::Directory;
        // A file system that is mounted here was there before.
        if self.identities.contains(&stat.identity()) || (is_directory && stat.device != self.device) {
            return Some(What::Protected);
        }
        // A rule may ignore its own file. Undoing restores the rules.
        let is_ignored = !FILES.contains(&name) && rules.ignore(path, is_directory);
        if is_ignored {
            return Some(What::Ignored(stat));
        }
        Some(match stat.kind() {
            FileType::RegularFile => What::File(stat),
            FileType::Directory if depth >= MAX_DEPTH => What::Deep(stat),
            FileType::Directory => What::Directory(stat),
            FileType::Symlink => match readlinkat(fd, name, Vec::new()) {
                Ok(target) => What::Link(target.into_bytes()),
                Err(_) => What::Unreadable(Some(stat)),
            },
            _ => What::Special(stat),
        })
    }
}

/// Returns whether a directory is a git repository, under any name: undoing would roll back the user's commits.
fn is_repository(fd: &OwnedFd, names: &DirectoryNames) -> bool {
    let parts: [&[u8]; 3] = [b"HEAD", b"objects", b"refs"];
    let has = |part: &&[u8]| names.iter().any(|name| name == *part);
    let is_directory = |name: &[u8]| stat_in(fd, name).is_ok_and(|stat| stat.kind() == FileType::Directory);
    parts.iter().all(has) && parts[1..].iter().all(|name| is_directory(name))
}

/// The names in a directory, in one piece of memory.
#[derive(Default)]
struct DirectoryNames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl DirectoryNames {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}

fn names(fd: &OwnedFd) -> rustix::io::Result<DirectoryNames> {
    let mut names = DirectoryNames::default();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.bytes.extend_from_slice(name);
            names.ends.push(names.bytes.len());
        }
    }
    Ok(names)
}
