//! Errors of tools, designed to be returned with `?`.

use crate::bindings::imports::pinion::plugin::{
    agents, model, process, questions, session, storage, types, ui, workspace,
};
use crate::{http, mcp};
use std::any::Any;
use std::fmt::{self, Display};
use std::io;

/// The result of a tool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A tool's error. The model reads the text, so it should say what to do next.
///
/// `?` converts any [`std::error::Error`] into it; an [`io::Error`] keeps its kind. Because of that, it cannot be one itself,
/// like `anyhow::Error`. Where a function returns a `String` or a `Box<dyn std::error::Error>` as its error, such as
/// the handler of a [`Command`](crate::Command), `?` converts this error and those of the host's functions into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The input matches the schema but is still wrong.
    InvalidInput(String),
    /// Something named in the input does not exist.
    NotFound(String),
    /// A capability is missing or does not extend to this target.
    Denied(String),
    /// The call stopped because it was cancelled.
    Cancelled,
    /// Any other failure.
    Failed {
        /// Text for the model.
        message: String,
        /// `true` if the same call might succeed later.
        retryable: bool,
    },
}

impl Error {
    /// Creates a failure that a retry does not fix.
    pub fn failed(message: impl Display) -> Self {
        Self::Failed { message: message.to_string(), retryable: false }
    }

    /// Creates an error for input that matches the schema but is wrong; say how to fix it.
    pub fn invalid_input(message: impl Display) -> Self {
        Self::InvalidInput(message.to_string())
    }

    /// Prefixes the text with `context: `; [`Error::Cancelled`] stays as it is.
    #[must_use]
    pub fn context(self, context: impl Display) -> Self {
        match self {
            Self::InvalidInput(text) => Self::InvalidInput(format!("{context}: {text}")),
            Self::NotFound(text) => Self::NotFound(format!("{context}: {text}")),
            Self::Denied(text) => Self::Denied(format!("{context}: {text}")),
            Self::Cancelled => Self::Cancelled,
            Self::Failed { message, retryable } => Self::Failed { message: format!("{context}: {message}"), retryable },
        }
    }

    fn from_io(error: &io::Error) -> Self {
        let mut text = error.to_string();
        // The numbers are those of WASI, which mean something else to everyone who looks them up.
        if error.raw_os_error().is_some()
            && let Some(at) = text.find(" (os error ")
        {
            text.truncate(at);
        }
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(text),
            io::ErrorKind::PermissionDenied => Self::Denied(text),
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Self::Failed { message: text, retryable: true }
            }
            _ => Self::failed(text),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput(text) | Self::NotFound(text) | Self::Denied(text) => text,
            Self::Failed { message, .. } => message,
            Self::Cancelled => "cancelled",
        })
    }
}

impl From<Error> for String {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidInput(text) | Error::NotFound(text) | Error::Denied(text) => text,
            Error::Failed { message, .. } => message,
            Error::Cancelled => error.to_string(),
        }
    }
}

impl From<Error> for Box<dyn std::error::Error> {
    fn from(error: Error) -> Self {
        String::from(error).into()
    }
}

impl From<Error> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: Error) -> Self {
        String::from(error).into()
    }
}

/// Makes errors of the host's functions texts, so that `?` works on them in commands.
macro_rules! texts {
    ($($error:ty),+ $(,)?) => {
        $(
            impl From<$error> for String {
                fn from(error: $error) -> Self {
                    Error::from(error).into()
                }
            }
        )+
    };
}

texts!(
    agents::AgentError,
    http::HttpError,
    mcp::McpError,
    model::ModelError,
    process::ProcessError,
    questions::QuestionError,
    session::SessionError,
    storage::StorageError,
    types::ToolError,
    ui::UiError,
    workspace::WorkspaceError,
);

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<io::Error>() {
            Some(io) => Self::from_io(io),
            None => Self::from_foreign(&error).unwrap_or_else(|| Self::failed(&error)),
        }
    }
}

impl Error {
    /// Converts the host's own errors, which carry more than their text.
    fn from_foreign(error: &dyn Any) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<workspace::WorkspaceError>() {
            return Some(match error {
                workspace::WorkspaceError::Denied(text) => Self::Denied(text.clone()),
                workspace::WorkspaceError::NotFound(text) => Self::NotFound(text.clone()),
                workspace::WorkspaceError::InvalidPattern(text) => Self::InvalidInput(text.clone()),
                workspace::WorkspaceError::Cancelled => Self::Cancelled,
                workspace::WorkspaceError::Io(text) => Self::failed(text),
            });
        }
        if let Some(error) = error.downcast_ref::<agents::AgentError>() {
            return Some(match error {
                agents::AgentError::Denied(text) => Self::Denied(text.clone()),
                agents::AgentError::Invalid(text) => Self::InvalidInput(text.clone()),
                agents::AgentError::Failed(text) => Self::failed(text),
                agents::AgentError::Cancelled => Self::Cancelled,
            });
        }
        if let Some(error) = error.downcast_ref::<ui::UiError>() {
            return Some(match error {
                ui::UiError::Denied(text) => Self::Denied(text.clone()),
                ui::UiError::Headless => Self::Denied("no user is present to be asked".to_owned()),
                ui::UiError::Dismissed => Self::Denied("the user closed the dialog without an answer".to_owned()),
                ui::UiError::Cancelled => Self::Cancelled,
                ui::UiError::Invalid(text) => Self::failed(text),
            });
        }
        if let Some(error) = error.downcast_ref::<model::ModelError>() {
            return Some(match error {
                model::ModelError::Denied(text) | model::ModelError::BudgetExceeded(text) => Self::Denied(text.clone()),
                model::ModelError::Invalid(text) | model::ModelError::Failed(text) => Self::failed(text),
                model::ModelError::Cancelled => Self::Cancelled,
            });
        }
        if let Some(error) = error.downcast_ref::<questions::QuestionError>() {
            use questions::QuestionError;
            return Some(match error {
                QuestionError::Denied(text) | QuestionError::BudgetExceeded(text) => Self::Denied(text.clone()),
                QuestionError::Headless => Self::Denied("nobody can answer".to_owned()),
                QuestionError::Dismissed => Self::Denied("the user closed the form without an answer".to_owned()),
                QuestionError::Cancelled => Self::Cancelled,
                QuestionError::Invalid(text) | QuestionError::Failed(text) => Self::failed(text),
            });
        }
        if let Some(error) = error.downcast_ref::<session::SessionError>() {
            return Some(match error {
                session::SessionError::Denied(text) => Self::Denied(text.clone()),
                session::SessionError::Invalid(text) | session::SessionError::Io(text) => Self::failed(text),
            });
        }
        if let Some(error) = error.downcast_ref::<types::ToolError>() {
            let message = error.message.clone();
            return Some(match error.kind {
                types::ErrorKind::InvalidInput => Self::InvalidInput(message),
                types::ErrorKind::NotFound => Self::NotFound(message),
                types::ErrorKind::Denied => Self::Denied(message),
                types::ErrorKind::Cancelled => Self::Cancelled,
                types::ErrorKind::Failed => Self::Failed { message, retryable: error.retryable },
            });
        }
        if let Some(error) = error.downcast_ref::<storage::StorageError>() {
            return Some(match error {
                storage::StorageError::Denied(text) => Self::Denied(text.clone()),
                storage::StorageError::Invalid(text) => Self::InvalidInput(text.clone()),
                storage::StorageError::QuotaExceeded(left) => {
                    Self::failed(format!("the plugin's storage is full: {left} bytes are left"))
                }
                storage::StorageError::Changed => {
                    Self::Failed { message: "the stored value has changed".to_owned(), retryable: true }
                }
                storage::StorageError::Io(text) => Self::failed(text),
            });
        }
        if let Some(error) = error.downcast_ref::<http::HttpError>() {
            return Some(http::convert(error));
        }
        if let Some(error) = error.downcast_ref::<mcp::McpError>() {
            return Some(mcp::convert(error));
        }
        let error = error.downcast_ref::<process::ProcessError>()?;
        Some(match error {
            process::ProcessError::Denied(text) => Self::Denied(text.clone()),
            process::ProcessError::NotFound(text) => Self::NotFound(text.clone()),
            process::ProcessError::TimedOut(_) => Self::failed("the program timed out"),
            process::ProcessError::Cancelled(_) => Self::Cancelled,
            process::ProcessError::Io(text) => Self::failed(text),
        })
    }
}

impl From<Error> for types::ToolError {
    fn from(error: Error) -> Self {
        use types::ErrorKind;
        let (kind, message, retryable) = match error {
            Error::InvalidInput(text) => (ErrorKind::InvalidInput, text, false),
            Error::NotFound(text) => (ErrorKind::NotFound, text, false),
            Error::Denied(text) => (ErrorKind::Denied, text, false),
            Error::Cancelled => (ErrorKind::Cancelled, String::new(), false),
            Error::Failed { message, retryable } => (ErrorKind::Failed, message, retryable),
        };
        let (content, display) = (Vec::new(), types::Display::Plain);
        Self { kind, message, retryable, content, details: None, display, extra: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Result<String> {
        Err(io::Error::from(io::ErrorKind::NotFound))?
    }

    #[test]
    fn io_error_keeps_its_kind() {
        assert!(matches!(read(), Err(Error::NotFound(_))));
        assert!(matches!(Error::from(io::Error::from(io::ErrorKind::PermissionDenied)), Error::Denied(_)));
    }

    #[test]
    fn io_error_has_no_number() {
        let Error::NotFound(text) = Error::from(io::Error::from_raw_os_error(2)) else { panic!() };
        assert!(!text.is_empty() && !text.contains("os error"), "{text}");
    }

    #[test]
    fn foreign_error_becomes_failure_with_its_text() {
        let error = Error::from("x".parse::<u8>().unwrap_err());
        assert_eq!(error, Error::failed("invalid digit found in string"));
    }

    #[test]
    fn host_error_keeps_its_kind() {
        let error = workspace::WorkspaceError::InvalidPattern("unclosed group".into());
        assert_eq!(Error::from(error), Error::InvalidInput("unclosed group".into()));
        assert!(matches!(Error::from(ui::UiError::Dismissed), Error::Denied(_)));
        assert_eq!(Error::from(ui::UiError::Cancelled), Error::Cancelled);
        assert!(matches!(Error::from(questions::QuestionError::Headless), Error::Denied(_)));
        assert!(matches!(Error::from(model::ModelError::BudgetExceeded("used up".into())), Error::Denied(_)));
    }

    #[test]
    fn errors_become_texts_and_boxes_by_the_question_mark() {
        fn command(error: ui::UiError) -> Result<(), String> {
            Err(error)?
        }
        fn helper() -> Result<(), String> {
            Err(Error::NotFound("no issue 7".into()))?
        }
        fn boxed() -> Result<(), Box<dyn std::error::Error>> {
            Err(Error::failed("no luck"))?
        }
        assert_eq!(command(ui::UiError::Dismissed).unwrap_err(), "the user closed the dialog without an answer");
        assert_eq!(helper().unwrap_err(), "no issue 7");
        assert_eq!(boxed().unwrap_err().to_string(), "no luck");
        assert_eq!(format!("{}, {}", Error::Cancelled, Error::Denied("no".into())), "cancelled, no");
    }

    #[test]
    fn context_is_prefixed_to_the_text() {
        let error = Error::NotFound("no such file".into()).context("`a.txt`");
        assert_eq!(error, Error::NotFound("`a.txt`: no such file".into()));
    }
}
