//! Replacing a file at once: a temporary file beside it, then a rename.
//!
//! Everything happens relative to the handle of the directory that holds the file, which was found beneath the granted
//! one; of the path, only the last name is still used. A rename race can put the file into a directory that was moved, but
//! never outside.
//!
//! `cap-tempfile` is not used: it creates files with the default mode, so that the new content of a private file could be
//! read under the temporary name where the system lacks `O_TMPFILE`, and its names do not identify files that are left
//! over after a crash.

use super::io_error;
use crate::bindings::pinion::plugin::workspace::WorkspaceError;
use crate::paths::beneath::Spot;
use cap_std::fs::{Dir, File, OpenOptions, Permissions};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};

/// Temporary names that are tried. A collision is an accident.
const MAX_NAMES: u32 = 8;

/// Replaces the content of a file atomically. `path` is its name in errors.
pub(super) fn replace_file(spot: &Spot, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
    let failed = |error: io::Error| io_error(path, &error);
    let Some(name) = &spot.name else { return Err(WorkspaceError::Io(format!("`{path}` names no file"))) };
    let directory = Dir::from_std_file(spot.directory.try_clone().map_err(failed)?);
    let mode = mode_of(&directory, name).map_err(failed)?;
    write(&directory, name, content, mode).map_err(failed)
}

/// Returns the mode of the existing file, if there is one. A rename does not check whether the file that it replaces is
/// writable, so this does.
fn mode_of(directory: &Dir, name: &OsStr) -> io::Result<Option<Permissions>> {
    match directory.symlink_metadata(name) {
        Ok(metadata) if metadata.is_file() => {
            directory.open_with(name, OpenOptions::new().write(true))?;
            Ok(Some(metadata.permissions()))
        }
        Ok(_) => Err(io::Error::other("not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(directory: &Dir, name: &OsStr, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let (temporary, mut file) = create_temporary(directory, mode.is_some())?;
    let written = file
        .write_all(content)
        .and_then(|()| mode.map_or(Ok(()), |mode| file.set_permissions(mode)))
        // Synced before the rename: otherwise a crash may leave the name with an empty file.
        .and_then(|()| file.sync_data())
        .and_then(|()| directory.rename(&temporary, directory, name));
    if written.is_err() {
        // Best effort: the first error is the one that matters.
        let _ = directory.remove_file(&temporary);
    }
    written
}

/// Creates a new file. A private one is readable by its owner alone until its mode is set.
fn create_temporary(directory: &Dir, is_private: bool) -> io::Result<(String, File)> {
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
        match directory.open_with(&name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((name, opened?)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
}

/// Returns a name that cannot be guessed: 64 bits that depend on a key from the operating system's randomness. Prefix and
/// suffix identify files that are left over when the host is killed.
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

    fn replace(directory: &Path, path: &str, text: &str) -> Result<(), WorkspaceError> {
        let granted = Arc::new(fs::File::open(directory).unwrap());
        let path = if path.is_empty() { "." } else { path };
        let spot = find_or_make(&granted, directory, Path::new(path), &|_| Ok(())).map_err(|e| io_error(path, &e))?;
        replace_file(&spot, path, text.as_bytes())
    }

    #[test]
    fn file_is_created_with_its_directories_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        replace(directory.path(), "a/b/c.txt", "new").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a/b/c.txt")).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn temporary_names_cannot_be_guessed() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| temporary_name()).collect();
        assert_eq!(names.len(), 1000);
        // Nor by counting.
        let numbers = names.iter().map(|name| u64::from_str_radix(&name[8..24], 16).unwrap());
        assert!(numbers.is_sorted_by(|a, b| b - a > 1));
    }

    #[test]
    fn file_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.sh");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
        replace(directory.path(), "run.sh", "new").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_to_string(file).unwrap(), "new");
    }

    #[test]
    fn link_inside_is_followed_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("file"), "old").unwrap();
        symlink("../file", directory.path().join("sub/link")).unwrap();
        replace(directory.path(), "sub/link", "new").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "new");
        assert!(fs::symlink_metadata(directory.path().join("sub/link")).unwrap().is_symlink());
    }

    #[test]
    fn relative_link_is_followed_from_its_real_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("deep/er")).unwrap();
        symlink("deep/er", directory.path().join("sub")).unwrap();
        symlink("../file", directory.path().join("sub/link")).unwrap();
        for content in ["first", "second"] {
            replace(directory.path(), "sub/link", content).unwrap();
            assert_eq!(fs::read_to_string(directory.path().join("deep/file")).unwrap(), content);
        }
        assert!(!directory.path().join("file").exists());
    }

    #[test]
    fn read_only_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        // Root may write to any file.
        let may_be_written = fs::OpenOptions::new().write(true).open(&file).is_ok();
        assert_eq!(replace(directory.path(), "file", "new").is_ok(), may_be_written);
    }

    #[test]
    fn links_that_lead_out_or_nowhere_write_nothing() {
        let outside = tempfile::tempdir().unwrap();
        let directory = outside.path().join("granted");
        fs::create_dir(&directory).unwrap();
        fs::write(outside.path().join("file"), "old").unwrap();
        symlink("../file", directory.join("relative")).unwrap();
        symlink(outside.path().join("file"), directory.join("absolute")).unwrap();
        symlink("..", directory.join("parent")).unwrap();
        symlink("loop", directory.join("loop")).unwrap();
        for path in ["relative", "absolute", "parent/file", "parent/new", "loop"] {
            assert!(replace(&directory, path, "new").is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "old");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        assert!(replace(directory.path(), "sub", "new").is_err() && replace(directory.path(), "", "new").is_err());
    }
}
