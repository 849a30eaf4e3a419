//! The journal of a session's calls, next to its file.

use crate::workspace_base::Base;
use pinion_journal::writer::{JournalMode, JournalSink, JournalWriter};
use pinion_session_store::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The journal of the session that a run continues.
#[derive(Clone, Default)]
pub struct SessionJournal(Option<Arc<JournalWriter>>);

impl SessionJournal {
    /// Begins the journal of a session, if the config asks for one.
    pub(crate) fn new(base: &Base, session: Option<&Arc<Session>>) -> Self {
        if base.config.journal == JournalMode::Off {
            return Self(None);
        }
        let secrets = base.secrets.clone();
        match JournalWriter::start(base.config.journal, Box::new(move |bytes| secrets.mask(bytes))) {
            Ok(writer) => {
                let journal = Self(Some(Arc::new(writer)));
                journal.begin(session);
                journal
            }
            Err(error) => {
                tracing::warn!(%error, "calls are not recorded");
                Self(None)
            }
        }
    }

    /// Continues with another session. The calls of a session that is not saved are not recorded.
    pub fn begin(&self, session: Option<&Arc<Session>>) {
        if let Some(writer) = &self.0 {
            match session.map(|session| session.path()) {
                Some(path) => writer.begin_for_session(&directory_of(path), path),
                None => writer.begin(None),
            }
        }
    }

    /// Waits until all calls have been written.
    pub fn flush(&self) {
        if let Some(writer) = &self.0 {
            writer.flush();
        }
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn JournalSink>> {
        self.0.clone().map(|writer| -> Arc<dyn JournalSink> { writer })
    }
}

/// Returns the directory of a session's journals: in the directory of its sub-agents, which is deleted with the session.
/// [`pinion_journal::reader::session_of`] is the way back.
pub fn directory_of(session: &Path) -> PathBuf {
    session.with_extension("").join("journal")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_journal::reader::session_of;

    #[test]
    fn session_is_found_from_its_journal() {
        let session = Path::new("sessions/project/20260102T030405Z_0d2f.jsonl");
        assert_eq!(session_of(&directory_of(session).join("0001.calls")).as_deref(), Some(session));
        assert_eq!(session_of(Path::new("journal/0001.calls")), None);
        assert_eq!(session_of(Path::new("report/other/0001.calls")), None);
    }
}
