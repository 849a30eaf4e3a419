//! Finding files: a walk on several threads that hands each file that is not left out to a visitor.

use super::ignores::{Filter, Present, Rules, Verdict};
use super::{Root, Stop, io_error, threads};
use crate::bindings::pinion::plugin::workspace::{Entry, Kind, WalkOptions, WalkResult, WorkspaceError};
use cap_std::fs::{Dir, FileType, OpenOptions};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

/// Entries that are collected before the rest is left out, whatever the limit.
const MAX_ENTRIES: usize = 100_000;

/// Tells the entries below a root, sorted by path.
pub(super) fn walk(root: &Root, options: &WalkOptions, stop: &Stop) -> Result<WalkResult, WorkspaceError> {
    let limit = limit(options);
    let found = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let collect = |found: &Mutex<Vec<Entry>>, entry: Entry| {
        let mut found = lock(found);
        if found.len() < MAX_ENTRIES {
            found.push(entry);
        } else {
            over.store(true, Ordering::Relaxed);
        }
    };
    visit(root, options, stop, &|| {
        |file: Found<'_>| {
            collect(&found, entry(&file));
            if over.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
        }
    })?;
    let mut entries = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let truncated = entries.len() > limit || over.into_inner();
    entries.truncate(limit);
    Ok(WalkResult { entries, truncated })
}

/// How many results a plugin wants, as far as it may.
pub(super) fn limit(options: &WalkOptions) -> usize {
    usize::try_from(options.limit).unwrap_or(MAX_ENTRIES).clamp(1, MAX_ENTRIES)
}

/// An entry that was not left out.
pub(super) struct Found<'a> {
    /// The folder that holds it.
    pub(super) folder: &'a Dir,
    /// Its name in there.
    pub(super) name: &'a Path,
    /// Its path from the walk's root; empty for the root itself.
    pub(super) path: &'a Path,
    pub(super) file_type: FileType,
}

/// Go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// Walks and calls a visitor for each entry, on several threads, each with a visitor of its own.
///
/// # Errors
/// The root cannot be opened, an option makes no sense, or the call was given up. What goes wrong below the root is
/// left out, like files that one may not read.
pub(super) fn visit<V, F>(root: &Root, options: &WalkOptions, stop: &Stop, visitor: &V) -> Result<(), WorkspaceError>
where
    V: Fn() -> F + Sync,
    F: FnMut(Found<'_>) -> Flow,
{
    let filter = Filter::new(options)?;
    let start = match open_root(root)? {
        Start::Folder(folder) => folder,
        Start::File { folder, name, file_type } => {
            visitor()(Found { folder: &folder, name: &name, path: Path::new(""), file_type });
            return Ok(());
        }
    };
    let rules = if filter.reads_ignore_files() { rules_above(root) } else { Arc::default() };
    let queue = Queue::new(Job { folder: start, path: PathBuf::new(), depth: 1, rules });
    let walker = Walker { root, options, filter, stop, queue };
    std::thread::scope(|scope| {
        for _ in 1..threads() {
            scope.spawn(|| walker.work(visitor()));
        }
        walker.work(visitor());
    });
    if stop.now() { Err(WorkspaceError::Cancelled) } else { Ok(()) }
}

enum Start {
    Folder(Dir),
    File { folder: Dir, name: PathBuf, file_type: FileType },
}

fn open_root(root: &Root) -> Result<Start, WorkspaceError> {
    let failed = |error: io::Error| io_error(&root.path, &error);
    if root.relative.as_os_str().is_empty() {
        return root.folder.try_clone().map(Start::Folder).map_err(failed);
    }
    let metadata = root.folder.metadata(&root.relative).map_err(failed)?;
    if metadata.is_dir() {
        return root.folder.open_dir(&root.relative).map(Start::Folder).map_err(failed);
    }
    let name = PathBuf::from(root.relative.file_name().unwrap_or_default());
    let folder = match root.relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => root.folder.open_dir(parent).map_err(failed)?,
        None => root.folder.try_clone().map_err(failed)?,
    };
    Ok(Start::File { folder, name, file_type: metadata.file_type() })
}

/// The ignore files from the granted folder down to the root's parent; those of the root itself come with its listing.
fn rules_above(root: &Root) -> Arc<Rules> {
    let mut rules = Arc::default();
    let mut path = PathBuf::new();
    for component in root.relative.components() {
        let folder = if path.as_os_str().is_empty() { root.folder.try_clone() } else { root.folder.open_dir(&path) };
        if let Ok(folder) = folder {
            rules = Rules::below(&rules, &folder, &path, Present::ALL);
        }
        path.push(component);
    }
    rules
}

/// A folder yet to be listed.
struct Job {
    folder: Dir,
    path: PathBuf,
    depth: u32,
    rules: Arc<Rules>,
}

struct Walker<'a> {
    root: &'a Root,
    options: &'a WalkOptions,
    filter: Filter,
    stop: &'a Stop,
    queue: Queue,
}

impl Walker<'_> {
    fn work(&self, mut visitor: impl FnMut(Found<'_>) -> Flow) {
        while let Some(job) = self.queue.next() {
            let flow = if self.stop.now() { Flow::Stop } else { self.list(job, &mut visitor) };
            self.queue.done(flow);
        }
    }

    /// Lists a folder: files to the visitor, folders to the visitor and to the queue.
    fn list(&self, job: Job, visitor: &mut impl FnMut(Found<'_>) -> Flow) -> Flow {
        let Ok(listing) = job.folder.entries() else { return Flow::Continue };
        let mut present = Present::default();
        let mut entries = Vec::new();
        for entry in listing.flatten() {
            let name = entry.file_name();
            present.see(name.as_encoded_bytes());
            if let Ok(file_type) = entry.file_type() {
                entries.push((PathBuf::from(name), file_type));
            }
        }
        let from_grant = self.root.relative.join(&job.path);
        let rules = match self.filter.reads_ignore_files() {
            true => Rules::below(&job.rules, &job.folder, &from_grant, present),
            false => job.rules,
        };
        for (name, file_type) in entries {
            let path = job.path.join(&name);
            let flow = match self.filter.verdict(&path, &from_grant.join(&name), file_type.is_dir(), &rules) {
                Verdict::LeftOut => continue,
                Verdict::Walked => Flow::Continue,
                Verdict::Told => visitor(Found { folder: &job.folder, name: &name, path: &path, file_type }),
            };
            if flow == Flow::Stop || self.stop.now() {
                return Flow::Stop;
            }
            if file_type.is_dir() && self.options.max_depth.is_none_or(|max| job.depth < max) {
                // Relative to this folder's handle: a folder that was replaced by a link meanwhile does not open.
                if let Ok(folder) = job.folder.open_dir(&name) {
                    self.queue.add(Job { folder, path, depth: job.depth + 1, rules: rules.clone() });
                }
            }
        }
        Flow::Continue
    }
}

/// Folders yet to be listed. Ends when there are none and nobody lists one, or when somebody says so.
struct Queue {
    jobs: Mutex<Vec<Job>>,
    ready: Condvar,
    /// Jobs that wait or are worked on.
    open: AtomicUsize,
    stopped: AtomicBool,
}

impl Queue {
    fn new(first: Job) -> Self {
        Self {
            jobs: Mutex::new(vec![first]),
            ready: Condvar::new(),
            open: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
        }
    }

    fn add(&self, job: Job) {
        self.open.fetch_add(1, Ordering::AcqRel);
        lock(&self.jobs).push(job);
        self.ready.notify_one();
    }

    /// The next folder; waits while others may still add some.
    fn next(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if self.stopped.load(Ordering::Acquire) || self.open.load(Ordering::Acquire) == 0 {
                return None;
            }
            if let Some(job) = jobs.pop() {
                return Some(job);
            }
            jobs = self.ready.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, flow: Flow) {
        if flow == Flow::Stop {
            self.stopped.store(true, Ordering::Release);
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 || flow == Flow::Stop {
            // Under the lock, so that nobody is between looking and waiting.
            let _jobs = lock(&self.jobs);
            self.ready.notify_all();
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entry(found: &Found<'_>) -> Entry {
    let kind = match found.file_type {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    };
    let metadata = found.folder.symlink_metadata(found.name).ok();
    let size = metadata.as_ref().filter(|_| kind == Kind::File).map_or(0, cap_std::fs::Metadata::len);
    let modified = metadata.and_then(|m| m.modified().ok()).map(cap_std::time::SystemTime::into_std);
    let since_epoch = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = since_epoch.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0);
    Entry { path: slashed(found.path), kind, size, modified_ms }
}

/// With '/' between the parts on every system.
pub(super) fn slashed(path: &Path) -> String {
    let path = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' { path.into_owned() } else { path.replace(std::path::MAIN_SEPARATOR, "/") }
}

/// Opens a file to read it. What is no file does not make this wait: a pipe is opened without waiting for its writer.
pub(super) fn open_file(folder: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    Ok(folder.open_with(name, &options)?.into_std())
}
