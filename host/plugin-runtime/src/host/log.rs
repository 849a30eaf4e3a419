//! `log`: lines for the host's log, under the plugin's name.

use crate::bindings::pinion::plugin::log::{self, Level};
use crate::calls::state::State;
use crate::convert::clip;
use crate::host::log_line;
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
                log_line::write(&self.plugin, level, line);
                self.call.progress.log(severity(level), line.to_owned());
            }
            true => log_line::write(&self.plugin, Level::Warn, "the call's further log lines are dropped"),
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
