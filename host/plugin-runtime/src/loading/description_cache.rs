//! Descriptions of plugins on disk, so that a start reads, compiles and runs no component.
//!
//! A plugin that was loaded leaves its manifest and its lists next to its compiled code, under the same seal. A later
//! start offers its tools from there and loads the code when one of them is called. That load asks the plugin again: if
//! its answer or its bytes differ, the registry makes a new generation, and the call is decided on again. So a
//! description decides only which texts the model and people see, and never which code runs.
//!
//! A description is used only if all of these are as they were when the plugin described itself:
//!
//! 1. the engine and this crate,
//! 2. the file: its device, inode, size, and the times of its last write and of its last change, which no program can
//!    set back; for a built-in plugin, the same data of this program's own file,
//! 3. the plugin's own section of the config, which its `init` reads. It describes itself without any authority, so its
//!    grants do not matter; they are decided again at each start.
//!
//! Built-in plugins bring a separate description, for starts without a cache. It was made without config, and its
//! digest ties it to the component.
//!
//! A plugin that the user disabled describes nothing. Its entry has only its manifest, so that later starts ask the policy
//! about it without its file.
//!
//! Plugins of lifetime `session` are not described, because their instance starts with the session;
//! [`crate::loading::last_offer`] remembers the offers of plugins with changing tools.

use crate::loading::source::PluginSource;
use crate::manifest::{Inspection, Lifetime};
use pinion_plugin_engine::CodeCache;
use pinion_plugin_offers::offer::Description;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// A file that was written this recently may be written again without another time of change.
const SETTLED: Duration = Duration::from_millis(50);

/// A plugin as it described itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    config: String,
    /// BLAKE3 of the component, in hexadecimal.
    pub(crate) digest: String,
    pub(crate) inspection: Inspection,
    /// `None` for a plugin that the policy refused by its name.
    pub(crate) description: Option<Description>,
}

/// An entry of the cache.
#[derive(Debug, Serialize, Deserialize)]
struct DescriptionEntry {
    engine: String,
    seen: ComponentFileState,
    described: Described,
}

/// The state of the file that a component came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComponentFileState {
    device: u64,
    inode: u64,
    /// Bytes of the file.
    length: u64,
    /// Bytes of a built-in component; zero for a file.
    built_in: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ComponentFileState {
    /// The state that the metadata of the file shows which holds a component. `None` when the system tells too little.
    /// `built_in` is the size of a component of this program.
    #[cfg(unix)]
    #[allow(clippy::unnecessary_wraps, reason = "other systems tell too little")]
    pub(crate) fn from_metadata(metadata: &Metadata, built_in: u64) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            built_in,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn from_metadata(_metadata: &Metadata, _built_in: u64) -> Option<Self> {
        None
    }

    /// Returns whether the file has rested long enough that another write would change its times.
    fn is_settled(&self) -> bool {
        let changed = u64::try_from(self.changed.0)
            .ok()
            .map(|seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(self.changed.1).unwrap_or(0)));
        changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age >= SETTLED)
    }
}

impl Described {
    pub(crate) fn new(inspection: Inspection, digest: &blake3::Hash, config: &str, description: Description) -> Self {
        let (config, digest) = (hash(config), digest.to_hex().to_string());
        Self { config, digest, inspection, description: Some(description) }
    }

    /// The manifest alone, of a plugin that the policy refused by its name.
    pub(crate) fn refused(inspection: &Inspection, digest: &blake3::Hash) -> Self {
        let (inspection, digest) = (inspection.clone(), digest.to_hex().to_string());
        Self { config: String::new(), digest, inspection, description: None }
    }

    /// Reads an entry, if it describes the file in this state.
    pub(crate) fn read(entry: &[u8], engine: &str, seen: ComponentFileState) -> Option<Self> {
        let entry: DescriptionEntry = serde_json::from_slice(entry).ok()?;
        (entry.engine == engine && entry.seen == seen).then_some(entry.described)
    }

    /// Returns the description that a built-in plugin brings, if it belongs to the component.
    pub(crate) fn embedded(source: &PluginSource) -> Option<Self> {
        let PluginSource::BuiltIn { bytes, description, .. } = source else { return None };
        let described: Self = serde_json::from_str((*description)?).ok()?;
        (described.digest == source.digest(bytes).to_hex().as_str()).then_some(described)
    }

    /// Returns whether the plugin described itself with this config.
    pub(crate) fn is_for_config(&self, config: &str) -> bool {
        self.config == hash(config)
    }

    /// Stores a plugin's description, if a later start may rely on it. `seen` is the state of the file before it was
    /// read.
    pub(crate) fn store(self, cache: &CodeCache, engine: &str, source: &PluginSource, seen: ComponentFileState) {
        // Its tools and commands come from the running code.
        let is_changing = self.inspection.manifest.lifetime == Lifetime::Session && self.description.is_some();
        if is_changing || !seen.is_settled() {
            return;
        }
        let name = source.cache_name();
        let text = serde_json::to_vec(&DescriptionEntry { engine: engine.to_owned(), seen, described: self });
        let is_known = |text: &Vec<u8>| cache.load_description(&name).is_some_and(|known| known.bytes() == text);
        if !text.as_ref().is_ok_and(is_known) {
            cache.store_description(&name, text);
        }
    }
}

/// Hashes a config, which may contain secrets.
pub(super) fn hash(config: &str) -> String {
    blake3::hash(config.as_bytes()).to_hex().to_string()
}
