//! The interfaces that need no grant: `log`, `progress`, `cancellation`, `settings` and `offers-host`.

use crate::bindings::pinion::plugin::log::{self, Level};
use crate::bindings::pinion::plugin::{cancellation, offers_host, progress, settings, types};
use crate::calls::state::State;
use crate::convert::{self, MAX_PARTS, clip};
use pinion_plugin_streams::stdio::write_log_line;
use pinion_protocol::LogLevel;

/// Bytes of one line; the rest is cut off.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes of one call's lines; later lines are dropped.
const MAX_LOGGED_BYTES: u64 = 1024 * 1024;

impl log::Host for State {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let line = clip(&message, MAX_LINE_BYTES);
        // A plugin that used up its output is not stopped for logging; its lines are dropped.
        if self.spend_output(line.len()).is_err() || self.account.logged > MAX_LOGGED_BYTES {
            return Ok(());
        }
        // The line end counts, so that empty lines are bounded too.
        self.account.logged += line.len() as u64 + 1;
        match self.account.logged > MAX_LOGGED_BYTES {
            false => {
                write_log_line(&self.plugin, level, line);
                self.call.progress.log(severity(level), line.to_owned());
            }
            true => write_log_line(&self.plugin, Level::Warn, "the call's further log lines are dropped"),
        }
        Ok(())
    }
}

fn severity(level: Level) -> LogLevel {
    match level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

impl progress::Host for State {
    fn report(&mut self, message: String) -> wasmtime::Result<()> {
        let line = clip(&message, MAX_LINE_BYTES).to_owned();
        if self.spend_output(line.len()).is_ok() {
            self.call.progress.report(line);
        }
        Ok(())
    }

    fn update(&mut self, partial: Vec<types::Content>) -> wasmtime::Result<()> {
        if self.spend_output(convert::contents_bytes(&partial)).is_ok() {
            let parts = partial.into_iter().filter(|part| !convert::is_empty(part)).take(MAX_PARTS);
            self.call.progress.update(parts.map(convert::content).collect());
        }
        Ok(())
    }
}

impl cancellation::Host for State {
    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.call.deadline.token().is_cancelled())
    }
}

impl settings::Host for State {
    /// A changed config makes a new generation. Instances of an earlier generation see its settings; instances of a
    /// generation that is still being loaded see their own.
    async fn current(&mut self) -> wasmtime::Result<String> {
        let newest = self.plugins.upgrade().and_then(|plugins| plugins.settings(self.call.authority.plugin()));
        let newest = newest.filter(|newest| newest.generation > self.settings.generation);
        Ok(newest.as_ref().unwrap_or(&self.settings).config.to_string())
    }
}

impl offers_host::Host for State {
    fn changed(&mut self) -> wasmtime::Result<()> {
        // At most one sign waits. The sign of a plugin that does not export `offers` is never awaited.
        self.changed.notify_one();
        Ok(())
    }
}
