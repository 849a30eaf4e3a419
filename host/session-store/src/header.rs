//! The first line of a session: its facts, and the version of its format.

use crate::format::{self, EncodeError, VERSION, encode};
use crate::id::{self, EntryId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The facts of a session, from its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHeader {
    /// The session's id.
    pub id: String,
    /// The absolute path of the session's working directory. Bytes that are not Unicode are replaced.
    pub workspace: PathBuf,
    /// The time of its creation.
    pub created: Timestamp,
    /// The agent that created it, where agents have ids.
    pub agent_id: Option<String>,
    /// The entry that it was forked at, for a fork.
    pub forked_from: Option<SessionOrigin>,
    /// The tool call that it works on, for a sub-agent's session.
    pub spawned_by: Option<Spawn>,
}

/// An entry of another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOrigin {
    /// The other session's id.
    pub session: String,
    /// The last entry that the two share.
    pub entry: EntryId,
}

/// The tool call that a sub-agent works on. The link back is in the session that made the call: the result names the
/// sub-agent's run, and so does a record, [`Spawned`](crate::record::Spawned).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// The id of the session that made the call.
    pub session: String,
    /// The entry with the call, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryId>,
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The run that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl SessionHeader {
    /// The header of a new session of `workspace`, an absolute path.
    pub(crate) fn new(workspace: &Path) -> Self {
        Self::named(id::new_session_id(), workspace)
    }

    pub(crate) fn named(id: String, workspace: &Path) -> Self {
        let workspace = workspace.to_owned();
        Self { id, workspace, created: format::now(), agent_id: None, forked_from: None, spawned_by: None }
    }
}

#[derive(Serialize, Deserialize)]
struct HeaderLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    version: u64,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    workspace: Cow<'a, str>,
    created: Timestamp,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    agent_id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<Cow<'a, SessionOrigin>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spawned_by: Option<Cow<'a, Spawn>>,
}

/// The part of a header that every version has.
#[derive(Deserialize)]
struct HeaderStart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    version: u64,
}

const HEADER_TYPE: &str = "session";
const HEADER_BEGINNING: &[u8] = br#"{"type":"session","version":"#;

/// The result of reading a first line.
pub(crate) enum FirstLine {
    Header(Box<SessionHeader>),
    /// A header of another version.
    Foreign(u64),
    /// Anything else.
    Other,
}

impl SessionHeader {
    /// Encodes the header as a line of the file, newline included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        encode(&HeaderLine {
            kind: HEADER_TYPE.into(),
            version: VERSION,
            id: self.id.as_str().into(),
            workspace: self.workspace.to_string_lossy(),
            created: self.created,
            agent_id: self.agent_id.as_deref().map(Cow::Borrowed),
            forked_from: self.forked_from.as_ref().map(Cow::Borrowed),
            spawned_by: self.spawned_by.as_ref().map(Cow::Borrowed),
        })
    }
}

/// Reads the first line of a file.
pub(crate) fn first_line(bytes: &[u8]) -> FirstLine {
    match serde_json::from_slice::<HeaderStart<'_>>(bytes) {
        Ok(start) if start.kind != HEADER_TYPE => return FirstLine::Other,
        Ok(start) if start.version != VERSION => return FirstLine::Foreign(start.version),
        Ok(_) => {}
        Err(_) => return FirstLine::Other,
    }
    match serde_json::from_slice::<HeaderLine<'_>>(bytes) {
        Ok(line) => FirstLine::Header(Box::new(SessionHeader {
            id: line.id.into_owned(),
            workspace: PathBuf::from(line.workspace.into_owned()),
            created: line.created,
            agent_id: line.agent_id.map(Cow::into_owned),
            forked_from: line.forked_from.map(Cow::into_owned),
            spawned_by: line.spawned_by.map(Cow::into_owned),
        })),
        Err(_) => FirstLine::Other,
    }
}

/// Returns whether a file's only, unended line can be the start of a header that a kill cut off.
pub(crate) fn is_beginning_of_header(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER_BEGINNING) || HEADER_BEGINNING.starts_with(bytes)
}
