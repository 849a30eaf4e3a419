//! How a file's new content gets to disk.
//!
//! A new file is written under a temporary name beside its place and then renamed, so that nobody sees a part of it.
//!
//! An existing file is written in place. WASI has no `chmod`, and tells no mode: a renamed copy would lose the
//! executable bit of a script, and open a private file (mode 0600) to everyone; it would also put a file where a
//! symbolic link was, and part hard links. The price is that a crash between the two system calls leaves a part. When a
//! write fails, as on a full disk, the old content is put back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Temporary names that are tried, should others be taken: by calls at the same time, or left by a crash.
const NAMES: u32 = 100;

/// Writes a file that was not there. One that came to be meanwhile is replaced.
///
/// # Errors
/// Those of the file system; the temporary file is removed then.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = temporary_beside(path)?;
    let written = file.write_all(content);
    drop(file);
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Replaces the content of a file that is there, through a symbolic link too. `old` is what it holds, where that is
/// known.
///
/// # Errors
/// Those of the file system. [`Failure::restored`] tells whether the file holds `old` again.
pub(crate) fn overwrite(path: &Path, content: &[u8], old: Option<&[u8]>) -> Result<(), Failure> {
    let open = || OpenOptions::new().write(true).truncate(true).open(path);
    let mut file = open().map_err(|error| Failure { error, restored: true })?;
    file.write_all(content).map_err(|error| {
        drop(file);
        let restored = old.is_some_and(|old| open().and_then(|mut file| file.write_all(old)).is_ok());
        Failure { error, restored }
    })
}

/// Why a file could not be overwritten.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: io::Error,
    /// The file is as it was.
    pub(crate) restored: bool,
}

fn temporary_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..NAMES {
        let temporary = path.with_file_name(format!(".pinion-{number}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return Ok((temporary, opened?)),
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "all names for a temporary file are taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_leaves_no_temporary_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        create(&folder.path().join("a"), b"text").unwrap();
        assert_eq!(names(folder.path()), ["a"]);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"text");
    }

    #[test]
    fn a_failed_rename_leaves_no_temporary_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        create(&folder.path().join("a"), b"text").unwrap_err();
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_temporary_name_that_is_taken_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".pinion-0.tmp"), "other").unwrap();
        create(&folder.path().join("a"), b"text").unwrap();
        assert_eq!(fs::read(folder.path().join(".pinion-0.tmp")).unwrap(), b"other");
        assert_eq!(names(folder.path()), [".pinion-0.tmp", "a"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_that_fails_is_told_as_such() {
        // The one file of Linux that can be opened and truncated, and has never any room.
        let failure = overwrite(Path::new("/dev/full"), b"new", Some(b"")).unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::StorageFull);
        assert!(failure.restored);
    }

    #[cfg(unix)]
    #[test]
    fn overwriting_keeps_mode_and_links() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("run.sh"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
        symlink("run.sh", &link).unwrap();
        let before = fs::metadata(&file).unwrap();
        overwrite(&link, b"new", Some(b"old")).unwrap();
        let after = fs::metadata(&file).unwrap();
        assert_eq!((after.mode(), after.ino()), (before.mode(), before.ino()));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}
