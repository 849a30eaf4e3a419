//! The schema of a config file.

use crate::args::Approve;
use crate::failure::{Failure, Result};
use pinion_agent::{AgentKind, Attempts, ChoiceName, CompactionPolicy, MAX_AGENT_DEPTH, SubAgentPolicy, ThinkingLevel};
use pinion_plugin_runtime::{EngineLimits, GrantTable, PartialLimits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a config file may say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) model: Option<String>,
    /// Who is asked when the model fails for good, in this order: `PROVIDER/MODEL`.
    pub(crate) fallback: Vec<String>,
    pub(crate) thinking: Option<ThinkingLevel>,
    /// Tokens to think with, instead of the level's own number.
    pub(crate) thinking_budget: Option<u64>,
    /// Is the vendor told what to keep for the next request?
    pub(crate) cache: Option<Cache>,
    pub(crate) approve: Option<Approve>,
    pub(crate) trusted: Vec<PathBuf>,
    pub(crate) limits: FileLimits,
    pub(crate) compaction: FileCompaction,
    pub(crate) agents: FileAgents,
    pub(crate) branches: FileBranches,
    pub(crate) providers: BTreeMap<String, FileProvider>,
    pub(crate) plugins: BTreeMap<String, FilePlugin>,
    pub(crate) process: FileProcess,
    pub(crate) engine: FileEngine,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileLimits {
    pub(super) max_turns: Option<u32>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_cost: Option<f64>,
    pub(super) timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cache {
    Auto,
    Off,
}

/// When and how far a conversation is compacted by itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileCompaction {
    automatic: Option<bool>,
    reserve_tokens: Option<u64>,
    keep_recent: Option<usize>,
    by_model: Option<bool>,
}

impl FileCompaction {
    pub(super) fn policy(self) -> CompactionPolicy {
        let usual = CompactionPolicy::default();
        CompactionPolicy {
            automatic: self.automatic.unwrap_or(usual.automatic),
            reserve: self.reserve_tokens.unwrap_or(usual.reserve),
            keep_recent: self.keep_recent.unwrap_or(usual.keep_recent),
            by_model: self.by_model.unwrap_or(usual.by_model),
            ..usual
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileProvider {
    pub(crate) base_url: Option<String>,
    /// Prints the key: run by the shell when no other place has one.
    pub(crate) key_command: Option<String>,
    /// `bedrock`, `vertex`.
    pub(crate) region: Option<String>,
    /// `vertex`.
    pub(crate) project: Option<String>,
    /// A PEM file of certificate authorities besides the platform's; absolute, or from the config's directory.
    pub(crate) certificates: Option<PathBuf>,
    /// Sent with every request. Kept as secret as a key.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) connect_timeout_seconds: Option<u64>,
    pub(crate) header_timeout_seconds: Option<u64>,
    pub(crate) idle_timeout_seconds: Option<u64>,
}

impl FileProvider {
    /// The same with paths absolute: from the directory of the config, not from wherever this program was started, which
    /// may be a repository that brings a file of that name.
    pub(super) fn below(self, config: &Path) -> Self {
        Self { certificates: self.certificates.map(|file| config.join(file)), ..self }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FilePlugin {
    pub(crate) enabled: Option<bool>,
    pub(crate) grants: GrantTable,
    pub(crate) limits: PartialLimits,
    pub(crate) config: toml::Table,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileProcess {
    pub(crate) environment: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileEngine {
    pub(crate) limits: Option<EngineLimits>,
}

/// The section `[agents]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileAgents {
    max_depth: Option<u32>,
    max_turns: Option<u32>,
    kinds: BTreeMap<String, FileAgentKind>,
}

/// An agent that the user sets up.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileAgentKind {
    description: String,
    instructions: Option<String>,
    tools: Option<Vec<String>>,
    model: Option<String>,
    /// Several, instead of one: each makes an attempt.
    #[serde(default)]
    models: Vec<String>,
    max_turns: Option<u32>,
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
            instructions: self.instructions,
            tools: self.tools,
            models,
            max_turns: self.max_turns,
            attempts: Some(Attempts { count, choice }),
            judge: self.judge,
        }
    }
}

impl FileAgents {
    /// # Errors
    /// They would be nested too deep.
    pub(crate) fn policy(self) -> Result<SubAgentPolicy> {
        let usual = SubAgentPolicy::default();
        if let Some(depth) = self.max_depth.filter(|depth| *depth > MAX_AGENT_DEPTH) {
            let text = format!("`max-depth` of `[agents]` is {depth}, and agents can be nested {MAX_AGENT_DEPTH} deep");
            return Err(Failure::usage(text));
        }
        Ok(SubAgentPolicy {
            max_depth: self.max_depth.unwrap_or(usual.max_depth),
            max_turns: self.max_turns.unwrap_or(usual.max_turns),
            kinds: self.kinds.into_iter().map(|(name, kind)| kind.named(name)).collect(),
            ..usual
        })
    }
}

/// The section `[branches]`: every prompt is worked off side by side, and one answer counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileBranches {
    /// One branch for each of them.
    pub(crate) models: Vec<String>,
    /// Branches, where the models are fewer.
    pub(crate) attempts: Option<u32>,
    pub(crate) choose: Option<ChoiceName>,
    pub(crate) judge: Option<String>,
    /// May they change, run and send things, beside each other in the same folder?
    pub(crate) write: bool,
}
