//! What a running call knows about itself, and how it says that it is alive.

use crate::bindings::imports::pinion::plugin::types;
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
        host::cancelled()
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
        host::report(message);
    }

    /// The result so far; replaces what was shown before.
    pub fn update(&self, partial: impl Into<Output>) {
        host::update(&partial.into().content);
    }
}

#[cfg(target_arch = "wasm32")]
mod host {
    pub(super) use crate::cancellation::cancelled;
    pub(super) use crate::progress::{report, update};
}

/// Outside a host, as in an author's tests, nobody watches.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use super::types::Content;

    pub(super) use crate::testing::cancelled;

    pub(super) fn report(_message: &str) {}

    pub(super) fn update(_partial: &[Content]) {}
}
