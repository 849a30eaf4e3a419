//! The identity of an installed plugin, which owns its stored values.

use std::path::Path;

/// Identifies a plugin across versions: its origin, the path of its file, and its name.
///
/// The digest is not part of it, because values survive an honest update. A file that takes the place of another one
/// gets no grants before the user confirms it, and without the grant, no values. A plugin of the same name from
/// anywhere else is another plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginIdentity {
    key: String,
    name: String,
    source: String,
}

impl PluginIdentity {
    /// The identity of the plugin `name` from `origin`, such as `user`. The path is the path of its file without links, and
    /// empty for a plugin without a file.
    pub fn new(origin: &str, path: &Path, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("pinion 2026 identity of a plugin");
        for part in [origin.as_bytes(), path.as_os_str().as_encoded_bytes(), name.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let source = if path.as_os_str().is_empty() { origin.to_owned() } else { path.display().to_string() };
        Self { key: hasher.finalize().to_hex()[..32].to_owned(), name: name.to_owned(), source }
    }

    /// 32 hexadecimal digits that are unique to the plugin; empty for a plugin that was not loaded from a source.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The name in the manifest.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the file, or `built-in`.
    pub fn source(&self) -> &str {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_path_and_name_each_make_another_identity() {
        let path = Path::new("/plugins/a.wasm");
        let named = PluginIdentity::new("named", path, "a");
        assert_eq!((named.key().len(), &named), (32, &PluginIdentity::new("named", path, "a")));
        let others = [
            PluginIdentity::new("user", path, "a"),
            PluginIdentity::new("project", path, "a"),
            PluginIdentity::new("named", Path::new("/plugins/A.wasm"), "a"),
            PluginIdentity::new("named", path, "A"),
            PluginIdentity::new("built-in", Path::new(""), "a"),
        ];
        assert!(others.iter().all(|other| other.key() != named.key()));
    }
}
