//! Places in directories that a program has changed: reached from an open directory, step by step and through no link, so
//! that another program cannot lead elsewhere in the meantime.
//!
//! A program can take the rights from a directory, so that its user no longer reaches its content. Such a directory is
//! opened for a while.

use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RawMode, RenameFlags, openat, readlinkat, renameat_with, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of entries of a directory that are examined one by one, each with an open handle.
const MAX_ENTRIES: usize = 100;
/// Attempts at a new name.
const ATTEMPTS: usize = 100;
/// The rights of an owner.
const OWNER: u32 = 0o700;
/// Flags of a handle that only reaches names.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct DirectoryName {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// The end of the way to a path.
#[derive(Debug)]
pub(crate) enum Reached {
    /// Nothing is there, or a file is where a directory should be.
    Missing,
    /// A link is on the way.
    Link(DirectoryName),
    /// The path.
    At(DirectoryName),
}

/// Directories that are open for a while. They get their modes back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct UnlockedDirectories(Vec<(DirectoryName, u32, u64)>);

impl UnlockedDirectories {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Opens a directory that the modes of this user close.
    pub(crate) fn open(&mut self, place: &DirectoryName) -> Result<(), Errno> {
        let found = place.stat()?;
        let bits = bits(&found);
        if kind(&found) != FileType::Directory || bits & OWNER == OWNER {
            return Err(Errno::ACCESS);
        }
        place.set_mode(bits | OWNER)?;
        self.0.push((place.again()?, bits, found.st_ino));
        Ok(())
    }
}

impl Drop for UnlockedDirectories {
    fn drop(&mut self) {
        // Those inside others first.
        for (place, bits, inode) in self.0.drain(..).rev() {
            // A directory that is gone or was replaced needs no mode.
            let is_same = place.stat().is_ok_and(|found| found.st_ino == inode);
            let _ = is_same.then(|| place.set_mode(bits));
        }
    }
}

impl DirectoryName {
    /// Goes from a directory to a path in it.
    ///
    /// # Errors
    /// The system does not let this user get there.
    pub(crate) fn reach(root: &Path, path: &Path, opened: &mut UnlockedDirectories) -> Result<Reached, Errno> {
        let (Some(around), Some(name)) = (root.parent(), root.file_name()) else {
            // The root of the system has no name.
            let parent = rustix::fs::open("/", DIRECTORY, Mode::empty())?;
            return Self { parent, name: OsString::new(), path: root.to_owned() }.below(root, path, opened);
        };
        let parent = rustix::fs::open(around, DIRECTORY, Mode::empty())?;
        let root_place = Self { parent, name: name.to_owned(), path: root.to_owned() };
        match root_place.stat().map(|found| kind(&found)) {
            Ok(FileType::Directory) if path == root => Ok(Reached::At(root_place)),
            Ok(FileType::Directory) => root_place.enter(opened)?.below(root, path, opened),
            Ok(_) | Err(Errno::NOENT) => Ok(Reached::Missing),
            Err(error) => Err(error),
        }
    }

    /// Goes to a name in a directory of a root that is free; `None` if the directory is not there.
    pub(crate) fn reach_new(root: &Path, path: &Path, opened: &mut UnlockedDirectories) -> Option<Self> {
        let around = match Self::reach(root, path.parent()?, opened).ok()? {
            Reached::At(around) => around.enter(opened).ok()?,
            Reached::Missing | Reached::Link(_) => return None,
        };
        Some(Self { parent: around.parent, name: path.file_name()?.to_owned(), path: path.to_owned() })
    }

    /// Goes on from an open directory, which `self` stands for with an empty name.
    fn below(self, root: &Path, path: &Path, opened: &mut UnlockedDirectories) -> Result<Reached, Errno> {
        let Ok(rest) = path.strip_prefix(root) else { return Ok(Reached::Missing) };
        let mut here = self;
        let mut left = rest.components().peekable();
        while let Some(Component::Normal(name)) = left.next() {
            let place = Self { path: here.path.join(name), name: name.to_owned(), parent: here.parent };
            let found = match place.stat() {
                Ok(found) => found,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Reached::Missing),
                Err(error) => return Err(error),
            };
            match (kind(&found), left.peek().is_some()) {
                (FileType::Symlink, true) => return Ok(Reached::Link(place)),
                (_, false) => return Ok(Reached::At(place)),
                (FileType::Directory, true) => here = place.enter(opened)?,
                (_, true) => return Ok(Reached::Missing),
            }
        }
        Ok(Reached::Missing)
    }

    /// Enters a directory, so that its names can be reached afterwards.
    fn enter(self, opened: &mut UnlockedDirectories) -> Result<Self, Errno> {
        let directory = openat(&self.parent, &self.name, DIRECTORY, Mode::empty())?;
        if matches!(statat(&directory, c".", AtFlags::SYMLINK_NOFOLLOW), Err(Errno::ACCESS)) {
            opened.open(&self)?;
        }
        Ok(Self { parent: directory, name: OsString::new(), path: self.path })
    }

    fn again(&self) -> Result<Self, Errno> {
        let parent = rustix::io::fcntl_dupfd_cloexec(&self.parent, 0)?;
        Ok(Self { parent, name: self.name.clone(), path: self.path.clone() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn stat(&self) -> Result<rustix::fs::Stat, Errno> {
        statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(crate) fn kind(&self) -> Option<FileType> {
        self.stat().ok().map(|found| kind(&found))
    }

    pub(crate) fn link(&self) -> Option<PathBuf> {
        let target = readlinkat(&self.parent, &self.name, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Reads a regular file; `None` if it is something else, or too long.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = openat(&self.parent, &self.name, flags, Mode::empty()).ok()?;
        if kind(&rustix::fs::fstat(&file).ok()?) != FileType::RegularFile {
            return None;
        }
        let mut content = Vec::new();
        std::fs::File::from(file).take(pinion_git::MAX_FILE_BYTES + 1).read_to_end(&mut content).ok()?;
        (content.len() as u64 <= pinion_git::MAX_FILE_BYTES).then_some(content)
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    /// The system does not list it for this user, or there are more than [`MAX_ENTRIES`].
    pub(crate) fn entries(&self, opened: &mut UnlockedDirectories) -> Result<Vec<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.parent, &self.name, flags, Mode::empty());
        let directory = match open() {
            Err(Errno::ACCESS) => {
                opened.open(self)?;
                open()?
            }
            directory => directory?,
        };
        let mut places = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                if places.len() == MAX_ENTRIES {
                    return Err(Errno::TOOBIG);
                }
                let parent = rustix::io::fcntl_dupfd_cloexec(&directory, 0)?;
                places.push(Self { parent, path: self.path.join(&name), name });
            }
        }
        Ok(places)
    }

    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// The system does not let this user, or something is there.
    pub(crate) fn create(&self, content: &[u8], mode: u32) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.parent, &self.name, flags, Mode::from_bits_truncate(mode as RawMode))?;
        let written = std::fs::File::from(file).write_all(content);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Creates a link that does not exist yet.
    ///
    /// # Errors
    /// The system does not let this user, or something is there.
    pub(crate) fn create_link(&self, target: &Path) -> Result<(), Errno> {
        rustix::fs::symlinkat(target, &self.parent, &self.name)
    }

    /// Moves this entry to a new name in a directory, or next to its place if that is on another file system. Nothing
    /// is ever deleted. Returns the new path.
    ///
    /// # Errors
    /// The system does not let this user.
    pub(crate) fn move_away(&self, to: &Path, opened: &mut UnlockedDirectories) -> Result<PathBuf, Errno> {
        let found = self.stat()?;
        // A directory that moves to another one is changed itself.
        let bits = Some(bits(&found)).filter(|bits| kind(&found) == FileType::Directory && bits & OWNER != OWNER);
        if let Some(bits) = bits {
            self.set_mode(bits | OWNER)?;
        }
        let moved = match self.renamed_into(to) {
            // The directory around it may be closed.
            Err(Errno::ACCESS) if self.around().is_ok_and(|around| opened.open(&around).is_ok()) => {
                self.renamed_into(to)
            }
            moved => moved,
        };
        let moved = moved.or_else(|_| self.renamed_beside());
        match (bits, moved) {
            (Some(bits), Ok(moved)) => moved.set_mode(bits).map(|()| moved.path),
            (Some(bits), Err(error)) => self.set_mode(bits).and(Err(error)),
            (None, moved) => moved.map(|moved| moved.path),
        }
    }

    fn renamed_into(&self, to: &Path) -> Result<Self, Errno> {
        let _ = std::fs::create_dir_all(to);
        let directory = rustix::fs::open(to, DIRECTORY, Mode::empty())?;
        self.renamed(&directory, to, |number| {
            let mut name = OsString::from(format!("removed-{number}-"));
            name.push(&self.name);
            name
        })
    }

    fn renamed_beside(&self) -> Result<Self, Errno> {
        self.renamed(&self.parent, self.path.parent().unwrap_or(&self.path), |number| {
            let mut name = self.name.clone();
            name.push(format!(".pinion-removed-{number}"));
            name
        })
    }

    /// Renames to the first free one of several names.
    fn renamed(&self, to: &OwnedFd, at: &Path, name: impl Fn(&str) -> OsString) -> Result<Self, Errno> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        for _ in 0..ATTEMPTS {
            let name = name(&format!("{seconds}-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
            let renamed = match renameat_with(&self.parent, &self.name, to, &name, RenameFlags::NOREPLACE) {
                // Some file systems do not know the flag.
                Err(Errno::INVAL | Errno::NOSYS) if statat(to, &name, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
                    rustix::fs::renameat(&self.parent, &self.name, to, &name)
                }
                renamed => renamed,
            };
            match renamed {
                Err(Errno::EXIST) => {}
                renamed => {
                    let parent = rustix::io::fcntl_dupfd_cloexec(to, 0)?;
                    return renamed.map(|()| Self { path: at.join(&name), name, parent });
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Returns the place of the directory around this one.
    fn around(&self) -> Result<Self, Errno> {
        let around = self.path.parent().ok_or(Errno::ACCESS)?;
        let (above, name) = around.parent().zip(around.file_name()).ok_or(Errno::ACCESS)?;
        let place = Self {
            parent: rustix::fs::open(above, DIRECTORY, Mode::empty())?,
            name: name.to_owned(),
            path: around.to_owned(),
        };
        // By its path, it could be another directory meanwhile.
        let is_same = rustix::fs::fstat(&self.parent)?.st_ino == place.stat()?.st_ino;
        if is_same { Ok(place) } else { Err(Errno::ACCESS) }
    }

    /// Sets the mode of a file or directory, and never the mode of a link's target.
    fn set_mode(&self, bits: u32) -> Result<(), Errno> {
        let mode = Mode::from_bits_truncate(bits as RawMode);
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&self.parent, &self.name, flags, Mode::empty())?;
            if kind(&rustix::fs::fstat(&file)?) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
            // A handle of this kind has no mode to set, except by its own name.
            rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
        }
        #[cfg(not(target_os = "linux"))]
        rustix::fs::chmodat(&self.parent, &self.name, mode, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Returns whether a name belongs to a sample of a hook.
pub(crate) fn is_sample(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("sample"))
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn bits(found: &rustix::fs::Stat) -> u32 {
    found.st_mode as u32 & 0o7777
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn kind(found: &rustix::fs::Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode as RawMode)
}
