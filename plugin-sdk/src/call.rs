//! What a running call knows about itself, and how it says that it is alive.

use crate::bindings::imports::pinion::plugin::{cancellation, progress, types};
use crate::{Error, Output, Result};
use std::path::Path;

/// One call of a tool or command.
#[derive(Debug, Clone)]
pub struct Call {
    context: types::CallContext,
}

impl Call {
    pub(crate) fn new(context: types::CallContext) -> Self {
        Self { context }
    }

    /// The id of the tool call or command invocation, unique in the session.
    pub fn id(&self) -> &str {
        &self.context.call_id
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.context.session_id
    }

    /// Absolute path of the workspace root.
    pub fn workspace(&self) -> &Path {
        Path::new(&self.context.workspace)
    }

    /// Milliseconds that the host gave this call, counted from its start.
    pub fn deadline_ms(&self) -> u64 {
        self.context.deadline_ms
    }

    /// Has the call been cancelled? Cheap enough for inner loops.
    pub fn cancelled(&self) -> bool {
        cancellation::cancelled()
    }

    /// For loops that end with `?` when the call is cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the call has been cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A short line for the user, such as "compiling 12 of 80".
    pub fn progress(&self, message: &str) {
        progress::report(message);
    }

    /// The result so far; replaces what was shown before.
    pub fn update(&self, partial: impl Into<Output>) {
        progress::update(&partial.into().content);
    }
}
