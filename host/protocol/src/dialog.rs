//! The port that plugins use to talk to the user, and their questions.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A question of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// Name of the plugin.
    pub plugin: String,
    /// The plugin's words.
    pub question: String,
    /// The kind of answer that it expects.
    pub kind: DialogKind,
}

/// Prefix of the name that an MCP server asks under, in place of a plugin's name.
pub const MCP_SERVER: &str = "MCP server ";

/// Names who asks, for people. Names of plugins have no blanks.
pub fn asker(name: &str) -> String {
    if name.starts_with(MCP_SERVER) { name.to_owned() } else { format!("the plugin {name}") }
}

/// A form of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogForm {
    /// Name of the plugin.
    pub plugin: String,
    /// The plugin's words.
    pub question: String,
    /// JSON Schema of an object, whose properties are strings, numbers, integers, booleans, enumerations of strings, and arrays
    /// of their values.
    pub schema: Value,
}

/// The kind of answer that a [`Dialog`] expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogKind {
    /// Yes or no.
    Confirm,
    /// One of these options.
    Select(Vec<String>),
    /// A line of text; this is already typed.
    Input(String),
}

/// The answer to a [`Dialog`], of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogAnswer {
    /// Yes or no.
    Confirmed(bool),
    /// The index of the option.
    Selected(usize),
    /// The line.
    Entered(String),
}

/// The reason a [`Dialog`] has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DialogError {
    /// No user can be asked.
    #[error("no user is present")]
    Headless,
    /// The user closed the dialog.
    #[error("the user closed the dialog")]
    Dismissed,
    /// The user closed the dialog and muted this plugin's dialogs for the session.
    #[error("the user wants no dialogs of this plugin in this session")]
    Muted,
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// The weight of a [notice](UserInterface::notify).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information.
    Info,
    /// Something to know before the work continues.
    Warning,
    /// A failure.
    Error,
}

/// Shows questions and notices of plugins to the user. Without an implementation of a method, no user is present.
///
/// Texts of plugins are untrusted: implementations word the frame of a question, name the plugin, and show all of its text
/// without control characters. An answer counts only if it was given after the question was visible for a moment.
pub trait UserInterface: Send + Sync {
    /// Asks the user. The agent asks one question of a session at a time. Once `token` is cancelled, the agent ignores the
    /// answer and implementations should return promptly.
    fn ask<'a>(
        &'a self,
        dialog: &'a Dialog,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<DialogAnswer, DialogError>> {
        let _ = (dialog, token);
        Box::pin(async { Err(DialogError::Headless) })
    }

    /// Shows a line of a plugin outside runs; during runs it is an event. Must not block.
    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        let _ = (plugin, severity, text);
    }

    /// Shows a segment of a plugin in the status line, or removes it. Must not block.
    fn status(&self, plugin: &str, text: Option<&str>) {
        let _ = (plugin, text);
    }
}

/// A user interface without a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUser;

impl UserInterface for NoUser {}
impl UserInterface for crate::approval::DenyAll {}
