//! The lines of a session file: a versioned format, apart from the types of the agent.
//!
//! ```json
//! {"type":"session","version":1,"id":"…","workspace":"/home/me/project","created":"2026-01-02T03:04:05Z"}
//! {"id":"1","parent":null,"time":"2026-01-02T03:04:06.007Z","type":"message","data":{"role":"user",…}}
//! {"id":"2","parent":"1","time":"2026-01-02T03:04:07Z","type":"message","data":{"role":"assistant",…}}
//! {"id":"3","parent":"1","time":"2026-01-02T03:05:00Z","type":"position","data":{"left":"2"}}
//! ```
//!
//! The first line is the header. Every other line is an entry of the session's tree: `parent` names an earlier entry,
//! and is null for a root. The type decides the form of `data`: for `message` a [`Message`] in its own serialized form,
//! which a test below pins; for `position` the entry that the conversation left; for all others a [`Record`].
//!
//! The conversation is at its last write: at the last entry of the file, or at the parent of that entry when it is a
//! `position`. Entries with the field `side` do not count: they are on the branch of a run of a parallel group, and the
//! field is the run's id.
//!
//! Further fields of the header and further types of entries need no new version. A reader keeps an entry of an unknown
//! type as a link of the tree, and skips its data. Everything else needs a new [`VERSION`], which older programs
//! refuse.
//!
//! `data` comes last, so that [`EntryHead`] reads the links of the tree without parsing it: opening a large session costs
//! little more than reading it, and an entry whose data is broken keeps its place.

use crate::id::EntryId;
use crate::lines::{FileLine, MAX_LINE};
use crate::record::{Record, RecordKind};
use jiff::{Timestamp, Unit};
use pinion_protocol::{AssistantMessage, Content, Message};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of the format that this program writes, and the only one it reads.
pub const VERSION: u64 = 1;

/// An entry of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEntry {
    /// The id of the entry.
    pub id: EntryId,
    /// The entry that it follows, according to the file; `None` for a root.
    pub parent: Option<EntryId>,
    /// The time of the write.
    pub time: Timestamp,
    /// The run of a parallel group whose branch it is on.
    pub side: Option<String>,
    /// The content of the entry.
    pub payload: Payload,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// A message of the conversation.
    Message(Message),
    /// The conversation moved to this entry's parent.
    Position {
        /// The entry that it left; `None` before the first one.
        left: Option<EntryId>,
    },
    /// Something that happened, other than a message.
    Record(Record),
    /// An entry that a newer program wrote.
    Unknown {
        /// The type of the entry.
        kind: String,
    },
}

/// The part of an entry that is read without its data.
#[derive(Deserialize)]
pub(crate) struct EntryHead<'a> {
    pub(crate) id: EntryId,
    #[serde(default)]
    pub(crate) parent: Option<EntryId>,
    #[serde(default, borrow)]
    pub(crate) side: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// The kind of an entry, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Message,
    Position,
    Record(RecordKind),
    Unknown,
}

#[derive(Serialize, Deserialize)]
struct EntryLine<'a, T> {
    id: EntryId,
    #[serde(default)]
    parent: Option<EntryId>,
    time: Timestamp,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    side: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    data: T,
}

#[derive(Serialize, Deserialize)]
struct PositionData {
    #[serde(default)]
    left: Option<EntryId>,
}

const MESSAGE_TYPE: &str = "message";
const POSITION_TYPE: &str = "position";
const DATA: &[u8] = br#","data":"#;
/// The most bytes before the data of an entry that this program wrote.
const HEAD_LENGTH: usize = 384;

impl EntryKind {
    fn from_name(name: &str) -> Self {
        match name {
            MESSAGE_TYPE => Self::Message,
            POSITION_TYPE => Self::Position,
            _ => RecordKind::named(name).map_or(Self::Unknown, Self::Record),
        }
    }

    pub(crate) fn is_record(self) -> bool {
        matches!(self, Self::Record(_))
    }
}

impl<'a> EntryHead<'a> {
    /// Reads the head of a line, or returns the reason it has no head. A line that did not end may be cut off anywhere;
    /// it has a head only when it is complete.
    pub(crate) fn read(line: &FileLine<'a>) -> Result<Self, String> {
        if line.too_long {
            return Err("longer than the limit for an entry".to_owned());
        }
        if line.ended
            && let Some(head) = Self::before_data(line.bytes)
        {
            return Ok(head);
        }
        serde_json::from_slice(line.bytes).map_err(|error| format!("not an entry: {error}"))
    }

    /// Reads a line that this program wrote, up to its data. JSON escapes inner quotes, so the first match is the start
    /// of the data.
    fn before_data(line: &[u8]) -> Option<Self> {
        let start = &line[..line.len().min(HEAD_LENGTH)];
        let at = start.windows(DATA.len()).position(|window| window == DATA)?;
        let mut object = [0; HEAD_LENGTH];
        object[..at].copy_from_slice(&start[..at]);
        object[at] = b'}';
        let head: EntryHead<'_> = serde_json::from_slice(&object[..=at]).ok()?;
        let side = head.side.map(|side| Cow::Owned(side.into_owned()));
        Some(EntryHead { id: head.id, parent: head.parent, side, kind: Cow::Owned(head.kind.into_owned()) })
    }

    pub(crate) fn kind(&self) -> EntryKind {
        EntryKind::from_name(&self.kind)
    }
}

/// Reads an entry of a known kind.
pub(crate) fn decode_entry(line: &[u8], kind: EntryKind) -> Result<SessionEntry, serde_json::Error> {
    match kind {
        EntryKind::Message => decode(line, |message, _| Ok(Payload::Message(message))),
        EntryKind::Position => decode(line, |data: PositionData, _| Ok(Payload::Position { left: data.left })),
        EntryKind::Record(kind) => decode(line, |data: &RawValue, _| Ok(Payload::Record(kind.decode(data.get())?))),
        EntryKind::Unknown => decode(line, |_: IgnoredAny, kind| Ok(Payload::Unknown { kind })),
    }
}

fn decode<'a, T: Deserialize<'a>>(
    line: &'a [u8],
    payload: impl FnOnce(T, String) -> Result<Payload, serde_json::Error>,
) -> Result<SessionEntry, serde_json::Error> {
    let line: EntryLine<'_, T> = parse(line)?;
    Ok(SessionEntry {
        id: line.id,
        parent: line.parent,
        time: line.time,
        side: line.side.map(Cow::into_owned),
        payload: payload(line.data, line.kind.into_owned())?,
    })
}

/// An entry could not be encoded as a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error("the entry has {0} bytes, more than the limit of {MAX_LINE}")]
    TooLong(usize),
    #[error("a value in the message nests deeper than {MAX_VALUE_NESTING} levels")]
    TooDeep,
    #[error("all entry ids of the session are in use")]
    Full,
    #[error("the entry cannot be encoded as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The id of an entry, and its links.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) id: EntryId,
    pub(crate) parent: Option<EntryId>,
    pub(crate) time: Timestamp,
    pub(crate) side: Option<&'a str>,
}

impl<'a> Link<'a> {
    fn line<T: Serialize>(self, kind: &'a str, data: T) -> Result<Vec<u8>, EncodeError> {
        let Self { id, parent, time, side } = self;
        encode(&EntryLine { id, parent, time, side: side.map(Cow::Borrowed), kind: kind.into(), data })
    }
}

/// Encodes a message as a line of the file, newline included.
pub(crate) fn encode_message(link: Link<'_>, message: &Message) -> Result<Vec<u8>, EncodeError> {
    if values(message).any(|value| nests_deeper(value, MAX_VALUE_NESTING)) {
        return Err(EncodeError::TooDeep);
    }
    link.line(MESSAGE_TYPE, with_readable_cost(message))
}

/// Encodes a move of the conversation as a line of the file, newline included.
pub(crate) fn encode_position(link: Link<'_>, left: Option<EntryId>) -> Result<Vec<u8>, EncodeError> {
    link.line(POSITION_TYPE, PositionData { left })
}

/// Encodes a record as a line of the file, newline included.
pub(crate) fn encode_record(link: Link<'_>, record: &Record) -> Result<Vec<u8>, EncodeError> {
    link.line(record.type_name(), record)
}

/// Encodes the entry of a line as a line of the main branch after `parent`, newline included. All else is unchanged.
pub(crate) fn encode_moved(line: &[u8], parent: Option<EntryId>) -> Result<Vec<u8>, EncodeError> {
    let entry: EntryLine<'_, &RawValue> = serde_json::from_slice(line)?;
    let link = Link { id: entry.id, parent, time: entry.time, side: None };
    link.line(&entry.kind, entry.data)
}

/// Returns the current time, as precise as the file stores it.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

pub(crate) fn encode<T: Serialize>(line: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = serde_json::to_vec(line)?;
    if bytes.len() > MAX_LINE {
        return Err(EncodeError::TooLong(bytes.len()));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the free-form values of a message.
fn values(message: &Message) -> Box<dyn Iterator<Item = &Value> + '_> {
    match message {
        Message::User(m) => Box::new(arguments(&m.content)),
        Message::Assistant(m) => Box::new(arguments(&m.content)),
        Message::ToolResult(m) => Box::new(arguments(&m.content).chain(&m.details)),
        Message::Extension(m) => Box::new(std::iter::once(&m.data)),
    }
}

fn arguments(content: &[Content]) -> impl Iterator<Item = &Value> {
    content.iter().filter_map(Content::as_tool_call).map(|call| &call.arguments)
}

/// Drops a cost that is not a number, which prices in a user's file can cause. JSON has no such number, and the whole
/// message would be unreadable.
fn with_readable_cost(message: &Message) -> Cow<'_, Message> {
    match message {
        Message::Assistant(m) if m.cost.is_some_and(|cost| !cost.total().is_finite()) => {
            Cow::Owned(Message::Assistant(AssistantMessage { cost: None, ..m.clone() }))
        }
        _ => Cow::Borrowed(message),
    }
}

// Reading of deeply nested JSON, beyond the default limit of serde_json, which protects the stack.
//
// Tool calls and results contain JSON that serde_json already read with its limit of 127 levels. A line of the file
// wraps it in a few more levels and must be readable as well, so this limit is higher by as many levels.

/// The deepest nesting of arrays and objects in the free-form values of a message. JSON from outside never nests
/// deeper.
pub(crate) const MAX_VALUE_NESTING: usize = 128;

/// The deepest nesting of a line: a value inside its envelope, message, list and part.
const MAX_LINE_NESTING: usize = MAX_VALUE_NESTING + 4;

/// Reads a line of JSON whose values nest up to [`MAX_VALUE_NESTING`] levels.
pub(crate) fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, serde_json::Error> {
    let error = match serde_json::from_slice(line) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if !error.is_syntax() || line_nesting(line) > MAX_LINE_NESTING {
        return Err(error);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Returns an upper bound of the nesting of a line. In a malformed line it may count brackets in strings.
fn line_nesting(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns whether a value nests deeper than `levels`.
pub(crate) fn nests_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| nests_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|item| nests_deeper(item, levels - 1)),
        _ => false,
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
