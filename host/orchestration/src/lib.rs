//! Runs composed of other runs: sub-agents, parallel branches, plans, and structured answers.
//!
//! The agent loop of `pinion-agent` does not depend on this crate. Its port for sub-agents is
//! [`Spawner`](pinion_agent::spawn::Spawner), which [`sub_agents()`] implements; the rest is built on
//! [`Agent`](pinion_agent::Agent) or [`run`](pinion_agent::run()).
//!
//! An answer as a value of a type, here from a scripted model:
//!
//! ```
//! use pinion_agent::{Agent, Context, LoopConfig, Message, Model, NoTools};
//! use pinion_orchestration::answer_as;
//! use pinion_providers::{Replay, ScriptedReply, Script};
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! #[derive(serde::Deserialize)]
//! struct Review {
//!     is_safe: bool,
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let script = Script::new([ScriptedReply::call("final_answer", json!({ "is_safe": true }))]);
//!     let config = LoopConfig::new(Arc::new(Replay::new(script)), Model::default(), Arc::new(NoTools));
//!     let agent = Agent::new(config, Context::new("You review changes.", "session-1"));
//!     let schema = json!({
//!         "type": "object",
//!         "properties": { "is_safe": { "type": "boolean" } },
//!         "required": ["is_safe"],
//!     });
//!     let review = answer_as::<Review>(&agent, vec![Message::user("Review the last commit.")], schema, 2).await?;
//!     assert!(review.value.is_safe);
//!     Ok(())
//! }
//! ```
//!
//! A tool that hands a part of the task to a sub-agent, which has a separate conversation and no more authority than
//! the tool:
//!
//! ```
//! use pinion_agent::delegation::Assignment;
//! use pinion_agent::futures_util::future::BoxFuture;
//! use pinion_agent::tool::{ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
//! use pinion_agent::{Agent, Authority, Context, LoopConfig, Message, Model, ToolDefinition, ToolExecutor};
//! use pinion_orchestration::sub_agents;
//! use pinion_providers::{Replay, ScriptedReply, Script};
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! struct Delegating(Arc<ToolDefinition>);
//!
//! impl ToolExecutor for Delegating {
//!     fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
//!         vec![self.0.clone()]
//!     }
//!
//!     fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
//!         Box::pin(async move {
//!             let tool = call.tool.name.clone();
//!             let failed = |message: String| ToolError::Failed { tool, message, retryable: false };
//!             let Some(agents) = &call.agents else { return Err(failed("no agents here".to_owned())).into() };
//!             let prompt = call.arguments["task"].as_str().unwrap_or_default().to_owned();
//!             let assignment = Assignment { prompt, ..Assignment::default() };
//!             let report = agents.run(assignment, Authority::READ_ONLY, |_| false).await;
//!             report.map(|report| ToolOutput::from(report.for_model())).map_err(|error| failed(error.to_string())).into()
//!         })
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let ask = ScriptedReply::call("delegate", json!({ "task": "Find the bug." }));
//!     let script = Script::new([ask, ScriptedReply::text("It is in line 7."), ScriptedReply::text("Fixed.")]);
//!     let definition = ToolDefinition {
//!         name: "delegate".to_owned(),
//!         label: "Delegate".to_owned(),
//!         description: "Has another agent work on a task.".to_owned(),
//!         input_schema: json!({ "type": "object", "properties": { "task": { "type": "string" } } }),
//!         guidelines: Vec::new(),
//!         authority: Authority { delegates: true, ..Authority::READ_ONLY },
//!         execution: Default::default(),
//!         source: Default::default(),
//!     };
//!     let tools = Arc::new(Delegating(Arc::new(definition)));
//!     let mut config = LoopConfig::new(Arc::new(Replay::new(script)), Model::default(), tools);
//!     config.ports.spawner = Some(sub_agents(Default::default()));
//!     let agent = Agent::new(config, Context::new("You fix bugs.", "session-1"));
//!     let outcome = agent.run(vec![Message::user("Fix it.")]).await?;
//!     assert_eq!(outcome.text(), "Fixed.");
//!     let Message::ToolResult(result) = &*agent.history()[2] else { panic!("no result") };
//!     assert!(result.content[0].as_text().is_some_and(|text| text.contains("It is in line 7.")));
//!     Ok(())
//! }
//! ```

#[cfg(test)]
mod adversary_tests;
mod agent_budget;
mod agent_directories;
#[cfg(test)]
mod agent_directories_tests;
mod agent_start;
#[cfg(test)]
mod agent_start_tests;
mod background;
#[cfg(test)]
mod background_tests;
mod completion;
mod launch_plan;
mod parallel;
mod plan;
mod running_agents;
mod structured;
#[cfg(test)]
mod structured_tests;
mod sub_agents;
#[cfg(test)]
mod sub_agents_tests;
#[cfg(test)]
#[path = "../../agent/src/testing.rs"]
#[allow(dead_code, reason = "shared with the tests of pinion-agent, which use the rest")]
mod testing;

pub use agent_directories::{AgentDirectories, AgentDirectory, DirectoryWork};
pub use completion::completions;
pub use parallel::{
    Branch, BranchCandidate, BranchChoice, BranchStrategy, Candidates, FewestTokens, First, Judge, MostTokens,
    ParallelOutcome, branches_of, run_branches, run_parallel, strategy,
};
pub use plan::{Plan, PlanError, Step, StepReport, execute_step, make_plan};
pub use running_agents::RunningAgents;
pub use structured::{AnswerError, StructuredAnswer, answer, answer_as, answer_blocking};
pub use sub_agents::{sub_agents, sub_agents_in};

#[cfg(test)]
use flat::*;

/// Returns the spawner that the tests of this crate use: sub-agents within `policy`.
#[cfg(test)]
fn test_spawner(policy: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    Some(sub_agents(policy))
}

/// All names, for tests.
#[cfg(test)]
mod flat {
    pub(crate) use pinion_agent::approval::Approval;
    pub(crate) use pinion_agent::channel::*;
    pub(crate) use pinion_agent::compaction::*;
    pub(crate) use pinion_agent::config::*;
    pub(crate) use pinion_agent::hooks::*;
    pub(crate) use pinion_agent::spawn::*;
    pub(crate) use pinion_agent::{Agent, AgentError, Context};
    pub(crate) use pinion_protocol::*;
}
