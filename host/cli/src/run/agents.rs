//! Sub-agents: what the config says of them, and where their models come from.

use crate::failure::{Failure, Result};
use crate::model::Chosen;
use crate::run::compose::Base;
use futures_util::future::BoxFuture;
use pinion_agent::{
    Agent, AgentError, AgentKind, Attempts, Authority, ChoiceName, FoundModel, LoopConfig, MAX_AGENT_DEPTH,
    MAX_ATTEMPTS, Message, ModelSource, Outcome, SubAgentPolicy,
};
use pinion_plugin_runtime::AgentsGrant;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `agents = true`, `false`, or the names of the tools that they may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    models: Vec<String>,
    /// Branches, where the models are fewer.
    attempts: Option<u32>,
    choose: Option<ChoiceName>,
    judge: Option<String>,
    /// May they change, run and send things, beside each other in the same folder?
    write: bool,
}

/// How prompts are worked off side by side.
pub(crate) struct Branches {
    models: Vec<FoundModel>,
    judge: Option<FoundModel>,
    choose: ChoiceName,
    authority: Authority,
}

impl FileBranches {
    /// None when there is but one way to work prompts off.
    ///
    /// # Errors
    /// There are too many, or one of their models cannot be asked.
    pub(crate) async fn found(&self, models: &ConfiguredModels, first: &Chosen) -> Result<Option<Branches>> {
        let named = u32::try_from(self.models.len()).unwrap_or(u32::MAX);
        let count = named.max(self.attempts.unwrap_or(0));
        if count > MAX_ATTEMPTS {
            let text = format!("`[branches]` asks for {count} branches, and there can be {MAX_ATTEMPTS}");
            return Err(Failure::usage(text));
        }
        if count < 2 {
            return Ok(None);
        }
        let find = async |name: &String| models.model(name).await.map_err(Failure::usage);
        let mut found = Vec::new();
        for name in &self.models {
            found.push(find(name).await?);
        }
        if found.is_empty() {
            found.push(FoundModel { provider: first.provider.clone(), model: first.model.clone() });
        }
        let judge = match &self.judge {
            Some(name) => Some(find(name).await?),
            None => None,
        };
        Ok(Some(Branches {
            models: found.into_iter().cycle().take(count as usize).collect(),
            judge,
            choose: self.choose.unwrap_or(ChoiceName::Judge),
            authority: if self.write { Authority::ALL } else { LoopConfig::BRANCH_AUTHORITY },
        }))
    }
}

impl Branches {
    /// Works prompts off.
    pub(crate) async fn run(&self, agent: &Agent, prompts: Vec<Message>) -> std::result::Result<Outcome, AgentError> {
        let config = LoopConfig { branch_authority: self.authority, ..agent.config() };
        let with = |found: &FoundModel| LoopConfig {
            provider: found.provider.clone(),
            model: found.model.clone(),
            ..config.clone()
        };
        let strategy =
            pinion_orchestration::strategy(self.choose, self.judge.as_ref().map_or_else(|| config.clone(), with));
        let branches = self.models.iter().map(with).collect();
        Ok(pinion_orchestration::run_branches(agent, prompts, branches, &*strategy).await?.outcome)
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
    fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::result::Result<FoundModel, String>> {
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
