//! The access of plugins to the session of their call: its entries, the plugins' own entries, and its title.

use crate::error::SessionError;
use crate::format::{self, EntryKind, Payload};
use crate::id::EntryId;
use crate::index::Node;
use crate::record::{PluginEntry, Record, RecordKind, Titled};
use crate::summary;
use crate::transcript::Transcript;
use pinion_protocol::store::MAX_PLUGIN_ENTRIES;
use pinion_protocol::{Message, SessionAccessError, StoredEntry};
use serde_json::Value;
use std::error::Error as _;
use std::path::Path;

type Result<T> = std::result::Result<T, SessionAccessError>;

/// Opens the branch that ends at `leaf`; `None` before the session has a file.
fn open(path: &Path) -> Result<Option<Transcript>> {
    match path.exists() {
        true => Transcript::open(path).map(Some).map_err(|error| failed(&error)),
        false => Ok(None),
    }
}

/// Returns entries up to `leaf`, as [`pinion_protocol::SessionStore::entries`] describes.
pub(crate) fn entries(
    path: &Path,
    leaf: Option<EntryId>,
    after: Option<&str>,
    limit: usize,
    bytes: usize,
) -> Result<Vec<StoredEntry>> {
    let unknown = || SessionAccessError::Invalid(format!("no entry `{}` on this branch", after.unwrap_or_default()));
    let after = after.map(|id| id.parse::<EntryId>().map_err(|_| unknown())).transpose()?;
    let (Some(mut transcript), Some(leaf)) = (open(path)?, leaf) else {
        return if after.is_some() { Err(unknown()) } else { Ok(Vec::new()) };
    };
    let mut branch = transcript.branch_to(leaf).ok_or_else(unknown)?;
    let (mut found, mut left, mut is_past) = (Vec::new(), bytes, after.is_none());
    while let Some(line) = branch.next_line() {
        let (node, line) = line.map_err(|error| failed(&error))?;
        let id = node.id;
        if !is_past {
            is_past = after == Some(id);
            continue;
        }
        let Ok(text) = std::str::from_utf8(line) else { continue };
        let text = text.trim_end();
        let data = match text.len() {
            // One that is larger than all of them may be keeps its place.
            length if length > bytes => format!(r#"{{"id":"{id}","type":"omitted","data":{{"bytes":{length}}}}}"#),
            _ => text.to_owned(),
        };
        if found.len() == limit || data.len() > left {
            break;
        }
        left -= data.len();
        found.push(StoredEntry { id: id.to_string(), data });
    }
    if is_past { Ok(found) } else { Err(unknown()) }
}

/// Returns the number of entries of a plugin in the whole file.
pub(crate) fn count(path: &Path, plugin: &str) -> Result<usize> {
    let Some(mut transcript) = open(path)? else { return Ok(0) };
    let is_entry = |node: &&Node| node.kind == EntryKind::Record(RecordKind::PluginEntry);
    let nodes = transcript.index().nodes.iter().filter(is_entry).copied().collect();
    let entries = transcript.entries(nodes);
    let is_own = |payload: &Payload| matches!(payload, Payload::Record(Record::PluginEntry(PluginEntry { plugin: owner, .. })) if owner == plugin);
    Ok(entries.filter(|entry| entry.as_ref().is_ok_and(|entry| is_own(&entry.payload))).count())
}

/// Returns the record of an entry of a plugin that has `count` already.
pub(crate) fn record_of(plugin: &str, data: Value, count: usize) -> Result<Record> {
    if count >= MAX_PLUGIN_ENTRIES {
        return Err(SessionAccessError::Invalid(format!(
            "plugin `{plugin}` has {MAX_PLUGIN_ENTRIES} entries in this session, the maximum"
        )));
    }
    Ok(Record::PluginEntry(PluginEntry { plugin: plugin.to_owned(), data }))
}

/// Returns the title on the branch that ends at `leaf`: the last one that was set, or else the first prompt.
pub(crate) fn title(path: &Path, leaf: Option<EntryId>) -> Result<Option<String>> {
    let (Some(mut transcript), Some(leaf)) = (open(path)?, leaf) else { return Ok(None) };
    let Some(mut branch) = transcript.branch_to(leaf) else { return Ok(None) };
    let (mut prompt, mut titled) = (None, None);
    while let Some(line) = branch.next_line() {
        let (node, line) = line.map_err(|error| failed(&error))?;
        let is_title = node.kind == EntryKind::Record(RecordKind::Titled);
        if !is_title && (node.kind != EntryKind::Message || prompt.is_some()) {
            continue;
        }
        match format::decode_entry(line, node.kind).map(|entry| entry.payload) {
            Ok(Payload::Record(Record::Titled(Titled { title }))) => titled = Some(title),
            Ok(Payload::Message(Message::User(message))) => prompt = summary::title(&message),
            _ => {}
        }
    }
    Ok(titled.or(prompt))
}

/// Converts an error of a session.
pub(crate) fn failed(error: &SessionError) -> SessionAccessError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    SessionAccessError::Io(format!("{error}{cause}"))
}
