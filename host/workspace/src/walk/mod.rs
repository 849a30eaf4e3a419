//! Finding files: a walk that passes each entry that is not excluded to a visitor.
//!
//! Work is cut into pieces, directories to list and runs of entries to visit, and taken in the order of paths. One thread
//! begins; as soon as there is work for two, as many work as the machine has cores.

mod budget;
pub(crate) mod first_by_path;
mod ignores;
mod patterns;
mod queue;
#[cfg(test)]
mod tests;

use self::budget::{ByteBudget, Reservation};
use self::first_by_path::FirstByPath;
use self::ignores::{Filter, IgnoreFiles, IgnoreVerdict, Present};
use self::queue::PathQueue;
use crate::open::{is_out_of_handles, open_dir};
use crate::threads::Interrupt;
use crate::threads::threads;
use crate::types::{Entry, Kind, WalkOptions, WalkResult, WorkspaceError};
use crate::types::{WalkRoot, io_error};
use cap_std::fs::{Dir, FileType};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

/// Entries of one result at most, regardless of the plugin's limit.
pub(crate) const MAX_ENTRIES: u32 = 100_000;
/// Depth of the walk below the root: each level holds a handle.
const MAX_DEPTH: u32 = 128;
/// Bytes of a path below the root. No system call accepts a longer one.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of memory that the result of a walk may take.
pub(crate) const MAX_FOUND_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of memory for listed entries that wait to be visited.
const MAX_WAITING_BYTES: u64 = 24 * 1024 * 1024;
/// Bytes of memory for compiled ignore files.
const MAX_RULES_BYTES: u64 = 16 * 1024 * 1024;
/// Directories held open before the walk continues on one thread. One thread holds one for each level of depth.
const MANY_OPEN: usize = 128;
/// Approximate bytes of a listed entry without its name.
const LISTED_BYTES: u64 = 64;
/// Approximate bytes of a piece of work without its paths.
const WORK_BYTES: u64 = 256;
/// Approximate bytes of an entry of the result without its path.
const ENTRY_BYTES: u64 = 160;
/// Growth of a reservation in bytes while a directory is listed.
const LISTING_STEP: u64 = 64 * 1024;
/// Entries that are listed, or matched against ignore files, between two checks of the deadline.
const CLOCK_STEP: usize = 64;

/// Lists the entries below a root, sorted by path.
pub fn walk(root: &WalkRoot, options: &WalkOptions, deadline: &dyn Interrupt) -> Result<WalkResult, WorkspaceError> {
    let entries = BoundedEntries(FirstByPath::new([limit(options), MAX_FOUND_BYTES]));
    let extent = visit(root, options, deadline, &entries)?;
    let (mut entries, is_over) = entries.0.into_sorted();
    if is_over {
        entries.pop();
    }
    let entries = entries.into_iter().map(|(path, entry)| Entry { path: text(path), ..entry }).collect();
    Ok(WalkResult { entries, truncated: is_over || extent == Extent::Cut })
}

/// The number of results that a plugin asks for, within bounds.
pub(crate) fn limit(options: &WalkOptions) -> u64 {
    options.limit.clamp(1, MAX_ENTRIES).into()
}

/// Converts a path for the guest, without a copy if it is UTF-8.
pub(crate) fn text(path: OsString) -> String {
    path.into_string().unwrap_or_else(|path| path.to_string_lossy().into_owned())
}

/// Estimates the bytes of a path in a result; bytes that are not UTF-8 grow when they are replaced.
pub(crate) fn path_bytes(path: &OsStr) -> u64 {
    let bytes = path.len() as u64;
    if path.to_str().is_some() { bytes } else { 4 * bytes }
}

/// The entries of a result, limited in number and bytes. Paths are keys, and empty in the entries.
struct BoundedEntries(FirstByPath<Entry, 2>);

impl Visitor for BoundedEntries {
    type Tools = ();
    const RUN: usize = 64;

    fn tools(&self) {}

    fn visit(&self, (): &mut (), found: &IncludedEntry<'_>) {
        self.0.add(found.path, [1, ENTRY_BYTES + path_bytes(found.path)], entry(found));
    }

    fn is_beyond(&self, path: &OsStr) -> bool {
        self.0.is_beyond(path)
    }
}

/// Visits the entries of a walk, from several threads.
pub(crate) trait Visitor: Sync {
    /// The state of each thread.
    type Tools;
    /// Entries that one thread takes from the queue at once.
    const RUN: usize;

    /// Creates the state of a thread.
    fn tools(&self) -> Self::Tools;

    /// The number of threads that may take part.
    fn threads(&self) -> usize {
        threads()
    }

    /// Visits one entry.
    fn visit(&self, tools: &mut Self::Tools, found: &IncludedEntry<'_>);

    /// Returns whether entries at this path and after it are no longer needed.
    fn is_beyond(&self, path: &OsStr) -> bool;
}

/// An entry that is not excluded.
pub(crate) struct IncludedEntry<'a> {
    /// The directory that holds it.
    pub(crate) directory: &'a Dir,
    /// Its name in the directory.
    pub(crate) name: &'a OsStr,
    /// Its path from the walk's root, separated by '/'; empty for the root itself.
    pub(crate) path: &'a OsStr,
    pub(crate) kind: Kind,
}

/// The extent of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The walk visited every entry that it should.
    Complete,
    /// Some entries were too deep, or there was no memory for them.
    Cut,
}

/// Walks a tree, and passes each entry to the visitor.
///
/// # Errors
/// The root cannot be opened or read, an option is invalid, or the call is over. Entries below the root that cannot be read are
/// left out.
pub(crate) fn visit<V: Visitor>(
    root: &WalkRoot,
    options: &WalkOptions,
    deadline: &dyn Interrupt,
    visitor: &V,
) -> Result<Extent, WorkspaceError> {
    let filter = Filter::new(options)?;
    let directory = match open_root(root).map_err(|error| io_error(&root.path, &error))? {
        Start::Directory(directory) => directory,
        Start::File { directory, name, kind } => {
            let entry = IncludedEntry { directory: &directory, name: &name, path: OsStr::new(""), kind };
            visitor.visit(&mut visitor.tools(), &entry);
            return if deadline.is_over() { Err(WorkspaceError::Cancelled) } else { Ok(Extent::Complete) };
        }
    };
    let rules_budget = ByteBudget::new(MAX_RULES_BYTES);
    let rules = if filter.reads_ignore_files() { rules_above(root, &rules_budget) } else { Arc::default() };
    let walker = Walker {
        root,
        location: root.spot.target(),
        options,
        filter,
        deadline,
        visitor,
        queue: PathQueue::new(),
        waiting: ByteBudget::new(MAX_WAITING_BYTES),
        rules: rules_budget,
        open_count: Arc::default(),
        is_cut: AtomicBool::new(false),
    };
    walker.list(directory, OsString::new(), 1, &rules).map_err(|error| io_error(&root.path, &error))?;
    walker.work();
    if deadline.is_over() {
        return Err(WorkspaceError::Cancelled);
    }
    Ok(if walker.is_cut.into_inner() { Extent::Cut } else { Extent::Complete })
}

enum Start {
    Directory(Dir),
    File { directory: Dir, name: OsString, kind: Kind },
}

fn open_root(root: &WalkRoot) -> io::Result<Start> {
    let directory = Dir::from_std_file(root.spot.directory.try_clone()?);
    let Some(name) = &root.spot.name else { return existing(directory.open_dir(".")?) };
    // Links in the path of the root itself were followed when it was resolved.
    let metadata = directory.symlink_metadata(name)?;
    if metadata.is_dir() {
        return open_dir(&directory, name).map(Start::Directory);
    }
    Ok(Start::File { directory, name: name.clone(), kind: kind_of(metadata.file_type()) })
}

/// Fails for a directory that was removed: an open handle of it looks like an empty one.
fn existing(directory: Dir) -> io::Result<Start> {
    #[cfg(unix)]
    if cap_std::fs::MetadataExt::nlink(&directory.dir_metadata()?) == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(Start::Directory(directory))
}

/// Opens `path` below `directory`; an empty path is the directory itself.
fn opened(directory: &Dir, path: &Path) -> io::Result<Dir> {
    if path.as_os_str().is_empty() { directory.try_clone() } else { directory.open_dir(path) }
}

/// Reads the ignore files from the granted directory down to the root's parent. The root's ignore files come with its
/// listing.
fn rules_above(root: &WalkRoot, budget: &Arc<ByteBudget>) -> Arc<IgnoreFiles> {
    let mut rules = Arc::default();
    let mut path = PathBuf::new();
    for component in root.relative.components() {
        if let Ok(directory) = opened(&root.directory, &path) {
            rules = IgnoreFiles::below(&rules, &directory, &path, Present::ALL, budget);
        }
        path.push(component);
    }
    rules
}

struct Walker<'a, V> {
    root: &'a WalkRoot,
    /// The location of the root.
    location: PathBuf,
    options: &'a WalkOptions,
    filter: Filter,
    deadline: &'a dyn Interrupt,
    visitor: &'a V,
    queue: PathQueue<WalkTask>,
    /// Memory for work that waits.
    waiting: Arc<ByteBudget>,
    /// Memory for ignore files.
    rules: Arc<ByteBudget>,
    /// The number of directories that are held open.
    open_count: Arc<AtomicUsize>,
    is_cut: AtomicBool,
}

/// A listed directory, kept open for its entries.
struct OpenDirectory {
    directory: Dir,
    /// Its path from the walk's root, with a final '/' except for the root.
    path: OsString,
    /// Counts the directories that are held open.
    count: Arc<AtomicUsize>,
}

impl OpenDirectory {
    fn new(directory: Dir, path: OsString, count: &Arc<AtomicUsize>) -> Arc<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { directory, path, count: count.clone() })
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An entry of a listing.
struct ListedEntry {
    name: OsString,
    kind: Kind,
}

impl ListedEntry {
    fn bytes(&self) -> u64 {
        LISTED_BYTES + self.name.len() as u64
    }
}

/// A piece of work, with its memory.
struct WalkTask {
    task: Task,
    _reservation: Reservation,
}

enum Task {
    /// Lists a directory. It is opened only then, so that few handles are open at once.
    List { parent: Arc<OpenDirectory>, name: OsString, depth: u32, rules: Arc<IgnoreFiles> },
    /// Visits a run of entries, sorted by name.
    Visit { place: Arc<OpenDirectory>, entries: Vec<ListedEntry> },
}

/// The content of a directory, sorted by name, with its memory.
struct DirectoryListing {
    entries: Vec<ListedEntry>,
    present: Present,
    reservation: Reservation,
}

impl<V: Visitor> Walker<'_, V> {
    /// Works until the queue is empty.
    fn work(&self) {
        let mut tools = self.visitor.tools();
        while self.queue.waiting() == 1 {
            self.run_next(&mut tools);
        }
        if self.queue.waiting() == 0 {
            return;
        }
        let work = |mut tools: V::Tools| while self.run_next(&mut tools).is_some() {};
        std::thread::scope(|scope| {
            for _ in 1..self.visitor.threads() {
                scope.spawn(|| work(self.visitor.tools()));
            }
            work(tools);
        });
    }

    /// Takes a piece of work and does it. `None` when nothing is left.
    fn run_next(&self, tools: &mut V::Tools) -> Option<()> {
        let is_scarce = || self.open_count.load(Ordering::Relaxed) > MANY_OPEN;
        let (path, work, _taken) = self.queue.take_work(is_scarce)?;
        if self.deadline.is_over() {
            self.queue.forget_from(OsStr::new(""));
        } else if self.visitor.is_beyond(&path) {
            self.queue.forget_from(&path);
        } else {
            match work.task {
                Task::Visit { place, entries } => self.visit_run(&place, entries, tools),
                Task::List { parent, name, depth, rules } => match open_dir(&parent.directory, &name) {
                    // A directory that cannot be read is left out, also one that became a link to another place.
                    Ok(directory) => drop(self.list(directory, path, depth, &rules)),
                    Err(error) if is_out_of_handles(&error) => self.cut(),
                    Err(_) => {}
                },
            }
        }
        Some(())
    }

    fn visit_run(&self, place: &OpenDirectory, entries: Vec<ListedEntry>, tools: &mut V::Tools) {
        for ListedEntry { name, kind } in entries {
            let path = joined(&place.path, &name);
            if self.deadline.is_over() || self.visitor.is_beyond(&path) {
                return;
            }
            self.visitor.visit(tools, &IncludedEntry { directory: &place.directory, name: &name, path: &path, kind });
        }
    }

    /// Lists a directory, and queues the work in it. `path` is as in [`OpenDirectory`].
    fn list(&self, directory: Dir, path: OsString, depth: u32, rules: &Arc<IgnoreFiles>) -> io::Result<()> {
        let DirectoryListing { entries, present, mut reservation } = self.entries(&directory)?;
        let from_grant = self.root.relative.join(&path);
        let rules = match self.filter.reads_ignore_files() {
            true => IgnoreFiles::below(rules, &directory, &from_grant, present, &self.rules),
            false => rules.clone(),
        };
        let place = OpenDirectory::new(directory, path, &self.open_count);
        let clock_step = if rules.are_slow() { 1 } else { CLOCK_STEP };
        let (mut work, mut run) = (Vec::new(), Vec::new());
        for (at, entry) in entries.into_iter().enumerate() {
            if at % clock_step == 0 && self.deadline.is_over() {
                return Ok(());
            }
            let path = joined(&place.path, &entry.name);
            if path.len() > MAX_PATH_BYTES {
                self.cut();
                continue;
            }
            if self.root.denied.iter().any(|denied| denied == Path::new(&path)) {
                continue;
            }
            let is_directory = entry.kind == Kind::Directory;
            let verdict = self.filter.verdict(Path::new(&path), &from_grant.join(&entry.name), is_directory, &rules);
            if verdict == IgnoreVerdict::Excluded {
                continue;
            }
            if is_directory && !self.is_excluded(Path::new(&path), true) && self.may_descend(depth) {
                let (parent, name, rules) = (place.clone(), entry.name.clone(), rules.clone());
                let task = Task::List { parent, name, depth: depth + 1, rules };
                work.extend(self.work_at(joined(&path, OsStr::new("/")), entry.name.len() as u64, task, None));
            }
            if verdict == IgnoreVerdict::Included {
                run.push(entry);
            }
            if run.len() == V::RUN {
                work.extend(self.visit_work(&place, std::mem::take(&mut run), &mut reservation));
            }
        }
        work.extend(self.visit_work(&place, run, &mut reservation));
        self.queue.add(work);
        Ok(())
    }

    /// Creates the work of visiting a run. Its path is its first entry's path; its memory is taken from the listing.
    fn visit_work(
        &self,
        place: &Arc<OpenDirectory>,
        entries: Vec<ListedEntry>,
        listing: &mut Reservation,
    ) -> Option<(OsString, WalkTask)> {
        let path = joined(&place.path, &entries.first()?.name);
        let reservation = listing.split(entries.iter().map(ListedEntry::bytes).sum());
        self.work_at(path, 0, Task::Visit { place: place.clone(), entries }, Some(reservation))
    }

    /// Creates a piece of work, if there is memory for it.
    fn work_at(
        &self,
        path: OsString,
        bytes: u64,
        task: Task,
        reservation: Option<Reservation>,
    ) -> Option<(OsString, WalkTask)> {
        let mut reservation = reservation.unwrap_or_else(|| self.waiting.reservation());
        if reservation.grow(WORK_BYTES + path.len() as u64 + bytes) {
            return Some((path, WalkTask { task, _reservation: reservation }));
        }
        self.cut();
        None
    }

    /// Reads the content of a directory, within the available memory.
    fn entries(&self, directory: &Dir) -> io::Result<DirectoryListing> {
        let (entries, reservation) = (Vec::new(), self.waiting.reservation());
        let mut listing = DirectoryListing { entries, present: Present::default(), reservation };
        let mut room = 0;
        for (at, entry) in directory.entries()?.flatten().enumerate() {
            if at % CLOCK_STEP == CLOCK_STEP - 1 && self.deadline.is_over() {
                break;
            }
            let name = entry.file_name();
            listing.present.note(name.as_encoded_bytes());
            let Ok(file_type) = entry.file_type() else { continue };
            let listed = ListedEntry { name, kind: kind_of(file_type) };
            if room < listed.bytes() {
                if !listing.reservation.grow(LISTING_STEP) {
                    self.cut();
                    break;
                }
                room += LISTING_STEP;
            }
            room -= listed.bytes();
            listing.entries.push(listed);
        }
        // Return the unused part of the reservation.
        drop(listing.reservation.split(room));
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    fn is_excluded(&self, path: &Path, is_directory: bool) -> bool {
        let exclusions = self.root.exclusions.exclusions();
        !exclusions.is_empty() && exclusions.of_entry(&self.location.join(path), is_directory).is_some()
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn may_descend(&self, depth: u32) -> bool {
        if self.options.max_depth.is_some_and(|max| depth >= max) {
            return false;
        }
        if depth == MAX_DEPTH {
            self.cut();
        }
        depth < MAX_DEPTH
    }
}

fn joined(path: &OsStr, name: &OsStr) -> OsString {
    let mut joined = OsString::with_capacity(path.len() + name.len() + 1);
    joined.push(path);
    joined.push(name);
    joined
}

fn entry(found: &IncludedEntry<'_>) -> Entry {
    let metadata = found.directory.symlink_metadata(found.name).ok();
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
