//! Writing a file whole: a temporary file beside it, then a rename.
//!
//! Everything happens relative to the handle of the directory that holds the file, which was found beneath the granted
//! one; the name at the end is the only part of the path that is used then. A rename race can make the file land in a
//! directory that was moved, and never outside.

use super::io_error;
use crate::bindings::pinion::plugin::workspace::WorkspaceError;
use crate::paths::beneath::Spot;
use cap_std::fs::{Dir, File, OpenOptions, Permissions};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};

/// Temporary names that are tried. Two that are the same are an accident.
const MAX_NAMES: u32 = 8;

/// Gives the file at a place new content at once. `path` is its name in errors.
pub(super) fn replace_file(spot: &Spot, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
    let failed = |error: io::Error| io_error(path, &error);
    let Some(name) = &spot.name else { return Err(WorkspaceError::Io(format!("`{path}` names no file"))) };
    let folder = Dir::from_std_file(spot.directory.try_clone().map_err(failed)?);
    let mode = mode_of(&folder, name).map_err(failed)?;
    write(&folder, name, content, mode).map_err(failed)
}

/// The mode of the file that is there, if one is. A rename asks nobody whether the file that it replaces may be written;
/// so this does.
fn mode_of(folder: &Dir, name: &OsStr) -> io::Result<Option<Permissions>> {
    match folder.symlink_metadata(name) {
        Ok(metadata) if metadata.is_file() => {
            folder.open_with(name, OpenOptions::new().write(true))?;
            Ok(Some(metadata.permissions()))
        }
        Ok(_) => Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(folder: &Dir, name: &OsStr, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let (temporary, mut file) = create_temporary(folder, mode.is_some())?;
    let written = file
        .write_all(content)
        .and_then(|()| mode.map_or(Ok(()), |mode| file.set_permissions(mode)))
        // On the disk before the name is: otherwise a crash may leave the name with nothing behind it.
        .and_then(|()| file.sync_data())
        .and_then(|()| folder.rename(&temporary, folder, name));
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = folder.remove_file(&temporary);
    }
    written
}

/// A file that was not there. Where its mode comes later, nobody else sees into it until then.
fn create_temporary(folder: &Dir, is_private: bool) -> io::Result<(String, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = is_private;
    for _ in 0..MAX_NAMES {
        let name = temporary_name();
        match folder.open_with(&name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((name, opened?)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all names for a temporary file are taken"))
}

/// A name that nobody can take in advance: 64 bits that depend on a key of the operating system's randomness. The prefix
/// and the suffix tell what is left over when the host is killed.
fn temporary_name() -> String {
    format!(".pinion-{:016x}.tmp", RandomState::new().hash_one(()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::paths::beneath::find_or_make;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::sync::Arc;

    fn replace(folder: &Path, path: &str, text: &str) -> Result<(), WorkspaceError> {
        let granted = Arc::new(fs::File::open(folder).unwrap());
        let path = if path.is_empty() { "." } else { path };
        let spot = find_or_make(&granted, folder, Path::new(path), &|_| Ok(())).map_err(|e| io_error(path, &e))?;
        replace_file(&spot, path, text.as_bytes())
    }

    #[test]
    fn a_file_is_made_with_its_folders_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        replace(folder.path(), "a/b/c.txt", "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn temporary_names_cannot_be_guessed() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| temporary_name()).collect();
        assert_eq!(names.len(), 1000);
        // Not by counting, either.
        let numbers = names.iter().map(|name| u64::from_str_radix(&name[8..24], 16).unwrap());
        assert!(numbers.is_sorted_by(|a, b| b - a > 1));
    }

    #[test]
    fn a_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.sh");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
        replace(folder.path(), "run.sh", "new").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_to_string(file).unwrap(), "new");
    }

    #[test]
    fn a_link_inside_is_followed_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("file"), "old").unwrap();
        symlink("../file", folder.path().join("sub/link")).unwrap();
        replace(folder.path(), "sub/link", "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "new");
        assert!(fs::symlink_metadata(folder.path().join("sub/link")).unwrap().is_symlink());
    }

    #[test]
    fn a_link_behind_a_link_is_followed_from_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("deep/er")).unwrap();
        symlink("deep/er", folder.path().join("sub")).unwrap();
        symlink("../file", folder.path().join("sub/link")).unwrap();
        for content in ["first", "second"] {
            replace(folder.path(), "sub/link", content).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("deep/file")).unwrap(), content);
        }
        assert!(!folder.path().join("file").exists());
    }

    #[test]
    fn what_may_not_be_written_in_place_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        // To some users nothing is forbidden.
        let may_be_written = fs::OpenOptions::new().write(true).open(&file).is_ok();
        assert_eq!(replace(folder.path(), "file", "new").is_ok(), may_be_written);
    }

    #[test]
    fn links_that_lead_out_or_nowhere_write_nothing() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("granted");
        fs::create_dir(&folder).unwrap();
        fs::write(outside.path().join("file"), "old").unwrap();
        symlink("../file", folder.join("relative")).unwrap();
        symlink(outside.path().join("file"), folder.join("absolute")).unwrap();
        symlink("..", folder.join("parent")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
        for path in ["relative", "absolute", "parent/file", "parent/new", "loop"] {
            assert!(replace(&folder, path, "new").is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "old");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn a_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        assert!(replace(folder.path(), "sub", "new").is_err() && replace(folder.path(), "", "new").is_err());
    }
}
