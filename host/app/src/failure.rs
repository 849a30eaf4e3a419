//! Failures of commands: the message, its causes, a remedy and the exit status.
//!
//! The conversions in this file are the only place that maps the errors of other crates to exit statuses.

pub use pinion_agent::text::with_causes;

use crate::files::private::owner_hint;
use crate::output::{Part, Text, text};
use pinion_agent::compaction::CompactionError;
use pinion_agent::text::append_causes;
use pinion_agent::{AgentError, RunError, RunErrorKind};
use pinion_plugin_runtime::EngineError;
use pinion_providers::{KeyError, RegistryError, ScriptError};
use pinion_session_store::{ErrorSubject, SessionError, SessionErrorKind};
use std::error::Error;
use std::fmt;
use std::io::ErrorKind::PermissionDenied;
use std::process::ExitCode;

/// The remedy for a session that cannot be written.
pub const ELSEWHERE: &str =
    "run with --no-session to save nothing, or set PINION_HOME to a directory where you can save sessions";

/// The remedy for a refused thread, which needs a process of the user's and memory for its stack.
pub const MORE_THREADS: &str = "raise the limits on processes and threads (ulimit -u) and on memory (ulimit -v)";

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The run or the command failed.
    Failed = 1,
    /// Invalid usage or config.
    Usage = 2,
    /// The run reached a limit.
    Limit = 3,
    /// A call was denied because no one could be asked, or the directory is not trusted.
    Denied = 4,
    /// The user interrupted the run.
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// A command that failed.
///
/// The message says what failed and on what. The causes are the chain of `source`, and hints are kept apart from both, so
/// that the report of the command is the only place that lays them out.
#[derive(Debug)]
pub struct Failure {
    /// The exit status of a command that fails so.
    pub status: Status,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

/// The result of a function of this crate that may fail.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this exit status and message.
    pub fn new(status: Status, message: impl fmt::Display) -> Self {
        Self { status, message: message.to_string(), source: None, hint: None }
    }

    /// A failure with exit status 1.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Status::Failed, message)
    }

    /// A failure with exit status 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Status::Usage, message)
    }

    /// Adds the error that caused the failure, with the causes of that error.
    #[must_use]
    pub fn because(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Adds a remedy: a command or a line of the config.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Adds a remedy unless there is one.
    #[must_use]
    pub fn or_hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(self.hint.unwrap_or_else(|| hint.to_string())), ..self }
    }

    /// The message and its causes, joined by colons.
    pub fn message(&self) -> String {
        let mut text = self.message.clone();
        if let Some(source) = &self.source {
            append_causes(&mut text, Some(&**source));
        }
        text
    }

    /// Returns whether another error caused the failure.
    pub fn has_cause(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the hint, if there is one.
    pub fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the failure for programs that read JSON.
    pub fn as_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self.message(), "hint": self.hint })
    }

    /// Takes over the message and the causes of an error.
    fn from_error(status: Status, error: &dyn Error) -> Self {
        Self::new(status, with_causes(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

macro_rules! exit_status {
    ($($error:ty => $status:ident),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::from_error(Status::$status, &error)
            }
        })*
    };
}

exit_status! {
    AgentError => Failed,
    CompactionError => Failed,
    EngineError => Failed,
    ScriptError => Usage,
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let failure = Self::from_error(Status::Usage, &error);
        error.hint().into_iter().fold(failure, Self::hint)
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let failure = Self::from_error(Status::Usage, &error);
        error.hint().into_iter().fold(failure, Self::hint)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let failure = Self::from_error(Status::Failed, &error);
        match error.kind {
            RunErrorKind::StoreFull => {
                failure.hint("free some space on the disk, or run with --no-session to save nothing")
            }
            RunErrorKind::Store => failure.hint(ELSEWHERE),
            RunErrorKind::Overflow => failure.hint("start a new session, or use a model with a larger context window"),
            _ => failure,
        }
    }
}

/// A wrong session ID is wrong usage; a full disk is not.
impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let status = match &error.kind {
            SessionErrorKind::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Status::Usage,
            SessionErrorKind::Io { .. }
            | SessionErrorKind::DiskFull { .. }
            | SessionErrorKind::Lost(_)
            | SessionErrorKind::Unwritable { .. } => Status::Failed,
            _ => Status::Usage,
        };
        let failure = Self::from_error(status, &error);
        let owner = match (&error.kind, &error.subject) {
            (SessionErrorKind::Io { source, .. }, ErrorSubject::File(path)) if source.kind() == PermissionDenied => {
                owner_hint(path)
            }
            _ => None,
        };
        owner.or_else(|| error.hint()).into_iter().fold(failure, Self::hint)
    }
}

/// The message, its causes and the hint. Only the hint of this program begins a line; further lines of the message are
/// indented.
impl Part for Failure {
    fn append(&self, text: &mut Text) {
        text.push(Text::block(self.message()));
        if let Some(hint) = self.remedy() {
            text.push(text!("\nhint: {}", Text::block(hint)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn causes_follow_the_message_and_the_hint_comes_last() {
        let error = Outer("x".parse::<u8>().unwrap_err());
        assert_eq!(with_causes(&error), "outer: invalid digit found in string");
        let failure = Failure::usage("could not read `a`").because(error).hint("b");
        assert_eq!(failure.to_string(), "could not read `a`: outer: invalid digit found in string\nhint: b");
    }

    #[test]
    fn remedy_of_a_failed_run_follows_from_its_kind() {
        let failure = |kind| Failure::from(RunError::new(kind, "no"));
        assert_eq!(failure(RunErrorKind::Store).remedy(), Some(ELSEWHERE));
        assert!(failure(RunErrorKind::Overflow).remedy().is_some_and(|hint| hint.contains("new session")));
        assert_eq!(failure(RunErrorKind::Network).remedy(), None);
        assert!(failure(RunErrorKind::StoreFull).remedy().is_some_and(|hint| hint.contains("--no-session")));
    }

    #[test]
    fn full_disk_is_not_wrong_usage() {
        let failed = |kind| Failure::from(SessionError::new("s".as_ref(), kind));
        let (action, source) = ("write", io::ErrorKind::StorageFull.into());
        let full = failed(SessionErrorKind::DiskFull { action, source });
        assert_eq!(full.status, Status::Failed);
        assert!(full.to_string().ends_with("\nhint: free some space on the disk"), "{full}");
        let missing = failed(SessionErrorKind::Io { action, source: io::ErrorKind::NotFound.into() });
        assert_eq!(missing.status, Status::Usage);
        assert_eq!(failed(SessionErrorKind::NotFound { recent: Vec::new() }).status, Status::Usage);
    }
}
