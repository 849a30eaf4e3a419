//! Sub-agents: what the config says of them, and where their models come from.

use crate::compose::Base;
use crate::provider::Chosen;
use futures_util::future::BoxFuture;
use pinion_agent::{AgentKind, Attempts, ChoiceName, FoundModel, ModelSource, SubAgentPolicy};
use pinion_plugin_runtime::AgentsGrant;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `agents = true`, `false`, or the names of the tools that they may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum FileAgentsGrant {
    /// With all tools that the agent has, or not at all.
    Granted(bool),
    /// With these tools.
    With(BTreeSet<String>),
}

impl Default for FileAgentsGrant {
    fn default() -> Self {
        Self::Granted(false)
    }
}

impl FileAgentsGrant {
    pub(crate) fn grant(&self) -> Option<AgentsGrant> {
        match self {
            Self::Granted(false) => None,
            Self::Granted(true) => Some(AgentsGrant::default()),
            Self::With(tools) => Some(AgentsGrant { tools: Some(tools.clone()) }),
        }
    }
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
    pub(crate) fn policy(self) -> SubAgentPolicy {
        let usual = SubAgentPolicy::default();
        SubAgentPolicy {
            max_depth: self.max_depth.unwrap_or(usual.max_depth),
            max_turns: self.max_turns.unwrap_or(usual.max_turns),
            kinds: self.kinds.into_iter().map(|(name, kind)| kind.named(name)).collect(),
            ..usual
        }
    }
}

/// Finds the models that agents of the config name.
pub(crate) struct ConfiguredModels {
    base: Base,
    /// The script, where the model is one: it answers for all of them.
    scripted: Option<FoundModel>,
}

impl ConfiguredModels {
    pub(crate) fn new(base: &Base, first: &Chosen) -> Arc<Self> {
        let found = FoundModel { provider: first.provider.clone(), model: first.model.clone() };
        Arc::new(Self { base: base.clone(), scripted: base.exchanges.is_scripted().then_some(found) })
    }
}

impl ModelSource for ConfiguredModels {
    fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>> {
        Box::pin(async move {
            if let Some(scripted) = &self.scripted {
                return Ok(scripted.clone());
            }
            let models = self.base.models().map_err(|failure| failure.to_string())?;
            let chosen = self.base.select(None, name, None, &models).await;
            let chosen = chosen.map_err(|failure| failure.to_string())?;
            Ok(FoundModel { provider: chosen.provider, model: chosen.model })
        })
    }
}
