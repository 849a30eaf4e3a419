//! Private files (mode 0600) and directories (mode 0700).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use tempfile::NamedTempFile;

/// Maximum bytes of a file of settings.
const MAX_SETTINGS: u64 = 16 << 20;

/// Reads random bytes from a file of mode 0600, creating it if it does not exist. Processes that create it at the same
/// time read the same bytes.
///
/// # Errors
/// The file cannot be read or created, or other users can read it.
pub(crate) fn read_or_create<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path, &random::<N>()?)?;
            // The first process to create it has won.
            read(path)
        }
        other => other,
    }
}

fn read<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    let mut file = open_file(path)?;
    check(&file)?;
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of settings. Returns none if it does not exist, or if its directory is not one, as with
/// `HOME=/dev/null`.
///
/// # Errors
/// The file is not a regular file, not UTF-8, longer than 16 MiB, or cannot be read.
pub(crate) fn read_settings(path: &Path) -> io::Result<Option<String>> {
    let file = match open_file(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let mut bytes = Vec::new();
    if file.take(MAX_SETTINGS + 1).read_to_end(&mut bytes)? as u64 > MAX_SETTINGS {
        return Err(io::Error::other(format!("it is longer than {MAX_SETTINGS} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Opens a regular file for reading. Never blocks, as opening a pipe would.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Checks that a file belongs to this user, and that no one else may read or write it.
#[cfg(unix)]
pub(crate) fn check(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users can access it (it must belong to you and have mode 0600)"));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Creates the file in one step, so that nobody reads half of it. An existing file stays as it is.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    match write_beside(directory, bytes)?.persist_noclobber(path) {
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop).map_err(|error| error.error),
    }
}

/// A temporary file in `directory`, of mode 0600 from the beginning, with its content on the disk.
fn write_beside(directory: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Replaces the content of a file of mode 0600 in one step.
///
/// # Errors
/// The directory does not exist, or the system refuses.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    write_beside(directory, bytes)?.persist(path)?;
    Ok(())
}

/// Opens a lock file of mode 0600, and holds its lock until the result is dropped. Blocks while another process holds it.
///
/// # Errors
/// The file cannot be opened or locked.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    file.lock()?;
    Ok(file)
}

/// Creates a directory and its parents with mode 0700.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Returns 32 random hexadecimal digits, for an unpredictable name.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn random_name() -> io::Result<String> {
    Ok(random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns random bytes of the operating system.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secret_is_stable_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/key");
        let first: [u8; 32] = read_or_create(&path).unwrap();
        assert_eq!(read_or_create::<32>(&path).unwrap(), first);
        assert_ne!(first, [0; 32]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn settings_are_read_from_regular_text_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(read_settings(&path).unwrap(), None);
        fs::write(&path, "a = 1").unwrap();
        assert_eq!(read_settings(&path).unwrap().as_deref(), Some("a = 1"));
        assert_eq!(read_settings(&path.join("below/a/file")).unwrap(), None);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_settings(&path).unwrap_err().to_string(), "it is not UTF-8 text");
        for special in [directory.path(), Path::new("/dev/zero")] {
            assert_eq!(read_settings(special).unwrap_err().to_string(), "it is not a regular file");
        }
    }

    #[test]
    fn secret_readable_by_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        read_or_create::<32>(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_or_create::<32>(&path).is_err());
    }
}
