//! Private files (mode 0600) and directories (mode 0700).

use pinion_files::open::read_limited;
pub use pinion_files::open::{create_directory, open_directory, open_file, open_regular};
use pinion_files::{AtomicWrite, Durability};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum bytes of a file of settings.
const MAX_SETTINGS: u64 = 16 << 20;

/// A secret of this user.
#[derive(Debug)]
pub struct Secret<const N: usize> {
    /// The content of the file.
    pub bytes: [u8; N],
    /// The damage of the file that was replaced, if it was.
    pub repaired: Option<String>,
}

/// Reads random bytes from a file of mode 0600, creating it if it does not exist. A file that is damaged, or that other
/// users can access, is replaced: they may know its bytes. Processes that do so at the same time read the same bytes.
///
/// # Errors
/// The file cannot be read, created or replaced.
pub fn read_or_create<const N: usize>(path: &Path) -> io::Result<Secret<N>> {
    let repaired = match read(path) {
        Ok(bytes) => return Ok(Secret { bytes, repaired: None }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    };
    let directory = path.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    let _lock = lock(&path.with_extension("lock"))?;
    // Another process may have been faster.
    if let Ok(bytes) = read(path) {
        return Ok(Secret { bytes, repaired: None });
    }
    let bytes = random::<N>()?;
    replace(path, &bytes)?;
    Ok(Secret { bytes, repaired })
}

fn read<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    let mut file = open_file(path)?;
    check(&file)?;
    let length = file.metadata()?.len();
    if length != N as u64 {
        return Err(io::Error::other(format!("it has {length} bytes instead of {N}")));
    }
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of settings. Returns `None` if it does not exist, or if its directory is not one, as with
/// `HOME=/dev/null`.
///
/// # Errors
/// The file is not a regular file, not UTF-8, longer than 16 MiB, or cannot be read.
pub fn read_settings(path: &Path) -> io::Result<Option<String>> {
    let bytes = match read_file(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        read => read?,
    };
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Reads a regular file of at most 16 MiB. Never blocks, as opening a pipe would.
///
/// # Errors
/// The file is not a regular file, longer than that, or cannot be read.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_limited(path, MAX_SETTINGS)
}

/// Checks that a file belongs to this user, and that no one else may read or write it.
#[cfg(unix)]
pub fn check(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users can access it (it must belong to you and have mode 0600)"));
    }
    Ok(())
}

#[cfg(not(unix))]
pub fn check(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Replaces the content of a file of mode 0600 in one step. The content is on the disk before the file gets its name.
///
/// # Errors
/// The directory does not exist, or the system refuses.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    AtomicWrite::private().durability(Durability::Content).replace(path, bytes)
}

/// The lock of a file, held until this is dropped.
///
/// Ends the lock itself, not by closing the file: while a program starts, it shares all open files of this process, and
/// their locks, until its own code runs.
#[derive(Debug)]
pub struct FileLock(File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // Fails on a file system without locks, where closing the file is all there is to do.
        let _ = self.0.unlock();
    }
}

/// Opens a lock file of mode 0600, and holds its lock. Blocks while another process holds it.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn lock(path: &Path) -> io::Result<FileLock> {
    let file = lock_file(path)?;
    file.lock()?;
    Ok(FileLock(file))
}

/// Locks a file like [`lock`], or returns `None` at once if another process holds its lock.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn try_lock(path: &Path) -> io::Result<Option<FileLock>> {
    let file = lock_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().write(true).create(true).truncate(false))
}

/// Returns the remedy for a file or directory that this user cannot write because it, or the nearest directory above it
/// that exists, belongs to someone else. Usually root created it, by a command with `sudo`.
#[cfg(unix)]
pub fn owner_hint(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let (found, metadata) = path.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)))?;
    let is_usable = rustix::fs::access(found, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok();
    if is_usable || metadata.uid() == rustix::process::geteuid().as_raw() {
        return None;
    }
    let owner = if metadata.uid() == 0 { "root".to_owned() } else { format!("the user {}", metadata.uid()) };
    let me = rustix::process::geteuid().as_raw();
    Some(format!("`{0}` belongs to {owner}; `sudo chown -R {me} '{0}'` gives it to you", found.display()))
}

#[cfg(not(unix))]
pub fn owner_hint(_path: &Path) -> Option<String> {
    None
}

/// Returns 32 random hexadecimal digits, for an unpredictable name.
///
/// # Errors
/// The system provides no random bytes.
pub fn random_name() -> io::Result<String> {
    Ok(hexadecimal(&random::<16>()?))
}

/// Returns 256 random bits in hexadecimal, for a secret.
///
/// # Errors
/// The system provides no random bytes.
pub fn random_token() -> io::Result<String> {
    Ok(hexadecimal(&random::<32>()?))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
        let first = read_or_create::<32>(&path).unwrap();
        assert_eq!(read_or_create(&path).unwrap().bytes, first.bytes);
        assert!(first.bytes != [0; 32] && first.repaired.is_none());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn lock_ends_although_a_starting_program_has_the_file_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        for take in [|path: &Path| lock(path).unwrap(), |path: &Path| try_lock(path).unwrap().unwrap()] {
            let held = take(&path);
            assert!(try_lock(&path).unwrap().is_none());
            // What a program has between its creation and its own code.
            let inherited = held.0.try_clone().unwrap();
            drop(held);
            assert!(try_lock(&path).unwrap().is_some());
            drop(inherited);
        }
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
    fn pipe_in_the_place_of_a_file_or_directory_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(read_file(&path).is_err() && read_settings(&path).is_err() && open_directory(&path).is_err());
        assert!(lock(&path).is_err() && try_lock(&path).is_err());
        // With a reader, the pipe can be opened for writing.
        let _reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(lock(&path).unwrap_err().to_string(), "it is not a regular file");
        assert!(read::<4>(&path).is_err() && open_directory(directory.path()).is_ok());
    }

    #[test]
    fn damaged_secret_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let first = read_or_create::<32>(&path).unwrap();
        let others_can_read = || fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let damages: [&dyn Fn(); 4] = [
            &others_can_read,
            &|| fs::write(&path, &first.bytes[..31]).unwrap(),
            &|| fs::write(&path, [1; 33]).unwrap(),
            &|| fs::write(&path, []).unwrap(),
        ];
        for make in damages {
            make();
            assert!(read::<32>(&path).is_err());
            let new = read_or_create::<32>(&path).unwrap();
            assert!(new.repaired.is_some() && new.bytes != first.bytes);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(read::<32>(&path).unwrap(), new.bytes);
        }
    }
}
