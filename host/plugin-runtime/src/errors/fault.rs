//! How a call of a plugin can break down, as opposed to a tool that fails and says so.

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// A plugin trapped, ran into a limit, or broke the contract. Names the plugin; for a limit, which one, how much of it
/// there was and how to raise it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginFault {
    /// Out of instructions.
    #[error("plugin `{plugin}` used up its fuel of {limit}{}", raise(plugin, "fuel"))]
    Fuel {
        /// The plugin.
        plugin: String,
        /// The limit, which is also what was used.
        limit: u64,
    },
    /// Out of time.
    #[error("plugin `{plugin}` was stopped at its deadline of {limit_ms} ms{}", raise(plugin, "deadline-ms"))]
    Deadline {
        /// The plugin.
        plugin: String,
        /// The limit, which is also what was used.
        limit_ms: u64,
    },
    /// It wanted more memory, did not get it, and did not survive that.
    #[error("plugin `{plugin}` wanted {wanted} bytes of memory, of {limit}{}", raise(plugin, "memory-bytes"))]
    Memory {
        /// The plugin.
        plugin: String,
        /// What it would have used.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// Its calls together wanted more memory than one plugin may have.
    #[error(
        "the calls of plugin `{plugin}` together wanted more than {limit} bytes of memory\n\
         hint: make fewer of them at once, or raise `plugin-memory-bytes` in [engine.limits] of the config"
    )]
    TotalMemory {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// Too many of its calls ran for too long.
    #[error("plugin `{plugin}` is busy: the call waited {waited_s} s for others of the plugin to end")]
    Busy {
        /// The plugin.
        plugin: String,
        /// Seconds that the call waited.
        waited_s: u64,
    },
    /// It wanted larger tables, did not get them, and did not survive that.
    #[error("plugin `{plugin}` wanted {wanted} table elements, of {limit}{}", raise(plugin, "table-elements"))]
    Table {
        /// The plugin.
        plugin: String,
        /// What it would have used.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// Its calls are nested too deeply.
    #[error(
        "plugin `{plugin}` used up its stack of {limit} bytes\n\
         hint: it calls itself without end, or raise `stack-bytes` for all plugins in [engine.limits] of the config"
    )]
    Stack {
        /// The plugin.
        plugin: String,
        /// The limit, which is also what was used.
        limit: u64,
    },
    /// Its result, progress and log lines are too long, or one host call carried too much.
    #[error("plugin `{plugin}` gave more than {limit} bytes of output{}", raise(plugin, "output-bytes"))]
    Output {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It called the host too often.
    #[error("plugin `{plugin}` called the host more than {limit} times{}", raise(plugin, "host-calls"))]
    HostCalls {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It holds too many files, streams and timers.
    #[error("plugin `{plugin}` holds more than {limit} open handles{}", raise(plugin, "handles"))]
    Handles {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It wrote too much.
    #[error("plugin `{plugin}` wrote more than {limit} bytes{}", raise(plugin, "bytes-written"))]
    BytesWritten {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It made, or wrote to, a file that is too large.
    #[error("plugin `{plugin}` wrote to a file of more than {limit} bytes{}", raise(plugin, "file-bytes"))]
    FileBytes {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It ran too many programs.
    #[error("plugin `{plugin}` ran more than {limit} programs{}", raise(plugin, "programs"))]
    Programs {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: u64,
    },
    /// It did not end in time after it was cancelled, or it sits in a system call that does not return.
    #[error("plugin `{plugin}` does not react, and was abandoned")]
    Stuck {
        /// The plugin.
        plugin: String,
    },
    /// It was cancelled, and did not end by itself within its grace.
    #[error("plugin `{plugin}` was cancelled")]
    Cancelled {
        /// The plugin.
        plugin: String,
    },
    /// It panicked, or did something that WebAssembly does not allow.
    #[error("plugin `{plugin}` trapped: {message}")]
    Trap {
        /// The plugin.
        plugin: String,
        /// The trap, and the last lines that the plugin wrote to its stderr.
        message: String,
    },
    /// `init` returned an error.
    #[error("plugin `{plugin}` did not start: {message}\nhint: look at its section [plugins.{plugin}.config]")]
    Init {
        /// The plugin.
        plugin: String,
        /// What it says.
        message: String,
    },
    /// What it returned is not what the contract says.
    #[error("plugin `{plugin}` broke the contract: {message}")]
    Contract {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        message: String,
    },
    /// The host could not run it.
    #[error("plugin `{plugin}` could not be run: {message}")]
    Host {
        /// The plugin.
        plugin: String,
        /// Why.
        message: String,
    },
}

fn raise(plugin: &str, limit: &str) -> String {
    format!("\nhint: raise `{limit}` in [plugins.{plugin}.limits] of the config")
}

/// A limit that the host's own code ran into on a plugin's behalf; travels through wasmtime as the cause of a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("too many host calls")]
    HostCalls,
    #[error("too much output")]
    Output,
    #[error("too many bytes written")]
    BytesWritten,
    #[error("too large a file")]
    FileBytes,
    #[error("too many programs")]
    Programs,
}

/// What a guest said, or did not offer, where the contract has no result for it; travels through wasmtime as an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GuestError {
    #[error("{0}")]
    Init(String),
    #[error("its self-test failed: {0}")]
    SelfTest(String),
    #[error("it does not say what it offers: {0}")]
    List(String),
    #[error("`{0}` is not exported")]
    NotExported(&'static str),
}

/// What is known about an instance when it broke down.
pub(crate) struct Circumstances<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) limits: &'a crate::limits::Limits,
    pub(crate) stack_limit: u64,
    /// A growth of memory that was refused: the total that was wanted.
    pub(crate) refused_memory: Option<u64>,
    /// A growth of tables that was refused: the total that was wanted.
    pub(crate) refused_table: Option<u64>,
    /// A growth of memory that was refused because all calls of the plugin together have too much: the limit.
    pub(crate) refused_total: Option<u64>,
    /// The end of what the plugin wrote to stderr.
    pub(crate) stderr: String,
}

impl PluginFault {
    /// Which fault an error of wasmtime is.
    pub(crate) fn from_error(error: &wasmtime::Error, about: &Circumstances<'_>) -> Self {
        let plugin = about.plugin.to_owned();
        let limits = about.limits;
        if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
            return match exceeded {
                Exceeded::HostCalls => Self::HostCalls { plugin, limit: limits.host_calls },
                Exceeded::Output => Self::Output { plugin, limit: limits.output_bytes },
                Exceeded::BytesWritten => Self::BytesWritten { plugin, limit: limits.bytes_written },
                Exceeded::FileBytes => Self::FileBytes { plugin, limit: limits.file_bytes },
                Exceeded::Programs => Self::Programs { plugin, limit: limits.programs },
            };
        }
        if let Some(said) = error.downcast_ref::<GuestError>() {
            return match said {
                GuestError::Init(message) => Self::Init { plugin, message: message.clone() },
                other => Self::Contract { plugin, message: other.to_string() },
            };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => return Self::Fuel { plugin, limit: limits.fuel },
            Some(Trap::StackOverflow) => return Self::Stack { plugin, limit: about.stack_limit },
            _ => {}
        }
        if let Some(ResourceTableError::Full) = error.downcast_ref::<ResourceTableError>() {
            return Self::Handles { plugin, limit: limits.handles };
        }
        // wasmtime keeps these types to itself; tests with hostile guests hold the texts down.
        let text = format!("{error:#}");
        if text.contains("fuel allocated for hostcalls has been exhausted") {
            return Self::Output { plugin, limit: limits.output_bytes };
        }
        if text.contains("store handle limit exceeded") {
            return Self::Handles { plugin, limit: limits.handles };
        }
        if let Some(limit) = about.refused_total {
            return Self::TotalMemory { plugin, limit };
        }
        if let Some(wanted) = about.refused_memory {
            return Self::Memory { plugin, wanted, limit: limits.memory_bytes };
        }
        if let Some(wanted) = about.refused_table {
            return Self::Table { plugin, wanted, limit: limits.table_elements };
        }
        Self::Trap { plugin, message: describe(error, &about.stderr) }
    }
}

/// The innermost cause, and what the plugin said last.
fn describe(error: &wasmtime::Error, stderr: &str) -> String {
    let cause = error.root_cause().to_string();
    match stderr.trim() {
        "" => cause,
        said => format!("{cause}; it said:\n{said}"),
    }
}
