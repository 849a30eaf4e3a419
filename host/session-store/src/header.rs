//! The first line of a session: what it is, and in which version of the format the rest is.

use crate::format::{EncodeError, VERSION, encode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::PathBuf;

/// What the first line of a session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The session's id.
    pub id: String,
    /// The absolute path of the folder that the session is about. Where it is not Unicode, what could not be written
    /// is replaced.
    pub workspace: PathBuf,
    /// When it began.
    pub created: Timestamp,
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
}

/// As much of a header as every version has.
#[derive(Deserialize)]
struct HeaderStart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    version: u64,
}

const HEADER_TYPE: &str = "session";
const HEADER_BEGINNING: &[u8] = br#"{"type":"session","version":"#;

/// What a first line turned out to be.
pub(crate) enum FirstLine {
    Header(Header),
    /// A header of a version that is not ours.
    Foreign(u64),
    /// No header.
    Other,
}

impl Header {
    /// As a line of the file, newline included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        encode(&HeaderLine {
            kind: HEADER_TYPE.into(),
            version: VERSION,
            id: self.id.as_str().into(),
            workspace: self.workspace.to_string_lossy(),
            created: self.created,
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
        Ok(line) => FirstLine::Header(Header {
            id: line.id.into_owned(),
            workspace: PathBuf::from(line.workspace.into_owned()),
            created: line.created,
        }),
        Err(_) => FirstLine::Other,
    }
}

/// Whether a file's only, unended line can be what a kill left of a header.
pub(crate) fn is_beginning_of_header(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER_BEGINNING) || HEADER_BEGINNING.starts_with(bytes)
}
