//! Limits of calls, of loading and of the engine. `limits.toml` holds all defaults; a plugin may ask for more, up to a
//! ceiling, and the user's config has the last word.

use pinion_protocol::{MAX_AGENT_DEPTH, MAX_CALL_DEPTH};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Milliseconds that one call of a hook may take, unless the limit of its plugin is lower.
pub const HOOK_MS: u64 = 5_000;

/// Limits of one call. `limits.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limits {
    /// Instructions, as wasmtime counts fuel.
    pub fuel: u64,
    /// Milliseconds from the call's start until it is stopped.
    pub deadline_ms: u64,
    /// Milliseconds that a cancelled call has to return.
    pub grace_ms: u64,
    /// Bytes of linear memory.
    pub memory_bytes: u64,
    /// Elements of the tables together.
    pub table_elements: u64,
    /// Core instances, memories and tables, each.
    pub instances: u64,
    /// Bytes of result, progress and log lines together.
    pub output_bytes: u64,
    /// Calls of the host.
    pub host_calls: u64,
    /// Handles that are open at once.
    pub handles: u64,
    /// Bytes written to files and to the standard input of programs.
    pub bytes_written: u64,
    /// Bytes of the largest file that is written.
    pub file_bytes: u64,
    /// Programs run.
    pub programs: u64,
    /// HTTP requests, not counting redirects.
    pub requests: u64,
}

/// Limits, possibly with some missing: a plugin asks for them, or the user's config sets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PartialLimits {
    /// See [`Limits::fuel`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// See [`Limits::deadline_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// See [`Limits::grace_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// See [`Limits::memory_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// See [`Limits::table_elements`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_elements: Option<u64>,
    /// See [`Limits::instances`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<u64>,
    /// See [`Limits::output_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// See [`Limits::host_calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u64>,
    /// See [`Limits::handles`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<u64>,
    /// See [`Limits::bytes_written`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
    /// See [`Limits::file_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// See [`Limits::programs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs: Option<u64>,
    /// See [`Limits::requests`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Limits that are the same for all plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct EngineLimits {
    /// Bytes of WebAssembly stack.
    pub stack_bytes: usize,
    /// Calls that run at once, not counting the first one of each plugin.
    pub concurrent_calls: u32,
    /// Bytes of memory that the calls of one plugin may have together, unless a single one may have more.
    pub plugin_memory_bytes: u64,
    /// Seconds of processor time for compiling one component in a separate process. Five times as many may pass.
    pub compile_seconds: u64,
    /// Bytes of memory for compiling one component in a separate process.
    pub compile_memory_bytes: u64,
}

impl EngineLimits {
    /// Plugins that are described at once while they load.
    pub const DESCRIPTIONS: u32 = 16;
    /// Turns reserved for the first call of a plugin, in addition to `concurrent_calls`.
    pub const FIRST_CALLS: u32 = 48;
    /// Instances of lifetime `session` that may live at once; each has a separate thread.
    pub const RESIDENTS: u32 = 32;
    /// Idle instances of lifetime `reused`, of all plugins together.
    pub const IDLE: u32 = 8;

    /// Calls that may wait for sub-agents, for each depth of nesting, in addition to `concurrent_calls`.
    pub fn delegating_calls(&self) -> u32 {
        (self.concurrent_calls / 2).max(1)
    }

    /// Calls that may wait for calls that they make, for each depth of nesting, in addition to `concurrent_calls`.
    pub fn invoking_calls(&self) -> u32 {
        (self.concurrent_calls / 8).max(1)
    }

    /// The number of instances that may live at once. The engine reserves a stack for each when it starts.
    pub fn all_calls(&self) -> u32 {
        let delegating = self.delegating_calls().saturating_mul(MAX_AGENT_DEPTH);
        let invoking = self.invoking_calls().saturating_mul(MAX_CALL_DEPTH);
        let calls = self.concurrent_calls.saturating_add(delegating).saturating_add(invoking);
        calls.saturating_add(Self::FIRST_CALLS + Self::RESIDENTS + Self::DESCRIPTIONS + Self::IDLE)
    }
}

/// The content of `limits.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitsFile {
    /// Limits of a call, unless the plugin or the user sets others.
    pub default: Limits,
    /// The most that a plugin gets by asking.
    pub ceiling: Limits,
    /// Limits of each step of loading.
    pub load: Limits,
    /// Limits that are the same for all plugins.
    #[serde(with = "EngineTable")]
    pub engine: EngineLimits,
}

/// `[engine]` of `limits.toml`, which names every limit. A config may name some; the others come from here.
#[derive(Deserialize)]
#[serde(remote = "EngineLimits", rename_all = "kebab-case", deny_unknown_fields)]
struct EngineTable {
    stack_bytes: usize,
    concurrent_calls: u32,
    plugin_memory_bytes: u64,
    compile_seconds: u64,
    compile_memory_bytes: u64,
}

impl LimitsFile {
    /// The file as it was compiled in.
    #[allow(clippy::expect_used, reason = "the text is a constant that a test parses")]
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<LimitsFile> =
            LazyLock::new(|| toml::from_str(include_str!("limits.toml")).expect("limits.toml is valid"));
        &BUILT_IN
    }
}

impl Limits {
    /// The limits of a plugin's calls: the user's value, else the plugin's own up to the ceiling, else the default.
    pub fn effective(file: &LimitsFile, asked: &PartialLimits, user: &PartialLimits) -> Self {
        let pick = |user: Option<u64>, asked: Option<u64>, default: u64, ceiling: u64| {
            user.unwrap_or_else(|| asked.map_or(default, |asked| asked.min(ceiling)))
        };
        let (default, ceiling) = (&file.default, &file.ceiling);
        Self {
            fuel: pick(user.fuel, asked.fuel, default.fuel, ceiling.fuel),
            deadline_ms: pick(user.deadline_ms, asked.deadline_ms, default.deadline_ms, ceiling.deadline_ms),
            grace_ms: pick(user.grace_ms, asked.grace_ms, default.grace_ms, ceiling.grace_ms),
            memory_bytes: pick(user.memory_bytes, asked.memory_bytes, default.memory_bytes, ceiling.memory_bytes),
            table_elements: pick(
                user.table_elements,
                asked.table_elements,
                default.table_elements,
                ceiling.table_elements,
            ),
            instances: pick(user.instances, asked.instances, default.instances, ceiling.instances),
            output_bytes: pick(user.output_bytes, asked.output_bytes, default.output_bytes, ceiling.output_bytes),
            host_calls: pick(user.host_calls, asked.host_calls, default.host_calls, ceiling.host_calls),
            handles: pick(user.handles, asked.handles, default.handles, ceiling.handles),
            bytes_written: pick(user.bytes_written, asked.bytes_written, default.bytes_written, ceiling.bytes_written),
            file_bytes: pick(user.file_bytes, asked.file_bytes, default.file_bytes, ceiling.file_bytes),
            programs: pick(user.programs, asked.programs, default.programs, ceiling.programs),
            requests: pick(user.requests, asked.requests, default.requests, ceiling.requests),
        }
    }
}

impl Default for EngineLimits {
    /// The `[engine]` section of `limits.toml`.
    fn default() -> Self {
        LimitsFile::built_in().engine.clone()
    }
}

impl Default for Limits {
    /// The `[default]` section of `limits.toml`.
    fn default() -> Self {
        LimitsFile::built_in().default.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_defaults_are_below_their_ceilings() {
        let file = LimitsFile::built_in();
        let (default, ceiling) = (&file.default, &file.ceiling);
        assert!(default.fuel <= ceiling.fuel && default.deadline_ms <= ceiling.deadline_ms);
        assert!(default.memory_bytes <= ceiling.memory_bytes && default.output_bytes <= ceiling.output_bytes);
        assert!(default.bytes_written <= ceiling.bytes_written && default.file_bytes <= ceiling.file_bytes);
        assert!(default.programs <= ceiling.programs && default.requests <= ceiling.requests);
    }

    #[test]
    fn plugin_limits_are_capped_and_user_limits_are_not() {
        let file = LimitsFile::built_in();
        let asked = PartialLimits { fuel: Some(u64::MAX), deadline_ms: Some(5), ..PartialLimits::default() };
        let user = PartialLimits { memory_bytes: Some(u64::MAX), ..PartialLimits::default() };
        let limits = Limits::effective(file, &asked, &user);
        assert_eq!(limits.fuel, file.ceiling.fuel);
        assert_eq!(limits.deadline_ms, 5);
        assert_eq!(limits.memory_bytes, u64::MAX);
        assert_eq!(limits.handles, file.default.handles);
    }
}
