//! The session of a run: a new one, or one to continue.

use crate::args::RunArgs;
use crate::base::Base;
use crate::failure::{ELSEWHERE, Failure, Result};
use crate::files::private::owner_hint;
use pinion_agent::{Message, SessionStore};
use pinion_session_store::{MemorySession, Session, SessionDirectory, open_to_continue};
use std::path::Path;
use std::sync::Arc;

/// A session that is open for a run.
pub(crate) struct OpenSession {
    pub(crate) id: Arc<str>,
    pub(crate) store: Arc<dyn SessionStore>,
    /// The session's file, unless it is not saved.
    pub(crate) on_disk: Option<Arc<Session>>,
    /// The messages that the model sees from earlier runs.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Number of earlier runs.
    pub(crate) loops: u32,
    /// Id of the last run; empty for a new session.
    pub(crate) last_loop: Arc<str>,
    /// Notices about the state in which the session was found.
    pub(crate) notices: Vec<String>,
}

impl OpenSession {
    /// Opens the session that the options select: a new one, or one to continue.
    pub(crate) fn of(base: &Base, args: &RunArgs) -> Result<Self> {
        let directory = SessionDirectory::new(base.paths.sessions());
        if args.no_session {
            return Ok(Self::unkept());
        }
        if let Some(path) = &args.session {
            return Self::at(&base.workspace.join(path), &base.workspace);
        }
        if args.continue_last || args.resume.as_deref() == Some("") {
            let latest = directory.latest(&base.workspace).map_err(Failure::from)?;
            let latest = latest.ok_or_else(|| Failure::usage("no session to continue in this directory"))?;
            return Self::resumed(&latest.path, &base.workspace);
        }
        if let Some(id) = &args.fork {
            let source = directory.find(id).map_err(Failure::from)?;
            let forked = directory.fork(&source, None, &base.workspace).map_err(Failure::from)?;
            return Self::resumed(&forked, &base.workspace);
        }
        match &args.resume {
            Some(id) => Self::resumed(&directory.find(id).map_err(Failure::from)?, &base.workspace),
            None => Ok(Self::kept(directory.begin(&base.workspace))),
        }
    }

    /// Begins a new session of the workspace.
    pub(crate) fn begin(base: &Base) -> Self {
        Self::kept(SessionDirectory::new(base.paths.sessions()).begin(&base.workspace))
    }

    pub(crate) fn unkept() -> Self {
        Self {
            id: format!("unkept-{}", std::process::id()).into(),
            store: Arc::new(MemorySession::new()),
            on_disk: None,
            messages: Vec::new(),
            loops: 0,
            last_loop: "".into(),
            notices: Vec::new(),
        }
    }

    fn at(path: &Path, workspace: &Path) -> Result<Self> {
        match Self::resumed(path, workspace) {
            Err(_) if !path.exists() => Ok(Self::kept(Session::begin(path, workspace))),
            opened => opened,
        }
    }

    /// Resumes the session in a file.
    pub(crate) fn resumed(path: &Path, workspace: &Path) -> Result<Self> {
        let opened = open_to_continue(path, workspace).map_err(Failure::from)?;
        let notices = opened.recovery.notices();
        let loops = u32::try_from(opened.loops).unwrap_or(u32::MAX);
        let last_loop = opened.last_loop.map(|start| start.loop_id).unwrap_or_default().into();
        let messages = pinion_agent::compaction::view(opened.messages);
        Ok(Self { messages, loops, last_loop, notices, ..Self::kept(opened.session) })
    }

    fn kept(session: Session) -> Self {
        let session = Arc::new(session);
        Self {
            id: session.id().into(),
            store: session.clone(),
            on_disk: Some(session),
            messages: Vec::new(),
            loops: 0,
            last_loop: "".into(),
            notices: Vec::new(),
        }
    }

    /// Waits until the session is on the disk, so that it survives a loss of power too.
    ///
    /// # Errors
    /// Entries are missing, the system cannot confirm it, or another program took the file away.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(session) = &self.on_disk else { return Ok(()) };
        session.sync().map_err(|error| Failure::from(error).or_hint(ELSEWHERE))?;
        let missing = session.failure().map(|failure| Failure::failed(format!("the session is incomplete: {failure}")));
        missing.map_or(Ok(()), |failure| Err(failure.hint(ELSEWHERE)))
    }

    /// Adds a remedy to the failure of a run if the session could not be written.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        let Some(session) = self.on_disk.as_ref().filter(|session| session.failure().is_some()) else { return failure };
        match owner_hint(session.path()) {
            Some(owner) => failure.hint(format!("{owner}; or {ELSEWHERE}")),
            None => failure.or_hint(ELSEWHERE),
        }
    }
}
