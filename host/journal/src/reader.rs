//! Reading the journals of a session.

use crate::event::{JournalEvent, JournalValue, check_of};
use crate::long_matches::RepetitionReader;
use crate::session_references::SessionReader;
use crate::writer::{EXTENSION, MIN_SHARED, REFERRING};
use flate2::read::DeflateDecoder;
use pinion_files::open::open_file;
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes of one entry; a longer one is damaged.
const MAX_ENTRY: usize = 256 << 20;
/// Bytes of all entries of a file, with the values that they repeat. A small file can stand for more of them than there is
/// memory; entries beyond are not read, and values beyond are not put in.
const MAX_TOTAL: usize = 1 << 30;

/// The journal of a session could not be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read the journal `{}`", .path.display())]
pub struct ReadError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Returns the journals in the directory of a session, in the order in which they were begun. A session without any has an
/// empty list.
///
/// # Errors
/// The directory cannot be read.
pub fn journal_files(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |source| ReadError { path: directory.to_owned(), source };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the file of the session to which a journal may refer: for `ID/journal/0001.calls`, it is `ID.jsonl`.
pub fn session_of(journal: &Path) -> Option<PathBuf> {
    let directory = journal.parent().filter(|directory| directory.file_name().is_some_and(|name| name == "journal"))?;
    let mut session = directory.parent().filter(|session| session.file_name().is_some())?.as_os_str().to_owned();
    session.push(".jsonl");
    Some(session.into())
}

/// Reads the entries of one journal, up to the first one that is incomplete. Values that refer to the session's file
/// ([`session_of`]) are [`JournalValue::Lost`] where the file is missing or was changed.
///
/// # Errors
/// The file cannot be opened.
pub fn read_journal(path: &Path) -> Result<Vec<JournalEvent>, ReadError> {
    let file = open_file(path).map_err(|source| ReadError { path: path.to_owned(), source })?;
    let mut decoder = DeflateDecoder::new(BufReader::new(file));
    let (mut events, mut values) = (Vec::new(), HashMap::new());
    let (mut left, mut repetitions) = (MAX_TOTAL, None);
    let mut session = SessionReader::new(session_of(path).as_deref());
    while let Some(mut event) = next_event(&mut decoder, &mut repetitions, &mut left) {
        event.for_each_value(|value| {
            resolve(value, &mut session, &mut left);
            restore(value, &mut values, &mut left);
        });
        events.push(event);
    }
    Ok(events)
}

/// Reads the next entry. Entries of files that do not begin with the mark of references are as they were encoded.
fn next_event(
    decoder: &mut impl Read,
    repetitions: &mut Option<RepetitionReader>,
    left: &mut usize,
) -> Option<JournalEvent> {
    let mut length = next_length(decoder)?;
    if length == REFERRING && repetitions.is_none() {
        *repetitions = Some(RepetitionReader::default());
        length = next_length(decoder)?;
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_ENTRY.min(*left))?;
    let mut entry = Vec::new();
    decoder.take(length as u64).read_to_end(&mut entry).ok()?;
    (entry.len() == length).then_some(())?;
    if let Some(repetitions) = repetitions {
        entry = repetitions.restore(&entry, MAX_ENTRY.min(*left))?;
    }
    *left = left.checked_sub(entry.len())?;
    postcard::from_bytes(&entry).ok()
}

fn next_length(decoder: &mut impl Read) -> Option<u32> {
    let mut length = [0; 4];
    decoder.read_exact(&mut length).ok()?;
    Some(u32::from_le_bytes(length))
}

/// Puts in the bytes that the session's file has.
fn resolve(value: &mut JournalValue, session: &mut SessionReader, left: &mut usize) {
    let JournalValue::Referring { check, tokens } = value else { return };
    let restored = session.restore(tokens, *left).filter(|bytes| check_of(blake3::hash(bytes).as_bytes()) == *check);
    *left -= restored.as_ref().map_or(0, Vec::len);
    *value = restored.map_or(JournalValue::Lost(*check), JournalValue::Bytes);
}

/// Puts in the bytes of a value that was written before, and remembers those that may be repeated.
fn restore(value: &mut JournalValue, values: &mut HashMap<[u8; 32], Vec<u8>>, left: &mut usize) {
    match value {
        JournalValue::Bytes(bytes) => {
            if bytes.len() >= MIN_SHARED {
                values.insert(*blake3::hash(bytes).as_bytes(), bytes.clone());
            }
        }
        JournalValue::Repeated(digest) => {
            if let Some(bytes) = values.get(digest)
                && let Some(rest) = left.checked_sub(bytes.len())
            {
                *left = rest;
                *value = JournalValue::Bytes(bytes.clone());
            }
        }
        JournalValue::Digest(..) | JournalValue::Referring { .. } | JournalValue::Lost(_) => {}
    }
}
