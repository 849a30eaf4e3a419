//! The attempts of a sub-agent: their tools, configs and run.

use crate::agent_directories::AgentDirectory;
use crate::parallel::{Branch, BranchStrategy, run_parallel};
use pinion_agent::channel::EventWatchers;
use pinion_agent::selection::Selection;
use pinion_agent::{Context, LoopConfig, ToolExecutor, run};
use pinion_protocol::delegation::{AgentKind, Assignment, Ceiling, SubAgentError};
use pinion_protocol::message::Message;
use pinion_protocol::outcome::Outcome;
use pinion_protocol::tool::ANSWER_TOOL;
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The configs of a sub-agent's attempts and the strategy that chooses one.
pub(crate) struct LaunchPlan {
    /// Configs of the attempts, at least one.
    pub(crate) attempts: Vec<LoopConfig>,
    /// Chooses the attempt whose answer is kept.
    pub(crate) strategy: Box<dyn BranchStrategy>,
    /// The separate directory, taken when the run has ended.
    pub(crate) directory: Option<AgentDirectory>,
}

impl LaunchPlan {
    /// Runs the attempts until the token is cancelled, and returns the outcome of the chosen one.
    pub(crate) async fn execute(
        &self,
        context: &mut Context,
        prompt: Message,
        events: &EventWatchers,
        token: &CancellationToken,
    ) -> Outcome {
        match &self.attempts[..] {
            [config] => run(context, vec![prompt], config, events, token).await,
            attempts => {
                let branches: Vec<Branch> = attempts.iter().cloned().map(Branch::from).collect();
                run_parallel(context, vec![prompt], &branches, &*self.strategy, events, token).await.outcome
            }
        }
    }
}

/// Selects the tools of a sub-agent from those that are available.
pub(crate) fn select_tools(
    available: Arc<dyn ToolExecutor>,
    assignment: &Assignment,
    kind: &AgentKind,
    ceiling: Ceiling,
) -> Result<Selection, SubAgentError> {
    let set = |names: &Option<Vec<String>>| names.clone().map(HashSet::<String>::from_iter);
    let (requested, configured) = (set(&assignment.tools), set(&kind.tools));
    let Ceiling { authority, may_use } = ceiling;
    // Only the parent may give its structured answer.
    let predicate = move |name: &str| {
        name != ANSWER_TOOL && may_use(name) && configured.as_ref().is_none_or(|names| names.contains(name))
    };
    let available = Selection::new(available, authority).with_predicate(predicate);
    let Some(names) = requested else { return Ok(available) };
    let known: Vec<String> = available.names();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(SubAgentError::UnknownTool { name: name.clone(), known });
    }
    Ok(Selection::new(Arc::new(available), authority).with_predicate(move |name| names.contains(name)))
}
