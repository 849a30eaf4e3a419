//! The folder of all sessions: begin one, find one, list them.
//!
//! Nothing here reads whole files. Sorting needs only what the file system says; a summary needs the beginning of the
//! file, up to the first prompt.

use crate::error::SessionError;
use crate::files;
use crate::format::{self, FirstLine, Head, Header, Payload};
use crate::id;
use crate::lines::Lines;
use crate::printable::printable;
use crate::session::Session;
use jiff::Timestamp;
use pinion_agent::{Content, Message, UserMessage};
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many ids an error names.
const CANDIDATES: usize = 10;
/// How far into a file a summary looks, in bytes.
const SUMMARY_LIMIT: u64 = 256 << 10;
/// How long a title may be, in characters.
const TITLE_LENGTH: usize = 100;

/// The folder in which all sessions are kept. It need not exist before the first of them does.
#[derive(Debug, Clone)]
pub struct SessionFolder {
    root: PathBuf,
}

/// Which sessions.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Of all workspaces.
    All,
    /// Of the workspace with this absolute path.
    Workspace(&'a Path),
}

/// What a list says of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The id by which [`SessionFolder::find`] knows it.
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

/// The sessions of a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be opened, the one written to last first.
    pub sessions: Vec<Summary>,
    /// What could not be listed, and why.
    pub unreadable: Vec<SessionError>,
}

/// A file that is named like a session.
struct Found {
    path: PathBuf,
    modified: SystemTime,
    size: u64,
}

impl SessionFolder {
    /// Keeps sessions in `root`. Touches no disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A new session of `workspace`, an absolute path. Its file is made when something is said in it.
    pub fn begin(&self, workspace: &Path) -> Session {
        let header = Header { id: id::new_session_id(), workspace: workspace.to_owned(), created: format::now() };
        Session::with_header(&files::path_of(&self.root, &header), header)
    }

    /// All sessions of `scope` in which something was said, the one written to last first. Broken files are told apart
    /// and hinder nothing.
    ///
    /// # Errors
    /// The folder itself cannot be read.
    pub fn list(&self, scope: Scope<'_>) -> Result<Listing, SessionError> {
        let mut listing = Listing::default();
        for found in self.files(scope, &mut listing.unreadable)? {
            match summary(&found) {
                Ok(Some(summary)) => listing.sessions.push(summary),
                Ok(None) => {}
                Err(error) => listing.unreadable.push(error),
            }
        }
        Ok(listing)
    }

    /// The session of `workspace` that was written to last; none when there is none in which something was said.
    ///
    /// # Errors
    /// The folder or that session cannot be read, or it has a version that this program does not know.
    pub fn latest(&self, workspace: &Path) -> Result<Option<Summary>, SessionError> {
        for found in self.files(Scope::Workspace(workspace), &mut Vec::new())? {
            match summary(&found) {
                Ok(None) | Err(SessionError::NotASession { .. }) => {}
                latest => return latest,
            }
        }
        Ok(None)
    }

    /// The file of the one session of any workspace whose id begins with `prefix`.
    ///
    /// # Errors
    /// There is none, or more than one; the error names ids that would do.
    pub fn find(&self, prefix: &str) -> Result<PathBuf, SessionError> {
        let files = self.files(Scope::All, &mut Vec::new())?;
        let wanted = prefix.to_ascii_lowercase();
        let begins = |found: &&Found| !wanted.is_empty() && files::id_of(&found.path).starts_with(&wanted);
        let matching: Vec<&Found> = files.iter().filter(begins).collect();
        let prefix = prefix.to_owned();
        match matching.as_slice() {
            [one] => Ok(one.path.clone()),
            [] => Err(SessionError::UnknownId { prefix, recent: ids(files.iter()) }),
            many => {
                let candidates = ids(many.iter().copied());
                Err(SessionError::AmbiguousId { prefix, count: many.len(), candidates })
            }
        }
    }

    /// The files of `scope`, the one written to last first.
    fn files(&self, scope: Scope<'_>, failed: &mut Vec<SessionError>) -> Result<Vec<Found>, SessionError> {
        let mut files = Vec::new();
        match scope {
            Scope::Workspace(workspace) => {
                find_in(&self.root.join(files::project_slug(workspace)), &mut files, failed)?;
            }
            Scope::All => {
                for folder in read_folder(&self.root)? {
                    let found = if folder.is_dir() { find_in(&folder, &mut files, failed) } else { Ok(()) };
                    failed.extend(found.err());
                }
            }
        }
        files.sort_unstable_by(|a, b| (Reverse(a.modified), &b.path).cmp(&(Reverse(b.modified), &a.path)));
        Ok(files)
    }
}

fn ids<'a>(files: impl Iterator<Item = &'a Found>) -> Vec<String> {
    files.take(CANDIDATES).map(|found| files::id_of(&found.path)).collect()
}

/// What is in a folder; nothing when it does not exist.
fn read_folder(folder: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SessionError::io("read", folder))?,
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(SessionError::io("read", folder))
}

/// Adds the session files of a folder. An empty file is one in which nothing was said yet; a pipe or device is passed
/// over, for reading it could take for ever.
fn find_in(folder: &Path, files: &mut Vec<Found>, failed: &mut Vec<SessionError>) -> Result<(), SessionError> {
    for path in read_folder(folder)? {
        if path.extension().is_none_or(|extension| extension != files::EXTENSION) {
            continue;
        }
        match fs::metadata(&path).and_then(|found| Ok((found.modified()?, found))) {
            Ok((modified, found)) if found.is_file() && found.len() > 0 => {
                files.push(Found { path, modified, size: found.len() })
            }
            Ok(_) => {}
            Err(error) => failed.push(SessionError::io("read", &path)(error)),
        }
    }
    Ok(())
}

/// Reads the beginning of a session; none when nothing was said in it.
fn summary(found: &Found) -> Result<Option<Summary>, SessionError> {
    let file = File::open(&found.path).map_err(SessionError::io("open", &found.path))?;
    let beginning = read_beginning(&found.path, file)?;
    let empty = beginning.entries == 0 && found.size <= SUMMARY_LIMIT;
    match (empty, beginning.is_session) {
        (true, true) => Ok(None),
        (true, false) => Err(SessionError::NotASession { path: found.path.clone() }),
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
            match format::first_line(line.bytes) {
                FirstLine::Header(header) => beginning.header = Some(header),
                FirstLine::Foreign(found) => {
                    return Err(SessionError::UnsupportedVersion { path: path.to_owned(), found });
                }
                FirstLine::Other => {}
            }
            beginning.is_session = beginning.header.is_some() || format::is_beginning_of_header(line.bytes);
        }
        let Ok(head) = Head::read(&line) else { continue };
        beginning.entries += 1;
        if let Some(prompt) = head.is_message().then(|| prompt(line.bytes)).flatten() {
            beginning.title = title(&prompt);
            break;
        }
    }
    Ok(beginning)
}

/// The user's message on a line, if that is what it holds.
fn prompt(line: &[u8]) -> Option<UserMessage> {
    match format::decode_entry(line, true).ok()?.payload {
        Payload::Message(Message::User(prompt)) => Some(prompt),
        _ => None,
    }
}

fn title(prompt: &UserMessage) -> Option<String> {
    let lines = prompt.content.iter().filter_map(Content::as_text).flat_map(str::lines);
    let first = lines.map(str::trim).find(|line| !line.is_empty())?;
    Some(printable(first).replace('\t', " ").chars().take(TITLE_LENGTH).collect())
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
