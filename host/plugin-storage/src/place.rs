//! The file that holds the values of a scope, and the identity of the plugin that owns it.
//!
//! ```text
//! DIRECTORY/plugins/IDENTITY/plugin.values
//! DIRECTORY/plugins/IDENTITY/workspace-DIGEST.values
//! DIRECTORY/sessions/SESSION/IDENTITY.values
//! ```
//! No path contains a key, a name or anything else that a plugin chooses.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of a session id that is used as a name unchanged.
const MAX_NAME: usize = 64;

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

/// A file of values and the directories above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageLocation {
    /// The directories that belong to the host, from the outermost to the one of the file.
    pub(crate) directories: [PathBuf; 3],
    /// The file.
    pub(crate) values: PathBuf,
    /// The owner, as the file names it.
    pub(crate) owner: Owner,
}

/// The owner of a file of values, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) plugin: String,
    pub(crate) source: String,
    /// The workspace, or `session`; `None` for values of the plugin everywhere.
    pub(crate) scope: Option<String>,
}

impl StorageLocation {
    /// The values of a plugin in every workspace.
    pub fn of_plugin(root: &Path, identity: &PluginIdentity) -> Self {
        Self::new(root, ["plugins", identity.key()], "plugin", owner(identity, None))
    }

    /// The values of a plugin in one workspace, by the path of its root without links.
    pub fn of_workspace(root: &Path, identity: &PluginIdentity, workspace: &Path) -> Self {
        let owner = owner(identity, Some(workspace.display().to_string()));
        Self::new(root, ["plugins", identity.key()], &Self::workspace_name(workspace), owner)
    }

    /// Returns the name of the files of a workspace, without their extension.
    pub(crate) fn workspace_name(workspace: impl AsRef<Path>) -> String {
        let digest = blake3::hash(workspace.as_ref().as_os_str().as_encoded_bytes()).to_hex();
        format!("workspace-{}", &digest[..32])
    }

    /// The values of a plugin in one session.
    pub fn of_session(root: &Path, identity: &PluginIdentity, session: &str) -> Self {
        let owner = owner(identity, Some("session".to_owned()));
        Self::new(root, ["sessions", &session_name(session)], identity.key(), owner)
    }

    fn new(root: &Path, [group, directory]: [&str; 2], name: &str, owner: Owner) -> Self {
        let group = root.join(group);
        let directory = group.join(directory);
        let values = directory.join(format!("{name}.values"));
        Self { directories: [root.to_owned(), group, directory], values, owner }
    }

    /// The file whose lock writers hold.
    pub(crate) fn lock(&self) -> PathBuf {
        self.values.with_extension("lock")
    }

    /// The file that is being written to replace the values.
    pub(crate) fn new_values(&self) -> PathBuf {
        self.values.with_extension("new")
    }
}

fn owner(identity: &PluginIdentity, scope: Option<String>) -> Owner {
    Owner { plugin: identity.name().to_owned(), source: identity.source().to_owned(), scope }
}

/// The directory name of a session, whose id may come from a forged file.
pub(crate) fn session_name(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !session.is_empty() && session.len() <= MAX_NAME && session.chars().all(is_plain) {
        true => session.to_owned(),
        false => blake3::hash(session.as_bytes()).to_hex().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_cannot_lead_out_of_the_directory() {
        for id in ["../x", "/etc", "", ".", "..", "a/b", "a\0b", &"x".repeat(65)] {
            assert!(session_name(id).len() == 64 && !session_name(id).contains(['/', '.']), "{id:?}");
        }
        assert_eq!(session_name("0d2f-3c_4e"), "0d2f-3c_4e");
    }

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
