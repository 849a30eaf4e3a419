//! Models that the config names besides the conversation's model: for sub-agents, branches, judges and summaries.

use crate::config::file::FileBranches;
use crate::failure::{Failure, Result};
use crate::model::Chosen;
use crate::workspace_base::Base;
use futures_util::future::BoxFuture;
use pinion_agent::delegation::ChoiceName;
use pinion_agent::delegation::{FoundModel, MAX_ATTEMPTS, ModelSource};
use pinion_agent::{Agent, AgentError, Authority, LoopConfig, Message, Outcome};
use pinion_orchestration::Branch;
use std::sync::Arc;

/// The branches that each prompt runs on.
pub(crate) struct Branches {
    models: Vec<FoundModel>,
    judge: Option<FoundModel>,
    choose: ChoiceName,
    authority: Authority,
}

impl Branches {
    /// Resolves the section `[branches]`. Returns `None` if it asks for fewer than two branches.
    ///
    /// # Errors
    /// It asks for too many branches, or a model is not available.
    pub(crate) async fn from_section(
        section: &FileBranches,
        models: &ConfiguredModels,
        first: &Chosen,
    ) -> Result<Option<Self>> {
        let named = u32::try_from(section.models.len()).unwrap_or(u32::MAX);
        let count = named.max(section.attempts.unwrap_or(0));
        if count > MAX_ATTEMPTS {
            let text = format!("`[branches]` asks for {count} branches, more than the maximum of {MAX_ATTEMPTS}");
            return Err(Failure::usage(text));
        }
        if count < 2 {
            return Ok(None);
        }
        let find = async |name: &String| models.model(name).await.map_err(Failure::usage);
        let mut found = Vec::new();
        for name in &section.models {
            found.push(find(name).await?);
        }
        if found.is_empty() {
            found.push(FoundModel { provider: first.provider.clone(), model: first.model.clone() });
        }
        let judge = match &section.judge {
            Some(name) => Some(find(name).await?),
            None => None,
        };
        Ok(Some(Self {
            models: found.into_iter().cycle().take(count as usize).collect(),
            judge,
            choose: section.choose.unwrap_or(ChoiceName::Judge),
            authority: if section.write { Authority::ALL } else { LoopConfig::BRANCH_AUTHORITY },
        }))
    }

    /// Returns whether the branches may change files.
    pub(crate) fn may_write(&self) -> bool {
        self.authority.writes || self.authority.executes
    }

    /// Runs prompts on all branches and keeps one answer.
    pub(crate) async fn run(&self, agent: &Agent, prompts: Vec<Message>) -> std::result::Result<Outcome, AgentError> {
        let mut config = agent.config();
        config.policy.branch_authority = self.authority;
        let with = |found: &FoundModel| config.clone().with_model(found.clone());
        let strategy =
            pinion_orchestration::strategy(self.choose, self.judge.as_ref().map_or_else(|| config.clone(), with));
        let branches = self.models.iter().map(with).map(Branch::from).collect();
        Ok(pinion_orchestration::run_branches(agent, prompts, branches, &*strategy).await?.outcome)
    }
}

/// Finds models by the names in the config, with the user's fallbacks.
pub(crate) struct ConfiguredModels {
    base: Base,
    /// The script that answers for all models, if there is one.
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
            let chosen = self.base.named_model(name).await.map_err(|failure| failure.to_string())?;
            Ok(FoundModel { provider: chosen.provider, model: chosen.model })
        })
    }
}
