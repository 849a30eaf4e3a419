//! The interfaces that need no grant: `log`, `progress`, `cancellation`, `settings`, `offers-host` and `wasi:logging`.

use crate::bindings::pinion::plugin::log::{self, Host as _, Level};
use crate::bindings::pinion::plugin::{cancellation, offers_host, progress, settings, types};
use crate::calls::state::State;
use crate::convert::{self, MAX_PARTS, clip};
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_journal::value::EncodeValue;
use pinion_plugin_streams::stdio::write_log_line;
use pinion_protocol::LogLevel;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift};

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

/// The linked interfaces. The packages are drafts, whose versions are compared exactly.
pub(crate) const LOGGING_INTERFACES: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// The levels of the interface, in its order. Only calls of guests construct them.
#[derive(ComponentType, Lift, Clone, Copy)]
#[allow(dead_code, reason = "lifted from guests")]
#[component(enum)]
#[repr(u8)]
enum WasiLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl EncodeValue for WasiLevel {
    fn encode(&self, out: &mut Vec<u8>) {
        u64::from(*self as u8).encode(out);
    }
}

/// Links `wasi:logging`, whose lines are held to the bounds of `log`. The interfaces need no grant, as `log`.
pub(crate) fn link_wasi_logging(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for interface in LOGGING_INTERFACES {
        let log = |mut store: StoreContextMut<'_, State>, (level, context, message): (WasiLevel, String, String)| {
            let line = if context.is_empty() { message } else { format!("{context}: {message}") };
            store.data_mut().log(own_level(level), line)
        };
        linker.instance(interface)?.func_wrap("log", log)?;
    }
    Ok(())
}

fn own_level(level: WasiLevel) -> Level {
    match level {
        WasiLevel::Trace => Level::Trace,
        WasiLevel::Debug => Level::Debug,
        WasiLevel::Info => Level::Info,
        WasiLevel::Warn => Level::Warn,
        WasiLevel::Error | WasiLevel::Critical => Level::Error,
    }
}
