//! Runs composed of other runs: sub-agents, parallel branches, plans, and structured answers.
//!
//! The agent loop of `pinion-agent` does not depend on this crate. Its port for sub-agents is
//! [`Spawner`](pinion_agent::spawn::Spawner), which [`sub_agents()`] implements; the rest is built on
//! [`Agent`](pinion_agent::Agent) or [`run`](pinion_agent::run()).

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
    BranchStrategy, Candidate, Candidates, Choice, FewestTokens, First, Judge, MostTokens, ParallelOutcome,
    branches_of, run_branches, run_parallel, strategy,
};
pub use plan::{Plan, PlanError, Step, StepReport, execute_step, make_plan};
pub use structured::{Answer, AnswerError, answer, answer_as};
pub use sub_agents::sub_agents;

#[cfg(test)]
use flat::*;

/// Returns the spawner that the tests of this crate use: sub-agents within `policy`.
#[cfg(test)]
fn test_spawner(policy: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    Some(sub_agents(policy))
}
