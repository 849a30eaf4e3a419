//! Runs that are made of runs: sub-agents, parallel branches, plans, and answers that fit a schema.
//!
//! The loop of `pinion-agent` knows nothing of this crate. Sub-agents reach it through its one port for that,
//! [`Spawner`](pinion_agent::Spawner), which [`sub_agents()`] implements; the rest is built on an
//! [`Agent`](pinion_agent::Agent) or on [`run`](pinion_agent::run()).

#[cfg(test)]
mod adversary_tests;
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

pub use parallel::{
    BranchStrategy, Candidate, Candidates, Choice, FewestTokens, First, Judge, MostTokens, ParallelOutcome,
    branches_of, run_branches, run_parallel, strategy,
};
pub use plan::{Plan, PlanError, Step, StepReport, execute_step, make_plan};
pub use structured::{Answer, AnswerError, answer, answer_as};
pub use sub_agents::sub_agents;

#[cfg(test)]
use pinion_agent::*;

/// Returns the spawner that the tests of this crate use: sub-agents as `policy` allows them.
#[cfg(test)]
fn test_spawner(policy: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    Some(sub_agents(policy))
}
