//! Lines that a guest writes to the host's log, from the import `log` and from its standard streams.

use crate::bindings::pinion::plugin::log::Level;
use std::borrow::Cow;

/// Writes one line under the plugin's name. Control characters are escaped, because a log is read in a terminal.
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

/// Escapes control characters.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect())
}
