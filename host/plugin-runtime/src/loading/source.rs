//! Sources of components: this program, or a file, and the state of a file.

use crate::load_error::LoadError;
use crate::manifest::{Inspection, ManifestError};
use pinion_plugin_engine::{SourceName, read_component};
use pinion_plugin_storage::PluginIdentity;
use pinion_workspace::paths::real::without_links;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The source of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginSource {
    /// A part of this program.
    BuiltIn {
        /// Its name, which no file may claim.
        name: &'static str,
        /// The component.
        bytes: &'static [u8],
        /// BLAKE3 of the component in hexadecimal, if the build has computed it, so that a start need not.
        digest: Option<&'static str>,
        /// Its description as [`Runtime::description`](crate::Runtime::description) returns it, so that the first start on a
        /// machine offers its tools without compiling it. One that does not belong to the component is ignored.
        description: Option<&'static str>,
    },
    /// A file, reloaded when it changes.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The origin of the file, which grants depend on.
        origin: FileOrigin,
    },
}

/// The origin of a plugin file. A grant for one origin does not apply to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileOrigin {
    /// The user's plugin directory.
    User,
    /// A project's plugin directory, which everybody controls who writes to the repository.
    Project,
    /// A file named on the command line or in the config.
    Named,
}

impl FileOrigin {
    /// The origin for people, such as `user directory`.
    pub fn describe_origin(self) -> &'static str {
        match self {
            Self::User => "user directory",
            Self::Project => "project directory",
            Self::Named => "named file",
        }
    }
}

/// The place of many plugins: this program, or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PluginLocation<'a> {
    BuiltIn,
    Directory(&'a Path, FileOrigin),
}

/// The name of a file or a directory in the cache.
fn file_name(path: &Path, origin: FileOrigin) -> SourceName {
    SourceName { origin: origin.describe_origin(), name: path.as_os_str().as_encoded_bytes().to_owned() }
}

impl<'a> PluginLocation<'a> {
    /// The name of the place in the cache.
    pub(crate) fn cache_name(self) -> SourceName {
        match self {
            Self::BuiltIn => SourceName { origin: "built-in", name: Vec::new() },
            Self::Directory(directory, origin) => file_name(directory, origin),
        }
    }

    /// The place of a source, and its name there.
    pub(crate) fn from_source(source: &'a PluginSource) -> Option<(Self, &'a [u8])> {
        match source {
            PluginSource::BuiltIn { name, .. } => Some((Self::BuiltIn, name.as_bytes())),
            PluginSource::File { path, origin } => {
                Some((Self::Directory(path.parent()?, *origin), path.file_name()?.as_encoded_bytes()))
            }
        }
    }
}

impl Display for PluginSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn { .. } => f.write_str("built-in"),
            Self::File { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

impl PluginSource {
    /// Creates the source of a file that the user named.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), origin: FileOrigin::Named }
    }

    /// Reads the component's manifest and interfaces, and the BLAKE3 digest of the same bytes in hexadecimal. Blocks.
    ///
    /// # Errors
    /// The file cannot be read, or is not a plugin for this host.
    pub fn inspect(&self) -> Result<(Inspection, String), LoadError> {
        let bytes = self.bytes()?;
        Ok((self.inspect_bytes(&bytes)?, self.digest(&bytes).to_hex().to_string()))
    }

    /// Returns the digest of the component that was read from this source.
    pub(crate) fn digest(&self, bytes: &[u8]) -> blake3::Hash {
        let built = match self {
            Self::BuiltIn { digest, .. } => digest.and_then(|digest| blake3::Hash::from_hex(digest).ok()),
            _ => None,
        };
        built.unwrap_or_else(|| blake3::hash(bytes))
    }

    /// Reads the self-description of the component that was read from this source.
    pub(crate) fn inspect_bytes(&self, bytes: &[u8]) -> Result<Inspection, ManifestError> {
        match self {
            Self::BuiltIn { .. } => Inspection::from_component(bytes),
            Self::File { path, .. } => Inspection::from_file(bytes, path),
        }
    }

    /// Reads the component. Blocks.
    ///
    /// # Errors
    /// The file cannot be read, or is too large.
    pub fn bytes(&self) -> Result<Cow<'static, [u8]>, LoadError> {
        match self {
            Self::BuiltIn { bytes, .. } => Ok(Cow::Borrowed(bytes)),
            Self::File { path, .. } => Ok(Cow::Owned(read_component(path)?)),
        }
    }

    /// Returns the owner of the values that the plugin `name` from this source stores.
    pub fn storage_identity(&self, name: &str) -> PluginIdentity {
        match self {
            Self::BuiltIn { .. } => self.identity(None, name),
            Self::File { path, .. } => self.identity(Some(&without_links(path)), name),
        }
    }

    /// The identity of the plugin `name` from this source, whose file `path` identifies.
    pub(crate) fn identity(&self, path: Option<&Path>, name: &str) -> PluginIdentity {
        let origin = match self {
            Self::BuiltIn { .. } => "built-in",
            Self::File { origin: FileOrigin::User, .. } => "user",
            Self::File { origin: FileOrigin::Project, .. } => "project",
            Self::File { origin: FileOrigin::Named, .. } => "named",
        };
        PluginIdentity::new(origin, path.unwrap_or(Path::new("")), name)
    }

    /// The name of the source in the cache.
    pub(crate) fn cache_name(&self) -> SourceName {
        match self {
            Self::BuiltIn { name, .. } => SourceName { origin: "built-in", name: name.as_bytes().to_owned() },
            Self::File { path, origin } => file_name(path, *origin),
        }
    }

    /// The path, where the source is a file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn { .. } => None,
            Self::File { path, .. } => Some(path),
        }
    }

    /// Returns whether the file differs from `stamp`. A built-in component never does.
    pub(crate) fn has_changed_since(&self, stamp: Option<Stamp>) -> bool {
        self.path().is_some_and(|path| Stamp::from_path(path) != stamp)
    }
}

/// Distinguishes one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    /// Reads the state of a file with one `stat`, in about a microsecond. `None` when the file is missing.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        Self::from_metadata(&std::fs::metadata(path).ok()?)
    }

    /// The state that this metadata of a file shows.
    pub(crate) fn from_metadata(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            modified: metadata.modified().ok()?,
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        })
    }

    /// The time since the last write; `None` when that lies in the future.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.modified.elapsed().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path, origin: FileOrigin, name: &str) -> PluginIdentity {
        PluginSource::File { path: path.to_owned(), origin }.identity(Some(&without_links(path)), name)
    }

    #[test]
    fn origin_path_and_name_each_make_another_identity() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wasm");
        let named = file(&path, FileOrigin::Named, "a");
        assert_eq!((named.key().len(), &named), (32, &file(&path, FileOrigin::Named, "a")));
        let others = [
            file(&path, FileOrigin::User, "a"),
            file(&path, FileOrigin::Project, "a"),
            file(&directory.path().join("A.wasm"), FileOrigin::Named, "a"),
            file(&path, FileOrigin::Named, "A"),
            PluginSource::BuiltIn { name: "a", bytes: &[], digest: None, description: None }.identity(None, "a"),
        ];
        assert!(others.iter().all(|other| other.key() != named.key()));
    }

    #[cfg(unix)]
    #[test]
    fn path_through_a_link_is_the_same_identity() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
        let at = |name: &str| file(&directory.path().join(name).join("a.wasm"), FileOrigin::User, "a");
        assert_eq!(at("link"), at("real"));
    }
}
