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
//! use pinion_providers::{Replay, Reply, Script};
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
//!     let script = Script::new([Reply::call("final_answer", json!({ "is_safe": true }))]);
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

#[cfg(test)]
mod adversary_tests;
mod completion;
#[cfg(test)]
mod flat;
mod parallel;
mod plan;
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

pub use completion::completions;
pub use parallel::{
    Branch, BranchStrategy, Candidate, Candidates, Choice, FewestTokens, First, Judge, MostTokens, ParallelOutcome,
    branches_of, run_branches, run_parallel, strategy,
};
pub use plan::{Plan, PlanError, Step, StepReport, execute_step, make_plan};
pub use structured::{Answer, AnswerError, answer, answer_as, answer_blocking};
pub use sub_agents::sub_agents;

#[cfg(test)]
use flat::*;

/// Returns the spawner that the tests of this crate use: sub-agents within `policy`.
#[cfg(test)]
fn test_spawner(policy: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    Some(sub_agents(policy))
}
