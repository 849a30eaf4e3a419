//! Removes a directory with everything in it, whatever modes programs gave its content.

use crate::error::Error;
use crate::path::RelPath;
use crate::root::{TreeRoot, set_mode, stat_in};
use rustix::fs::{Dir, FileType};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Removes a directory with its content, also with directories that their modes close to this user. Follows no link. A
/// missing directory is no error.
///
/// # Errors
/// The system refuses.
pub fn remove_tree(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_directories(directory)?;
            fs::remove_dir_all(directory).map_err(Error::io("remove", directory))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", directory)),
    }
}

/// Gives this user all rights on the directories in a directory.
fn open_directories(directory: &Path) -> Result<(), Error> {
    let root = TreeRoot::open(directory)?;
    let failed = || Error::system("open", directory);
    let mut left = vec![None];
    while let Some(path) = left.pop() {
        let handle = path.as_ref().map_or_else(|| root.handle(), |path| root.directory(path)).map_err(failed())?;
        for entry in Dir::read_from(&handle).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let stat = stat_in(&handle, name).map_err(failed())?;
            if stat.kind() == FileType::Directory {
                set_mode(&handle, name, 0o700).map_err(failed())?;
                left.push(Some(RelPath::join(path.as_ref(), name)));
            }
        }
    }
    Ok(())
}
