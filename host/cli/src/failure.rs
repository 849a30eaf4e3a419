//! How a command fails: what the user reads, and what the shell sees.

use crate::output::{Text, text};
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The run ended with an error.
    Failed = 1,
    /// Wrong usage or config.
    Usage = 2,
    /// A limit was reached.
    Limit = 3,
    /// Denied or not trusted.
    Denied = 4,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// A command failed. Printed as `error: …`, with its causes and a hint where there is one.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    message: String,
    hint: Option<String>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(status: Status, message: impl fmt::Display) -> Self {
        Self { status, message: message.to_string(), hint: None }
    }

    /// The run ended with an error.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Status::Failed, message)
    }

    /// Wrong usage or config.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Status::Usage, message)
    }

    /// An error with its causes.
    pub(crate) fn of(status: Status, error: &dyn Error) -> Self {
        Self::new(status, chain(error))
    }

    /// What the user can do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// What is printed after `error: `. Only the hint of this program begins a line; further lines of the message are
    /// indented.
    pub(crate) fn text(&self) -> Text {
        let mut text = Text::block(&self.message);
        if let Some(hint) = &self.hint {
            text.push(text!("\nhint: {}", Text::block(hint)));
        }
        text
    }

    /// The same, where nothing was said yet.
    #[must_use]
    pub(crate) fn or_hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(self.hint.unwrap_or_else(|| hint.to_string())), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An error and what caused it, joined by colons. What a cause repeats of the text before is not repeated.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn causes_come_after_what_they_caused() {
        let error = Outer("x".parse::<u8>().unwrap_err());
        assert_eq!(chain(&error), "outer: invalid digit found in string");
    }
}
