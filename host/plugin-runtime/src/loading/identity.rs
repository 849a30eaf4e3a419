//! The identity of an installed plugin, which owns its stored values.

use crate::loading::source::{FileOrigin, PluginSource};
use std::path::Path;

/// Identifies a plugin across versions: its origin, the path of its file, and its name.
///
/// The digest is not part of it, because values survive an honest update. A file that takes the place of another one
/// gets no grants before the user confirms it, and without the grant, no values. A plugin of the same name from
/// anywhere else is another plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PluginIdentity {
    key: String,
    name: String,
    source: String,
}

impl PluginIdentity {
    /// The identity of the plugin `name` from `source`, whose file `path` identifies.
    pub(crate) fn for_plugin(source: &PluginSource, path: Option<&Path>, name: &str) -> Self {
        let origin = match source {
            PluginSource::BuiltIn { .. } => "built-in",
            PluginSource::File { origin: FileOrigin::User, .. } => "user",
            PluginSource::File { origin: FileOrigin::Project, .. } => "project",
            PluginSource::File { origin: FileOrigin::Named, .. } => "named",
        };
        let path = path.unwrap_or(Path::new(""));
        let mut hasher = blake3::Hasher::new_derive_key("pinion 2026 identity of a plugin");
        for part in [origin.as_bytes(), path.as_os_str().as_encoded_bytes(), name.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let source = if path.as_os_str().is_empty() { origin.to_owned() } else { path.display().to_string() };
        Self { key: hasher.finalize().to_hex()[..32].to_owned(), name: name.to_owned(), source }
    }

    /// 32 hexadecimal digits that are unique to the plugin; empty for a plugin that was not loaded from a source.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The name in the manifest.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The path of the file, or `built-in`.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_workspace::paths::real::without_links;

    fn file(path: &Path, origin: FileOrigin, name: &str) -> PluginIdentity {
        PluginIdentity::for_plugin(
            &PluginSource::File { path: path.to_owned(), origin },
            Some(&without_links(path)),
            name,
        )
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
            PluginIdentity::for_plugin(&PluginSource::BuiltIn { name: "a", bytes: &[], description: None }, None, "a"),
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
