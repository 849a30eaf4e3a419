//! Strategies that choose the branch to continue from.

use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::channel::EventWatchers;
use pinion_protocol::identity::RunNumbers;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::Outcome;
use pinion_protocol::usage::Spend;
use std::cmp::Reverse;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Chooses one of several branches.
pub trait BranchStrategy: Send + Sync {
    /// Returns the id of the config for each run that a choice starts, so that the session can note these runs before
    /// they start. If the program is killed during the choice, a later run gets the id of a run that was not announced.
    fn configs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Chooses among at least two branches that succeeded. Must return promptly once `candidates.token` is cancelled;
    /// the choice applies even then.
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, BranchChoice>;
}

/// The branches to choose from, with their context.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// The conversation that all branches started from. Its number of runs includes theirs, so a run that a strategy
    /// starts gets the next number.
    pub context: &'a Context,
    /// The prompts of all branches; a branch without any prompts resumed from the conversation.
    pub prompts: &'a [Message],
    /// The branches that succeeded, in the order of the branches.
    pub candidates: &'a [BranchCandidate<'a>],
    /// Receives the events of runs that the strategy starts.
    pub events: &'a EventWatchers,
    /// Cancelled when the choice is no longer needed.
    pub token: &'a CancellationToken,
}

/// A branch that can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct BranchCandidate<'a> {
    /// Number of the branch, counted from 0.
    pub number: usize,
    /// Its own prompts, after the prompts of all branches.
    pub prompts: &'a [Message],
    /// Id of its run.
    pub run_id: &'a Arc<str>,
    /// Result of its run.
    pub outcome: &'a Outcome,
}

/// A choice, with the runs and tokens spent on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BranchChoice {
    /// Index of the chosen branch in [`Candidates::candidates`]. An index out of range means the first.
    pub candidate: usize,
    /// The reason the choice deviates from the strategy, for people.
    pub note: Option<String>,
    /// Numbers of the runs for the choice.
    pub runs: RunNumbers,
    /// Turns of these runs.
    pub turns: u32,
    /// Tokens and cost of these runs.
    pub spend: Spend,
}

impl BranchChoice {
    /// Creates a choice without runs.
    pub fn for_candidate(candidate: usize) -> Self {
        Self { candidate, ..Self::default() }
    }

    /// Chooses the first candidate, with a reason for people.
    pub(super) fn noted(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::default() }
    }
}

/// Chooses the first branch that succeeded.
#[derive(Debug, Clone, Copy, Default)]
pub struct First;

impl BranchStrategy for First {
    fn choose<'a>(&'a self, _: Candidates<'a>) -> BoxFuture<'a, BranchChoice> {
        chosen(Some(0))
    }
}

/// Chooses the branch that used the fewest tokens, including sub-agents; the first of several.
#[derive(Debug, Clone, Copy, Default)]
pub struct FewestTokens;

impl BranchStrategy for FewestTokens {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, BranchChoice> {
        chosen((0..candidates.candidates.len()).min_by_key(|at| tokens(&candidates, *at)))
    }
}

/// Chooses the branch that used the most tokens, including sub-agents; the first of several.
#[derive(Debug, Clone, Copy, Default)]
pub struct MostTokens;

impl BranchStrategy for MostTokens {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, BranchChoice> {
        chosen((0..candidates.candidates.len()).min_by_key(|at| Reverse(tokens(&candidates, *at))))
    }
}

fn tokens(candidates: &Candidates<'_>, at: usize) -> u64 {
    candidates.candidates[at].outcome.spend.usage.total()
}

fn chosen<'a>(candidate: Option<usize>) -> BoxFuture<'a, BranchChoice> {
    Box::pin(async move { BranchChoice::for_candidate(candidate.unwrap_or_default()) })
}
