//! A folder's handle, from which everything in it is opened: one name at a time, and never through a link.
//!
//! The names come from the folder's own listing. Whoever swaps a folder for a link meanwhile gets an error here and not
//! a way out. `cap-std` alone would do as well, with twice the system calls, for paths that may be anything.

use crate::bindings::pinion::plugin::workspace::Kind;
use cap_std::fs::{Dir, FileType};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path};

/// An open folder.
pub(super) struct Folder(Dir);

/// What a listing tells of an entry.
pub(super) struct Listed {
    pub(super) name: OsString,
    pub(super) kind: Kind,
}

impl Folder {
    /// The same folder as `handle`, which was opened beneath a granted one.
    pub(super) fn of(handle: &Dir) -> io::Result<Self> {
        system::reopened(handle).map(Self)
    }

    /// Opens a folder in this one.
    pub(super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        system::folder(&self.0, single(name)?).map(Self)
    }

    /// Opens a file in this folder, to be read. What is no file does not make this wait, nor whoever reads it then.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
        system::file(&self.0, single(name)?)
    }

    /// What is in it, in no order. What goes wrong with one entry leaves it out.
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = Listed>> {
        system::entries(&self.0)
    }

    /// What is known of an entry itself, whatever it leads to.
    pub(super) fn metadata(&self, name: &OsStr) -> io::Result<cap_std::fs::Metadata> {
        self.0.symlink_metadata(single(name)?)
    }
}

pub(super) fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// Refuses what is not just a name.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

#[cfg(unix)]
mod system {
    use super::{Dir, Kind, Listed, kind_of};
    use rustix::fs::{FileType, Mode, OFlags, openat};
    use std::ffi::{OsStr, OsString};
    use std::fs::File;
    use std::io;
    use std::os::unix::ffi::OsStringExt as _;

    const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

    /// A handle that can be listed: those of `cap-std` are only for opening what is below them.
    pub(super) fn reopened(handle: &Dir) -> io::Result<Dir> {
        folder(handle, OsStr::new("."))
    }

    pub(super) fn folder(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
        let handle = openat(parent, name, READ.union(OFlags::DIRECTORY), Mode::empty())?;
        Ok(Dir::from_std_file(handle.into()))
    }

    pub(super) fn file(parent: &Dir, name: &OsStr) -> io::Result<File> {
        Ok(openat(parent, name, READ.union(OFlags::NOCTTY), Mode::empty())?.into())
    }

    pub(super) fn entries(folder: &Dir) -> io::Result<impl Iterator<Item = Listed>> {
        let listing = rustix::fs::Dir::new(folder.try_clone()?.into_std_file())?;
        Ok(listing.flatten().filter_map(|entry| {
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            let kind = match entry.file_type() {
                _ if name == "." || name == ".." => return None,
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Symlink,
                // Not every file system tells.
                FileType::Unknown => kind_of(folder.symlink_metadata(&name).ok()?.file_type()),
                _ => Kind::Other,
            };
            Some(Listed { name, kind })
        }))
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Dir, Listed, kind_of};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;

    pub(super) fn reopened(handle: &Dir) -> io::Result<Dir> {
        handle.try_clone()
    }

    pub(super) fn folder(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
        parent.open_dir(name)
    }

    pub(super) fn file(parent: &Dir, name: &OsStr) -> io::Result<File> {
        parent.open(name).map(cap_std::fs::File::into_std)
    }

    pub(super) fn entries(folder: &Dir) -> io::Result<impl Iterator<Item = Listed>> {
        let listed = |entry: cap_std::fs::DirEntry| {
            Some(Listed { name: entry.file_name(), kind: kind_of(entry.file_type().ok()?) })
        };
        Ok(folder.entries()?.flatten().filter_map(listed))
    }
}
