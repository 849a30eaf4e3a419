//! Values of a plugin as a text that people keep or carry to another machine.

use crate::contents::{PluginStorage, StoredPlugin};
use crate::journal::{self, HEAD_BYTES, JournalRecordKind, MAX_VALUE};
use crate::place::{Owner, PluginIdentity, StorageLocation};
use crate::private;
use crate::store::{check_key, unused_id};
use pinion_files::{AtomicWrite, Durability, TemporaryFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The format of the text.
const FORMAT: &str = "pinion stored values 1";
/// Bytes of all keys and values of a text.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of the largest text: a value that is not plain text takes two digits for each byte.
pub const MAX_EXPORT_BYTES: u64 = 192 << 20;

/// The values of a plugin, without the values of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedValues {
    format: String,
    plugin: String,
    identity: String,
    source: String,
    scopes: Vec<ExportedScope>,
}

/// The values of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedScope {
    /// The path of the workspace; absent for values of every workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    values: BTreeMap<String, ExportedValue>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExportedValue {
    Text(String),
    Hex(String),
}

/// The reason why values were neither exported nor imported.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The text has another format.
    #[error("it is not a text of stored values: {0}")]
    Format(String),
    /// The keys and values have too many bytes.
    #[error("the values have more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// A file of values is damaged, or its scope has no name that a text can contain.
    #[error("the values of `{0}` cannot be exported")]
    Unreadable(String),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ExportedValues {
    /// Parses a text.
    ///
    /// # Errors
    /// It has another format, or contains a key or a value that no plugin can store.
    pub fn parse(text: &[u8]) -> Result<Self, TransferError> {
        let format = |error: &dyn std::fmt::Display| TransferError::Format(error.to_string());
        let exported: Self = serde_json::from_slice(text).map_err(|error| format(&error))?;
        if exported.format != FORMAT {
            return Err(format(&"it has another version"));
        }
        let mut room = MAX_BYTES;
        for scope in &exported.scopes {
            for (key, value) in &scope.values {
                check_key(key).map_err(|error| format(&error))?;
                let value = value.bytes().ok_or_else(|| format(&"a value is not in hexadecimal"))?;
                if value.len() > MAX_VALUE {
                    return Err(format(&"a value is too large"));
                }
                room = room.checked_sub(key.len() + value.len()).ok_or(TransferError::TooLarge)?;
            }
        }
        Ok(exported)
    }

    /// Returns the text.
    ///
    /// # Errors
    /// Never, because all members have a form in JSON.
    pub fn to_text(&self) -> Result<Vec<u8>, TransferError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Returns whether these are values of this plugin from this source.
    pub fn belong_to(&self, identity: &PluginIdentity) -> bool {
        self.plugin == identity.name() && self.identity == identity.key()
    }

    /// The name of the plugin.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// The path of the plugin's file, or `built-in`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.scopes.iter().map(|scope| scope.values.len()).sum()
    }
}

impl ExportedValue {
    fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') => Self::Text(text),
            Ok(text) => Self::Hex(hex(text.as_bytes())),
            Err(error) => Self::Hex(hex(error.as_bytes())),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_owned()),
            Self::Hex(digits) => {
                let pairs = digits.as_bytes().chunks(2).map(|pair| {
                    let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.contains('+'))?;
                    u8::from_str_radix(pair, 16).ok()
                });
                pairs.collect()
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl PluginStorage {
    /// Returns the values of a plugin, without the values of sessions.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the values are too large.
    pub fn export(&self, plugin: &StoredPlugin) -> Result<ExportedValues, TransferError> {
        let (mut scopes, mut room) = (Vec::new(), MAX_BYTES);
        let sessions = self.directory().join("sessions");
        for scope in plugin.scopes.iter().filter(|scope| !scope.file.starts_with(&sessions)) {
            let unreadable = || TransferError::Unreadable(scope.name.clone());
            let Some((owner, values)) = read_scope(&scope.file, &mut room)? else { return Err(unreadable()) };
            // A path that is not UTF-8 differs from its text.
            let name = owner.scope.as_deref().map_or("plugin".to_owned(), StorageLocation::workspace_name);
            if scope.file.file_stem() != Some(name.as_ref()) {
                return Err(unreadable());
            }
            let values = values.into_iter().map(|(key, value)| (key, ExportedValue::new(value))).collect();
            scopes.push(ExportedScope { workspace: owner.scope, values });
        }
        let (name, key, source) = (plugin.name.clone(), plugin.key.clone(), plugin.source.clone());
        Ok(ExportedValues { format: FORMAT.to_owned(), plugin: name, identity: key, source, scopes })
    }

    /// Replaces the values of a plugin in each scope that a text has. All new files are complete before the first one
    /// takes its place, and each does so in one step. Waits for writers.
    ///
    /// # Errors
    /// The system refuses.
    pub fn import(&self, identity: &PluginIdentity, exported: &ExportedValues) -> Result<(), TransferError> {
        let mut prepared = Vec::new();
        for scope in &exported.scopes {
            let place = match &scope.workspace {
                Some(workspace) => StorageLocation::of_workspace(self.directory(), identity, Path::new(workspace)),
                None => StorageLocation::of_plugin(self.directory(), identity),
            };
            private::create_directories(&place.directories)?;
            let lock = private::open(&place.lock(), OpenOptions::new().write(true).create(true).truncate(false))?;
            lock.lock()?;
            let file = write_scope(&place, &scope.values)?;
            prepared.push((lock, file, place));
        }
        for (lock, file, place) in prepared {
            file.replace(&place.values).map_err(io::Error::from)?;
            drop(lock);
        }
        Ok(())
    }
}

/// The values of a scope, by their keys.
type ScopeValues = BTreeMap<String, Vec<u8>>;

/// Reads a file of values; `None` if it is damaged. Takes the bytes of the values from `room`.
fn read_scope(path: &Path, room: &mut usize) -> Result<Option<(Owner, ScopeValues)>, TransferError> {
    let Some(mut file) = private::open_existing(path, OpenOptions::new().read(true))? else { return Ok(None) };
    let length = file.metadata()?.len();
    let (mut owner, mut values, mut used, mut is_sound) = (None, ScopeValues::new(), 0, true);
    let read = journal::read_head(&mut file).and_then(|id| {
        journal::scan(&mut file, &id, HEAD_BYTES, length, |record| {
            let Ok(key) = std::str::from_utf8(record.key) else {
                is_sound = false;
                return;
            };
            match record.prefix.kind {
                JournalRecordKind::Owner => owner = serde_json::from_slice(record.value).ok(),
                kind => {
                    let before = values.remove(key).map_or(0, |value| key.len() + value.len());
                    used -= before;
                    if kind == JournalRecordKind::Value && used <= *room {
                        used += key.len() + record.value.len();
                        values.insert(key.to_owned(), record.value.to_owned());
                    }
                }
            }
        })
    });
    *room = room.checked_sub(used).ok_or(TransferError::TooLarge)?;
    let is_whole = read.is_ok() && is_sound;
    Ok(owner.filter(|_| is_whole).map(|owner| (owner, values)))
}

/// Writes a file with values next to its place.
fn write_scope(place: &StorageLocation, values: &BTreeMap<String, ExportedValue>) -> io::Result<TemporaryFile> {
    let id = unused_id();
    // As in a file that was rewritten, versions begin anywhere, so that they do not repeat.
    let mut version = u32::from_le_bytes([id[0], id[1], id[2], 0]);
    let durable = AtomicWrite::private().durability(Durability::ContentAndName);
    let mut out = BufWriter::new(durable.create_at(&place.new_values())?);
    out.write_all(&journal::head(&id))?;
    let owner = serde_json::to_vec(&place.owner)?;
    let owner = &owner[..owner.len().min(MAX_VALUE)];
    out.write_all(&journal::encode(&id, JournalRecordKind::Owner, version, &[], owner).1)?;
    for (key, value) in values {
        version = version.wrapping_add(1);
        let value = value.bytes().unwrap_or_default();
        out.write_all(&journal::encode(&id, JournalRecordKind::Value, version, key.as_bytes(), &value).1)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ExpectedVersion, ValueStore};

    fn identity(path: &str) -> PluginIdentity {
        PluginIdentity::new("user", Path::new(path), "notes")
    }

    async fn write(place: StorageLocation, key: &str, value: &[u8]) {
        ValueStore::new(place).write(key, value, ExpectedVersion::Anything, 1 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn values_come_back_for_the_identity_that_imports_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("plugin-storage");
        let (storage, old, new) = (PluginStorage::new(&root), identity("/a/notes.wasm"), identity("/b/notes.wasm"));
        write(StorageLocation::of_plugin(&root, &old), "text", "zwölf\n".as_bytes()).await;
        write(StorageLocation::of_plugin(&root, &old), "bytes", b"\0\xff").await;
        write(StorageLocation::of_workspace(&root, &old, Path::new("/w")), "here", b"1").await;
        write(StorageLocation::of_session(&root, &old, "s"), "not", b"exported").await;
        let exported = storage.export(&storage.plugins().unwrap()[0]).unwrap();
        assert!(exported.belong_to(&old) && !exported.belong_to(&new) && exported.count() == 3);
        let parsed = ExportedValues::parse(&exported.to_text().unwrap()).unwrap();
        assert_eq!(parsed, exported);
        write(StorageLocation::of_plugin(&root, &new), "earlier", b"value").await;
        storage.import(&new, &parsed).unwrap();
        let everywhere = ValueStore::new(StorageLocation::of_plugin(&root, &new));
        assert_eq!(everywhere.keys("", None, 9).await.unwrap(), ["bytes", "text"]);
        assert_eq!(everywhere.get("bytes").await.unwrap().unwrap().0, b"\0\xff");
        let here = ValueStore::new(StorageLocation::of_workspace(&root, &new, Path::new("/w")));
        assert_eq!(here.get("here").await.unwrap().unwrap().0, b"1");
    }

    #[test]
    fn texts_with_other_members_or_values_are_refused() {
        let text = |values: &str| {
            let scopes = format!(r#"[{{"values":{{{values}}}}}]"#);
            format!(r#"{{"format":"{FORMAT}","plugin":"a","identity":"b","source":"c","scopes":{scopes}}}"#)
        };
        assert!(ExportedValues::parse(text(r#""k":{"hex":"00ff"}"#).as_bytes()).is_ok());
        for values in [r#""k":{"hex":"0"}"#, r#""k":{"hex":"+1"}"#, r#""k":{"other":"0"}"#, r#""":{"text":"0"}"#] {
            assert!(ExportedValues::parse(text(values).as_bytes()).is_err(), "{values}");
        }
        let other = text("").replace("values 1", "values 2");
        assert!(ExportedValues::parse(other.as_bytes()).is_err());
        let large = format!(r#""k":{{"text":"{}"}}"#, "x".repeat(MAX_VALUE + 1));
        assert!(ExportedValues::parse(text(&large).as_bytes()).is_err());
    }
}
