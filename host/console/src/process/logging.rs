//! The log on stderr.

use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::Uptime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The warnings that people need by default: from plugins, and that something is not cached or not saved. Warnings of
/// `rmcp` are about its internals; failures of MCP servers are reported where they matter.
const DEFAULT: &str = "error,rmcp=off,plugin=warn,pinion_app=warn,pinion_console=warn,pinion_plugin_engine=warn,\
    pinion_plugin_programs=warn,pinion_plugin_runtime=warn,pinion_plugin_storage=warn,pinion_session_store=warn";

/// Starts the log. Secrets in it are redacted.
///
/// By default it contains errors and the warnings that concern people, with `-v` all warnings and the messages of
/// plugins, as notices. With `-vv` it contains everything of this program, with times and origins. `PINION_LOG` sets a
/// filter in the syntax of `tracing`, for entries in the same form.
pub fn start(verbose: u8, quiet: bool) {
    let default = match (quiet, verbose) {
        (true, _) => "error,rmcp=off",
        (_, 0) => DEFAULT,
        (_, 1) => "warn,rmcp=off,plugin=info",
        _ => {
            "warn,plugin=trace,pinion_agent=debug,pinion_app=debug,pinion_console=debug,pinion_plugin_engine=debug,\
             pinion_plugin_runtime=debug,pinion_providers=debug"
        }
    };
    let filter = std::env::var("PINION_LOG").ok().and_then(|said| said.parse::<EnvFilter>().ok());
    let is_for_people = filter.is_none() && verbose < 2;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new(default)))
        // Colours of the log could not be told from a guest's colours.
        .with_ansi(false)
        .with_writer(crate::output::Log);
    // Set once, at the start of the program.
    let _ = match is_for_people {
        true => tracing::subscriber::set_global_default(log.event_format(LogNotices).finish()),
        false => tracing::subscriber::set_global_default(log.with_timer(Uptime::default()).finish()),
    };
}

/// Writes an entry as a notice: `! MESSAGE (FIELD VALUE): ERROR`, and after the name of a plugin that logs it.
struct LogNotices;

impl<S, N> FormatEvent<S, N> for LogNotices
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut notice = Notice { is_of_plugin: event.metadata().target() == "plugin", ..Notice::default() };
        event.record(&mut notice);
        let mark = if *event.metadata().level() <= Level::WARN { "! " } else { "" };
        writeln!(writer, "{mark}{notice}")
    }
}

/// The parts of an entry.
#[derive(Default)]
struct Notice {
    is_of_plugin: bool,
    plugin: String,
    message: String,
    fields: String,
    error: String,
}

impl Visit for Notice {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" => write!(self.error, ": {value:?}"),
            "plugin" if self.is_of_plugin => write!(self.plugin, "plugin `{value:?}`: "),
            name => {
                let gap = if self.fields.is_empty() { "" } else { ", " };
                write!(self.fields, "{gap}{name} {value:?}")
            }
        };
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.plugin, self.message)?;
        if !self.fields.is_empty() {
            write!(f, " ({})", self.fields)?;
        }
        f.write_str(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn entries_for_people_are_notices() {
        let written = Written::default();
        let log = tracing_subscriber::fmt().with_writer(written.clone()).event_format(LogNotices).finish();
        tracing::subscriber::with_default(log, || {
            let error = io::Error::other("no space");
            tracing::warn!(directory = %"/x", count = 2, %error, "code is not cached");
            tracing::error!("failed");
            tracing::info!(target: "plugin", plugin = "greeter", "hello");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "! code is not cached (directory /x, count 2): no space\n! failed\nplugin `greeter`: hello\n");
    }
}
