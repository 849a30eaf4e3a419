//! The schema of a config file.

use crate::config::permissions::FilePermissions;
use crate::config::plugin_secrets::FileSecret;
use crate::config::sandbox::{CommandGrants, FileSandbox};
use crate::config::undo::FileUndo;
use crate::failure::{Failure, Result};
use crate::options::{Approve, UiForm};
use pinion_agent::compaction::CompactionPolicy;
use pinion_agent::delegation::ChoiceName;
use pinion_agent::delegation::{AgentKind, MAX_AGENT_DEPTH, ParallelAttempts, SubAgentPolicy, WorkDirectory};
use pinion_agent::provider::ThinkingLevel;
use pinion_agent::retry::Backoff;
use pinion_agent::tokens::ByteCounter;
use pinion_journal::writer::JournalMode;
use pinion_plugin_runtime::{EngineLimits, GrantTable, PartialLimits};
use pinion_providers::{CustomFormat, CustomQuirks};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The content of a config file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) model: Option<String>,
    /// Models to ask, in this order, when the model fails permanently: `PROVIDER/MODEL`.
    pub fallback: Vec<String>,
    pub thinking: Option<ThinkingLevel>,
    /// Tokens for thinking, instead of the default of the level.
    pub thinking_budget: Option<u64>,
    /// Tokens for thinking by level, unless `thinking_budget` is set.
    pub thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// Limit on the output of one request in tokens.
    pub max_output_tokens: Option<u64>,
    pub retry: FileRetry,
    /// Controls whether requests mark prompts for the vendor's cache.
    pub cache: Option<CacheSetting>,
    pub approve: Option<Approve>,
    /// The tools to offer; all when absent.
    pub tools: Option<Vec<String>>,
    /// Tools that are not offered. The lists of all layers add up.
    pub exclude_tools: Vec<String>,
    /// The form of conversations.
    pub ui: Option<UiForm>,
    /// Keys of actions in the full-screen UI.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Settings of the full-screen UI.
    pub tui: FileTui,
    /// Files that neither plugins nor programs read or change, as in `.gitignore`.
    pub exclude: Vec<String>,
    /// Whether the built-in patterns apply, too.
    pub exclude_defaults: Option<bool>,
    /// Print more to stderr, like one `-v`.
    pub verbose: Option<bool>,
    /// Print the text of the model while it arrives, like `--stream`.
    pub stream: Option<bool>,
    /// Show the requests, tokens and cost of each turn of the user.
    pub turn_cost: Option<bool>,
    /// Whether the calls of plugins are recorded, so that they can be repeated.
    pub journal: Option<JournalMode>,
    /// Hours without a prompt before the next one begins another session.
    pub new_session_after_hours: Option<f64>,
    pub trusted: Vec<PathBuf>,
    pub limits: FileLimits,
    pub compaction: FileCompaction,
    pub agents: FileAgents,
    pub branches: FileBranches,
    pub providers: BTreeMap<String, FileProvider>,
    pub plugins: BTreeMap<String, FilePlugin>,
    /// Credentials that plugins use by name.
    pub secrets: BTreeMap<String, FileSecret>,
    pub process: FileProcess,
    /// Rules about calls.
    pub permissions: FilePermissions,
    pub sandbox: FileSandbox,
    /// Snapshots of the workspace.
    pub undo: FileUndo,
    pub(crate) engine: FileEngine,
    pub mcp: FileMcp,
}

impl File {
    /// Returns the minimum pause before a prompt begins another session.
    ///
    /// # Errors
    /// It is not a number of hours.
    pub(super) fn new_session_after(&self) -> Result<Option<Duration>> {
        let pause = self.new_session_after_hours.map(|hours| Duration::try_from_secs_f64(hours * 3600.0)).transpose();
        let pause = pause.map_err(|error| Failure::usage("invalid `new-session-after-hours`").because(error));
        let pause = pause.map_err(|failure| failure.hint("choose a number of hours, or 0 for never"))?;
        Ok(pause.filter(|pause| !pause.is_zero()))
    }
}

/// The section `[mcp]`. The servers themselves are in `mcp.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileMcp {
    /// Environment variables that the files of trusted projects may use.
    pub environment: Vec<String>,
    /// PEM file of certificate authorities in addition to the platform's, for servers over HTTP and their logins. Absolute or
    /// relative to the config's directory.
    pub certificates: Option<PathBuf>,
    /// Proxy for all requests to servers over HTTP and their logins, instead of the environment's proxies; an empty
    /// value disables it.
    pub proxy: Option<String>,
}

impl FileMcp {
    /// Resolves paths relative to the directory of the config.
    pub(super) fn below(self, config: &Path) -> Self {
        Self { certificates: self.certificates.map(|file| config.join(file)), ..self }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileLimits {
    pub(super) max_turns: Option<u32>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_input_tokens: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) max_cost: Option<f64>,
    /// US dollars that all processes of the user spend on a day.
    pub(super) max_cost_per_day: Option<f64>,
    pub(super) timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheSetting {
    /// Caching is on where the provider supports it.
    Auto,
    /// No prompt is cached.
    Off,
}

/// The section `[retry]`: repetition of requests that failed for a reason that may pass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileRetry {
    /// Maximum number of retries; 0 disables retries.
    attempts: Option<u32>,
    initial_seconds: Option<f64>,
    max_seconds: Option<f64>,
    /// Longest delay that a vendor may request.
    max_server_seconds: Option<f64>,
}

impl FileRetry {
    /// Converts the section.
    ///
    /// # Errors
    /// A delay is negative or not a number of seconds.
    pub(super) fn policy(&self) -> Result<Backoff> {
        let usual = Backoff::default();
        let delay = |key: &str, said: Option<f64>, usual: Duration| match said.map(Duration::try_from_secs_f64) {
            None => Ok(usual),
            Some(delay) => delay.map_err(|error| Failure::usage(format!("`{key}` of `[retry]`")).because(error)),
        };
        Ok(Backoff {
            max_attempts: self.attempts.unwrap_or(usual.max_attempts),
            initial: delay("initial-seconds", self.initial_seconds, usual.initial)?,
            max: delay("max-seconds", self.max_seconds, usual.max)?,
            max_server_delay: delay("max-server-seconds", self.max_server_seconds, usual.max_server_delay)?,
            ..usual
        })
    }
}

/// Conditions and extent of automatic compaction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileCompaction {
    automatic: Option<bool>,
    /// Tokens to assume for models with an unknown context window.
    assumed_window: Option<u64>,
    reserve_tokens: Option<u64>,
    keep_first: Option<usize>,
    keep_recent: Option<usize>,
    /// Lines that remain of an old tool result, 0 for all.
    tool_output_max_lines: Option<usize>,
    by_model: Option<bool>,
    /// Bytes of text for one token in estimates, 1 to 32.
    bytes_per_token: Option<u8>,
    /// Model that writes the summaries.
    pub(super) model: Option<String>,
}

/// Variable that overrides `bytes-per-token`.
const BYTES_PER_TOKEN: &str = "PINION_BYTES_PER_TOKEN";

impl FileCompaction {
    /// Returns the counter of tokens from `variable`, an environment variable, or else from the section.
    ///
    /// # Errors
    /// One of them is not a number from 1 to 32.
    pub(super) fn counter(&self, variable: impl Fn(&str) -> Option<String>) -> Result<ByteCounter> {
        let (said, place) = match variable(BYTES_PER_TOKEN).filter(|said| !said.is_empty()) {
            Some(said) => (Some(said), BYTES_PER_TOKEN),
            None => (self.bytes_per_token.map(|bytes| bytes.to_string()), "bytes-per-token"),
        };
        let Some(said) = said else { return Ok(ByteCounter::DEFAULT) };
        let counter = said.parse().ok().and_then(ByteCounter::new);
        let wrong = || Failure::usage(format!("`{place}` is `{said}`")).hint("choose a number from 1 to 32");
        counter.ok_or_else(wrong)
    }

    pub(super) fn policy(self) -> CompactionPolicy {
        let usual = CompactionPolicy::default();
        CompactionPolicy {
            automatic: self.automatic.unwrap_or(usual.automatic),
            assumed_window: self.assumed_window.or(usual.assumed_window),
            reserve: self.reserve_tokens.unwrap_or(usual.reserve),
            keep_first: self.keep_first.unwrap_or(usual.keep_first),
            keep_recent: self.keep_recent.unwrap_or(usual.keep_recent),
            tool_output_max_lines: self.tool_output_max_lines.unwrap_or(usual.tool_output_max_lines),
            by_model: self.by_model.unwrap_or(usual.by_model),
            ..usual
        }
    }
}

/// A section `[providers.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileProvider {
    /// Base URL of the API.
    pub base_url: Option<String>,
    /// Wire format, which makes this a provider of the user's own.
    pub format: Option<CustomFormat>,
    /// Environment variable with the key of a provider of the user's own.
    pub key_variable: Option<String>,
    /// Model of a provider of the user's own, unless one is named.
    pub default_model: Option<String>,
    /// Departures of a provider of the user's own from its format.
    pub quirks: CustomQuirks,
    /// Context window in tokens of its models, unless a table or `models` says another.
    pub context_window: Option<u64>,
    /// Figures of its models, in the form of `models.toml`.
    pub models: Vec<toml::Table>,
    /// Shell command that prints the key, run if the other places have no key.
    pub key_command: Option<String>,
    /// Grants of that command in its sandbox.
    pub key_command_grants: CommandGrants,
    /// Region of `bedrock` and `vertex`.
    pub region: Option<String>,
    /// Google Cloud project of `vertex`.
    pub project: Option<String>,
    /// PEM file of certificate authorities in addition to the platform's, absolute or relative to the config's
    /// directory.
    pub certificates: Option<PathBuf>,
    /// Proxy for all requests to this provider, instead of the environment's proxies; an empty value disables it.
    pub proxy: Option<String>,
    /// Sent with every request, and treated as secrets.
    pub headers: BTreeMap<String, String>,
    pub(crate) connect_timeout_seconds: Option<u64>,
    pub(crate) header_timeout_seconds: Option<u64>,
    pub(crate) idle_timeout_seconds: Option<u64>,
}

impl FileProvider {
    /// Resolves paths relative to the directory of the config. The current directory may be a repository that brings a
    /// file of the same name.
    pub(super) fn below(self, config: &Path) -> Self {
        Self { certificates: self.certificates.map(|file| config.join(file)), ..self }
    }
}

/// A section `[plugins.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FilePlugin {
    /// False if the plugin is not loaded.
    pub enabled: Option<bool>,
    /// The grants of the plugin.
    pub grants: GrantTable,
    /// Limits on each call of the plugin.
    pub limits: PartialLimits,
    /// US dollars that its sub-agents and its requests to models may cost while the program runs.
    pub max_cost: Option<f64>,
    /// The same for each day, in all processes.
    pub max_cost_per_day: Option<f64>,
    /// The plugin's own settings.
    pub config: toml::Table,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileProcess {
    /// Variables that programs get without a grant.
    pub environment: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileEngine {
    /// Limits of the engine.
    pub limits: Option<EngineLimits>,
}

/// The section `[agents]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileAgents {
    max_depth: Option<u32>,
    max_turns: Option<u32>,
    max_tokens: Option<u64>,
    max_cost: Option<f64>,
    /// Models that the agent may choose for a sub-agent.
    models: Vec<String>,
    kinds: BTreeMap<String, FileAgentKind>,
}

/// A kind of sub-agent that the user defines.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileAgentKind {
    description: String,
    system_prompt: Option<String>,
    instructions: Option<String>,
    thinking: Option<ThinkingLevel>,
    tools: Option<Vec<String>>,
    model: Option<String>,
    /// Several models instead of one; each makes an attempt.
    #[serde(default)]
    models: Vec<String>,
    /// Directory that it works in.
    #[serde(default)]
    directory: WorkDirectory,
    max_turns: Option<u32>,
    max_tokens: Option<u64>,
    max_cost: Option<f64>,
    attempts: Option<u32>,
    choose: Option<ChoiceName>,
    judge: Option<String>,
}

impl FileAgentKind {
    fn named(self, name: String) -> AgentKind {
        let models: Vec<String> = self.model.into_iter().chain(self.models).collect();
        let count = self.attempts.unwrap_or(u32::try_from(models.len()).unwrap_or(u32::MAX).max(1));
        let choice = self.choose.unwrap_or(ChoiceName::Judge);
        AgentKind {
            name,
            description: self.description,
            system_prompt: self.system_prompt,
            instructions: self.instructions,
            thinking: self.thinking,
            tools: self.tools,
            models,
            directory: self.directory,
            max_turns: self.max_turns,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            attempts: Some(ParallelAttempts { count, choice }),
            judge: self.judge,
        }
    }
}

impl FileAgents {
    /// Converts the section.
    ///
    /// # Errors
    /// The agents would be nested too deep.
    pub fn policy(self) -> Result<SubAgentPolicy> {
        let usual = SubAgentPolicy::default();
        if let Some(depth) = self.max_depth.filter(|depth| *depth > MAX_AGENT_DEPTH) {
            let text = format!("`max-depth` of `[agents]` is {depth}, more than the maximum of {MAX_AGENT_DEPTH}");
            return Err(Failure::usage(text));
        }
        let kinds: Vec<AgentKind> = self.kinds.into_iter().map(|(name, kind)| kind.named(name)).collect();
        let is_several = |kind: &&AgentKind| kind.attempts.is_some_and(|attempts| attempts.count > 1);
        if let Some(kind) = kinds.iter().filter(|kind| kind.directory == WorkDirectory::Copy).find(is_several) {
            let text = format!("`directory = \"copy\"` of `[agents.kinds.{}]` allows one attempt only", kind.name);
            return Err(Failure::usage(text).hint("leave out `attempts`, and name one model"));
        }
        Ok(SubAgentPolicy {
            max_depth: self.max_depth.unwrap_or(usual.max_depth),
            max_turns: self.max_turns.unwrap_or(usual.max_turns),
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            model_names: self.models,
            kinds,
            ..usual
        })
    }
}

/// The section `[branches]`: each prompt runs on several branches, and one answer is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileBranches {
    /// One branch for each model.
    pub models: Vec<String>,
    /// Number of branches, if there are fewer models.
    pub attempts: Option<u32>,
    /// The strategy that chooses an answer.
    pub choose: Option<ChoiceName>,
    /// The model that judges answers.
    pub judge: Option<String>,
    /// Allows branches to change, run and send things concurrently in the same directory.
    pub write: bool,
}

/// Settings of the full-screen UI, which checks the names in them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileTui {
    /// Way to notify the user when work ends or a question waits.
    pub notify: Notify,
    /// Least duration of work whose end is worth a notification.
    pub notify_after_seconds: Option<u64>,
    /// Writes addresses as links that terminals open.
    pub links: Option<bool>,
    /// Name of the theme: `auto`, `terminal`, `dark`, `light`, `plain`, or a file `themes/NAME.toml` next to the
    /// config.
    pub theme: Option<String>,
    /// Parts of the status line, in order.
    pub status: Option<Vec<String>>,
    /// The editor has the keys of vi.
    pub vi: bool,
    /// The terminal reports the mouse: a drag copies, a click folds or unfolds, and the wheel scrolls. On by default.
    pub mouse: Option<bool>,
    /// Draws no moving marks.
    pub reduced_motion: bool,
    /// Shows the model's reasoning completely.
    pub thinking: bool,
    /// Shows results of calls and sub-agents completely.
    pub unfolded: bool,
    /// Begins with lines about the conversation and the keys.
    pub greeting: Option<bool>,
    /// Sets the title of the terminal's window.
    pub title: Option<bool>,
    /// Shows the work as the terminal's progress, such as in the taskbar.
    pub progress: Option<bool>,
    /// Marks messages of the user in the scrollback, so that the terminal jumps between them.
    pub marks: Option<bool>,
}

/// Way to notify the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notify {
    /// The sequence OSC 9.
    #[default]
    Osc9,
    /// The sequence OSC 777.
    Osc777,
    /// The bell.
    Bell,
    /// No notification.
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_token_come_from_the_environment_or_the_config() {
        let section: FileCompaction = toml::from_str("bytes-per-token = 3").unwrap();
        let with = |variable: Option<&str>| section.counter(|_| variable.map(str::to_owned));
        assert_eq!(with(None).unwrap(), ByteCounter::new(3).unwrap());
        assert_eq!(with(Some("")).unwrap(), ByteCounter::new(3).unwrap());
        assert_eq!(with(Some("2")).unwrap(), ByteCounter::new(2).unwrap());
        assert_eq!(FileCompaction::default().counter(|_| None).unwrap(), ByteCounter::DEFAULT);
        for wrong in ["0", "33", "x", "300"] {
            let error = with(Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("PINION_BYTES_PER_TOKEN") && error.contains("hint:"), "{error}");
        }
        let wrong: FileCompaction = toml::from_str("bytes-per-token = 33").unwrap();
        assert!(wrong.counter(|_| None).unwrap_err().to_string().contains("`bytes-per-token` is `33`"));
    }

    #[test]
    fn pause_before_a_new_session_is_off_by_default() {
        let pause = |text: &str| toml::from_str::<File>(text).unwrap().new_session_after();
        assert_eq!(pause("").unwrap(), None);
        assert_eq!(pause("new-session-after-hours = 0").unwrap(), None);
        assert_eq!(pause("new-session-after-hours = 1.5").unwrap(), Some(Duration::from_secs(5400)));
        let error = pause("new-session-after-hours = -1").unwrap_err().to_string();
        assert!(error.contains("`new-session-after-hours`") && error.contains("hint:"), "{error}");
    }
}
