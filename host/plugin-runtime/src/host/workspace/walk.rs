//! Finding files: a walk that shows each entry that is not left out to a visitor.
//!
//! Work is cut into pieces, folders to list and runs of entries to look at, and taken in the order of their paths. One
//! thread begins; as soon as there is work for two, there are as many as the machine has cores.

use super::ignores::{Filter, Present, Rules, Verdict};
use super::least::Least;
use super::queue::Queue;
use super::{Root, Stop, io_error, threads};
use crate::bindings::pinion::plugin::workspace::{Entry, Kind, WalkOptions, WalkResult, WorkspaceError};
use cap_std::fs::{Dir, FileType, OpenOptions};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

/// Entries told at most, whatever the limit.
const MAX_ENTRIES: u32 = 100_000;
/// Folders deeper below the root are not walked: each holds a handle while the walk is in it.
const MAX_DEPTH: u32 = 128;
/// Entries of one folder that are looked at.
const MAX_IN_FOLDER: usize = 500_000;

/// Tells the entries below a root, sorted by path.
pub(super) fn walk(root: &Root, options: &WalkOptions, stop: &Stop) -> Result<WalkResult, WorkspaceError> {
    let entries = Entries(Least::new([limit(options)]));
    let extent = visit(root, options, stop, &entries)?;
    let (mut entries, is_over) = entries.0.into_sorted();
    if is_over {
        entries.pop();
    }
    Ok(WalkResult { entries, truncated: is_over || extent == Extent::Cut })
}

/// How many results a plugin wants, as far as it may.
pub(super) fn limit(options: &WalkOptions) -> u64 {
    options.limit.clamp(1, MAX_ENTRIES).into()
}

struct Entries(Least<Entry, 1>);

impl Visitor for Entries {
    type Tools = ();
    const RUN: usize = 64;

    fn tools(&self) {}

    fn see(&self, (): &mut (), found: &Found<'_>) {
        self.0.add(found.path, [1], entry(found));
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
    /// Something was too deep, or too much in one folder.
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
    stop: &Stop,
    visitor: &V,
) -> Result<Extent, WorkspaceError> {
    let filter = Filter::new(options)?;
    let folder = match open_root(root).map_err(|error| io_error(&root.path, &error))? {
        Start::Folder(folder) => folder,
        Start::File { folder, name, kind } => {
            visitor.see(&mut visitor.tools(), &Found { folder: &folder, name: &name, path: OsStr::new(""), kind });
            return if stop.now() { Err(WorkspaceError::Cancelled) } else { Ok(Extent::Whole) };
        }
    };
    let rules = if filter.reads_ignore_files() { rules_above(root) } else { Arc::default() };
    let walker = Walker { root, options, filter, stop, visitor, queue: Queue::new(), is_cut: AtomicBool::new(false) };
    walker.list(folder, OsString::new(), 1, &rules);
    walker.work();
    if stop.now() {
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
fn rules_above(root: &Root) -> Arc<Rules> {
    let mut rules = Arc::default();
    let mut path = PathBuf::new();
    for component in root.relative.components() {
        if let Ok(folder) = opened(&root.folder, &path) {
            rules = Rules::below(&rules, &folder, &path, Present::ALL);
        }
        path.push(component);
    }
    rules
}

struct Walker<'a, V> {
    root: &'a Root,
    options: &'a WalkOptions,
    filter: Filter,
    stop: &'a Stop,
    visitor: &'a V,
    queue: Queue<Work>,
    is_cut: AtomicBool,
}

/// A folder that was listed, kept open for what is in it.
struct Place {
    folder: Dir,
    /// Its path from the walk's root; ends with '/', but for the root.
    path: OsString,
}

/// What a listing tells of an entry.
struct Listed {
    name: OsString,
    kind: Kind,
}

/// A piece of work.
enum Work {
    /// To list a folder. Opened only then, so that few handles are open at once.
    List { parent: Arc<Place>, name: OsString, depth: u32, rules: Arc<Rules> },
    /// To see a run of entries, sorted by name.
    See { place: Arc<Place>, entries: Vec<Listed> },
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
            for _ in 1..threads() {
                scope.spawn(|| work(self.visitor.tools()));
            }
            work(tools);
        });
    }

    /// Takes a piece of work and does it; none when all is done.
    fn take(&self, tools: &mut V::Tools) -> Option<()> {
        let (path, work, _taken) = self.queue.take()?;
        if self.stop.now() {
            self.queue.forget_from(OsStr::new(""));
        } else if self.visitor.is_beyond(&path) {
            self.queue.forget_from(&path);
        } else {
            match work {
                Work::See { place, entries } => self.see(&place, entries, tools),
                Work::List { parent, name, depth, rules } => {
                    // What cannot be opened is left out: what became a link that leads out, too.
                    if let Ok(folder) = open_dir(&parent.folder, &name) {
                        self.list(folder, path, depth, &rules);
                    }
                }
            }
        }
        Some(())
    }

    fn see(&self, place: &Place, entries: Vec<Listed>, tools: &mut V::Tools) {
        for Listed { name, kind } in entries {
            let path = joined(&place.path, &name);
            if self.stop.now() || self.visitor.is_beyond(&path) {
                return;
            }
            self.visitor.see(tools, &Found { folder: &place.folder, name: &name, path: &path, kind });
        }
    }

    /// Lists a folder, and adds the work that it brings. `path` is as in [`Place`].
    fn list(&self, folder: Dir, path: OsString, depth: u32, rules: &Arc<Rules>) {
        let Ok((entries, present)) = self.entries(&folder) else { return };
        let from_grant = self.root.relative.join(&path);
        let rules = match self.filter.reads_ignore_files() {
            true => Rules::below(rules, &folder, &from_grant, present),
            false => rules.clone(),
        };
        let place = Arc::new(Place { folder, path });
        let (mut work, mut run) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = joined(&place.path, &entry.name);
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
                work.push((joined(&path, OsStr::new("/")), Work::List { parent, name, depth: depth + 1, rules }));
            }
            if verdict == Verdict::Told {
                run.push(entry);
            }
            if run.len() == V::RUN {
                work.extend(see_work(&place, std::mem::take(&mut run)));
            }
        }
        work.extend(see_work(&place, run));
        self.queue.add(work);
    }

    /// What is in a folder, sorted by name.
    fn entries(&self, folder: &Dir) -> io::Result<(Vec<Listed>, Present)> {
        let mut present = Present::default();
        let mut entries = Vec::new();
        for entry in folder.entries()?.flatten() {
            if entries.len() == MAX_IN_FOLDER {
                self.is_cut.store(true, Ordering::Relaxed);
                break;
            }
            let name = entry.file_name();
            present.see(name.as_encoded_bytes());
            if let Ok(file_type) = entry.file_type() {
                entries.push(Listed { name, kind: kind_of(file_type) });
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, present))
    }

    fn goes_below(&self, depth: u32) -> bool {
        if self.options.max_depth.is_some_and(|max| depth >= max) {
            return false;
        }
        if depth == MAX_DEPTH {
            self.is_cut.store(true, Ordering::Relaxed);
        }
        depth < MAX_DEPTH
    }
}

/// A run's place among the work is that of its first entry.
fn see_work(place: &Arc<Place>, entries: Vec<Listed>) -> Option<(OsString, Work)> {
    let path = joined(&place.path, &entries.first()?.name);
    Some((path, Work::See { place: place.clone(), entries }))
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
    Entry { path: found.path.to_string_lossy().into_owned(), kind: found.kind, size, modified_ms }
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
