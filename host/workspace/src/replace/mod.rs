//! Replacing the content of a file.
//!
//! Normally the new content goes into a separate file, which then takes the old one's name. On Linux that file has no
//! name until it is complete (`O_TMPFILE`), so that a kill during the write leaves nothing behind. Where a new file
//! cannot stand in for the old one, the content is written in place: the file has other names (hard links), it is a
//! mount point, its owner or extended attributes cannot be given to a new file, or its directory admits no new one.
//!
//! Everything happens relative to the handle of the directory that holds the file, which was found beneath the granted
//! one; of the path, only the last name is still used. A rename race can put the file into a directory that was moved, but
//! never outside.

mod properties;

use crate::open::{open_file, without_waiting};
use crate::paths::beneath::Spot;
use cap_std::fs::{Dir, File, OpenOptions};
use pinion_files::NewFile;
use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};

/// Replaces or creates a file.
///
/// # Errors
/// An error of the file system. The file is unchanged then, except when a write in place fails halfway. A full disk
/// does not cause that.
pub fn replace_file(spot: &Spot, content: &[u8]) -> io::Result<()> {
    let Some(name) = &spot.name else { return Err(io::Error::other("a directory, not a file")) };
    let directory = Dir::from_std_file(spot.directory.try_clone()?);
    let Some(old) = open_existing(&directory, name)? else { return exchange(&directory, name, content, None) };
    if properties::has_other_names(&old)? {
        return write_in_place(&old, content);
    }
    match exchange(&directory, name, content, Some(&old)) {
        Err(error) if cannot_exchange(&error) => write_in_place(&old, content),
        exchanged => exchanged,
    }
}

/// Returns whether the file has this content.
///
/// # Errors
/// An error of the file system, also for a missing file.
pub fn has_content(spot: &Spot, content: &[u8]) -> io::Result<bool> {
    let Some(name) = &spot.name else { return Ok(false) };
    let directory = Dir::from_std_file(spot.directory.try_clone()?);
    let file = open_file(&directory, name)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut found = Vec::with_capacity(content.len());
    file.take(content.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == content)
}

/// Opens the existing file for writing: a rename does not check whether the file that it replaces is writable.
fn open_existing(directory: &Dir, name: &OsStr) -> io::Result<Option<File>> {
    match directory.symlink_metadata(name) {
        Ok(metadata) if metadata.is_file() => open_to_write(directory, name).map(Some),
        Ok(_) => Err(io::Error::other("not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a regular file for writing. A link or a pipe that took its place is an error, and does not block.
fn open_to_write(directory: &Dir, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    without_waiting(&mut options);
    let file = directory.open_with(name, &options)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
}

/// Returns whether the directory or the file system refuses a new file in place of the old one.
fn cannot_exchange(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), PermissionDenied | ResourceBusy | ReadOnlyFilesystem | CrossesDevices)
}

/// Puts a new file in the place of `old`, atomically.
fn exchange(directory: &Dir, name: &OsStr, content: &[u8], old: Option<&File>) -> io::Result<()> {
    let write = |new: NewFile<'_>| {
        new.file().write_all(content)?;
        old.map_or(Ok(()), |old| properties::give(old, new.file()))?;
        // Synced before it gets the name: otherwise a crash may leave the name with an empty file.
        new.file().sync_data()?;
        new.publish(name, old.is_none())
    };
    match NewFile::anonymous(directory, old.is_some()).and_then(write) {
        Err(error) if !is_full(&error) => NewFile::named(directory, old.is_some()).and_then(write),
        written => written,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Overwrites a file. The space is reserved first, so that a full disk does not cost the old content.
fn write_in_place(old: &File, content: &[u8]) -> io::Result<()> {
    let length = old.metadata()?.len();
    if let Err(error) = properties::reserve(old, content.len() as u64) {
        // Best effort: the first error is the one that matters.
        let _ = old.set_len(length);
        return Err(error);
    }
    let mut file = old;
    file.write_all(content)?;
    old.set_len(content.len() as u64)?;
    properties::clear_setuid(old);
    old.sync_data()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::paths::beneath::find_or_make;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;
    use std::sync::Arc;

    fn replace(directory: &Path, path: &str, text: &str) -> io::Result<()> {
        let granted = Arc::new(fs::File::open(directory).unwrap());
        let path = if path.is_empty() { "." } else { path };
        replace_file(&find_or_make(&granted, directory, Path::new(path), &|_| Ok(()))?, text.as_bytes())
    }

    /// A directory with the file `file` in it.
    fn directory_with(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, text).unwrap();
        (directory, file)
    }

    #[test]
    fn file_is_created_with_its_directories_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        replace(directory.path(), "a/b/c.txt", "new").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a/b/c.txt")).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn reader_of_the_old_file_keeps_all_of_its_content() {
        let (directory, file) = directory_with("old");
        let mut reader = fs::File::open(&file).unwrap();
        replace(directory.path(), "file", "a new text that is longer").unwrap();
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!((seen.as_str(), fs::read_dir(directory.path()).unwrap().count()), ("old", 1));
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

    #[test]
    fn hard_links_stay_one_file() {
        let (directory, file) = directory_with("the old text");
        let other = directory.path().join("other");
        fs::hard_link(&file, &other).unwrap();
        for text in ["short", "much longer than before"] {
            replace(directory.path(), "file", text).unwrap();
            assert_eq!(fs::read_to_string(&other).unwrap(), text);
        }
        assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    }

    #[test]
    fn setuid_and_setgid_bits_are_cleared() {
        for has_link in [false, true] {
            let (directory, file) = directory_with("old");
            if has_link {
                fs::hard_link(&file, directory.path().join("other")).unwrap();
            }
            fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
            replace(directory.path(), "file", "new").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o755, "{has_link}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn extended_attributes_stay() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};
        let (directory, file) = directory_with("old");
        if setxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_err() {
            return; // This file system has no attributes.
        }
        replace(directory.path(), "file", "new").unwrap();
        let mut value = [0; 8];
        let length = getxattr(&file, "user.note", &mut value).unwrap();
        assert_eq!((&value[..length], fs::read(&file).unwrap()), (&b"kept"[..], b"new".to_vec()));
    }

    /// The owner of a file in a container differs from its user, who is root.
    #[test]
    fn owner_stays() {
        let (directory, file) = directory_with("old");
        if std::os::unix::fs::chown(&file, Some(12_345), Some(54_321)).is_err() {
            return; // Only root may.
        }
        replace(directory.path(), "file", "new").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (12_345, 54_321));
        assert_eq!(fs::read_to_string(file).unwrap(), "new");
    }

    #[test]
    fn file_in_a_directory_that_admits_no_new_one_is_written_in_place() {
        let (directory, file) = directory_with("the old text");
        let inode = fs::metadata(&file).unwrap().ino();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
        // Root may write to any directory, so the second half is called directly.
        let is_root = fs::write(directory.path().join("probe"), "").is_ok();
        if is_root {
            let granted = Dir::from_std_file(fs::File::open(directory.path()).unwrap());
            let old = open_existing(&granted, OsStr::new("file")).unwrap().unwrap();
            write_in_place(&old, b"new").unwrap();
        } else {
            replace(directory.path(), "file", "new").unwrap();
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    }

    /// A limit on the size of files is a full disk to the process that has it, so the test runs again in a process with
    /// such a limit.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_keeps_the_content_of_a_file_that_is_written_in_place() {
        const NAME: &str = "replace::tests::full_disk_keeps_the_content_of_a_file_that_is_written_in_place";
        const LIMITED: &str = "PINION_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_none() {
            // The limit is 8 KiB. Without a handler, the signal that comes with it would end the process.
            let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\"";
            let mut limited = std::process::Command::new("sh");
            limited.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(NAME).env(LIMITED, "1");
            let ended = limited.output().unwrap();
            assert!(ended.status.success() && String::from_utf8_lossy(&ended.stdout).contains("1 passed"), "{ended:?}");
            return;
        }
        let old = "old ".repeat(1024);
        let (directory, file) = directory_with(&old);
        fs::hard_link(&file, directory.path().join("other")).unwrap();
        let error = replace(directory.path(), "file", &"new ".repeat(16 * 1024)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(fs::read_to_string(&file).unwrap(), old);
        replace(directory.path(), "file", "it fits").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "it fits");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reserved_space_belongs_to_the_file() {
        let (_directory, file) = directory_with("old");
        let old = File::from_std(fs::OpenOptions::new().write(true).open(&file).unwrap());
        properties::reserve(&old, 1 << 20).unwrap();
        let metadata = fs::metadata(&file).unwrap();
        // A file system that cannot reserve leaves the file alone.
        assert!(metadata.len() == 3 || metadata.blocks() * 512 >= 1 << 20, "{metadata:?}");
    }

    #[test]
    fn refusals_of_directory_and_mount_are_told_from_a_full_disk() {
        use rustix::io::Errno;
        for errno in [Errno::ACCESS, Errno::PERM, Errno::BUSY, Errno::ROFS, Errno::XDEV] {
            assert!(cannot_exchange(&errno.into()), "{errno}");
        }
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO] {
            assert!(!cannot_exchange(&errno.into()), "{errno}");
        }
    }

    #[test]
    fn temporary_file_without_a_final_name_is_removed() {
        let (directory, _) = directory_with("old");
        let granted = Dir::from_std_file(fs::File::open(directory.path()).unwrap());
        drop(NewFile::named(&granted, true).unwrap());
        let named = NewFile::named(&granted, true).unwrap();
        assert!(named.publish(OsStr::new("missing/name"), false).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        NewFile::named(&granted, false).unwrap().publish(OsStr::new("file"), false).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "");
    }
}
