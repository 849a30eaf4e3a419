//! The lines of a session file: their form on disk, which is versioned and apart from the types of the agent.
//!
//! ```json
//! {"type":"session","version":1,"id":"…","workspace":"/home/me/project","created":"2026-01-02T03:04:05Z"}
//! {"id":"1","parent":null,"time":"2026-01-02T03:04:06.007Z","type":"message","data":{"role":"user",…}}
//! {"id":"2","parent":"1","time":"2026-01-02T03:04:07Z","type":"message","data":{"role":"assistant",…}}
//! {"id":"3","parent":"1","time":"2026-01-02T03:05:00Z","type":"position","data":{"left":"2"}}
//! ```
//!
//! The first line is the header. Every other line is an entry of the session's tree: `parent` names an entry further
//! up, and is null for a root. `data` is what the type says: for `message` a [`Message`] in its own serialized form,
//! which a test below pins; for `position` what was left to go on from `parent`; for all others a [`Record`].
//!
//! The conversation stands where it was written to last: at the last entry of the file, or at the parent of that when it
//! is a `position`. Entries with the field `side` do not count: they are what a loop of a parallel group says, on a
//! branch of its own, and the field is the loop's id.
//!
//! What may change without a new version: further fields of the header, further types of entries. A reader keeps an
//! entry whose type it does not know as a link of the tree, and passes over its data. Everything else needs a new
//! [`VERSION`], which older programs refuse.
//!
//! `data` comes last, so that the links of the tree are read without parsing it ([`Head`]): opening a large session
//! costs little more than reading it, and an entry whose data is broken still tells where it belongs.

use crate::id::EntryId;
use crate::lines::{Line, MAX_LINE};
use crate::nesting::{MAX_VALUE_NESTING, nests_deeper, parse};
use crate::record::{Record, RecordKind};
use jiff::{Timestamp, Unit};
use pinion_protocol::{AssistantMessage, Content, Message};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of the format that this program writes, and the only one that it reads.
pub const VERSION: u64 = 1;

/// An entry of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// The entry that it follows, as the file says; none for a root.
    pub parent: Option<EntryId>,
    /// When it was written.
    pub time: Timestamp,
    /// The loop of a parallel group on whose own branch it is.
    pub side: Option<String>,
    /// What it holds.
    pub payload: Payload,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// A message of the conversation.
    Message(Message),
    /// The conversation went on from this entry's parent.
    Position {
        /// Where it was before; none when nothing was said yet.
        left: Option<EntryId>,
    },
    /// Something that happened besides messages.
    Record(Record),
    /// Something that a newer version of this program wrote.
    Unknown {
        /// The type that the entry has.
        kind: String,
    },
}

/// What is known of an entry without reading its data.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    pub(crate) id: EntryId,
    #[serde(default)]
    pub(crate) parent: Option<EntryId>,
    #[serde(default, borrow)]
    pub(crate) side: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// What an entry is, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
/// Everything before the data fits into this, when this program wrote it.
const HEAD_LENGTH: usize = 384;

impl Kind {
    fn of(name: &str) -> Self {
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

impl<'a> Head<'a> {
    /// Reads the head of a line, or says what is wrong with it. A line that did not end may be cut off anywhere, and
    /// only a complete one has a head.
    pub(crate) fn read(line: &Line<'a>) -> Result<Self, String> {
        if line.too_long {
            return Err("longer than an entry may be".to_owned());
        }
        if line.ended
            && let Some(head) = Self::before_data(line.bytes)
        {
            return Ok(head);
        }
        serde_json::from_slice(line.bytes).map_err(|error| format!("not an entry: {error}"))
    }

    /// Reads a line of this program's making up to its data. An inner quote would be escaped, so the first match is
    /// where the data begins.
    fn before_data(line: &[u8]) -> Option<Self> {
        let start = &line[..line.len().min(HEAD_LENGTH)];
        let at = start.windows(DATA.len()).position(|window| window == DATA)?;
        let mut object = [0; HEAD_LENGTH];
        object[..at].copy_from_slice(&start[..at]);
        object[at] = b'}';
        let head: Head<'_> = serde_json::from_slice(&object[..=at]).ok()?;
        let side = head.side.map(|side| Cow::Owned(side.into_owned()));
        Some(Head { id: head.id, parent: head.parent, side, kind: Cow::Owned(head.kind.into_owned()) })
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of(&self.kind)
    }
}

/// Reads a whole entry of a kind that its head told.
pub(crate) fn decode_entry(line: &[u8], kind: Kind) -> Result<Entry, serde_json::Error> {
    match kind {
        Kind::Message => decode(line, |message, _| Ok(Payload::Message(message))),
        Kind::Position => decode(line, |data: PositionData, _| Ok(Payload::Position { left: data.left })),
        Kind::Record(kind) => decode(line, |data: &RawValue, _| Ok(Payload::Record(kind.decode(data.get())?))),
        Kind::Unknown => decode(line, |_: IgnoredAny, kind| Ok(Payload::Unknown { kind })),
    }
}

fn decode<'a, T: Deserialize<'a>>(
    line: &'a [u8],
    payload: impl FnOnce(T, String) -> Result<Payload, serde_json::Error>,
) -> Result<Entry, serde_json::Error> {
    let line: EntryLine<'_, T> = parse(line)?;
    Ok(Entry {
        id: line.id,
        parent: line.parent,
        time: line.time,
        side: line.side.map(Cow::into_owned),
        payload: payload(line.data, line.kind.into_owned())?,
    })
}

/// An entry could not be made into a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error("the entry takes {0} bytes, and at most {MAX_LINE} can be read back")]
    TooLong(usize),
    #[error("a value in the message nests deeper than {MAX_VALUE_NESTING} levels")]
    TooDeep,
    #[error("the session has as many entries as there are names for")]
    Full,
    #[error("the entry cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What an entry is called, and where it belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) id: EntryId,
    pub(crate) parent: Option<EntryId>,
    pub(crate) time: Timestamp,
    pub(crate) side: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn line<T: Serialize>(self, kind: &'a str, data: T) -> Result<Vec<u8>, EncodeError> {
        let Self { id, parent, time, side } = self;
        encode(&EntryLine { id, parent, time, side: side.map(Cow::Borrowed), kind: kind.into(), data })
    }
}

/// A message as a line of the file, newline included.
pub(crate) fn encode_message(place: Place<'_>, message: &Message) -> Result<Vec<u8>, EncodeError> {
    if values(message).any(|value| nests_deeper(value, MAX_VALUE_NESTING)) {
        return Err(EncodeError::TooDeep);
    }
    place.line(MESSAGE_TYPE, with_readable_cost(message))
}

/// The line that says where the conversation goes on, newline included.
pub(crate) fn encode_position(place: Place<'_>, left: Option<EntryId>) -> Result<Vec<u8>, EncodeError> {
    place.line(POSITION_TYPE, PositionData { left })
}

/// A record as a line of the file, newline included.
pub(crate) fn encode_record(place: Place<'_>, record: &Record) -> Result<Vec<u8>, EncodeError> {
    place.line(record.type_name(), record)
}

/// An entry's line as it is, newline included, but on the main line and after `parent`.
pub(crate) fn encode_moved(line: &[u8], parent: Option<EntryId>) -> Result<Vec<u8>, EncodeError> {
    let entry: EntryLine<'_, &RawValue> = serde_json::from_slice(line)?;
    let place = Place { id: entry.id, parent, time: entry.time, side: None };
    place.line(&entry.kind, entry.data)
}

/// The present, as precise as the file keeps it.
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

/// The free-form values of a message.
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

/// Leaves out a cost that is not a number (prices come from files that users write): JSON has none such, and the whole
/// message would not be readable.
fn with_readable_cost(message: &Message) -> Cow<'_, Message> {
    match message {
        Message::Assistant(m) if m.cost.is_some_and(|cost| !cost.total().is_finite()) => {
            Cow::Owned(Message::Assistant(AssistantMessage { cost: None, ..m.clone() }))
        }
        _ => Cow::Borrowed(message),
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
