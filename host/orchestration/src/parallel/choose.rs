//! Which of several branches is gone on with.

use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::Events;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::Outcome;
use pinion_protocol::usage::{Cost, Usage};
use std::cmp::Reverse;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Chooses one of several branches.
pub trait BranchStrategy: Send + Sync {
    /// Chooses among at least two branches that came to their end. Must end soon when `candidates.token` is cancelled;
    /// a branch is gone on with even then.
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, Choice>;
}

/// What there is to choose from.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// The conversation from which all of them began. Its number of loops counts theirs, so a loop that helps to choose
    /// has the next one.
    pub context: &'a Context,
    /// What they were asked; nothing when they went on from the conversation as it was.
    pub prompts: &'a [Message],
    /// Those that came to their end, in the order of the branches.
    pub candidates: &'a [Candidate<'a>],
    /// Who watches.
    pub events: &'a Events,
    /// Cancelled when the choice is no longer worth anything.
    pub token: &'a CancellationToken,
}

/// A branch that can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The branch, counted from 0.
    pub number: usize,
    /// Its loop.
    pub loop_id: &'a Arc<str>,
    /// What came of it.
    pub outcome: &'a Outcome,
}

/// What was chosen, and what that took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// The place of the chosen one in [`Candidates::candidates`], counted from 0. One that there is not means the first.
    pub candidate: usize,
    /// Why it is not the choice that it should have been, for people.
    pub note: Option<String>,
    /// Loops that were run to choose.
    pub loops: u32,
    /// Their turns.
    pub turns: u32,
    /// Their tokens.
    pub usage: Usage,
    /// What they cost; none when no price was known.
    pub cost: Option<Cost>,
}

impl Choice {
    /// A choice that took nothing.
    pub fn of(candidate: usize) -> Self {
        Self { candidate, ..Self::default() }
    }

    /// The first one, and why it is no better choice.
    pub(super) fn noted(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::default() }
    }
}

/// The first branch that came to its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct First;

impl BranchStrategy for First {
    fn choose<'a>(&'a self, _: Candidates<'a>) -> BoxFuture<'a, Choice> {
        chosen(Some(0))
    }
}

/// The branch that used the fewest tokens, sub-agents included; of several the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct FewestTokens;

impl BranchStrategy for FewestTokens {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, Choice> {
        chosen((0..candidates.candidates.len()).min_by_key(|at| tokens(&candidates, *at)))
    }
}

/// The branch that used the most tokens, sub-agents included; of several the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct MostTokens;

impl BranchStrategy for MostTokens {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, Choice> {
        chosen((0..candidates.candidates.len()).min_by_key(|at| Reverse(tokens(&candidates, *at))))
    }
}

fn tokens(candidates: &Candidates<'_>, at: usize) -> u64 {
    candidates.candidates[at].outcome.usage.total()
}

fn chosen<'a>(candidate: Option<usize>) -> BoxFuture<'a, Choice> {
    Box::pin(async move { Choice::of(candidate.unwrap_or_default()) })
}
