//! Writing a file under a temporary name, which becomes its name when the content is complete.
//!
//! A reader sees the old content or all of the new one, also when several processes write. A link in the place of the file
//! is replaced, and its target stays as it is. A temporary file that does not get the name is removed.

use crate::open::sync_directory;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use tempfile::{Builder, NamedTempFile, TempPath};

/// Permissions of a new file.
#[derive(Clone, Copy, Debug)]
enum FileMode {
    /// 0600, from the beginning.
    Private,
    /// The mode that the umask leaves of 0666.
    Shared,
    /// The mode of the file that is replaced, or this one; 0600 until the content is complete.
    Kept(u32),
}

/// The data that a write puts on the disk before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After a loss of power, the file may be old, new, empty or missing.
    Buffered,
    /// After a loss of power, the file is the old one or all of the new one.
    Content,
    /// After a loss of power, the file is the new one.
    ContentAndName,
}

/// The way to write a file in one step.
#[derive(Clone, Copy, Debug)]
pub struct AtomicWrite<'a> {
    prefix: &'a str,
    suffix: &'a str,
    mode: FileMode,
    durability: Durability,
}

impl<'a> AtomicWrite<'a> {
    /// Writes a file of mode 0600.
    pub const fn private() -> Self {
        Self { prefix: ".tmp", suffix: "", mode: FileMode::Private, durability: Durability::Buffered }
    }

    /// Writes a file with the mode that the umask leaves of 0666.
    pub const fn shared() -> Self {
        Self { mode: FileMode::Shared, ..Self::private() }
    }

    /// Writes a file with the permissions of the one that it replaces, or with `mode` if it is new.
    pub const fn keeping_mode_or(mode: u32) -> Self {
        Self { mode: FileMode::Kept(mode), ..Self::private() }
    }

    /// Sets the beginning of temporary names, `.tmp` by default. Random characters follow.
    #[must_use]
    pub const fn prefix(self, prefix: &'a str) -> Self {
        Self { prefix, ..self }
    }

    /// Sets the end of temporary names, empty by default.
    #[must_use]
    pub const fn suffix(self, suffix: &'a str) -> Self {
        Self { suffix, ..self }
    }

    /// Sets the data that is on the disk when the write returns; by default [`Durability::Buffered`].
    #[must_use]
    pub const fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Replaces or creates the file `path`, with the temporary file in its directory.
    ///
    /// # Errors
    /// The directory does not exist, or the system refuses. The file is unchanged then.
    pub fn replace(self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_through(directory_of(path), path, bytes)
    }

    /// Replaces or creates the file `path`, with the temporary file in `directory` of the same file system.
    ///
    /// # Errors
    /// See [`AtomicWrite::replace`].
    pub fn replace_through(self, directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create_in(directory)?;
        file.write_all(bytes)?;
        file.replace(path)?;
        Ok(())
    }

    /// Creates a temporary file in a directory, for content that is written in parts.
    ///
    /// # Errors
    /// The directory does not exist, or the system refuses.
    pub fn create_in(self, directory: &Path) -> io::Result<TemporaryFile> {
        let mut builder = Builder::new();
        builder.prefix(self.prefix).suffix(self.suffix);
        #[cfg(unix)]
        if let FileMode::Shared = self.mode {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        Ok(TemporaryFile { file: builder.tempfile_in(directory)?, mode: self.mode, durability: self.durability })
    }

    /// Creates the temporary file `path`, in place of a regular file that a killed process left there. The caller holds a
    /// lock, so that no other process writes it. The file has mode 0600 until it gets its name.
    ///
    /// # Errors
    /// Something else than a regular file has the name, such as a link, or the system refuses.
    pub fn create_at(self, path: &Path) -> io::Result<TemporaryFile> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::other(format!("`{}` is not a regular file", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let file = NamedTempFile::from_parts(file, TempPath::try_from_path(path)?);
        Ok(TemporaryFile { file, mode: self.mode, durability: self.durability })
    }
}

/// A file under a temporary name. Dropping it removes it.
#[derive(Debug)]
pub struct TemporaryFile {
    file: NamedTempFile,
    mode: FileMode,
    durability: Durability,
}

impl TemporaryFile {
    /// Returns the open file, for reading and writing.
    pub fn as_file(&self) -> &File {
        self.file.as_file()
    }

    /// Returns the path with the temporary name.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the complete file its name, in place of the file that has it. Returns the open file.
    ///
    /// # Errors
    /// The system refuses. The file that had the name keeps it.
    pub fn replace(self, path: &Path) -> Result<File, UnplacedFile> {
        self.place(path, |file| file.persist(path))
    }

    /// Gives the complete file a name that no file has yet. Returns the open file.
    ///
    /// # Errors
    /// A file has the name, or the system refuses.
    pub fn create(self, path: &Path) -> Result<File, UnplacedFile> {
        self.place(path, |file| file.persist_noclobber(path))
    }

    fn place(
        self,
        path: &Path,
        persist: impl FnOnce(NamedTempFile) -> Result<File, tempfile::PersistError>,
    ) -> Result<File, UnplacedFile> {
        let Self { file, mode, durability } = self;
        let unplaced = |cause, file| UnplacedFile { cause, file: Some(Self { file, mode, durability }) };
        if let Err(cause) = finish(file.as_file(), mode, durability, path) {
            return Err(unplaced(cause, file));
        }
        let placed = persist(file).map_err(|failed| unplaced(failed.error, failed.file))?;
        if durability == Durability::ContentAndName {
            sync_directory(directory_of(path)).map_err(|cause| UnplacedFile { cause, file: None })?;
        }
        Ok(placed)
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// A file that did not get its name, or may lose it again. Dropping it removes the temporary file.
#[derive(Debug)]
pub struct UnplacedFile {
    /// The error of the system.
    pub cause: io::Error,
    /// The file, for another attempt; `None` if it has its name, but the directory could not be synced.
    pub file: Option<TemporaryFile>,
}

impl From<UnplacedFile> for io::Error {
    fn from(unplaced: UnplacedFile) -> Self {
        unplaced.cause
    }
}

/// Sets the mode of a complete file, and syncs it.
fn finish(file: &File, mode: FileMode, durability: Durability, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let FileMode::Kept(otherwise) = mode {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).map_or(otherwise, |metadata| metadata.permissions().mode() & 0o777);
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    #[cfg(not(unix))]
    let _ = (mode, path);
    if durability == Durability::Buffered { Ok(()) } else { file.sync_all() }
}

/// Returns the directory of a file; the current one for a name alone.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_is_replaced_with_the_mode_of_its_kind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for durability in [Durability::Buffered, Durability::Content, Durability::ContentAndName] {
            AtomicWrite::private().durability(durability).replace(&path, b"private").unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"private".to_vec(), 0o600));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        AtomicWrite::keeping_mode_or(0o644).replace(&path, b"kept").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"kept".to_vec(), 0o640));
        AtomicWrite::keeping_mode_or(0o604).replace(&directory.path().join("new"), b"").unwrap();
        assert_eq!(mode(&directory.path().join("new")), 0o604);
        let plain = directory.path().join("plain");
        fs::write(&plain, "").unwrap();
        AtomicWrite::shared().replace(&path, b"shared").unwrap();
        assert_eq!(mode(&path), mode(&plain));
        assert_eq!(names(directory.path()).len(), 3);
    }

    #[test]
    fn links_and_pipes_are_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [target, link, pipe] = ["target", "link", "pipe"].map(|name| directory.path().join(name));
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&link, &pipe] {
            AtomicWrite::private().replace(path, b"new").unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_file());
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    }

    #[test]
    fn unplaced_file_leaves_nothing_and_can_be_placed_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/file");
        let write = || {
            let mut file = AtomicWrite::private().prefix("new-").suffix(".part").create_in(directory.path()).unwrap();
            file.write_all(b"text").unwrap();
            file
        };
        let [name] = &{
            let _file = write();
            names(directory.path())
        }[..] else {
            panic!("one file")
        };
        assert!(name.starts_with("new-") && name.ends_with(".part"), "{name}");
        assert_eq!(write().replace(&path).unwrap_err().cause.kind(), io::ErrorKind::NotFound);
        assert!(names(directory.path()).is_empty());
        let unplaced = write().replace(&path).unwrap_err();
        fs::create_dir(path.parent().unwrap()).unwrap();
        unplaced.file.unwrap().create(&path).unwrap();
        assert_eq!(write().create(&path).unwrap_err().cause.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(names(directory.path()), ["missing"]);
    }

    #[test]
    fn fixed_temporary_name_takes_the_place_of_a_file_and_of_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let [path, temporary, other] = ["file", "file.new", "other"].map(|name| directory.path().join(name));
        fs::write(&temporary, "left over").unwrap();
        let mut file = AtomicWrite::private().create_at(&temporary).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!((file.path(), mode(&temporary)), (temporary.as_path(), 0o600));
        file.replace(&path).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap(), temporary.exists()), ("x".to_owned(), false));
        symlink(&other, &temporary).unwrap();
        assert!(AtomicWrite::private().create_at(&temporary).is_err() && !other.exists());
        fs::remove_file(&temporary).unwrap();
        mknodat(CWD, &temporary, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(AtomicWrite::private().create_at(&temporary).is_err());
    }
}
