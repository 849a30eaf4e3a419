//! Compiled components on disk, so that each is compiled once.
//!
//! Compiled code is code: whoever can write an entry can run anything in this process. So an entry is used only when
//!
//! 1. the folder belongs to the user and nobody else can write to it,
//! 2. the entry is a plain file under the same conditions, and
//! 3. its seal holds: a keyed BLAKE3 hash over key and content, with a secret that lives outside the cache folder. A
//!    program that may write to caches (many may) cannot make an entry that is taken for ours, nor can one that was
//!    copied here from elsewhere.
//!
//! An entry that fails is compiled again and replaced; nothing about it is an error. The name of an entry is the hash
//! of the component, of the engine's version and of its configuration, so a change of any of them is another entry.
//!
//! Not here: eviction by age (entries are a few hundred KB each; `pinion doctor` tells the size).

use crate::engine::Engine;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use wasmtime::component::Component;

const SEAL_BYTES: usize = 32;

/// The secret that seals entries, 32 random bytes kept outside the cache folder.
#[derive(Clone)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Takes the secret's bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The cache folder.
pub(crate) struct Cache {
    folder: PathBuf,
    key: [u8; 32],
}

/// Where a component's compiled code came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Compiled now.
    Compiled,
    /// From the cache.
    Cached,
}

impl Cache {
    /// Opens the folder, made with mode 0700 when it is missing. None when it is not safe to use, which is logged.
    pub(crate) fn open(folder: &Path, key: &CacheKey) -> Option<Self> {
        match prepare_folder(folder) {
            Ok(()) => Some(Self { folder: folder.to_owned(), key: key.0 }),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "compiled code is not cached");
                None
            }
        }
    }

    /// The compiled component with this digest, from the cache when there is a sound entry.
    pub(crate) fn load(&self, engine: &Engine, digest: &blake3::Hash) -> Option<Component> {
        let path = self.path(engine, digest);
        let sealed = read_entry(&path).inspect_err(|error| log_unusable(&path, error)).ok()?;
        let (seal, code) = sealed.split_at_checked(SEAL_BYTES)?;
        if self.seal(&path, code) != *<&[u8; SEAL_BYTES]>::try_from(seal).ok()? {
            tracing::warn!(entry = %path.display(), "cache entry is corrupt or not ours; compiling again");
            return None;
        }
        // wasmtime checks version and configuration itself once more.
        engine.deserialize(code).inspect_err(|error| log_unusable(&path, error)).ok()
    }

    /// Keeps compiled code. A failure is logged and otherwise ignored: the next load compiles again.
    pub(crate) fn store(&self, engine: &Engine, digest: &blake3::Hash, code: wasmtime::Result<Vec<u8>>) {
        let path = self.path(engine, digest);
        let stored = code
            .map_err(io::Error::other)
            .and_then(|code| write_atomically(&self.folder, &path, &[&self.seal(&path, &code), &code]));
        if let Err(error) = stored {
            tracing::warn!(entry = %path.display(), %error, "compiled code was not cached");
        }
    }

    fn path(&self, engine: &Engine, digest: &blake3::Hash) -> PathBuf {
        let mut hasher = Blake3Hasher(blake3::Hasher::new());
        digest.as_bytes().hash(&mut hasher);
        engine.compatibility_hash(&mut hasher);
        self.folder.join(hasher.0.finalize().to_hex().as_str())
    }

    /// Covers the name too, so that one entry cannot be passed off as another.
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

fn prepare_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    check_private(&fs::symlink_metadata(folder)?)
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

/// Belongs to this user, and nobody else can write to it.
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

/// Elsewhere the user's profile folder is private by the system's own doing; only the seal is checked.
#[cfg(not(unix))]
fn check_private(_metadata: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// A reader sees the old entry or the whole new one, also when two processes write at once.
fn write_atomically(folder: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = folder.join(format!(".{}-{:x}", std::process::id(), unique()));
    let written = write_new(&temporary, parts).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Best effort: what is left is never read, as its name is no entry's.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_new(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file: File = options.open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// wasmtime tells its compatibility through [`std::hash::Hash`]; the standard hashers are not made to be kept on disk.
struct Blake3Hasher(blake3::Hasher);

impl Hasher for Blake3Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().unwrap_or_default())
    }
}
