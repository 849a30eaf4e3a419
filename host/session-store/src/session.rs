//! A session that is written to.

use crate::files;
use crate::format::{self, EncodeError};
use crate::header::Header;
use crate::id::{self, EntryId};
use crate::index::{Index, Tail};
use crate::log::Log;
use pinion_agent::{Message, SessionStore, StoreError};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session on disk, open for writing by this process alone until it is dropped.
///
/// It grows at its end: each entry follows the one before. The file is made with the first entry, so a session in
/// which nothing was said leaves none. Calls block for as long as the system takes to accept one write, and may come
/// from any thread.
pub struct Session {
    path: PathBuf,
    header: Header,
    state: Mutex<State>,
}

struct State {
    log: Option<Log>,
    /// The header is still to be written, before the first entry.
    header_is_due: bool,
    /// The entry that the next one follows.
    leaf: Option<EntryId>,
    /// What the next one is called; none when all names are taken.
    next: Option<EntryId>,
    /// The folder may not know the file yet, as far as the disk is concerned.
    folder_is_due: bool,
}

impl Session {
    /// A new session of `workspace`, an absolute path, which will be kept in the file `path`. Touches no disk.
    pub fn begin(path: &Path, workspace: &Path) -> Self {
        let header = Header { id: id::new_session_id(), workspace: workspace.to_owned(), created: format::now() };
        Self::with_header(path, header)
    }

    pub(crate) fn with_header(path: &Path, header: Header) -> Self {
        let state =
            State { log: None, header_is_due: true, leaf: None, next: Some(EntryId::FIRST), folder_is_due: true };
        Self { path: path.to_owned(), header, state: Mutex::new(state) }
    }

    /// Goes on with a file that is open, locked, and ends with a whole line where `index` says.
    pub(crate) fn resume(path: &Path, header: Header, index: &Index, file: File) -> Self {
        let state = State {
            log: Some(Log::new(file, index.end + u64::from(index.tail == Tail::Unended))),
            header_is_due: index.end == 0,
            leaf: index.nodes.last().map(|node| node.id),
            next: index.last_id().map_or(Some(EntryId::FIRST), EntryId::next),
            folder_is_due: false,
        };
        Self { path: path.to_owned(), header, state: Mutex::new(state) }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// What the session's first line says, or will say.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The session's file, which exists once something was said.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everything that was appended is on the disk, and survives a loss of power. For the end of a run:
    /// what was appended survives this process without it.
    ///
    /// # Errors
    /// The system could not say that it is.
    pub fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let Some(log) = &mut state.log else { return Ok(()) };
        log.sync().map_err(|error| self.failed("sync", error))?;
        if state.folder_is_due {
            files::sync_folder_of(&self.path).map_err(|error| self.failed("sync the folder of", error))?;
            state.folder_is_due = false;
        }
        Ok(())
    }

    /// Appends to the log, which is made if it is the first time.
    fn write(&self, state: &mut State, lines: &[u8]) -> Result<(), StoreError> {
        if let Some(log) = &mut state.log {
            return log.append(lines).map_err(|error| self.failed("append to", error));
        }
        let file = files::create(&self.path).map_err(|error| self.failed("create", error))?;
        let mut log = Log::new(file, 0);
        if let Err(error) = log.append(lines) {
            // Nothing was said, so nothing is left.
            let _ = std::fs::remove_file(&self.path);
            return Err(self.failed("append to", error));
        }
        state.log = Some(log);
        Ok(())
    }

    fn failed(&self, action: &str, source: io::Error) -> StoreError {
        StoreError { message: format!("could not {action} `{}`", self.path.display()), source: Some(source) }
    }

    fn refused(&self, error: &EncodeError) -> StoreError {
        StoreError { message: format!("{error}, in `{}`", self.path.display()), source: None }
    }

    /// Nothing is left half-done in the state when a thread panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for Session {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        let mut state = self.lock();
        let id = state.next.ok_or_else(|| self.refused(&EncodeError::Full))?;
        let mut lines = match state.header_is_due {
            true => self.header.encode().map_err(|error| self.refused(&error))?,
            false => Vec::new(),
        };
        let entry = format::encode_message(id, state.leaf, format::now(), message);
        lines.append(&mut entry.map_err(|error| self.refused(&error))?);
        self.write(&mut state, &lines)?;
        state.header_is_due = false;
        state.leaf = Some(id);
        state.next = id.next();
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("path", &self.path).field("header", &self.header).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
