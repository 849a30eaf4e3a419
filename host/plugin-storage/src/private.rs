//! Directories and files that only this user may access, and that are not links.

use pinion_files::open::sync_directory;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates the directories that are missing, with mode 0700, and checks the others. Each is inside the one before it.
pub(crate) fn create_directories(directories: &[impl AsRef<Path>]) -> io::Result<()> {
    for (position, directory) in directories.iter().enumerate() {
        let mut builder = DirBuilder::new();
        // The application owns everything above the first one.
        builder.recursive(position == 0);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let directory = directory.as_ref();
        let is_new = directory.symlink_metadata().is_err();
        match builder.create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        check_directory(directory)?;
        if let Some(parent) = directory.parent().filter(|_| is_new) {
            sync_directory(parent)?;
        }
    }
    Ok(())
}

/// Checks directories that should exist. Returns false if one is missing.
///
/// # Errors
/// One of them is a link or not a directory, or belongs to another user.
pub(crate) fn check_directories(directories: &[impl AsRef<Path>]) -> io::Result<bool> {
    for directory in directories {
        match check_directory(directory.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            checked => checked?,
        }
    }
    Ok(true)
}

fn check_directory(directory: &Path) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(directory)?;
    if !metadata.is_dir() {
        return Err(io::Error::other(format!("`{}` is not a directory", directory.display())));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("`{}` belongs to another user", directory.display())));
        }
        if metadata.mode() & 0o077 != 0 {
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Opens a file of mode 0600 without following a link and without blocking, as opening a pipe would.
///
/// # Errors
/// The system refuses, or something else than a regular file of this user has the name.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other(format!("`{}` is not a regular file", path.display())));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(io::Error::other(format!("other users can access `{}`", path.display())));
        }
    }
    Ok(file)
}

/// Opens a file for reading; `None` when it does not exist.
pub(crate) fn open_existing(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
    match open(path, options) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
