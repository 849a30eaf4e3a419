//! A session open for writing.

use crate::access;
use crate::error::{BadLines, SessionError, SessionErrorKind};
use crate::files;
use crate::format::{self, EncodeError, Link};
use crate::header::{SessionHeader, Spawn};
use crate::id::EntryId;
use crate::index::{EntryIndex, Tail};
use crate::lock::OpenSession;
use crate::log::Log;
use crate::pairing::{LEFT_BEHIND, repair_pairing_with};
use crate::record::Record;
use crate::transcript::Transcript;
use pinion_protocol::{ChildCall, ChildSession, Message, SessionAccessError, sort_results};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The most records that wait for the first message.
const MAX_WAITING: usize = 64;

/// A session on disk, open for writing by this process alone until it is dropped.
///
/// It grows at its end: each entry follows the one before, unless [`Session::go_back`] came between. The first entry
/// creates the file, so a session without messages leaves no file. Calls block until the system accepts one write, and
/// may come from any thread.
pub struct Session {
    path: PathBuf,
    header: SessionHeader,
    state: Mutex<OpenSessionState>,
    /// Entries of each plugin, once they were counted.
    plugin_entries: Mutex<HashMap<String, usize>>,
}

struct OpenSessionState {
    log: Option<Log>,
    /// Set until the header is written, before the first entry.
    header_is_due: bool,
    cursor: Cursor,
    /// The id of the next entry; `None` when all are taken.
    next: Option<EntryId>,
    directory: Directory,
    /// Records that wait for the first message.
    waiting: Vec<Record>,
    /// The first failure to write.
    failure: Option<String>,
}

/// The directory of the file, without whose sync a loss of power can remove a new file.
enum Directory {
    Synced,
    Due,
    /// Begun with the file, because the first sync of a run takes milliseconds, which do not matter while a model
    /// works.
    Syncing(JoinHandle<io::Result<()>>),
}

impl Directory {
    /// Begins to sync the directory of a new file.
    fn begin(file: &Path) -> Self {
        let file = file.to_owned();
        let thread = thread::Builder::new().name("pinion-sync".to_owned());
        thread.spawn(move || files::sync_directory_of(&file)).map_or(Self::Due, Self::Syncing)
    }

    /// Completes it.
    fn sync(&mut self, file: &Path) -> io::Result<()> {
        match std::mem::replace(self, Self::Due) {
            Self::Synced => {}
            Self::Due => files::sync_directory_of(file)?,
            Self::Syncing(thread) => {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))?;
            }
        }
        *self = Self::Synced;
        Ok(())
    }
}

/// The end of a branch that grows.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The entry that the next one follows.
    pub(crate) leaf: Option<EntryId>,
    /// The entry of the last reply, and the ids of its calls.
    calls: Option<(EntryId, Vec<String>)>,
}

impl Cursor {
    pub(crate) fn at(leaf: Option<EntryId>) -> Self {
        Self { leaf, calls: None }
    }

    fn advance(&mut self, id: EntryId, message: &Message) {
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
    /// Creates a session of `workspace`, an absolute path, in the file `path`. Touches no disk until the first message.
    pub fn begin(path: &Path, workspace: &Path) -> Self {
        Self::with_header(path, SessionHeader::new(workspace))
    }

    pub(crate) fn with_header(path: &Path, header: SessionHeader) -> Self {
        let state = OpenSessionState {
            log: None,
            header_is_due: true,
            cursor: Cursor::default(),
            next: Some(EntryId::FIRST),
            directory: Directory::Due,
            waiting: Vec::new(),
            failure: None,
        };
        Self { path: path.to_owned(), header, state: Mutex::new(state), plugin_entries: Mutex::default() }
    }

    /// Continues a file that is open, locked, and ends with a complete line where `index` says.
    pub(crate) fn resume(path: &Path, header: SessionHeader, index: &EntryIndex, file: OpenSession) -> Self {
        let state = OpenSessionState {
            log: Some(Log::new(file, index.end + u64::from(index.tail == Tail::Unended))),
            header_is_due: index.end == 0,
            cursor: Cursor::at(index.id_of(index.position())),
            next: index.last_id().map_or(Some(EntryId::FIRST), EntryId::next),
            directory: Directory::Synced,
            waiting: Vec::new(),
            failure: None,
        };
        Self { path: path.to_owned(), header, state: Mutex::new(state), plugin_entries: Mutex::default() }
    }

    /// Creates a session for a sub-agent that works on a call of this one. Its file is in a directory next to this
    /// session's file: [`SessionDirectory::list`](crate::SessionDirectory::list) skips it,
    /// [`SessionDirectory::children`](crate::SessionDirectory::children) and
    /// [`SessionDirectory::find`](crate::SessionDirectory::find) include it.
    pub fn begin_child(&self, spawn: Spawn) -> Self {
        self.begin_child_of(None, spawn)
    }

    fn begin_child_of(&self, agent_id: Option<String>, spawn: Spawn) -> Self {
        let header = SessionHeader { agent_id, spawned_by: Some(spawn), ..SessionHeader::new(&self.header.workspace) };
        Self::with_header(&files::path_in(&files::children_of(&self.path), &header), header)
    }

    /// Creates the session of the sub-agent that works on a call of this one, whose entry is `entry`.
    pub(crate) fn child_of(&self, call: ChildCall<'_>, entry: Option<EntryId>) -> ChildSession {
        let spawn = Spawn {
            session: self.header.id.clone(),
            entry,
            call_id: call.call_id.to_owned(),
            tool: call.tool.to_owned(),
            run_id: Some(call.run_id.to_owned()),
        };
        let child = self.begin_child_of(Some(call.agent_id.to_owned()), spawn);
        ChildSession { id: child.id().into(), store: Arc::new(child) }
    }

    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// Returns the facts in the first line of the session. In a session that was begun without an agent, the file names
    /// the agent of the first run, and this header does not.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the session's file, which exists after the first message.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position of the conversation: the entry that the next one follows.
    pub fn position(&self) -> Option<EntryId> {
        self.lock().cursor.leaf
    }

    /// Returns the entry with this tool call, when it is one of the last reply.
    pub fn entry_of_call(&self, call_id: &str) -> Option<EntryId> {
        self.lock().cursor.entry_of_call(call_id)
    }

    /// Returns to an entry, or with `None` to before the first one. The next entry follows that one, on a new branch;
    /// later entries stay in the session. Returns the messages from the root to there. A tool call without a result
    /// before that entry gets one, which is appended.
    ///
    /// Reads the file from its start.
    ///
    /// # Errors
    /// There is no such entry, or the session cannot be read or written. The position is unchanged then, except that a
    /// failure to append a result may leave it at the entry.
    pub fn go_back(&self, to: Option<EntryId>) -> Result<Vec<Arc<Message>>, SessionError> {
        let mut state = self.lock();
        let mut messages = to.map_or(Ok(Vec::new()), |entry| self.messages_to(entry))?;
        let left = state.cursor.leaf;
        if left != to {
            self.add(&mut state, to, None, |link| format::encode_position(link, left))?;
            state.cursor = Cursor::at(to);
        }
        let pairing = repair_pairing_with(&mut messages, format::now(), LEFT_BEHIND);
        for message in &messages[messages.len() - pairing.at_end..] {
            self.push(&mut state, message)?;
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
        Ok(branch.history(&mut BadLines::default())?.messages)
    }

    /// Appends a record, and returns its entry.
    ///
    /// # Errors
    /// The session cannot be written, or the record cannot be read back. The session is unchanged.
    pub fn record(&self, record: &Record) -> Result<EntryId, SessionError> {
        let mut state = self.lock();
        let parent = state.cursor.leaf;
        let id = self.add(&mut state, parent, None, |link| format::encode_record(link, record))?;
        state.cursor.leaf = Some(id);
        Ok(id)
    }

    /// Appends a message to a side branch.
    pub(crate) fn append_aside(&self, cursor: &mut Cursor, side: &str, message: &Message) -> Result<(), SessionError> {
        let mut state = self.lock();
        let encode = |link: Link<'_>| format::encode_message(link, message);
        let id = self.add(&mut state, cursor.leaf, Some(side), encode)?;
        cursor.advance(id, message);
        Ok(())
    }

    /// Appends the record of an event to a side branch. A failure costs only the record, and is logged.
    pub(crate) fn record_aside(&self, cursor: &mut Cursor, side: &str, record: &Record) {
        match self.try_record_aside(cursor, side, record) {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, record = record.type_name(), "could not record an event in the session");
            }
        }
    }

    /// Appends a record to a side branch.
    pub(crate) fn try_record_aside(
        &self,
        cursor: &mut Cursor,
        side: &str,
        record: &Record,
    ) -> Result<EntryId, SessionError> {
        let encode = |link: Link<'_>| format::encode_record(link, record);
        let id = self.add(&mut self.lock(), cursor.leaf, Some(side), encode)?;
        cursor.leaf = Some(id);
        Ok(id)
    }

    /// Moves the conversation to the end of a side branch.
    pub(crate) fn go_to(&self, leaf: Option<EntryId>) -> Result<(), SessionError> {
        let mut state = self.lock();
        let left = state.cursor.leaf;
        self.add(&mut state, leaf, None, |link| format::encode_position(link, left))?;
        state.cursor = Cursor::at(leaf);
        Ok(())
    }

    /// Appends the record of an event. In a session without messages it waits for the first one, so that a session
    /// without messages leaves no file. A failure costs only the record, and is logged.
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

    /// Appends an entry of a plugin with `append`, unless it has too many.
    pub(crate) fn append_plugin_entry(
        &self,
        plugin: &str,
        data: Value,
        append: impl FnOnce(&Record) -> Result<EntryId, SessionError>,
    ) -> Result<String, SessionAccessError> {
        // Locked for the whole append, so that concurrent ones do not exceed the number together.
        let mut counts = self.plugin_entries.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match counts.get(plugin) {
            Some(count) => *count,
            None => access::count(&self.path, plugin)?,
        };
        let id = append(&access::record_of(plugin, data, count)?).map_err(|error| access::failed(&error))?;
        counts.insert(plugin.to_owned(), count + 1);
        Ok(id.to_string())
    }

    /// Appends a message to the conversation.
    pub(crate) fn append_message(&self, message: &Message) -> Result<(), SessionError> {
        self.push(&mut self.lock(), message)
    }

    fn push(&self, state: &mut OpenSessionState, message: &Message) -> Result<(), SessionError> {
        let parent = state.cursor.leaf;
        let id = self.add(state, parent, None, |link| format::encode_message(link, message))?;
        state.cursor.advance(id, message);
        Ok(())
    }

    /// Returns the header, with the agent of the first run of a session that nothing was said in.
    fn header_after(&self, waiting: &[Record]) -> SessionHeader {
        let agent = |record: &Record| match record {
            Record::RunStarted(start) => start.agent_id.clone(),
            _ => None,
        };
        let agent_id = self.header.agent_id.clone().or_else(|| waiting.iter().find_map(agent));
        SessionHeader { agent_id, ..self.header.clone() }
    }

    /// Appends one entry, after the header if that is due.
    fn add(
        &self,
        state: &mut OpenSessionState,
        parent: Option<EntryId>,
        side: Option<&str>,
        encode: impl FnOnce(Link<'_>) -> Result<Vec<u8>, EncodeError>,
    ) -> Result<EntryId, SessionError> {
        let mut lines = match state.header_is_due {
            true => self.header_after(&state.waiting).encode().map_err(|error| self.refused(error))?,
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
            let entry = format::encode_record(Link { id, parent, time, side: None }, record);
            lines.append(&mut entry.map_err(|error| self.refused(error))?);
            parent = Some(id);
        }
        let id = name()?;
        let entry = encode(Link { id, parent, time, side });
        lines.append(&mut entry.map_err(|error| self.refused(error))?);
        self.write(state, &lines)?;
        state.waiting.clear();
        state.header_is_due = false;
        state.next = next;
        Ok(id)
    }

    /// Blocks until everything appended is on the disk, and survives a loss of power. For the end of a run: a kill of
    /// the process loses nothing without it. Only logs that the directory of a new file could not be synced.
    ///
    /// # Errors
    /// The system cannot confirm it for the file, or another program deleted, replaced or truncated the file.
    pub fn sync(&self) -> Result<(), SessionError> {
        let mut state = self.lock();
        let Some(log) = &mut state.log else { return Ok(()) };
        self.check(log)?;
        log.sync().map_err(SessionError::io("sync", &self.path))?;
        if let Err(error) = state.directory.sync(&self.path) {
            // Everything is stored and can be resumed. The next call tries again.
            let session = self.path.display();
            tracing::warn!(%session, %error, "a loss of power may remove the session: could not sync its directory");
        }
        Ok(())
    }

    /// Returns the first error since the session was opened that made an entry of it missing, with its cause.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Appends to the log, and creates it the first time.
    fn write(&self, state: &mut OpenSessionState, lines: &[u8]) -> Result<(), SessionError> {
        let written = match &mut state.log {
            Some(log) => {
                self.check(log).and_then(|()| log.append(lines).map_err(SessionError::io("append to", &self.path)))
            }
            None => self.create(lines).map(|log| {
                state.log = Some(log);
                state.directory = Directory::begin(&self.path);
            }),
        };
        written.inspect_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            state.failure.get_or_insert_with(|| format!("{error}{cause}"));
        })
    }

    /// Fails if another program removed appended entries, so that no run continues in a file without a name.
    fn check(&self, log: &Log) -> Result<(), SessionError> {
        let lost = log.loss(&self.path).map(SessionErrorKind::Lost);
        lost.map_or(Ok(()), |kind| Err(SessionError::new(&self.path, kind)))
    }

    fn create(&self, lines: &[u8]) -> Result<Log, SessionError> {
        let file = files::create(&self.path).map_err(SessionError::io("create", &self.path))?;
        let mut log = Log::new(file, 0);
        if let Err(error) = log.append(lines) {
            // A session without messages leaves no file.
            let _ = std::fs::remove_file(&self.path);
            return Err(SessionError::io("append to", &self.path)(error));
        }
        Ok(log)
    }

    fn refused(&self, error: EncodeError) -> SessionError {
        SessionError::new(&self.path, SessionErrorKind::Unwritable { source: error.into() })
    }

    /// Locks the state. A panic of another thread leaves nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, OpenSessionState> {
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
