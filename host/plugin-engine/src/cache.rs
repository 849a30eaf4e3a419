//! Compiled components on disk, so that each is compiled once.
//!
//! Compiled code is code: a program that can write an entry can run anything in this process. So an entry is used only if
//!
//! 1. the directory belongs to the user and only that user can write to it,
//! 2. the entry is a plain file under the same conditions, and
//! 3. its seal holds: a keyed BLAKE3 hash over key and content, with a secret kept outside the cache directory. A program
//!    that may write to caches (many may) cannot forge an entry, and one copied here from elsewhere does not hold either.
//!
//! An entry that fails a check is removed and compiled again; that is not an error. The name of an entry is a hash, keyed
//! by the same secret, of the component, of the engine's version and of its configuration. So a change of any of them makes
//! another entry, and entries of an earlier secret are never looked at.
//!
//! Descriptions and offers of plugins lie next to the code, under the same seal. Their names depend on the source of the
//! plugin ([`SourceName`]); the runtime decides when they are used.
//!
//! Entries that were not used for long make room for new ones, see [`crate::entries`].

use crate::compiler::CompiledCode;
use crate::engine::Engine;
use crate::entries::{self, open_entry};
use crate::functions::Sharing;
use pinion_files::AtomicWrite;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::Component;

const SEAL_BYTES: usize = 32;
/// The extension of entries that describe a plugin; entries with compiled code have no extension.
const DESCRIPTION: &str = "description";
/// The extension of entries that describe all plugins in one place.
const INDEX: &str = "index";
/// The extension of entries with a plugin's latest offer.
const OFFER: &str = "offer";
/// The kind of entries with functions that the versions of a plugin share.
const FUNCTIONS: &str = "functions";
/// The extension of files that are locked while a component is compiled.
const LOCK: &str = "lock";
/// Time that a load waits for another one to compile the same component: more than that takes on a busy machine, and
/// not forever, because the other may be stopped.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Time between two looks at a lock.
const POLL: Duration = Duration::from_millis(10);

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
pub struct CodeCache {
    directory: PathBuf,
    key: [u8; 32],
    /// True once a failure to store an entry was reported. Others are likely to have the same cause.
    has_failed: AtomicBool,
}

/// Names the source of a plugin, or a place with many plugins, so that a new entry of it replaces the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName {
    /// The kind of the source.
    pub origin: &'static str,
    /// Its name there, such as the path of a file.
    pub name: Vec<u8>,
}

impl CodeCache {
    /// Opens the directory, and creates it with mode 0700 if it is missing. Logs and returns `None` when it is not safe
    /// to use.
    pub fn open(directory: &Path, key: &CacheKey) -> Option<Self> {
        match prepare_folder(directory) {
            Ok(()) => Some(Self { directory: directory.to_owned(), key: key.0, has_failed: AtomicBool::new(false) }),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "compiled code is not cached");
                None
            }
        }
    }

    /// Loads the compiled component with this digest. `None` when there is no valid entry.
    pub fn load(&self, engine: &Engine, digest: &blake3::Hash) -> Option<Component> {
        let path = self.path(engine, digest);
        let content = self.read(&path)?;
        // wasmtime checks version and configuration again.
        let component = engine.deserialize(content.bytes()).inspect_err(|error| log_unusable(&path, error)).ok()?;
        entries::touch(&path);
        Some(component)
    }

    /// Returns whether there is an entry for the compiled component with this digest, whether it is valid or not.
    pub fn has(&self, engine: &Engine, digest: &blake3::Hash) -> bool {
        self.path(engine, digest).is_file()
    }

    /// Waits while another process, or another load of this one, compiles the component with this digest. After that
    /// its code may be in the cache. `None` when the wait takes longer than a minute, or the system has no locks:
    /// two compiles of one component do no harm.
    pub async fn turn_to_compile(&self, engine: &Engine, digest: &blake3::Hash) -> Option<CompilePermit> {
        let path = self.path(engine, digest).with_extension(LOCK);
        let begun = Instant::now();
        loop {
            let file = open_lock(&path).inspect_err(|error| log_unusable(&path, error)).ok()?;
            match file.try_lock() {
                Ok(()) => return Some(CompilePermit { _file: file, path }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < MAX_WAIT => tokio::time::sleep(POLL).await,
                Err(_) => return None,
            }
        }
    }

    /// Stores the code of a component that this process compiled. A failure is only logged: the next load compiles again.
    pub fn store(&self, engine: &Engine, digest: &blake3::Hash, component: &Component) {
        let path = self.path(engine, digest);
        let code = component.serialize().map_err(io::Error::other);
        self.note_stored(&path, code.and_then(|code| self.write(&path, &code)));
    }

    /// Stores the code of a component that a child process compiled. A failure is only logged.
    pub fn store_compiled(&self, engine: &Engine, digest: &blake3::Hash, compiled: &CompiledCode) {
        let path = self.path(engine, digest);
        self.note_stored(&path, self.write(&path, compiled.code()));
    }

    /// Makes room after an entry with code was stored, and logs a failure.
    fn note_stored(&self, path: &Path, stored: io::Result<()>) {
        if let Err(error) = stored.and_then(|()| entries::evict(&self.directory, path, entries::MAX_BYTES)) {
            match self.has_failed.swap(true, Ordering::Relaxed) {
                false => tracing::warn!(directory = %self.directory.display(), %error, "compiled code was not cached"),
                true => tracing::debug!(entry = %path.display(), %error, "compiled code was not cached"),
            }
        }
    }

    /// Loads the functions that components share, for [`Functions`](crate::Functions). Empty when there is no valid entry.
    pub fn load_functions(&self, engine: &Engine, sharing: &Sharing) -> Vec<u8> {
        let path = self.functions_path(engine, sharing);
        let content = self.read(&path).map(CachedContent::into_bytes).unwrap_or_default();
        entries::touch(&path);
        content
    }

    /// Stores the functions that a compile returned, if it added some. A failure is only logged.
    pub fn store_functions(&self, engine: &Engine, sharing: &Sharing, compiled: &CompiledCode) {
        let path = self.functions_path(engine, sharing);
        let functions = compiled.functions();
        if functions.is_empty() {
            return;
        }
        if let Err(error) = self.write(&path, functions) {
            tracing::debug!(entry = %path.display(), %error, "compiled functions were not cached");
        }
    }

    /// Loads the description of the plugin from this source. `None` when there is no valid entry.
    pub fn load_description(&self, source: &SourceName) -> Option<CachedContent> {
        self.read(&self.source_path(source, DESCRIPTION))
    }

    /// Stores the description of the plugin from this source. A failure is only logged.
    pub fn store_description(&self, source: &SourceName, description: serde_json::Result<Vec<u8>>) {
        let path = self.source_path(source, DESCRIPTION);
        if let Err(error) = description.map_err(io::Error::other).and_then(|text| self.write(&path, &text)) {
            tracing::debug!(entry = %path.display(), %error, "a description was not cached");
        }
    }

    /// Loads the descriptions of the plugins in a place. `None` when there is no valid entry.
    pub fn load_index(&self, place: &SourceName) -> Option<CachedContent> {
        self.read(&self.source_path(place, INDEX))
    }

    /// Stores the descriptions of the plugins in a place. A failure is only logged.
    pub fn store_index(&self, place: &SourceName, index: &[u8]) {
        let path = self.source_path(place, INDEX);
        if let Err(error) = self.write(&path, index) {
            tracing::debug!(entry = %path.display(), %error, "an index of descriptions was not cached");
        }
    }

    /// Loads the latest offer of the plugin from this source. `None` when there is no valid entry.
    pub fn load_offer(&self, source: &SourceName) -> Option<CachedContent> {
        self.read(&self.source_path(source, OFFER))
    }

    /// Stores the offer of the plugin from this source. A failure is only logged.
    pub fn store_offer(&self, source: &SourceName, offer: serde_json::Result<Vec<u8>>) {
        let path = self.source_path(source, OFFER);
        if let Err(error) = offer.map_err(io::Error::other).and_then(|text| self.write(&path, &text)) {
            tracing::debug!(entry = %path.display(), %error, "an offer was not cached");
        }
    }

    fn source_path(&self, source: &SourceName, kind: &str) -> PathBuf {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(kind.as_bytes()).update(b" of the plugin from a source:");
        hasher.update(source.origin.as_bytes()).update(b":").update(&source.name);
        self.directory.join(format!("{}.{kind}", hasher.finalize().to_hex()))
    }

    /// Reads an entry whose seal holds.
    fn read(&self, path: &Path) -> Option<CachedContent> {
        let content = CachedContent(read_entry(path).inspect_err(|error| log_unusable(path, error)).ok()?);
        let seal: [u8; SEAL_BYTES] = *content.0.first_chunk()?;
        // Hashes are compared in constant time.
        if self.seal(path, content.bytes()) != blake3::Hash::from_bytes(seal) {
            tracing::warn!(entry = %path.display(), "cache entry is corrupt or forged; it will be replaced");
            // So that this is reported once, however often the entry is looked for before it is written again.
            let _ = fs::remove_file(path);
            return None;
        }
        Some(content)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        write_atomically(&self.directory, path, &[self.seal(path, content).as_bytes(), content])
    }

    fn path(&self, engine: &Engine, digest: &blake3::Hash) -> PathBuf {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"code:");
        hasher.update(digest.as_bytes()).update(engine.compatibility().as_bytes());
        self.directory.join(hasher.finalize().to_hex().as_str())
    }

    fn functions_path(&self, engine: &Engine, sharing: &Sharing) -> PathBuf {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"functions:").update(engine.compatibility().as_bytes());
        if let Sharing::Versions(source) = sharing {
            let source = self.source_path(source, FUNCTIONS);
            hasher.update(source.file_name().unwrap_or_default().as_encoded_bytes());
        }
        self.directory.join(hasher.finalize().to_hex().as_str())
    }

    /// Seals the content and the name, so that one entry cannot replace another.
    fn seal(&self, path: &Path, content: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(content);
        hasher.finalize()
    }
}

/// The right to compile one component. The system ends it with the process that holds it.
pub struct CompilePermit {
    _file: File,
    path: PathBuf,
}

impl Drop for CompilePermit {
    fn drop(&mut self) {
        // Those who wait have the file open and get their turn; those who come later find the code.
        let _ = fs::remove_file(&self.path);
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    open_entry(path, OpenOptions::new().write(true).create(true).truncate(false))
}

/// The content of an entry, after its seal.
pub struct CachedContent(Vec<u8>);

impl CachedContent {
    /// The sealed bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(SEAL_BYTES..).unwrap_or_default()
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.0.drain(..SEAL_BYTES.min(self.0.len()));
        self.0
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
    let mut file = open_entry(path, &mut options)?;
    let metadata = file.metadata()?;
    check_private(&metadata)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks that a file belongs to this user and that only this user can write to it.
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

/// Checks nothing: on other systems the user's profile directory is private, and the seal is checked.
#[cfg(not(unix))]
fn check_private(_metadata: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Writes a file with mode 0600. A reader sees the old content or all of the new one, also when two processes write.
fn write_atomically(directory: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = AtomicWrite::private().create_in(directory)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.replace(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(directory: &Path, key: u8) -> CodeCache {
        CodeCache::open(directory, &CacheKey::new([key; 32])).unwrap()
    }

    fn text(cache: &CodeCache, path: &Path) -> Option<String> {
        cache.read(path).map(|content| String::from_utf8(content.bytes().to_vec()).unwrap())
    }

    #[test]
    fn entry_is_read_only_under_its_name_with_its_key_and_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("cache");
        let own = cache(&folder, 1);
        let (path, other) = (folder.join("entry"), folder.join("other"));
        own.write(&path, b"code").unwrap();
        assert_eq!(text(&own, &path).as_deref(), Some("code"));
        let sealed = fs::read(&path).unwrap();
        assert_eq!(text(&cache(&folder, 2), &path), None, "another key");
        assert!(!path.exists(), "an entry without its seal is removed");
        fs::write(&other, &sealed).unwrap();
        assert_eq!(text(&own, &other), None, "another name");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert_eq!(text(&own, &path), None, "byte {at}");
            fs::write(&path, &sealed[..at]).unwrap();
            assert_eq!(text(&own, &path), None, "{at} bytes");
        }
        fs::write(&path, sealed).unwrap();
        assert_eq!(text(&own, &path).as_deref(), Some("code"));
    }

    #[cfg(unix)]
    #[test]
    fn entry_and_directory_that_others_can_write_are_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("cache");
        let own = cache(&folder, 1);
        let path = folder.join("entry");
        own.write(&path, b"code").unwrap();
        for mode in [0o620, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(text(&own, &path), None, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, folder.join("link")).unwrap();
        assert_eq!(text(&own, &folder.join("link")), None, "a link");
        let pipe = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        assert_eq!(text(&own, &pipe), None, "a pipe");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(CodeCache::open(&folder, &CacheKey::new([1; 32])).is_none());
    }
}
