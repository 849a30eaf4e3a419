//! Access to the files below a directory that follows no link.
//!
//! Programs that change links meanwhile lead nothing elsewhere: every directory on the way is opened by its name in the
//! one above, and a link there is an error.

use crate::error::Error;
use crate::path::RelPath;
use crate::tree::Owner;
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The bits of a mode that give a program the rights of its owner or group.
pub(crate) const SET_ID: u32 = 0o6000;

/// The facts about a file that reveal a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// Time of the last change of content or attributes, which no program sets at will.
    pub(crate) changed: i64,
}

impl Stat {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ between systems")]
    pub(crate) fn from_stat(stat: &rustix::fs::Stat) -> Self {
        let time = |seconds: i64, nanoseconds: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            user: stat.st_uid as u32,
            group: stat.st_gid as u32,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { user: self.user, group: self.group }
    }

    /// Returns the owner where a restoration has to know it.
    pub(crate) fn foreign_owner(&self) -> Option<Owner> {
        let is_needed = self.bits() & SET_ID != 0 || self.user != rustix::process::geteuid().as_raw();
        is_needed.then(|| self.owner())
    }

    /// Names the file, as long as it exists.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns whether the mode keeps this user, who owns the file or directory, from reading it. Only the superuser is never
    /// kept from anything.
    pub(crate) fn is_closed(&self) -> bool {
        let needed = if self.kind() == FileType::Directory { 0o700 } else { 0o400 };
        let user = rustix::process::geteuid();
        self.bits() & needed != needed && self.user == user.as_raw() && !user.is_root()
    }

    /// The permission bits.
    pub(crate) fn bits(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// The root of a tree.
#[derive(Debug)]
pub(crate) struct TreeRoot {
    fd: OwnedFd,
    path: PathBuf,
}

impl TreeRoot {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(Error::system("open", path))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns another handle to the root directory.
    pub(crate) fn handle(&self) -> rustix::io::Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)
    }

    pub(crate) fn own_stat(&self) -> rustix::io::Result<Stat> {
        Ok(Stat::from_stat(&fstat(&self.fd)?))
    }

    /// Opens the directory that contains a path.
    pub(crate) fn parent(&self, path: &RelPath) -> rustix::io::Result<OwnedFd> {
        let Some(parent) = path.parent() else { return self.handle() };
        self.directory(&parent)
    }

    /// Opens a directory.
    pub(crate) fn directory(&self, path: &RelPath) -> rustix::io::Result<OwnedFd> {
        let mut names = path.as_bytes().split(|byte| *byte == b'/');
        let first = names.next().unwrap_or_default();
        let mut fd = openat(&self.fd, first, DIRECTORY, Mode::empty())?;
        for name in names {
            fd = openat(&fd, name, DIRECTORY, Mode::empty())?;
        }
        Ok(fd)
    }

    /// Describes a path; `None` if it does not exist, or is not below directories alone.
    pub(crate) fn stat(&self, path: &RelPath) -> rustix::io::Result<Option<Stat>> {
        let found = self.parent(path).and_then(|parent| stat_in(&parent, path.name().as_encoded_bytes()));
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file for reading. Never blocks, as opening a pipe would. A file of this user that its mode closes is
    /// opened all the same with `may_open`, and has its mode back when this returns.
    pub(crate) fn file(&self, path: &RelPath, may_open: bool) -> rustix::io::Result<(File, Stat)> {
        let (parent, name) = (self.parent(path)?, path.name().as_encoded_bytes());
        match open_file(&parent, name) {
            Err(Errno::ACCESS) if may_open => {
                let stat = stat_in(&parent, name)?;
                if stat.kind() != FileType::RegularFile || !stat.is_closed() {
                    return Err(Errno::ACCESS);
                }
                set_mode(&parent, name, stat.bits() | 0o400)?;
                let opened = open_file(&parent, name);
                set_mode(&parent, name, stat.bits())?;
                let (file, _) = opened?;
                let stat = Stat::from_stat(&fstat(&file)?);
                Ok((file, stat))
            }
            opened => opened,
        }
    }
}

/// Sets the mode of a file or directory, and never the mode of a link's target.
pub(crate) fn set_mode(directory: &OwnedFd, name: &[u8], bits: u32) -> rustix::io::Result<()> {
    // Permission bits fit into the smaller type of some systems.
    let mode = Mode::from_bits_truncate(bits as rustix::fs::RawMode);
    #[cfg(target_os = "linux")]
    {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
        // A handle of this kind has no mode to set, except by its own name.
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
    }
    #[cfg(not(target_os = "linux"))]
    rustix::fs::chmodat(directory, name, mode, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn stat_in(directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<Stat> {
    Ok(Stat::from_stat(&statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

pub(crate) fn open_directory(directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    openat(directory, name, DIRECTORY, Mode::empty())
}

pub(crate) fn open_file(directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = openat(directory.as_fd(), name, flags, Mode::empty())?;
    let stat = Stat::from_stat(&fstat(&fd)?);
    match stat.kind() {
        FileType::RegularFile => Ok((File::from(fd), stat)),
        _ => Err(Errno::INVAL),
    }
}
