//! Failures of the plugin or the host during a call, as opposed to an error that a tool returns.

use crate::backtrace::backtrace;
use crate::limits::Limits;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// A plugin trapped, ran into a limit, or broke the contract.
///
/// `{}` formats the plugin and the failure; `{:#}` adds a line with [`PluginFault::hint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFault {
    /// The plugin's name.
    pub plugin: String,
    /// The failure.
    pub kind: FaultKind,
}

/// The ways that a call breaks down. Formatted, each completes a sentence that begins with the plugin's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// The call executed as many instructions as it may.
    #[error("ran out of fuel (limit {})", format_count(*.limit))]
    Fuel {
        /// The limit, in units of fuel.
        limit: u64,
    },
    /// The call ran past its deadline.
    #[error("was stopped at its deadline of {limit_ms} ms")]
    Deadline {
        /// Milliseconds from the start of the call.
        limit_ms: u64,
    },
    /// A refused growth of linear memory ended the call.
    #[error("ran out of memory (limit {}): it wanted {}", format_bytes(*.limit), format_bytes(*.wanted))]
    Memory {
        /// Bytes the instance would have had.
        wanted: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// A growth of linear memory was refused because all calls of the plugin together would have had too much.
    #[error("ran out of memory: its calls together may have {}", format_bytes(*.limit))]
    TotalMemory {
        /// Bytes that all calls of the plugin may have together.
        limit: u64,
    },
    /// The call found no free turn in time, because others of the plugin ran for too long.
    #[error("is busy: the call waited {waited_s} s for others of the plugin to end")]
    Busy {
        /// Seconds the call waited.
        waited_s: u64,
    },
    /// A refused growth of a table ended the call.
    #[error("wanted {wanted} table elements, of {limit}")]
    Table {
        /// Elements the instance would have had.
        wanted: u64,
        /// Elements it may have.
        limit: u64,
    },
    /// The call overflowed the WebAssembly stack.
    #[error("overflowed its stack (limit {}){}", format_bytes(*.limit), on_lines_of_its_own(.functions.as_deref()))]
    Stack {
        /// The size of the stack in bytes.
        limit: u64,
        /// The innermost functions, one a line, if they have names.
        functions: Option<String>,
    },
    /// Result, progress and log lines are too long.
    #[error("gave too much output (limit {}): it wanted {}", format_bytes(*.limit), format_bytes(*.wanted))]
    Output {
        /// Bytes that the call would have given so far.
        wanted: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// One call of the host, or the result, carried too much, such as the content of a file to write.
    #[error("passed too much to the host in one call (limit {})", format_bytes(*.limit))]
    HostCallBytes {
        /// The limit in bytes.
        limit: u64,
    },
    /// The plugin called the host too often.
    #[error("called the host more than {limit} times")]
    HostCalls {
        /// Host calls that one call may make.
        limit: u64,
    },
    /// The plugin opened too many files, streams and timers.
    #[error("holds more than {limit} open handles")]
    Handles {
        /// Handles that may be open at once.
        limit: u64,
    },
    /// The plugin wrote too many bytes.
    #[error("wrote too much (limit {}): it wanted {}", format_bytes(*.limit), format_bytes(*.wanted))]
    BytesWritten {
        /// Bytes that the call would have written so far.
        wanted: u64,
        /// Bytes that one call may write.
        limit: u64,
    },
    /// The plugin created or wrote a file that is too large.
    #[error("wrote too large a file (limit {}): it wanted {}", format_bytes(*.limit), format_bytes(*.wanted))]
    FileBytes {
        /// Bytes that the file would have had.
        wanted: u64,
        /// Bytes that one file may have.
        limit: u64,
    },
    /// The plugin ran too many programs.
    #[error("ran more than {limit} programs")]
    Programs {
        /// Programs that one call may run.
        limit: u64,
    },
    /// The plugin sent too many HTTP requests.
    #[error("sent more than {limit} requests")]
    Requests {
        /// Requests that one call may send.
        limit: u64,
    },
    /// The call did not end after its deadline or cancellation; its thread may sit in a system call.
    #[error("is unresponsive and was abandoned")]
    Stuck,
    /// The call was cancelled and did not end within its grace period.
    #[error("was cancelled")]
    Cancelled,
    /// The plugin panicked or did something that WebAssembly does not allow.
    #[error("trapped: {message}")]
    Trap {
        /// The trap, the last lines that the plugin wrote to stderr, and the active functions, if they have names.
        message: String,
    },
    /// `init` returned an error.
    #[error("did not start: {message}")]
    Init {
        /// The plugin's own message.
        message: String,
    },
    /// The plugin returned something that the contract forbids.
    #[error("broke the contract: {message}")]
    Contract {
        /// The violation.
        message: String,
    },
}

/// Formats a limit in bytes: `256 MiB`, or the bytes where a unit does not divide them.
pub fn format_bytes(limit: u64) -> String {
    scaled(limit, 1024, &["GiB", "MiB", "KiB"]).unwrap_or_else(|| format!("{limit} bytes"))
}

/// Appends causes and hint to a message, when `f` asks for the alternate form.
///
/// # Errors
/// The formatter fails.
pub fn write_details(f: &mut Formatter<'_>, mut cause: Option<&dyn Error>, hint: Option<&dyn Display>) -> fmt::Result {
    if !f.alternate() {
        return Ok(());
    }
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    hint.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
}

/// Begins a new line for lines that follow a message.
fn on_lines_of_its_own(lines: Option<&str>) -> String {
    lines.map_or_else(String::new, |lines| format!("\n{lines}"))
}

/// Formats a large number: `20 G`, or all digits where a unit does not divide it.
pub fn format_count(limit: u64) -> String {
    scaled(limit, 1000, &["G", "M", "k"]).unwrap_or_else(|| limit.to_string())
}

/// Formats a number in the largest of three units, each `step` times the next, that divides it.
fn scaled(number: u64, step: u64, units: &[&str; 3]) -> Option<String> {
    let sizes = [step.pow(3), step.pow(2), step];
    let (size, unit) = sizes.iter().zip(units).find(|(size, _)| number > 0 && number.is_multiple_of(**size))?;
    Some(format!("{} {unit}", number / size))
}

impl FaultKind {
    /// The fault of a plugin.
    pub fn for_plugin(self, plugin: &str) -> PluginFault {
        PluginFault { plugin: plugin.to_owned(), kind: self }
    }

    /// The key of the limit in `[plugins.NAME.limits]`, and a value that may suffice: twice the limit, the default, or
    /// the wanted amount; the largest of these. `None` when no such limit was exceeded.
    fn raised_limit(&self) -> Option<(&'static str, u64)> {
        let usual = Limits::default();
        let (key, limit, wanted, usual) = match *self {
            Self::Fuel { limit } => ("fuel", limit, 0, usual.fuel),
            Self::Deadline { limit_ms } => ("deadline-ms", limit_ms, 0, usual.deadline_ms),
            Self::Memory { limit, wanted } => ("memory-bytes", limit, wanted, usual.memory_bytes),
            Self::Table { limit, wanted } => ("table-elements", limit, wanted, usual.table_elements),
            Self::Output { limit, wanted } => ("output-bytes", limit, wanted, usual.output_bytes),
            // wasmtime does not say how much there was.
            Self::HostCallBytes { limit } => ("output-bytes", limit, 0, usual.output_bytes),
            Self::HostCalls { limit } => ("host-calls", limit, 0, usual.host_calls),
            Self::Handles { limit } => ("handles", limit, 0, usual.handles),
            Self::BytesWritten { limit, wanted } => ("bytes-written", limit, wanted, usual.bytes_written),
            Self::FileBytes { limit, wanted } => ("file-bytes", limit, wanted, usual.file_bytes),
            Self::Programs { limit } => ("programs", limit, 0, usual.programs),
            Self::Requests { limit } => ("requests", limit, 0, usual.requests),
            Self::TotalMemory { .. }
            | Self::Busy { .. }
            | Self::Stack { .. }
            | Self::Stuck
            | Self::Cancelled
            | Self::Trap { .. }
            | Self::Init { .. }
            | Self::Contract { .. } => return None,
        };
        Some((key, raised(limit).max(wanted).max(usual).min(MAX_VALUE)))
    }
}

/// The largest number of TOML.
const MAX_VALUE: u64 = i64::MAX.unsigned_abs();

/// Returns twice the limit, at most the largest number of TOML.
fn raised(limit: u64) -> u64 {
    limit.max(1).saturating_mul(2).min(MAX_VALUE)
}

impl PluginFault {
    /// The change that prevents this fault, where there is one.
    pub fn hint(&self) -> Option<String> {
        let plugin = &self.plugin;
        if let Some((key, value)) = self.kind.raised_limit() {
            return Some(format!("raise `{key}` in the config: [plugins.{plugin}.limits] {key} = {value}"));
        }
        match self.kind {
            FaultKind::TotalMemory { limit } => Some(format!(
                "make fewer calls at once, or raise `plugin-memory-bytes` in the config: \
                 [engine.limits] plugin-memory-bytes = {}",
                raised(limit)
            )),
            FaultKind::Stack { limit, .. } => Some(format!(
                "look for endless recursion, or raise `stack-bytes` for all plugins in the config: \
                 [engine.limits] stack-bytes = {}",
                raised(limit)
            )),
            FaultKind::Init { .. } => Some(format!("check the section [plugins.{plugin}.config]")),
            _ => None,
        }
    }
}

impl Display for PluginFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "plugin `{}` {}", self.plugin, self.kind)?;
        write_details(f, None, self.hint().as_ref().map(|hint| hint as &dyn Display))
    }
}

impl Error for PluginFault {}

/// A limit that the host itself enforces. Travels through wasmtime as the cause of a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The guest called the host too often.
    #[error("too many host calls")]
    HostCalls,
    /// The guest gave too much output.
    #[error("too much output")]
    Output {
        /// Bytes of output so far, including the excess.
        wanted: u64,
    },
    /// The guest wrote too much.
    #[error("too many bytes written")]
    BytesWritten {
        /// Bytes written so far, including the excess.
        wanted: u64,
    },
    /// The guest wrote too large a file.
    #[error("file too large")]
    FileBytes {
        /// Bytes that the file would have.
        wanted: u64,
    },
    /// The guest ran too many programs.
    #[error("too many programs")]
    Programs,
    /// The guest sent too many requests.
    #[error("too many requests")]
    Requests,
}

/// A failure that a guest reported, or a missing export, where the contract has no result for it. Travels through wasmtime
/// as an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// `init` returned this error.
    #[error("{0}")]
    Init(String),
    /// The self-test returned this error.
    #[error("its self-test failed: {0}")]
    SelfTest(String),
    /// A list of tools or commands returned this error.
    #[error("it does not list what it offers: {0}")]
    List(String),
    /// The component lacks this export.
    #[error("`{0}` is not exported")]
    NotExported(&'static str),
    /// The code was dropped and is not in the cache.
    #[error("its code is not loaded")]
    NotLoaded,
}

/// The state of an instance that broke down, that the fault is derived from.
pub struct Circumstances<'a> {
    /// The plugin's name.
    pub plugin: &'a str,
    /// The limits of the call.
    pub limits: &'a Limits,
    /// Bytes of WebAssembly stack.
    pub stack_limit: u64,
    /// Total bytes wanted by a growth of memory that was refused.
    pub refused_memory: Option<u64>,
    /// Total elements wanted by a growth of tables that was refused.
    pub refused_table: Option<u64>,
    /// The limit for all calls of the plugin, when it made the host refuse a growth of memory.
    pub refused_total: Option<u64>,
    /// The end of the guest's stderr.
    pub stderr: String,
}

impl PluginFault {
    /// Derives the fault from an error of wasmtime.
    pub fn from_error(error: &wasmtime::Error, about: &Circumstances<'_>) -> Self {
        FaultKind::from_error(error, about).for_plugin(about.plugin)
    }
}

impl FaultKind {
    fn from_error(error: &wasmtime::Error, about: &Circumstances<'_>) -> Self {
        let limits = about.limits;
        if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
            return Self::from_exceeded(*exceeded, limits);
        }
        if let Some(said) = error.downcast_ref::<GuestError>() {
            return match said {
                GuestError::Init(message) => Self::Init { message: message.clone() },
                other => Self::Contract { message: other.to_string() },
            };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => return Self::Fuel { limit: limits.fuel },
            Some(Trap::StackOverflow) => return Self::Stack { limit: about.stack_limit, functions: backtrace(error) },
            _ => {}
        }
        if let Some(ResourceTableError::Full) = error.downcast_ref::<ResourceTableError>() {
            return Self::Handles { limit: limits.handles };
        }
        // wasmtime does not export these error types; tests with hostile guests pin the texts.
        let text = format!("{error:#}");
        if text.contains("fuel allocated for hostcalls has been exhausted") {
            return Self::HostCallBytes { limit: limits.output_bytes };
        }
        if text.contains("store handle limit exceeded") {
            return Self::Handles { limit: limits.handles };
        }
        if let Some(limit) = about.refused_total {
            return Self::TotalMemory { limit };
        }
        if let Some(wanted) = about.refused_memory {
            return Self::Memory { wanted, limit: limits.memory_bytes };
        }
        if let Some(wanted) = about.refused_table {
            return Self::Table { wanted, limit: limits.table_elements };
        }
        Self::Trap { message: describe(error, &about.stderr) }
    }

    fn from_exceeded(exceeded: Exceeded, limits: &Limits) -> Self {
        match exceeded {
            Exceeded::HostCalls => Self::HostCalls { limit: limits.host_calls },
            Exceeded::Output { wanted } => Self::Output { wanted, limit: limits.output_bytes },
            Exceeded::BytesWritten { wanted } => Self::BytesWritten { wanted, limit: limits.bytes_written },
            Exceeded::FileBytes { wanted } => Self::FileBytes { wanted, limit: limits.file_bytes },
            Exceeded::Programs => Self::Programs { limit: limits.programs },
            Exceeded::Requests => Self::Requests { limit: limits.requests },
        }
    }
}

/// Joins the innermost cause, the end of the plugin's stderr, and the active functions.
fn describe(error: &wasmtime::Error, stderr: &str) -> String {
    let mut described = error.root_cause().to_string();
    let cause = error.root_cause().downcast_ref::<io::Error>();
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::FileTooLarge) {
        described.push_str(", as `ulimit -f` limits a plugin's memory, too");
    }
    // Guests have no environment; the functions follow anyway.
    let is_advice = |line: &&str| line.starts_with("note: run with `RUST_BACKTRACE=1`");
    let stderr = stderr.lines().filter(|line| !is_advice(line)).collect::<Vec<_>>().join("\n");
    let stderr = stderr.trim();
    if !stderr.is_empty() {
        described.push_str("; it said:\n");
        described.push_str(stderr);
    }
    if let Some(functions) = backtrace(error) {
        described.push('\n');
        described.push_str(&functions);
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_a_unit_that_divides_them() {
        let expected = ["256 MiB", "1 GiB", "100000 bytes", "1 KiB", "0 bytes"];
        assert_eq!([268_435_456, 1 << 30, 100_000, 1024, 0].map(format_bytes), expected);
        assert_eq!([20_000_000_000, 2_000_000, 1_234].map(format_count), ["20 G", "2 M", "1234"]);
    }

    #[test]
    fn trap_because_of_the_limit_on_files_names_it() {
        let error = wasmtime::Error::from(io::Error::from(io::ErrorKind::FileTooLarge)).context("could not load");
        let described = describe(&error, "");
        assert!(described.contains("`ulimit -f`"), "{described}");
        let other = wasmtime::Error::from(io::Error::from(io::ErrorKind::NotFound));
        assert!(!describe(&other, "").contains("ulimit"));
    }

    #[test]
    fn hint_of_a_limit_is_a_line_of_the_config_that_suffices() {
        let usual = Limits::default();
        let more = |usual: u64| 2 * usual;
        let expected = [
            (FaultKind::Fuel { limit: 10 }, "fuel", usual.fuel),
            (FaultKind::Fuel { limit: usual.fuel }, "fuel", more(usual.fuel)),
            (FaultKind::Deadline { limit_ms: 10 }, "deadline-ms", usual.deadline_ms),
            (FaultKind::Memory { limit: 10, wanted: 1 << 40 }, "memory-bytes", 1 << 40),
            (FaultKind::Table { limit: 10, wanted: 1 << 40 }, "table-elements", 1 << 40),
            (FaultKind::Output { limit: 10, wanted: 5_000 }, "output-bytes", usual.output_bytes),
            (FaultKind::Output { limit: 10, wanted: 1 << 40 }, "output-bytes", 1 << 40),
            (FaultKind::HostCallBytes { limit: 10 }, "output-bytes", usual.output_bytes),
            (FaultKind::HostCalls { limit: u64::MAX }, "host-calls", i64::MAX.unsigned_abs()),
            (FaultKind::Handles { limit: 0 }, "handles", usual.handles),
            (FaultKind::BytesWritten { limit: 0, wanted: 1 << 40 }, "bytes-written", 1 << 40),
            (FaultKind::FileBytes { limit: 10, wanted: 1 << 40 }, "file-bytes", 1 << 40),
            (FaultKind::Programs { limit: usual.programs }, "programs", more(usual.programs)),
            (FaultKind::Requests { limit: 1 }, "requests", usual.requests),
        ];
        for (kind, key, value) in expected {
            let hint = kind.for_plugin("x").hint().unwrap();
            assert_eq!(hint, format!("raise `{key}` in the config: [plugins.x.limits] {key} = {value}"));
        }
    }

    #[test]
    fn hint_of_a_limit_of_the_engine_is_a_line_of_the_config() {
        let hint = |kind: FaultKind| kind.for_plugin("x").hint().unwrap();
        let memory = hint(FaultKind::TotalMemory { limit: 100 });
        assert!(memory.ends_with(": [engine.limits] plugin-memory-bytes = 200"), "{memory}");
        let stack = hint(FaultKind::Stack { limit: 100, functions: None });
        assert!(stack.ends_with(": [engine.limits] stack-bytes = 200"), "{stack}");
    }

    #[test]
    fn limit_is_shown_with_what_was_wanted() {
        let wanted = [
            FaultKind::Memory { limit: 1024, wanted: 2048 },
            FaultKind::Output { limit: 1024, wanted: 2048 },
            FaultKind::BytesWritten { limit: 1024, wanted: 2048 },
            FaultKind::FileBytes { limit: 1024, wanted: 2048 },
        ];
        for kind in wanted {
            assert!(kind.to_string().ends_with("(limit 1 KiB): it wanted 2 KiB"), "{kind}");
        }
    }

    #[test]
    fn overflow_of_the_stack_shows_its_functions_before_the_hint() {
        let fault = FaultKind::Stack { limit: 1024, functions: Some("  in f".to_owned()) }.for_plugin("x");
        let shown = format!("{fault:#}");
        assert!(shown.starts_with("plugin `x` overflowed its stack (limit 1 KiB)\n  in f\nhint: "), "{shown}");
    }
}
