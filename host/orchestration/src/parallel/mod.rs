//! Several loops on one task, side by side, of which one is gone on with.
//!
//! All branches begin from the same context and know nothing of each other. [`run_parallel`] is a plain function, as
//! [`run()`] is. Its phases:
//!
//! 1. Each branch gets an id, a copy of the context, and a place in the session ([`keep`]).
//! 2. All of them work to their ends, each as a loop of its own.
//! 3. A [`BranchStrategy`] chooses one of those that came to their end ([`choose`], [`judge`]).
//! 4. What that one said becomes part of the session, then of the context, and then it is told.
//!
//! Invariants: every loop that `ParallelStart` names begins and ends exactly once before `ParallelEnd`; when none is
//! chosen, or the session cannot be written, the context is as it was, but for the number of loops.

mod choose;
mod judge;
mod keep;
mod question;
#[cfg(test)]
mod tests;

pub use choose::{BranchStrategy, Candidate, Candidates, Choice, FewestTokens, First, MostTokens};
pub use judge::Judge;

use futures_util::future::join_all;
use keep::Kept;
use pinion_agent::Context;
use pinion_agent::Events;
use pinion_agent::Selection;
use pinion_agent::run;
use pinion_agent::{Agent, AgentError, Budget};
use pinion_agent::{ChildKind, LoopConfig};
use pinion_protocol::choice::ChoiceName;
use pinion_protocol::event::EventKind;
use pinion_protocol::identity::Continuation;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd};
use pinion_protocol::store::{SessionStore, StoreError};
use pinion_protocol::usage::Spend;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What came of branches.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelOutcome {
    /// As that of one run. How it ended and what was said is the chosen branch's; tokens, cost and turns are those of all
    /// branches and of choosing together. With none chosen, the end is the first branch's, and nothing was said.
    pub outcome: Outcome,
    /// The branch from which the conversation goes on, counted from 0.
    pub chosen: Option<usize>,
    /// What came of each branch, in order.
    pub outcomes: Vec<Outcome>,
}

impl ParallelOutcome {
    fn failed(message: String) -> Self {
        let end = RunEnd::Error { message };
        let outcome = Outcome { end, messages: Vec::new(), usage: Default::default(), cost: None, turns: 0 };
        Self { outcome, chosen: None, outcomes: Vec::new() }
    }
}

/// Returns the strategy of this name; a judge uses `judge` for its request.
pub fn strategy(name: ChoiceName, judge: LoopConfig) -> Box<dyn BranchStrategy> {
    match name {
        ChoiceName::First => Box::new(First),
        ChoiceName::FewestTokens => Box::new(FewestTokens),
        ChoiceName::MostTokens => Box::new(MostTokens),
        ChoiceName::Judge => Box::new(Judge { config: judge, instructions: None }),
    }
}

/// So many branches that all work as one config says. Their loops differ by their numbers.
pub fn branches_of(config: &LoopConfig, count: usize) -> Vec<LoopConfig> {
    vec![config.clone(); count]
}

/// Works prompts off in several branches side by side, and goes on from the one that `strategy` chooses. With no
/// prompts, the branches go on from the context as it is.
///
/// Each branch works as its config says, but for: its tools, which can do no more than
/// [`Policy::branch_authority`](pinion_agent::Policy::branch_authority) allows, because all work in the same folder; its queues, which are its own and
/// empty; its budget, which all share; and its session, which the store of the first config keeps.
///
/// Only branches that end with [`RunEnd::Done`] can be chosen; a single one is chosen without asking. Without any
/// branch, nothing is begun or told, and the end is an error.
///
/// Cancelling `token` ends all branches and the choice soon. The future must be driven to its end, as that of [`run()`].
pub async fn run_parallel(
    context: &mut Context,
    prompts: Vec<Message>,
    branches: &[LoopConfig],
    strategy: &dyn BranchStrategy,
    events: &Events,
    token: &CancellationToken,
) -> ParallelOutcome {
    let Some(first) = branches.first() else {
        return ParallelOutcome::failed("there is no branch to run".to_owned());
    };
    let mut group = Group::new(context, first, events, token);
    let sides = group.sides(branches);
    let kept = match group.begin(&sides, branches).await {
        Ok(kept) => kept,
        Err(error) => return group.not_begun(&error).await,
    };
    let ended = group.work(sides, &prompts, branches, &kept).await;
    let (chosen, choice) = group.choose(&prompts, &ended, strategy).await;
    group.settle(ended, chosen, choice, &kept).await
}

/// Runs prompts on several branches of an agent's conversation, as [`run_parallel`] does, and continues from the one that
/// `strategy` chooses. With no prompts, resumes from what came before. Messages that steer or follow up wait for the next
/// run.
///
/// # Errors
/// A run is under way, or there is neither a prompt nor anything to resume from.
pub async fn run_branches(
    agent: &Agent,
    prompts: Vec<Message>,
    branches: Vec<LoopConfig>,
    strategy: &dyn BranchStrategy,
) -> Result<ParallelOutcome, AgentError> {
    let mut lease = agent.lease()?;
    if prompts.is_empty() {
        lease.can_continue()?;
    }
    let (events, token) = (lease.events().clone(), lease.token.clone());
    let parallel = run_parallel(&mut lease.context, prompts, &branches, strategy, &events, &token).await;
    let Outcome { turns, usage, cost, .. } = parallel.outcome;
    lease.add(u64::from(turns), Spend { usage, cost });
    Ok(parallel)
}

/// Branches under way.
struct Group<'a> {
    id: Arc<str>,
    context: &'a mut Context,
    /// Whose store keeps the session.
    config: &'a LoopConfig,
    events: &'a Events,
    token: &'a CancellationToken,
}

/// A branch that is over.
struct Ended {
    context: Context,
    outcome: Outcome,
}

impl<'a> Group<'a> {
    fn new(context: &'a mut Context, config: &'a LoopConfig, events: &'a Events, token: &'a CancellationToken) -> Self {
        // As unique as the loop after which it is named, and never the id of a loop, which ends with a number.
        let id = format!("{}.parallel.from-{}", context.session_id, context.loops.saturating_add(1)).into();
        Self { id, context, config, events, token }
    }

    /// The context of each branch: the same one, as another loop.
    fn sides(&mut self, branches: &[LoopConfig]) -> Vec<Context> {
        let before = self.context.loops;
        let numbers = (0..=u32::MAX).map(|number| before.saturating_add(number));
        let sides: Vec<Context> = branches.iter().zip(numbers).map(|(_, loops)| self.side(loops)).collect();
        self.context.loops = sides.last().map_or(before, |side| side.loops.saturating_add(1));
        sides
    }

    /// The context of the branch that is the next run after so many.
    fn side(&self, loops: u32) -> Context {
        let (parent, number) = (&self.context.loop_id, loops.saturating_add(1));
        Context {
            loops,
            parent_loop_id: (!parent.is_empty()).then(|| parent.clone()),
            continuation: Some(Continuation::Branch { tag: format!("{}/{number}", self.id) }),
            ..self.context.clone()
        }
    }

    async fn begin(&self, sides: &[Context], branches: &[LoopConfig]) -> Result<Kept, StoreError> {
        let loop_ids: Vec<Arc<str>> =
            sides.iter().zip(branches).map(|(side, config)| config.next_loop_id(side)).collect();
        let kept = Kept::begin(&self.config.ports.store, &self.id, &loop_ids)?;
        self.tell(EventKind::ParallelStart { group_id: self.id.clone(), loop_ids }).await;
        Ok(kept)
    }

    /// Whoever watches is told all the same, so that nobody waits.
    async fn not_begun(&self, error: &StoreError) -> ParallelOutcome {
        let message = error.full_text();
        self.tell(EventKind::ParallelStart { group_id: self.id.clone(), loop_ids: Vec::new() }).await;
        self.tell_end(None, Choice::noted(message.clone())).await;
        ParallelOutcome::failed(message)
    }

    async fn work(&self, sides: Vec<Context>, prompts: &[Message], branches: &[LoopConfig], kept: &Kept) -> Vec<Ended> {
        let budget = &self.config.budget.clone().unwrap_or_default();
        let sides = sides.into_iter().zip(branches).enumerate();
        let work = sides.map(|(number, (mut context, config))| async move {
            let config = branch(config, kept.branch(number), budget);
            let outcome = run(&mut context, prompts.to_vec(), &config, self.events, self.token).await;
            Ended { context, outcome }
        });
        join_all(work).await
    }

    /// The number of the branch that was chosen, and what is to be said of the choice.
    async fn choose(
        &mut self,
        prompts: &[Message],
        ended: &[Ended],
        strategy: &dyn BranchStrategy,
    ) -> (Option<usize>, Choice) {
        let branches = ended.iter().enumerate();
        let done = branches.filter(|(_, branch)| matches!(branch.outcome.end, RunEnd::Done { .. }));
        let done: Vec<Candidate<'_>> = done
            .map(|(number, Ended { context, outcome })| Candidate { number, loop_id: &context.loop_id, outcome })
            .collect();
        let (first, others) = match &done[..] {
            [] => return (None, Choice::noted("no branch came to its end")),
            [first, others @ ..] => (first, others),
        };
        if others.is_empty() {
            return (Some(first.number), Choice::default());
        }
        let (context, events, token) = (&*self.context, self.events, self.token);
        let choice = strategy.choose(Candidates { context, prompts, candidates: &done, events, token }).await;
        self.context.loops = self.context.loops.saturating_add(choice.loops);
        match done.get(choice.candidate) {
            Some(chosen) => (Some(chosen.number), choice),
            None => {
                let note = format!("there is no candidate {}, so the first one is chosen", choice.candidate);
                (Some(first.number), Choice { note: Some(note), ..choice })
            }
        }
    }

    /// The session first, then the context, then those who watch.
    async fn settle(
        self,
        mut ended: Vec<Ended>,
        chosen: Option<usize>,
        mut choice: Choice,
        kept: &Kept,
    ) -> ParallelOutcome {
        let outcomes: Vec<Outcome> = ended.iter().map(|branch| branch.outcome.clone()).collect();
        let (turns, spend) = spent(&outcomes, &choice);
        let saved = kept.end(chosen, choice.usage);
        let chosen = chosen.filter(|_| saved.is_ok());
        let (end, messages) = match (saved, chosen) {
            (Err(error), _) => {
                let message = error.full_text();
                choice.note = Some(message.clone());
                (RunEnd::Error { message }, Vec::new())
            }
            (Ok(()), None) => (ended.swap_remove(0).outcome.end, Vec::new()),
            (Ok(()), Some(number)) => {
                let Ended { context, outcome } = ended.swap_remove(number);
                *self.context = Context { loops: self.context.loops, ..context };
                (outcome.end, outcome.messages)
            }
        };
        self.tell_end(chosen.map(|_| self.context.loop_id.clone()), choice).await;
        let outcome = Outcome { end, messages, usage: spend.usage, cost: spend.cost, turns };
        ParallelOutcome { outcome, chosen, outcomes }
    }

    async fn tell_end(&self, chosen: Option<Arc<str>>, choice: Choice) {
        if let Some(note) = &choice.note {
            tracing::warn!(note, group_id = &*self.id, "branches did not end with a choice as it should be");
        }
        let Choice { note, usage, .. } = choice;
        self.tell(EventKind::ParallelEnd { group_id: self.id.clone(), chosen, note, usage }).await;
    }

    async fn tell(&self, kind: EventKind) {
        self.config.report(self.events, &self.id, kind).await;
    }
}

/// A config, cut down to what it may do beside others.
fn branch(config: &LoopConfig, store: Arc<dyn SessionStore>, budget: &Arc<Budget>) -> LoopConfig {
    let mut branch = config.child(ChildKind::Branch);
    branch.budget = Some(budget.clone());
    branch.ports.tools = Arc::new(Selection::new(branch.ports.tools, config.policy.branch_authority));
    branch.ports.store = store;
    branch
}

/// Returns the turns of all branches and of choosing, and what they took.
fn spent(outcomes: &[Outcome], choice: &Choice) -> (u32, Spend) {
    let (mut turns, mut spend) = (choice.turns, Spend { usage: choice.usage, cost: choice.cost });
    for outcome in outcomes {
        turns = turns.saturating_add(outcome.turns);
        spend.add(Spend { usage: outcome.usage, cost: outcome.cost });
    }
    (turns, spend)
}
