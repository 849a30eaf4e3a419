//! Summaries of sessions for lists, read from the start of each file.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::format::{self, EntryHead, EntryKind, Payload};
use crate::header::{self, FirstLine, SessionHeader};
use crate::lines::LineReader;
use crate::name;
use crate::transcript::open_file;
use jiff::Timestamp;
use pinion_protocol::text::printable;
use pinion_protocol::{Content, Message, UserMessage};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The part of a file that a summary reads, in bytes.
pub(crate) const SUMMARY_LIMIT: u64 = 256 << 10;
/// The longest title, in characters.
pub(crate) const TITLE_LENGTH: usize = 100;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The id for [`SessionDirectory::find`](crate::SessionDirectory::find).
    pub id: String,
    /// The session's file.
    pub path: PathBuf,
    /// The facts in the first line; `None` when it is lost.
    pub header: Option<SessionHeader>,
    /// The time of the last write.
    pub last_activity: Timestamp,
    /// The size of the file in bytes.
    pub size: u64,
    /// The name that the user gave the session, or the title that a plugin gave it, or the first line of the first
    /// prompt, made harmless for a terminal, at most 100 characters. `None` when no prompt has text, or the first one
    /// is too far into the file.
    pub title: Option<String>,
}

/// A file with the name of a session.
pub(crate) struct SessionFile {
    pub(crate) path: PathBuf,
    pub(crate) modified: SystemTime,
    pub(crate) size: u64,
}

/// Reads the summary of a session; `None` for one without entries.
pub(crate) fn summary(found: &SessionFile) -> Result<Option<Summary>, SessionError> {
    let file = open_file(&found.path).map_err(SessionError::io("open", &found.path))?;
    let beginning = read_beginning(&found.path, file)?;
    let empty = beginning.entries == 0 && found.size <= SUMMARY_LIMIT;
    match (empty, beginning.is_session) {
        (true, true) => Ok(None),
        (true, false) => Err(SessionError::new(&found.path, SessionErrorKind::Corrupt)),
        (false, _) => Ok(Some(Summary {
            id: files::id_of(&found.path),
            path: found.path.clone(),
            header: beginning.header,
            last_activity: Timestamp::try_from(found.modified).unwrap_or(Timestamp::UNIX_EPOCH),
            size: found.size,
            title: name::shown(&found.path).or(beginning.title),
        })),
    }
}

/// The facts at the start of a file.
#[derive(Default)]
struct Beginning {
    header: Option<SessionHeader>,
    /// True if the first line is a header, or the start of one that a kill cut off.
    is_session: bool,
    entries: usize,
    title: Option<String>,
}

/// Reads up to the first prompt.
fn read_beginning(path: &Path, file: File) -> Result<Beginning, SessionError> {
    let mut lines = LineReader::new(BufReader::new(file.take(SUMMARY_LIMIT)), SUMMARY_LIMIT as usize);
    let mut beginning = Beginning::default();
    while let Some(line) = lines.next().map_err(SessionError::io("read", path))? {
        if line.number == 1 {
            match header::first_line(line.bytes) {
                FirstLine::Header(header) => beginning.header = Some(*header),
                FirstLine::Foreign(found) => {
                    return Err(SessionError::new(path, SessionErrorKind::UnsupportedVersion { found }));
                }
                FirstLine::Other => {}
            }
            beginning.is_session = beginning.header.is_some() || header::is_beginning_of_header(line.bytes);
        }
        let Ok(head) = EntryHead::read(&line) else { continue };
        beginning.entries += 1;
        if let Some(prompt) = (head.kind() == EntryKind::Message).then(|| prompt(line.bytes)).flatten() {
            beginning.title = title(&prompt);
            break;
        }
    }
    Ok(beginning)
}

/// Returns the prompt on a line, if it has one.
fn prompt(line: &[u8]) -> Option<UserMessage> {
    match format::decode_entry(line, EntryKind::Message).ok()?.payload {
        Payload::Message(Message::User(prompt)) => Some(prompt),
        _ => None,
    }
}

/// Returns the first line of a prompt, made harmless for a terminal.
pub(crate) fn title(prompt: &UserMessage) -> Option<String> {
    let lines = prompt.content.iter().filter_map(Content::as_text).flat_map(str::lines);
    let first = lines.map(str::trim).find(|line| !line.is_empty())?;
    Some(printable(first).replace('\t', " ").chars().take(TITLE_LENGTH).collect())
}
