//! What a list says of a session, read from the beginning of its file.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::format::{self, Head, Kind, Payload};
use crate::header::{self, FirstLine, Header};
use crate::lines::Lines;
use crate::printable::printable;
use jiff::Timestamp;
use pinion_protocol::{Content, Message, UserMessage};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far into a file a summary looks, in bytes.
pub(crate) const SUMMARY_LIMIT: u64 = 256 << 10;
/// How long a title may be, in characters.
pub(crate) const TITLE_LENGTH: usize = 100;

/// What a list says of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The id by which [`SessionDirectory::find`] knows it.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// What the file says of it; none when its first line is lost.
    pub header: Option<Header>,
    /// When it was written to last.
    pub last_activity: Timestamp,
    /// The size of the file in bytes.
    pub size: u64,
    /// The first line of the first prompt, fit for a terminal, of at most 100 characters. None when there was no
    /// prompt of text, or it is further into the file than a list looks.
    pub title: Option<String>,
}

/// A file that is named like a session.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) modified: SystemTime,
    pub(crate) size: u64,
}

/// Reads the beginning of a session; none when nothing was said in it.
pub(crate) fn summary(found: &Found) -> Result<Option<Summary>, SessionError> {
    let file = File::open(&found.path).map_err(SessionError::io("open", &found.path))?;
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
            title: beginning.title,
        })),
    }
}

/// What the beginning of a file tells.
#[derive(Default)]
struct Beginning {
    header: Option<Header>,
    /// The first line is a header, or what a kill left of one.
    is_session: bool,
    entries: usize,
    title: Option<String>,
}

/// Reads up to the first prompt.
fn read_beginning(path: &Path, file: File) -> Result<Beginning, SessionError> {
    let mut lines = Lines::new(BufReader::new(file.take(SUMMARY_LIMIT)), SUMMARY_LIMIT as usize);
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
        let Ok(head) = Head::read(&line) else { continue };
        beginning.entries += 1;
        if let Some(prompt) = (head.kind() == Kind::Message).then(|| prompt(line.bytes)).flatten() {
            beginning.title = title(&prompt);
            break;
        }
    }
    Ok(beginning)
}

/// The user's message on a line, if that is what it holds.
fn prompt(line: &[u8]) -> Option<UserMessage> {
    match format::decode_entry(line, Kind::Message).ok()?.payload {
        Payload::Message(Message::User(prompt)) => Some(prompt),
        _ => None,
    }
}

/// The first line of a prompt, fit for a terminal.
pub(crate) fn title(prompt: &UserMessage) -> Option<String> {
    let lines = prompt.content.iter().filter_map(Content::as_text).flat_map(str::lines);
    let first = lines.map(str::trim).find(|line| !line.is_empty())?;
    Some(printable(first).replace('\t', " ").chars().take(TITLE_LENGTH).collect())
}
