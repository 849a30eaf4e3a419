//! The log on stderr.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::Uptime;

/// Starts the log, in which secrets are redacted.
///
/// By default it contains errors and the warnings of plugins, with `-v` also warnings and the messages of plugins, with
/// `-vv` everything of this program. `PINION_LOG` sets a filter in the syntax of `tracing`.
pub(crate) fn start(verbose: u8, quiet: bool) {
    let default = match (quiet, verbose) {
        (true, _) => "error",
        (_, 0) => "error,plugin=warn,pinion_plugin_runtime=warn",
        (_, 1) => "warn,plugin=info",
        _ => "warn,plugin=trace,pinion_agent=debug,pinion_cli=debug,pinion_plugin_runtime=debug,pinion_providers=debug",
    };
    let filter = std::env::var("PINION_LOG").ok().and_then(|said| said.parse::<EnvFilter>().ok());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new(default)))
        .with_timer(Uptime::default())
        // Colours of the log could not be told from those of a guest.
        .with_ansi(false)
        .with_writer(crate::output::Log)
        .finish();
    // Set once, at the start of the program.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
