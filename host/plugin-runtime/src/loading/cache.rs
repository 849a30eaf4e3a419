//! Compiled components on disk, so that each is compiled once.
//!
//! Compiled code is code: a program that can write an entry can run anything in this process. So an entry is used only if
//!
//! 1. the directory belongs to the user and no other user can write to it,
//! 2. the entry is a plain file under the same conditions, and
//! 3. its seal holds: a keyed BLAKE3 hash over key and content, with a secret kept outside the cache directory. A program
//!    that may write to caches (many may) cannot forge an entry, and one copied here from elsewhere does not hold either.
//!
//! An entry that fails a check is compiled again and replaced; that is not an error. The name of an entry is the hash of
//! the component, of the engine's version and of its configuration, so a change of any of them makes another entry.
//!
//! Entries are not evicted: each has a few hundred KB, and `pinion doctor` shows their total size.

use crate::engine::Engine;
use std::fs::{self, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use wasmtime::component::Component;

const SEAL_BYTES: usize = 32;

/// The secret that seals cache entries: 32 random bytes, kept outside the cache directory.
#[derive(Clone)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Wraps the bytes of the secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The cache directory.
pub(crate) struct Cache {
    directory: PathBuf,
    key: [u8; 32],
}

/// The origin of a component's compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Compiled during this load.
    Compiled,
    /// Read from the cache.
    Cached,
}

impl Cache {
    /// Opens the directory, and creates it with mode 0700 if it is missing. Logs and returns none when it is not safe to
    /// use.
    pub(crate) fn open(directory: &Path, key: &CacheKey) -> Option<Self> {
        match prepare_folder(directory) {
            Ok(()) => Some(Self { directory: directory.to_owned(), key: key.0 }),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "compiled code is not cached");
                None
            }
        }
    }

    /// Loads the compiled component with this digest. None when there is no valid entry.
    pub(crate) fn load(&self, engine: &Engine, digest: &blake3::Hash) -> Option<Component> {
        let path = self.path(engine, digest);
        let sealed = read_entry(&path).inspect_err(|error| log_unusable(&path, error)).ok()?;
        let (seal, code) = sealed.split_at_checked(SEAL_BYTES)?;
        if self.seal(&path, code) != *<&[u8; SEAL_BYTES]>::try_from(seal).ok()? {
            tracing::warn!(entry = %path.display(), "cache entry is corrupt or forged; compiling again");
            return None;
        }
        // wasmtime checks version and configuration again.
        engine.deserialize(code).inspect_err(|error| log_unusable(&path, error)).ok()
    }

    /// Stores compiled code. A failure is only logged: the next load compiles again.
    pub(crate) fn store(&self, engine: &Engine, digest: &blake3::Hash, code: wasmtime::Result<Vec<u8>>) {
        let path = self.path(engine, digest);
        let stored = code
            .map_err(io::Error::other)
            .and_then(|code| write_atomically(&self.directory, &path, &[&self.seal(&path, &code), &code]));
        if let Err(error) = stored {
            tracing::warn!(entry = %path.display(), %error, "compiled code was not cached");
        }
    }

    fn path(&self, engine: &Engine, digest: &blake3::Hash) -> PathBuf {
        let mut hasher = Blake3Hasher(blake3::Hasher::new());
        digest.as_bytes().hash(&mut hasher);
        engine.compatibility_hash(&mut hasher);
        self.directory.join(hasher.0.finalize().to_hex().as_str())
    }

    /// Seals the code and the name, so that one entry cannot replace another.
    fn seal(&self, path: &Path, code: &[u8]) -> [u8; SEAL_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(code);
        *hasher.finalize().as_bytes()
    }
}

fn log_unusable(path: &Path, error: &dyn std::fmt::Display) {
    tracing::debug!(entry = %path.display(), %error, "no usable cache entry");
}

fn prepare_folder(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    check_private(&fs::symlink_metadata(directory)?)
}

fn read_entry(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    check_private(&metadata)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks that a file belongs to this user and that no other user can write to it.
#[cfg(unix)]
fn check_private(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write to it"));
    }
    Ok(())
}

/// On other systems the user's profile directory is private already; only the seal is checked.
#[cfg(not(unix))]
fn check_private(_metadata: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Writes a file with mode 0600. A reader sees the old content or all of the new one, also when two processes write.
fn write_atomically(directory: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(directory)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.persist(path)?;
    Ok(())
}

/// Adapts BLAKE3 to [`std::hash::Hash`], through which wasmtime describes its compatibility. The standard hashers are not
/// stable enough to name files on disk.
struct Blake3Hasher(blake3::Hasher);

impl Hasher for Blake3Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().unwrap_or_default())
    }
}
