//! `log`: lines for the host's log, under the plugin's name.

use crate::bindings::pinion::plugin::log::{self, Level};
use crate::calls::state::State;
use crate::host::clip;
use std::borrow::Cow;

/// Longer lines are cut.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes of one call's lines; what comes after them is dropped.
const MAX_LOGGED_BYTES: u64 = 1024 * 1024;

impl log::Host for State {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let line = clip(&message, MAX_LINE_BYTES);
        // A plugin that has used up its output is not stopped for talking; it is no longer heard.
        if self.spend_output(line.len()).is_err() || self.account.logged > MAX_LOGGED_BYTES {
            return Ok(());
        }
        // An empty line is one, too.
        self.account.logged += line.len() as u64 + 1;
        match self.account.logged > MAX_LOGGED_BYTES {
            false => write(&self.plugin, level, line),
            true => write(&self.plugin, Level::Warn, "the call's further log lines are dropped"),
        }
        Ok(())
    }
}

/// Control characters are shown, not sent: a log is read in a terminal.
pub(crate) fn write(plugin: &str, level: Level, line: &str) {
    let line = visible(line);
    match level {
        Level::Trace => tracing::trace!(target: "plugin", plugin, "{line}"),
        Level::Debug => tracing::debug!(target: "plugin", plugin, "{line}"),
        Level::Info => tracing::info!(target: "plugin", plugin, "{line}"),
        Level::Warn => tracing::warn!(target: "plugin", plugin, "{line}"),
        Level::Error => tracing::error!(target: "plugin", plugin, "{line}"),
    }
}

/// The same text, with control characters written out.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect())
}
