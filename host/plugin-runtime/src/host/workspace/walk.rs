//! Finding files: a walk that shows each entry that is not left out to a visitor.
//!
//! Work is cut into pieces, folders to list and runs of entries to look at, and taken in the order of their paths. One
//! thread begins; as soon as there is work for two, there are as many as the machine has cores.

use super::budget::{Budget, Share};
use super::ignores::{Filter, Present, Rules, Verdict};
use super::least::Least;
use super::queue::Queue;
use super::{Root, io_error, threads};
use crate::bindings::pinion::plugin::workspace::{Entry, Kind, WalkOptions, WalkResult, WorkspaceError};
use crate::calls::deadline::Deadline;
use cap_std::fs::{Dir, FileType, OpenOptions};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

/// Entries told at most, whatever the limit.
const MAX_ENTRIES: u32 = 100_000;
/// Folders deeper below the root are not walked: each holds a handle while the walk is in it.
const MAX_DEPTH: u32 = 128;
/// Bytes of a path below the root. No system call takes a longer one.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of memory that the result of a walk may take.
const MAX_FOUND_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of memory for what was listed and waits to be looked at.
const MAX_WAITING_BYTES: u64 = 24 * 1024 * 1024;
/// Bytes of memory for compiled ignore files.
const MAX_RULES_BYTES: u64 = 16 * 1024 * 1024;
/// Directories held open before the walk continues on one thread. One thread holds one for each level of depth.
const MANY_PLACES: usize = 128;
/// About what a listed entry takes besides its name.
const LISTED_BYTES: u64 = 64;
/// About what a piece of work takes besides its paths.
const WORK_BYTES: u64 = 256;
/// About what an entry of the result takes besides its path.
const ENTRY_BYTES: u64 = 160;
/// How often a share is grown while a directory is listed.
const LISTING_STEP: u64 = 64 * 1024;
/// How many entries are listed, or compared with ignore files, between two looks at the clock.
const CLOCK_STEP: usize = 64;

/// Tells the entries below a root, sorted by path.
pub(super) fn walk(root: &Root, options: &WalkOptions, deadline: &Deadline) -> Result<WalkResult, WorkspaceError> {
    let entries = Entries(Least::new([limit(options), MAX_FOUND_BYTES]));
    let extent = visit(root, options, deadline, &entries)?;
    let (mut entries, is_over) = entries.0.into_sorted();
    if is_over {
        entries.pop();
    }
    let entries = entries.into_iter().map(|(path, entry)| Entry { path: text(path), ..entry }).collect();
    Ok(WalkResult { entries, truncated: is_over || extent == Extent::Cut })
}

/// How many results a plugin wants, as far as it may.
pub(super) fn limit(options: &WalkOptions) -> u64 {
    options.limit.clamp(1, MAX_ENTRIES).into()
}

/// A path as the guest gets it, without a copy where it is UTF-8.
pub(super) fn text(path: OsString) -> String {
    path.into_string().unwrap_or_else(|path| path.to_string_lossy().into_owned())
}

/// About what a path takes in a result; what is not UTF-8 grows when it is replaced.
pub(super) fn path_bytes(path: &OsStr) -> u64 {
    let bytes = path.len() as u64;
    if path.to_str().is_some() { bytes } else { 4 * bytes }
}

/// Limited in number and bytes. The paths are the keys, and empty in the entries.
struct Entries(Least<Entry, 2>);

impl Visitor for Entries {
    type Tools = ();
    const RUN: usize = 64;

    fn tools(&self) {}

    fn see(&self, (): &mut (), found: &Found<'_>) {
        self.0.add(found.path, [1, ENTRY_BYTES + path_bytes(found.path)], entry(found));
    }

    fn is_beyond(&self, path: &OsStr) -> bool {
        self.0.is_beyond(path)
    }
}

/// Sees what a walk finds, on several threads.
pub(super) trait Visitor: Sync {
    /// What each thread has of its own.
    type Tools;
    /// Entries that one thread takes at once.
    const RUN: usize;

    fn tools(&self) -> Self::Tools;

    /// Threads that may work on it.
    fn threads(&self) -> usize {
        threads()
    }

    fn see(&self, tools: &mut Self::Tools, found: &Found<'_>);

    /// Is nothing wanted any more at this path and after it?
    fn is_beyond(&self, path: &OsStr) -> bool;
}

/// An entry that was not left out.
pub(super) struct Found<'a> {
    /// The folder that holds it.
    pub(super) folder: &'a Dir,
    /// Its name in there.
    pub(super) name: &'a OsStr,
    /// Its path from the walk's root, with '/' between the parts; empty for the root itself.
    pub(super) path: &'a OsStr,
    pub(super) kind: Kind,
}

/// How much of what there is a walk has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All that it should.
    Whole,
    /// Something was too deep, or too much to be held in memory.
    Cut,
}

/// Walks, and shows each entry to the visitor.
///
/// # Errors
/// The root cannot be opened, an option makes no sense, or the call was given up. What goes wrong below the root is
/// left out, like files that one may not read.
pub(super) fn visit<V: Visitor>(
    root: &Root,
    options: &WalkOptions,
    deadline: &Deadline,
    visitor: &V,
) -> Result<Extent, WorkspaceError> {
    let filter = Filter::new(options)?;
    let folder = match open_root(root).map_err(|error| io_error(&root.path, &error))? {
        Start::Folder(folder) => folder,
        Start::File { folder, name, kind } => {
            visitor.see(&mut visitor.tools(), &Found { folder: &folder, name: &name, path: OsStr::new(""), kind });
            return if deadline.is_over() { Err(WorkspaceError::Cancelled) } else { Ok(Extent::Whole) };
        }
    };
    let rules_budget = Budget::new(MAX_RULES_BYTES);
    let rules = if filter.reads_ignore_files() { rules_above(root, &rules_budget) } else { Arc::default() };
    let walker = Walker {
        root,
        options,
        filter,
        deadline,
        visitor,
        queue: Queue::new(),
        waiting: Budget::new(MAX_WAITING_BYTES),
        rules: rules_budget,
        places: Arc::default(),
        is_cut: AtomicBool::new(false),
    };
    walker.list(folder, OsString::new(), 1, &rules);
    walker.work();
    if deadline.is_over() {
        return Err(WorkspaceError::Cancelled);
    }
    Ok(if walker.is_cut.into_inner() { Extent::Cut } else { Extent::Whole })
}

enum Start {
    Folder(Dir),
    File { folder: Dir, name: OsString, kind: Kind },
}

fn open_root(root: &Root) -> io::Result<Start> {
    let folder = Dir::from_std_file(root.spot.directory.try_clone()?);
    let Some(name) = &root.spot.name else { return folder.open_dir(".").map(Start::Folder) };
    // Links in the path of the root itself were followed when its place was found.
    let metadata = folder.symlink_metadata(name)?;
    if metadata.is_dir() {
        return open_dir(&folder, name).map(Start::Folder);
    }
    Ok(Start::File { folder, name: name.clone(), kind: kind_of(metadata.file_type()) })
}

/// `path` below `folder`, where an empty one is the folder itself.
fn opened(folder: &Dir, path: &Path) -> io::Result<Dir> {
    if path.as_os_str().is_empty() { folder.try_clone() } else { folder.open_dir(path) }
}

/// The ignore files from the granted folder down to the root's parent; those of the root itself come with its listing.
fn rules_above(root: &Root, budget: &Arc<Budget>) -> Arc<Rules> {
    let mut rules = Arc::default();
    let mut path = PathBuf::new();
    for component in root.relative.components() {
        if let Ok(folder) = opened(&root.folder, &path) {
            rules = Rules::below(&rules, &folder, &path, Present::ALL, budget);
        }
        path.push(component);
    }
    rules
}

struct Walker<'a, V> {
    root: &'a Root,
    options: &'a WalkOptions,
    filter: Filter,
    deadline: &'a Deadline,
    visitor: &'a V,
    queue: Queue<Work>,
    /// Memory for what waits.
    waiting: Arc<Budget>,
    /// Memory for ignore files.
    rules: Arc<Budget>,
    /// Directories that are held open.
    places: Arc<AtomicUsize>,
    is_cut: AtomicBool,
}

/// A folder that was listed, kept open for what is in it.
struct Place {
    folder: Dir,
    /// Its path from the walk's root; ends with '/', but for the root.
    path: OsString,
    /// How many places there are.
    count: Arc<AtomicUsize>,
}

impl Place {
    fn new(folder: Dir, path: OsString, count: &Arc<AtomicUsize>) -> Arc<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { folder, path, count: count.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a listing tells of an entry.
struct Listed {
    name: OsString,
    kind: Kind,
}

impl Listed {
    fn bytes(&self) -> u64 {
        LISTED_BYTES + self.name.len() as u64
    }
}

/// A piece of work, with the memory that it takes.
struct Work {
    task: Task,
    _share: Share,
}

enum Task {
    /// To list a folder. Opened only then, so that few handles are open at once.
    List { parent: Arc<Place>, name: OsString, depth: u32, rules: Arc<Rules> },
    /// To see a run of entries, sorted by name.
    See { place: Arc<Place>, entries: Vec<Listed> },
}

/// What is in a directory, sorted by name, with the memory that it takes.
struct Listing {
    entries: Vec<Listed>,
    present: Present,
    share: Share,
}

impl<V: Visitor> Walker<'_, V> {
    /// Works until nothing is left to do.
    fn work(&self) {
        let mut tools = self.visitor.tools();
        while self.queue.waiting() == 1 {
            self.take(&mut tools);
        }
        if self.queue.waiting() == 0 {
            return;
        }
        let work = |mut tools: V::Tools| while self.take(&mut tools).is_some() {};
        std::thread::scope(|scope| {
            for _ in 1..self.visitor.threads() {
                scope.spawn(|| work(self.visitor.tools()));
            }
            work(tools);
        });
    }

    /// Takes a piece of work and does it; none when all is done.
    fn take(&self, tools: &mut V::Tools) -> Option<()> {
        let is_scarce = || self.places.load(Ordering::Relaxed) > MANY_PLACES;
        let (path, work, _taken) = self.queue.take(is_scarce)?;
        if self.deadline.is_over() {
            self.queue.forget_from(OsStr::new(""));
        } else if self.visitor.is_beyond(&path) {
            self.queue.forget_from(&path);
        } else {
            match work.task {
                Task::See { place, entries } => self.see(&place, entries, tools),
                Task::List { parent, name, depth, rules } => match open_dir(&parent.folder, &name) {
                    Ok(folder) => self.list(folder, path, depth, &rules),
                    Err(error) if is_out_of_handles(&error) => self.cut(),
                    // What cannot be opened is left out: what became a link that leads out, too.
                    Err(_) => {}
                },
            }
        }
        Some(())
    }

    fn see(&self, place: &Place, entries: Vec<Listed>, tools: &mut V::Tools) {
        for Listed { name, kind } in entries {
            let path = joined(&place.path, &name);
            if self.deadline.is_over() || self.visitor.is_beyond(&path) {
                return;
            }
            self.visitor.see(tools, &Found { folder: &place.folder, name: &name, path: &path, kind });
        }
    }

    /// Lists a folder, and adds the work that it brings. `path` is as in [`Place`].
    fn list(&self, folder: Dir, path: OsString, depth: u32, rules: &Arc<Rules>) {
        let Ok(Listing { entries, present, mut share }) = self.entries(&folder) else { return };
        let from_grant = self.root.relative.join(&path);
        let rules = match self.filter.reads_ignore_files() {
            true => Rules::below(rules, &folder, &from_grant, present, &self.rules),
            false => rules.clone(),
        };
        let place = Place::new(folder, path, &self.places);
        let clock_step = if rules.are_slow() { 1 } else { CLOCK_STEP };
        let (mut work, mut run) = (Vec::new(), Vec::new());
        for (at, entry) in entries.into_iter().enumerate() {
            if at % clock_step == 0 && self.deadline.is_over() {
                return;
            }
            let path = joined(&place.path, &entry.name);
            if path.len() > MAX_PATH_BYTES {
                self.cut();
                continue;
            }
            if self.root.denied.iter().any(|denied| denied == Path::new(&path)) {
                continue;
            }
            let is_folder = entry.kind == Kind::Directory;
            let verdict = self.filter.verdict(Path::new(&path), &from_grant.join(&entry.name), is_folder, &rules);
            if verdict == Verdict::LeftOut {
                continue;
            }
            if is_folder && self.goes_below(depth) {
                let (parent, name, rules) = (place.clone(), entry.name.clone(), rules.clone());
                let task = Task::List { parent, name, depth: depth + 1, rules };
                work.extend(self.work_at(joined(&path, OsStr::new("/")), entry.name.len() as u64, task, None));
            }
            if verdict == Verdict::Told {
                run.push(entry);
            }
            if run.len() == V::RUN {
                work.extend(self.see_work(&place, std::mem::take(&mut run), &mut share));
            }
        }
        work.extend(self.see_work(&place, run, &mut share));
        self.queue.add(work);
    }

    /// A run's place among the work is that of its first entry; its memory comes out of that of the listing.
    fn see_work(&self, place: &Arc<Place>, entries: Vec<Listed>, listing: &mut Share) -> Option<(OsString, Work)> {
        let path = joined(&place.path, &entries.first()?.name);
        let share = listing.split(entries.iter().map(Listed::bytes).sum());
        self.work_at(path, 0, Task::See { place: place.clone(), entries }, Some(share))
    }

    /// A piece of work, when there is memory for it.
    fn work_at(&self, path: OsString, bytes: u64, task: Task, share: Option<Share>) -> Option<(OsString, Work)> {
        let mut share = share.unwrap_or_else(|| self.waiting.share());
        if share.grow(WORK_BYTES + path.len() as u64 + bytes) {
            return Some((path, Work { task, _share: share }));
        }
        self.cut();
        None
    }

    /// What is in a folder, as far as there is memory for it.
    fn entries(&self, folder: &Dir) -> io::Result<Listing> {
        let mut listing = Listing { entries: Vec::new(), present: Present::default(), share: self.waiting.share() };
        let mut room = 0;
        for (at, entry) in folder.entries()?.flatten().enumerate() {
            if at % CLOCK_STEP == CLOCK_STEP - 1 && self.deadline.is_over() {
                break;
            }
            let name = entry.file_name();
            listing.present.see(name.as_encoded_bytes());
            let Ok(file_type) = entry.file_type() else { continue };
            let listed = Listed { name, kind: kind_of(file_type) };
            if room < listed.bytes() {
                if !listing.share.grow(LISTING_STEP) {
                    self.cut();
                    break;
                }
                room += LISTING_STEP;
            }
            room -= listed.bytes();
            listing.entries.push(listed);
        }
        // What was taken and is not needed is free for others.
        drop(listing.share.split(room));
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn goes_below(&self, depth: u32) -> bool {
        if self.options.max_depth.is_some_and(|max| depth >= max) {
            return false;
        }
        if depth == MAX_DEPTH {
            self.cut();
        }
        depth < MAX_DEPTH
    }
}

/// Returns whether the process, or the system, has no file handle left.
fn is_out_of_handles(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    #[cfg(not(unix))]
    let codes: [i32; 0] = [];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn joined(path: &OsStr, name: &OsStr) -> OsString {
    let mut joined = OsString::with_capacity(path.len() + name.len() + 1);
    joined.push(path);
    joined.push(name);
    joined
}

fn entry(found: &Found<'_>) -> Entry {
    let metadata = found.folder.symlink_metadata(found.name).ok();
    let size = metadata.as_ref().filter(|_| found.kind == Kind::File).map_or(0, cap_std::fs::Metadata::len);
    let modified = metadata.and_then(|m| m.modified().ok()).map(cap_std::time::SystemTime::into_std);
    let since_epoch = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = since_epoch.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0);
    Entry { path: String::new(), kind: found.kind, size, modified_ms }
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// Opens a directory by its name in another. A link is an error.
#[cfg(unix)]
fn open_dir(folder: &Dir, name: &OsStr) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(rustix::fs::openat(folder, name, flags, Mode::empty())?.into()))
}

/// Opens a directory by its name in another. A link that stays inside is followed.
#[cfg(not(unix))]
fn open_dir(folder: &Dir, name: &OsStr) -> io::Result<Dir> {
    folder.open_dir(name)
}

/// Opens a file to read it; a link is an error. What is no file does not make this wait: a pipe is opened without waiting for its writer.
pub(super) fn open_file(folder: &Dir, name: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits().cast_signed();
        cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    Ok(folder.open_with(name, &options)?.into_std())
}
