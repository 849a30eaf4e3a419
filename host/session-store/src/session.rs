//! A session that is written to.

use crate::error::{BadLines, SessionError, SessionErrorKind};
use crate::files;
use crate::format::{self, EncodeError, Place};
use crate::header::{Header, Spawn};
use crate::id::EntryId;
use crate::index::{Index, Tail};
use crate::log::Log;
use crate::pairing::{LEFT_BEHIND, repair_pairing_with};
use crate::record::Record;
use crate::transcript::Transcript;
use pinion_protocol::{ChildCall, ChildSession, Message, sort_results};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most records that wait for the first message.
const MAX_WAITING: usize = 64;

/// A session on disk, open for writing by this process alone until it is dropped.
///
/// It grows at its end: each entry follows the one before, unless [`Session::go_back`] came between. The file is made
/// with the first entry, so a session in which nothing was said leaves none. Calls block for as long as the system takes
/// to accept one write, and may come from any thread.
pub struct Session {
    path: PathBuf,
    header: Header,
    state: Mutex<State>,
}

struct State {
    log: Option<Log>,
    /// The header is still to be written, before the first entry.
    header_is_due: bool,
    cursor: Cursor,
    /// What the next one is called; none when all names are taken.
    next: Option<EntryId>,
    /// The folder may not know the file yet, as far as the disk is concerned.
    folder_is_due: bool,
    /// What happened before anything was said: it comes into the file with the first message.
    waiting: Vec<Record>,
}

/// Where a branch grows.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The entry that the next one follows.
    pub(crate) leaf: Option<EntryId>,
    /// The entry of the last reply, and the calls in it.
    calls: Option<(EntryId, Vec<String>)>,
}

impl Cursor {
    pub(crate) fn at(leaf: Option<EntryId>) -> Self {
        Self { leaf, calls: None }
    }

    fn said(&mut self, id: EntryId, message: &Message) {
        self.leaf = Some(id);
        if let Message::Assistant(reply) = message {
            self.calls = Some((id, reply.tool_calls().map(|call| call.id.clone()).collect()));
        }
    }

    pub(crate) fn entry_of_call(&self, call_id: &str) -> Option<EntryId> {
        let (entry, calls) = self.calls.as_ref()?;
        calls.iter().any(|call| call == call_id).then_some(*entry)
    }
}

impl Session {
    /// A new session of `workspace`, an absolute path, which will be kept in the file `path`. Touches no disk.
    pub fn begin(path: &Path, workspace: &Path) -> Self {
        Self::with_header(path, Header::new(workspace))
    }

    pub(crate) fn with_header(path: &Path, header: Header) -> Self {
        let state = State {
            log: None,
            header_is_due: true,
            cursor: Cursor::default(),
            next: Some(EntryId::FIRST),
            folder_is_due: true,
            waiting: Vec::new(),
        };
        Self { path: path.to_owned(), header, state: Mutex::new(state) }
    }

    /// Goes on with a file that is open, locked, and ends with a whole line where `index` says.
    pub(crate) fn resume(path: &Path, header: Header, index: &Index, file: File) -> Self {
        let state = State {
            log: Some(Log::new(file, index.end + u64::from(index.tail == Tail::Unended))),
            header_is_due: index.end == 0,
            cursor: Cursor::at(index.id_of(index.position())),
            next: index.last_id().map_or(Some(EntryId::FIRST), EntryId::next),
            folder_is_due: false,
            waiting: Vec::new(),
        };
        Self { path: path.to_owned(), header, state: Mutex::new(state) }
    }

    /// Creates a session for a sub-agent that works on a call of this one. Its file is in a directory beside this
    /// session's file: [`SessionDirectory::list`](crate::SessionDirectory::list) skips it,
    /// [`SessionDirectory::children`](crate::SessionDirectory::children) and
    /// [`SessionDirectory::find`](crate::SessionDirectory::find) include it.
    pub fn begin_child(&self, spawn: Spawn) -> Self {
        let header = Header { spawned_by: Some(spawn), ..Header::new(&self.header.workspace) };
        Self::with_header(&files::path_in(&files::children_of(&self.path), &header), header)
    }

    /// Creates the session of the sub-agent that works on a call of this one, whose entry is `entry`.
    pub(crate) fn child_of(&self, call: ChildCall<'_>, entry: Option<EntryId>) -> ChildSession {
        let child = self.begin_child(Spawn {
            session: self.header.id.clone(),
            entry,
            call_id: call.call_id.to_owned(),
            tool: call.tool.to_owned(),
            loop_id: Some(call.loop_id.to_owned()),
        });
        ChildSession { id: child.id().into(), store: Arc::new(child) }
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

    /// The entry at which the conversation stands, and which the next one will follow.
    pub fn position(&self) -> Option<EntryId> {
        self.lock().cursor.leaf
    }

    /// The entry with this tool call, when it is one of the last reply.
    pub fn entry_of_call(&self, call_id: &str) -> Option<EntryId> {
        self.lock().cursor.entry_of_call(call_id)
    }

    /// Goes back to an entry, or with none to before the first one: what is appended next follows that, on a branch of
    /// its own. What was said since stays in the session. Gives the messages from the root to there, every tool call
    /// followed by its result: one that has none before that entry gets one that says so, and it is appended.
    ///
    /// Reads the file from its beginning.
    ///
    /// # Errors
    /// There is no such entry, or the session cannot be read or written. It stands where it stood then, except that when
    /// a result could not be appended it may stand at the entry.
    pub fn go_back(&self, to: Option<EntryId>) -> Result<Vec<Arc<Message>>, SessionError> {
        let mut state = self.lock();
        let mut messages = to.map_or(Ok(Vec::new()), |entry| self.messages_to(entry))?;
        let left = state.cursor.leaf;
        if left != to {
            self.add(&mut state, to, None, |place| format::encode_position(place, left))?;
            state.cursor = Cursor::at(to);
        }
        let pairing = repair_pairing_with(&mut messages, format::now(), LEFT_BEHIND);
        for message in &messages[messages.len() - pairing.at_end..] {
            self.say(&mut state, message)?;
        }
        sort_results(&mut messages);
        Ok(messages)
    }

    fn messages_to(&self, entry: EntryId) -> Result<Vec<Arc<Message>>, SessionError> {
        let unknown = || SessionError::new(&self.path, SessionErrorKind::UnknownEntry { entry });
        if !self.path.exists() {
            return Err(unknown());
        }
        let mut transcript = Transcript::open(&self.path)?;
        let branch = transcript.branch_to(entry).ok_or_else(unknown)?;
        branch.messages(&mut BadLines::default())
    }

    /// Appends something that is no message, and gives its name.
    ///
    /// # Errors
    /// The session could not be written, or the record has no form that can be read back. The session is as it was.
    pub fn record(&self, record: &Record) -> Result<EntryId, SessionError> {
        let mut state = self.lock();
        let parent = state.cursor.leaf;
        let id = self.add(&mut state, parent, None, |place| format::encode_record(place, record))?;
        state.cursor.leaf = Some(id);
        Ok(id)
    }

    /// Appends a message to a side branch.
    pub(crate) fn say_aside(&self, cursor: &mut Cursor, side: &str, message: &Message) -> Result<(), SessionError> {
        let mut state = self.lock();
        let encode = |place: Place<'_>| format::encode_message(place, message);
        let id = self.add(&mut state, cursor.leaf, Some(side), encode)?;
        cursor.said(id, message);
        Ok(())
    }

    /// Appends the record of an event to a side branch. A failure costs only the record, and is logged.
    pub(crate) fn record_aside(&self, cursor: &mut Cursor, side: &str, record: &Record) {
        let encode = |place: Place<'_>| format::encode_record(place, record);
        match self.add(&mut self.lock(), cursor.leaf, Some(side), encode) {
            Ok(id) => cursor.leaf = Some(id),
            Err(error) => {
                tracing::warn!(%error, record = record.type_name(), "could not record an event in the session");
            }
        }
    }

    /// Goes on from the end of a side branch.
    pub(crate) fn go_to(&self, leaf: Option<EntryId>) -> Result<(), SessionError> {
        let mut state = self.lock();
        let left = state.cursor.leaf;
        self.add(&mut state, leaf, None, |place| format::encode_position(place, left))?;
        state.cursor = Cursor::at(leaf);
        Ok(())
    }

    /// Appends the record of an event. In a session without messages it waits for the first one, so that a session in
    /// which nothing is said leaves no file. A failure costs only the record, and is logged.
    pub(crate) fn record_event(&self, record: Record) {
        let mut state = self.lock();
        if state.header_is_due {
            if state.waiting.len() == MAX_WAITING {
                state.waiting.remove(0);
            }
            state.waiting.push(record);
            return;
        }
        drop(state);
        if let Err(error) = self.record(&record) {
            tracing::warn!(%error, record = record.type_name(), "could not record an event in the session");
        }
    }

    /// Appends a message to the conversation.
    pub(crate) fn append_message(&self, message: &Message) -> Result<(), SessionError> {
        self.say(&mut self.lock(), message)
    }

    fn say(&self, state: &mut State, message: &Message) -> Result<(), SessionError> {
        let parent = state.cursor.leaf;
        let id = self.add(state, parent, None, |place| format::encode_message(place, message))?;
        state.cursor.said(id, message);
        Ok(())
    }

    /// Appends one entry, after the header if that is due.
    fn add(
        &self,
        state: &mut State,
        parent: Option<EntryId>,
        side: Option<&str>,
        encode: impl FnOnce(Place<'_>) -> Result<Vec<u8>, EncodeError>,
    ) -> Result<EntryId, SessionError> {
        let mut lines = match state.header_is_due {
            true => self.header.encode().map_err(|error| self.refused(error))?,
            false => Vec::new(),
        };
        let (mut parent, mut next, time) = (parent, state.next, format::now());
        let mut name = || {
            let id = next.ok_or_else(|| self.refused(EncodeError::Full))?;
            next = id.next();
            Ok::<_, SessionError>(id)
        };
        for record in &state.waiting {
            let id = name()?;
            let entry = format::encode_record(Place { id, parent, time, side: None }, record);
            lines.append(&mut entry.map_err(|error| self.refused(error))?);
            parent = Some(id);
        }
        let id = name()?;
        let entry = encode(Place { id, parent, time, side });
        lines.append(&mut entry.map_err(|error| self.refused(error))?);
        self.write(state, &lines)?;
        state.waiting.clear();
        state.header_is_due = false;
        state.next = next;
        Ok(id)
    }

    /// Waits until everything that was appended is on the disk, and survives a loss of power. For the end of a run:
    /// what was appended survives this process without it.
    ///
    /// # Errors
    /// The system could not say that it is.
    pub fn sync(&self) -> Result<(), SessionError> {
        let mut state = self.lock();
        let Some(log) = &mut state.log else { return Ok(()) };
        log.sync().map_err(SessionError::io("sync", &self.path))?;
        if state.folder_is_due {
            files::sync_folder_of(&self.path).map_err(SessionError::io("sync the folder of", &self.path))?;
            state.folder_is_due = false;
        }
        Ok(())
    }

    /// Appends to the log, which is made if it is the first time.
    fn write(&self, state: &mut State, lines: &[u8]) -> Result<(), SessionError> {
        if let Some(log) = &mut state.log {
            return log.append(lines).map_err(SessionError::io("append to", &self.path));
        }
        let file = files::create(&self.path).map_err(SessionError::io("create", &self.path))?;
        let mut log = Log::new(file, 0);
        if let Err(error) = log.append(lines) {
            // Nothing was said, so nothing is left.
            let _ = std::fs::remove_file(&self.path);
            return Err(SessionError::io("append to", &self.path)(error));
        }
        state.log = Some(log);
        Ok(())
    }

    fn refused(&self, error: EncodeError) -> SessionError {
        SessionError::new(&self.path, SessionErrorKind::Unwritable { source: error.into() })
    }

    /// Nothing is left half-done in the state when a thread panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
