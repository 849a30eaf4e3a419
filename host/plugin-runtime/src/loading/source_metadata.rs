//! One look at a source's file, which gives a load everything it has to know before it reads the file.

use crate::loading::description_cache::ComponentFileState;
use crate::loading::source::{PluginSource, Stamp};
use pinion_workspace::grants::protected::Protected;
use pinion_workspace::paths::identity::of_file;
use pinion_workspace::paths::real::{real, without_links};
use std::fs::Metadata;
use std::path::PathBuf;

/// A source as one look found it.
#[derive(Debug, Default)]
pub(crate) struct SourceMetadata {
    /// The path that identifies its file, as [`without_links`] returns it; `None` for a built-in plugin.
    pub(crate) path: Option<PathBuf>,
    /// The state of the file; `None` where it is missing.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) seen: Option<ComponentFileState>,
}

impl SourceMetadata {
    /// Looks at a source, and protects its file from plugins. Blocks.
    pub(crate) fn at(source: &PluginSource, protected: &Protected) -> Self {
        match source {
            PluginSource::File { path, .. } => Self::at_file(without_links(path), protected),
            PluginSource::BuiltIn { bytes, .. } => Self::at_built_in(bytes, own_file().as_ref()),
        }
    }

    /// Looks at a component of this program, whose own file has this metadata.
    pub(crate) fn at_built_in(bytes: &[u8], own: Option<&Metadata>) -> Self {
        let seen = own.and_then(|own| ComponentFileState::from_metadata(own, bytes.len() as u64));
        Self { seen, ..Self::default() }
    }

    /// Looks at a file by the path that identifies it. One call of the system, unless the file is a link.
    pub(crate) fn at_file(path: PathBuf, protected: &Protected) -> Self {
        let own = std::fs::symlink_metadata(&path).ok().filter(|own| own.is_file() && path.is_absolute());
        let (location, metadata) = match own {
            Some(own) => (path.clone(), Some(own)),
            None => (real(&path), std::fs::metadata(&path).ok()),
        };
        protected.add_plugin(location, metadata.as_ref().and_then(of_file));
        let metadata = metadata.as_ref();
        Self {
            path: Some(path),
            stamp: metadata.and_then(Stamp::from_metadata),
            seen: metadata.and_then(|metadata| ComponentFileState::from_metadata(metadata, 0)),
        }
    }
}

/// The metadata of the file of this program, even if another one has taken its path.
pub(crate) fn own_file() -> Option<Metadata> {
    #[cfg(target_os = "linux")]
    let path = std::path::Path::new("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let path = std::env::current_exe().ok()?;
    std::fs::metadata(path).ok()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn identity_of(path: &std::path::Path) -> pinion_workspace::paths::identity::Identity {
        of_file(&std::fs::metadata(path).unwrap()).unwrap()
    }

    #[test]
    fn look_identifies_and_protects_files_and_the_targets_of_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (file, target, link) = (root.join("a.wasm"), root.join("target"), root.join("link.wasm"));
        std::fs::write(&file, "a").unwrap();
        std::fs::write(&target, "target").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for (path, behind) in [(&file, &file), (&link, &target)] {
            let protected = Protected::default();
            let look = SourceMetadata::at(&PluginSource::file(path.as_path()), &protected);
            assert_eq!(look.path.as_ref(), Some(path));
            assert_eq!(look.stamp, Stamp::from_path(behind));
            assert!(look.seen.is_some() && look.seen == SourceMetadata::at_file(path.clone(), &protected).seen);
            assert!(protected.is_plugin(identity_of(behind)) && protected.is_in(behind));
        }
    }

    #[test]
    fn missing_file_has_no_state() {
        let directory = tempfile::tempdir().unwrap();
        let look = SourceMetadata::at(&PluginSource::file(directory.path().join("gone.wasm")), &Protected::default());
        assert!(look.path.is_some() && look.stamp.is_none() && look.seen.is_none());
    }
}
