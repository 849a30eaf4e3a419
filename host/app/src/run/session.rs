//! The session of a run: a new one, or one to continue.

use crate::failure::{ELSEWHERE, Failure, Result};
use crate::files::private::owner_hint;
use crate::options::RunOptions;
use crate::workspace_base::Base;
use pinion_agent::identity::RunNumbers;
use pinion_agent::snapshot::Totals;
use pinion_agent::{Message, SessionStore};
use pinion_plugin_runtime::PluginStorage;
use pinion_session_store::{EntryId, History, MemorySession, Session, SessionDirectory, Transcript, open_to_continue};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Beginning of the ids of sessions that are not saved.
const UNKEPT: &str = "unkept-";
/// Age of values of such a session that must belong to a killed process.
const MAX_UNKEPT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A session that is open for a run.
pub struct OpenSession {
    /// The session's id.
    pub id: Arc<str>,
    /// Records messages and runs.
    pub store: Arc<dyn SessionStore>,
    /// The session's file, unless it is not saved.
    pub on_disk: Option<Arc<Session>>,
    /// The messages that the model sees from earlier runs.
    pub messages: Vec<Arc<Message>>,
    /// All messages and records of the conversation, until it is shown.
    pub history: History,
    /// The requests of earlier runs.
    pub totals: Totals,
    /// Numbers of earlier runs.
    pub runs: RunNumbers,
    /// Id of the last run; empty for a new session.
    pub last_run: Arc<str>,
    /// Notices about the state of the session when it was opened.
    pub notices: Vec<String>,
    /// Removes values that plugins stored for a session that is not saved.
    _unkept_values: Option<UnkeptValues>,
}

impl OpenSession {
    /// Opens the session that the options select: a new one, or one to continue.
    pub fn from_args(base: &Base, options: &RunOptions) -> Result<Self> {
        let directory = SessionDirectory::new(base.paths.sessions());
        if options.no_session {
            return Ok(Self::unkept(base));
        }
        if let Some(path) = &options.session {
            return Self::at(&base.workspace.join(path), &base.workspace);
        }
        if let Some(id) = &options.fork {
            let source = directory.find(id).map_err(Failure::from)?;
            return Self::resumed(&fork(base, &source, None)?, &base.workspace);
        }
        match continued(base, options)? {
            Some(path) => Self::resumed(&path, &base.workspace),
            None => Ok(Self::kept(directory.begin(&base.workspace))),
        }
    }

    /// Begins a new session of the workspace.
    pub fn begin(base: &Base) -> Self {
        Self::kept(SessionDirectory::new(base.paths.sessions()).begin(&base.workspace))
    }

    /// Begins a session that is not saved.
    pub fn unkept(base: &Base) -> Self {
        let values = UnkeptValues::new(base);
        Self {
            id: values.session.clone(),
            store: Arc::new(MemorySession::new()),
            on_disk: None,
            messages: Vec::new(),
            history: History::default(),
            totals: Totals::default(),
            runs: RunNumbers::default(),
            last_run: "".into(),
            notices: Vec::new(),
            _unkept_values: Some(values),
        }
    }

    fn at(path: &Path, workspace: &Path) -> Result<Self> {
        match Self::resumed(path, workspace) {
            Err(_) if !path.exists() => Ok(Self::kept(Session::begin(path, workspace))),
            opened => opened,
        }
    }

    /// Resumes the session in a file.
    pub fn resumed(path: &Path, workspace: &Path) -> Result<Self> {
        let opened = open_to_continue(path, workspace).map_err(Failure::from)?;
        let notices = opened.recovery.notices();
        let last_run = opened.last_run.map(|start| start.run_id).unwrap_or_default().into();
        let history = History { messages: opened.messages.clone(), records: opened.records };
        let messages = pinion_agent::compaction::view(opened.messages);
        let (totals, runs) = (opened.totals, opened.runs);
        Ok(Self { messages, history, totals, runs, last_run, notices, ..Self::kept(opened.session) })
    }

    fn kept(session: Session) -> Self {
        let session = Arc::new(session);
        Self {
            id: session.id().into(),
            store: session.clone(),
            on_disk: Some(session),
            messages: Vec::new(),
            history: History::default(),
            totals: Totals::default(),
            runs: RunNumbers::default(),
            last_run: "".into(),
            notices: Vec::new(),
            _unkept_values: None,
        }
    }

    /// Waits until the session is on the disk, so that it survives a loss of power too.
    ///
    /// # Errors
    /// Entries are missing, the system cannot confirm it, or another program took the file away.
    pub fn sync(&self) -> Result<()> {
        let Some(session) = &self.on_disk else { return Ok(()) };
        session.sync().map_err(|error| Failure::from(error).or_hint(ELSEWHERE))?;
        let missing = session.failure().map(|failure| Failure::failed(format!("the session is incomplete: {failure}")));
        missing.map_or(Ok(()), |failure| Err(failure.hint(ELSEWHERE)))
    }

    /// Adds a remedy to the failure of a run if the session could not be written.
    pub fn explain(&self, failure: Failure) -> Failure {
        let Some(session) = self.on_disk.as_ref().filter(|session| session.failure().is_some()) else { return failure };
        match owner_hint(session.path()) {
            Some(owner) => failure.hint(format!("{owner}; or {ELSEWHERE}")),
            None => failure.or_hint(ELSEWHERE),
        }
    }
}

/// Returns the file of the session to continue; `None` if the options begin another.
///
/// # Errors
/// There is no such session.
pub fn continued(base: &Base, options: &RunOptions) -> Result<Option<PathBuf>> {
    if let Some(path) = &options.session {
        return Ok(Some(base.workspace.join(path)));
    }
    let directory = SessionDirectory::new(base.paths.sessions());
    match options.resume.as_deref() {
        Some(id) if !id.is_empty() => directory.find(id).map(Some).map_err(Failure::from),
        None if !options.continue_last => Ok(None),
        _ => {
            let latest = directory.latest(&base.workspace).map_err(Failure::from)?;
            Ok(Some(latest.ok_or_else(|| Failure::usage("no session to continue in this directory"))?.path))
        }
    }
}

/// The values that plugins store for a session that is not saved, removed when this is dropped.
struct UnkeptValues {
    storage: PluginStorage,
    session: Arc<str>,
}

impl UnkeptValues {
    fn new(base: &Base) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Unique, because an id that comes again would bring the values of an earlier process.
        let session = format!("{UNKEPT}{}-{:x}", std::process::id(), now.as_nanos()).into();
        let storage = base.plugin_storage();
        // The values of killed processes.
        if let Err(error) = storage.remove_old_sessions(UNKEPT, MAX_UNKEPT_AGE) {
            tracing::debug!(%error, "values of sessions that were not saved are still there");
        }
        Self { storage, session }
    }
}

impl Drop for UnkeptValues {
    fn drop(&mut self) {
        if let Err(error) = self.storage.remove_session(&self.session) {
            tracing::warn!(%error, "values of a session that is not saved were not removed");
        }
    }
}

/// Copies a branch of a session to a new one, and the values that plugins store for it as they are now. Returns the file of
/// the new session.
pub fn fork(base: &Base, source: &Path, at: Option<EntryId>) -> Result<PathBuf> {
    let directory = SessionDirectory::new(base.paths.sessions());
    with_values(base, directory.fork(source, at, &base.workspace).map_err(Failure::from)?)
}

/// Returns a session to continue in this workspace. If the session belongs to another workspace, returns a copy, and
/// that workspace: a session keeps its workspace, because its checkpoints and grants belong there.
///
/// # Errors
/// There is no such session, or the copy cannot be written.
pub fn here(base: &Base, id: &str) -> Result<(PathBuf, Option<PathBuf>)> {
    let directory = SessionDirectory::new(base.paths.sessions());
    let path = directory.find(id).map_err(Failure::from)?;
    match directory.workspace_of(&path).map_err(Failure::from)?.filter(|workspace| *workspace != base.workspace) {
        None => Ok((path, None)),
        Some(elsewhere) => {
            let copy = directory.fork_into(&path, &base.workspace).map_err(Failure::from)?;
            Ok((with_values(base, copy)?, Some(elsewhere)))
        }
    }
}

/// Copies the values of plugins to a session that was copied. Returns its file.
fn with_values(base: &Base, forked: PathBuf) -> Result<PathBuf> {
    let transcript = Transcript::open(&forked).map_err(Failure::from)?;
    if let Some(header) = transcript.header()
        && let Some(origin) = &header.forked_from
    {
        let copied = base.plugin_storage().copy_session(&origin.session, &header.id);
        copied.map_err(|error| {
            Failure::failed("could not copy the values of plugins to the new session").because(error)
        })?;
    }
    Ok(forked)
}
