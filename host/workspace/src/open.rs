//! Opening files and directories by their name in an open directory.

use cap_std::fs::{Dir, OpenOptions};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a directory by its name in another. A link is an error.
#[cfg(unix)]
pub(crate) fn open_dir(directory: &Dir, name: &OsStr) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(rustix::fs::openat(directory, name, flags, Mode::empty())?.into()))
}

/// Opens a directory by its name in another. A link that stays inside is followed.
#[cfg(not(unix))]
pub(crate) fn open_dir(directory: &Dir, name: &OsStr) -> io::Result<Dir> {
    directory.open_dir(name)
}

/// Opens a file for reading. A link is an error, and opening a pipe does not wait for its writer.
pub(crate) fn open_file(directory: &Dir, name: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    without_waiting(&mut options);
    Ok(directory.open_with(name, &options)?.into_std())
}

/// Makes opening a link fail, and opening a pipe not wait for its other end.
pub(crate) fn without_waiting(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits().cast_signed();
        cap_std::fs::OpenOptionsExt::custom_flags(options, flags);
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Returns whether an error means that the process or the system has no file handle left.
pub fn is_out_of_handles(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    #[cfg(not(unix))]
    let codes: [i32; 0] = [];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
