//! Runs several branches of a task concurrently and continues from one of them.
//!
//! All branches start from the same context and do not see each other. [`run_parallel`] is a plain function like
//! [`run()`]. Its phases:
//!
//! 1. Each branch gets an id, a copy of the context, and storage in the session ([`keep`]).
//! 2. All branches run to their end, each as a separate run.
//! 3. A [`BranchStrategy`] chooses one of the branches that succeeded ([`choose`], [`judge`]).
//! 4. The messages of the chosen branch are added to the session, then to the context; then the end is reported.
//!
//! Invariants: every run that `ParallelStart` names starts and ends exactly once before `ParallelEnd`. If no branch is
//! chosen, or the session cannot be written, the context does not change, except for its numbers of runs.

mod choose;
mod judge;
mod keep;
mod question;
#[cfg(test)]
mod tests;

pub use choose::{BranchCandidate, BranchChoice, BranchStrategy, Candidates, FewestTokens, First, MostTokens};
pub use judge::Judge;

use futures_util::future::join_all;
use keep::GroupStore;
use pinion_agent::Context;
use pinion_agent::LoopConfig;
use pinion_agent::channel::EventWatchers;
use pinion_agent::config::ChildKind;
use pinion_agent::limits::Budget;
use pinion_agent::run;
use pinion_agent::selection::Selection;
use pinion_agent::{Agent, AgentError};
use pinion_protocol::delegation::ChoiceName;
use pinion_protocol::event::EventKind;
use pinion_protocol::identity::{Continuation, RunNumbers};
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd, RunError, RunErrorKind};
use pinion_protocol::store::{ChoiceAccount, SessionStore, StoreError};
use pinion_protocol::usage::Spend;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A branch to run.
#[derive(Clone)]
pub struct Branch {
    /// Config of its run.
    pub config: LoopConfig,
    /// System prompt of its run, instead of the conversation's prompt. A conversation that continues from this branch
    /// keeps its own prompt.
    pub system_prompt: Option<Arc<str>>,
    /// Further messages after the prompts of all branches.
    pub prompts: Vec<Message>,
}

impl From<LoopConfig> for Branch {
    /// Creates a branch that differs from others only in its config.
    fn from(config: LoopConfig) -> Self {
        Self { config, system_prompt: None, prompts: Vec::new() }
    }
}

/// The result of a group of branches.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelOutcome {
    /// The group as a single run. Its end and its messages come from the chosen branch; tokens, cost and turns are the
    /// sums over all branches and the choice. Without a chosen branch, the end comes from the first branch and there
    /// are no messages.
    pub outcome: Outcome,
    /// Number of the branch that the conversation continues from, counted from 0.
    pub chosen: Option<usize>,
    /// Results of the branches, in order.
    pub outcomes: Vec<Outcome>,
}

impl ParallelOutcome {
    fn failed(error: RunError) -> Self {
        let outcome = Outcome::new(RunEnd::Failed(error), Spend::default(), 0);
        Self { outcome, chosen: None, outcomes: Vec::new() }
    }
}

/// Returns the strategy of this name. `judge` is the config for [`ChoiceName::Judge`].
pub fn strategy(name: ChoiceName, judge: LoopConfig) -> Box<dyn BranchStrategy> {
    match name {
        ChoiceName::First => Box::new(First),
        ChoiceName::FewestTokens => Box::new(FewestTokens),
        ChoiceName::MostTokens => Box::new(MostTokens),
        ChoiceName::Judge => Box::new(Judge { config: judge, instructions: None }),
    }
}

/// Returns `count` branches with the same config.
pub fn branches_of(config: &LoopConfig, count: usize) -> Vec<Branch> {
    vec![config.clone().into(); count]
}

/// Runs prompts in several branches concurrently, and continues from the branch that `strategy` chooses. A branch without
/// any prompts resumes from `context`.
///
/// Each branch follows its config, with these exceptions: its tools stay within
/// [`Policy::branch_authority`](pinion_agent::config::RunPolicy::branch_authority), because all branches share a directory; its
/// queues start empty; it shares its budget with the other branches; and its messages go to the store of the first
/// config.
///
/// Only branches that end with [`RunEnd::Done`] are candidates; a single candidate is chosen without consulting the
/// strategy. If `branches` is empty, nothing starts, no event is emitted, and the end is an error.
///
/// Cancelling `token` ends all branches and the choice promptly. The future must be driven to completion, like the
/// future of [`run()`].
pub async fn run_parallel(
    context: &mut Context,
    prompts: Vec<Message>,
    branches: &[Branch],
    strategy: &dyn BranchStrategy,
    events: &EventWatchers,
    token: &CancellationToken,
) -> ParallelOutcome {
    let Some(first) = branches.first() else {
        return ParallelOutcome::failed(RunError::new(RunErrorKind::Other, "no branches to run"));
    };
    let mut group = BranchGroup::new(context, &first.config, events, token);
    let contexts = group.contexts(branches);
    let stores = match group.start(&contexts, branches).await {
        Ok(stores) => stores,
        Err(error) => return group.fail(error.into()).await,
    };
    let ended = group.run(contexts, &prompts, branches, &stores).await;
    let (chosen, choice) = group.choose(&prompts, branches, &ended, (strategy, &stores)).await;
    group.settle(ended, chosen, choice, &stores).await
}

/// Runs prompts on several branches of an agent's conversation, like [`run_parallel`], and continues from the branch
/// that `strategy` chooses. A branch without any prompts resumes from the conversation. Steering and follow-up messages wait for
/// the next run.
///
/// # Errors
/// Fails if the agent is running, or if a branch has neither a prompt nor a conversation to resume.
pub async fn run_branches(
    agent: &Agent,
    prompts: Vec<Message>,
    branches: Vec<Branch>,
    strategy: &dyn BranchStrategy,
) -> Result<ParallelOutcome, AgentError> {
    let mut lease = agent.lease()?;
    if prompts.is_empty() && branches.iter().any(|branch| branch.prompts.is_empty()) {
        lease.can_continue()?;
    }
    let (events, token) = (lease.events().clone(), lease.token.clone());
    let parallel = run_parallel(&mut lease.context, prompts, &branches, strategy, &events, &token).await;
    agent.add(u64::from(parallel.outcome.turns), parallel.outcome.spend);
    Ok(parallel)
}

/// A group of running branches.
struct BranchGroup<'a> {
    id: Arc<str>,
    context: &'a mut Context,
    /// Config of the first branch, whose store contains the session.
    config: &'a LoopConfig,
    events: &'a EventWatchers,
    token: &'a CancellationToken,
}

/// A branch that has ended.
struct EndedBranch {
    context: Context,
    outcome: Outcome,
}

impl<'a> BranchGroup<'a> {
    fn new(
        context: &'a mut Context,
        config: &'a LoopConfig,
        events: &'a EventWatchers,
        token: &'a CancellationToken,
    ) -> Self {
        // Unique, because only one group starts before the same run. Cannot equal the id of a run.
        let id = format!("{}.parallel.from-{}", context.session_id, context.runs.total().saturating_add(1)).into();
        Self { id, context, config, events, token }
    }

    /// Returns the contexts of the branches, which differ in their run numbers, and counts these runs.
    fn contexts(&mut self, branches: &[Branch]) -> Vec<Context> {
        let context = |branch: &Branch| {
            let context = self.branch_context(branch);
            self.context.runs.count(&branch.config.id());
            context
        };
        branches.iter().map(context).collect()
    }

    /// Returns the context of the next branch.
    fn branch_context(&self, branch: &Branch) -> Context {
        let (parent, number) = (&self.context.run_id, self.context.runs.total().saturating_add(1));
        Context {
            system_prompt: branch.system_prompt.as_ref().unwrap_or(&self.context.system_prompt).clone(),
            parent_run_id: (!parent.is_empty()).then(|| parent.clone()),
            continuation: Some(Continuation::Branch { tag: format!("{}/{number}", self.id) }),
            ..self.context.clone()
        }
    }

    async fn start(&self, contexts: &[Context], branches: &[Branch]) -> Result<GroupStore, StoreError> {
        let run_ids: Vec<Arc<str>> =
            contexts.iter().zip(branches).map(|(context, branch)| branch.config.next_run_id(context)).collect();
        let stores = GroupStore::begin(&self.config.ports.store, &self.id, &run_ids)?;
        self.report(EventKind::ParallelStart { group_id: self.id.clone(), run_ids }).await;
        Ok(stores)
    }

    /// Reports an empty group, so that watchers do not wait for one.
    async fn fail(&self, error: RunError) -> ParallelOutcome {
        self.report(EventKind::ParallelStart { group_id: self.id.clone(), run_ids: Vec::new() }).await;
        self.report_end(None, BranchChoice::noted(error.to_string())).await;
        ParallelOutcome::failed(error)
    }

    async fn run(
        &self,
        contexts: Vec<Context>,
        prompts: &[Message],
        branches: &[Branch],
        stores: &GroupStore,
    ) -> Vec<EndedBranch> {
        let budget = &self.config.budget.clone().unwrap_or_default();
        let branches = contexts.into_iter().zip(branches).enumerate();
        let runs = branches.map(|(number, (mut context, branch))| async move {
            let config = restricted(&branch.config, stores.branch(number), budget);
            let prompts = [prompts, &branch.prompts].concat();
            let outcome = run(&mut context, prompts, &config, self.events, self.token).await;
            EndedBranch { context, outcome }
        });
        join_all(runs).await
    }

    /// Returns the number of the chosen branch, and the choice.
    async fn choose(
        &mut self,
        prompts: &[Message],
        branches: &[Branch],
        ended: &[EndedBranch],
        (strategy, stores): (&dyn BranchStrategy, &GroupStore),
    ) -> (Option<usize>, BranchChoice) {
        let ended = ended.iter().zip(branches).enumerate();
        let done = ended.filter(|(_, (branch, _))| matches!(branch.outcome.end, RunEnd::Done { .. }));
        let done: Vec<BranchCandidate<'_>> = done
            .map(|(number, (EndedBranch { context, outcome }, Branch { prompts, .. }))| {
                let run_id = &context.run_id;
                BranchCandidate { number, prompts, run_id, outcome }
            })
            .collect();
        let (first, others) = match &done[..] {
            [] => return (None, BranchChoice::noted("no branch succeeded")),
            [first, others @ ..] => (first, others),
        };
        if others.is_empty() {
            return (Some(first.number), BranchChoice::default());
        }
        if let Err(error) = stores.begin_choice(announced(strategy, &self.context.runs)) {
            return (
                Some(first.number),
                BranchChoice::noted(format!("{}; chose the first candidate", error.full_text())),
            );
        }
        let (context, events, token) = (&*self.context, self.events, self.token);
        let choice = strategy.choose(Candidates { context, prompts, candidates: &done, events, token }).await;
        let choice = BranchChoice { runs: choice.runs.beyond(&self.context.runs), ..choice };
        self.context.runs.extend(choice.runs.clone());
        match done.get(choice.candidate) {
            Some(chosen) => (Some(chosen.number), choice),
            None => {
                let note = format!(
                    "the strategy chose candidate {}, which does not exist; chose the first candidate",
                    choice.candidate
                );
                (Some(first.number), BranchChoice { note: Some(note), ..choice })
            }
        }
    }

    /// Applies the choice: to the session first, then to the context; then reports it to the watchers.
    async fn settle(
        self,
        mut ended: Vec<EndedBranch>,
        chosen: Option<usize>,
        mut choice: BranchChoice,
        stores: &GroupStore,
    ) -> ParallelOutcome {
        let outcomes: Vec<Outcome> = ended.iter().map(|branch| branch.outcome.clone()).collect();
        let (turns, spend) = spent(&outcomes, &choice);
        let account = ChoiceAccount { runs: choice.runs.clone(), turns: choice.turns, spend: choice.spend };
        let saved = stores.end(chosen, account);
        let (chosen, unsaved) = if saved.is_ok() { (chosen, None) } else { (None, chosen) };
        let (end, messages) = match (saved, chosen) {
            (Err(error), _) => {
                choice.note = Some(error.full_text());
                // The answer is paid for, although the conversation does not continue from it.
                let messages = unsaved.map(|number| ended.swap_remove(number).outcome.messages);
                (RunEnd::Failed(error.into()), messages.unwrap_or_default())
            }
            (Ok(()), None) => (ended.swap_remove(0).outcome.end, Vec::new()),
            (Ok(()), Some(number)) => {
                let EndedBranch { context, outcome } = ended.swap_remove(number);
                let (runs, system_prompt) =
                    (std::mem::take(&mut self.context.runs), self.context.system_prompt.clone());
                *self.context = Context { runs, system_prompt, ..context };
                (outcome.end, outcome.messages)
            }
        };
        self.report_end(chosen.map(|_| self.context.run_id.clone()), choice).await;
        let mut outcome = Outcome::new(end, spend, turns);
        outcome.messages = messages;
        ParallelOutcome { outcome, chosen, outcomes }
    }

    async fn report_end(&self, chosen: Option<Arc<str>>, choice: BranchChoice) {
        if let Some(note) = &choice.note {
            tracing::warn!(note, group_id = &*self.id, "the choice among branches deviates from the strategy");
        }
        let BranchChoice { note, spend, .. } = choice;
        let usage = spend.usage;
        self.report(EventKind::ParallelEnd { group_id: self.id.clone(), chosen, note, usage }).await;
    }

    async fn report(&self, kind: EventKind) {
        self.config.report(self.events, &self.id, kind).await;
    }
}

/// Returns the numbers that the runs of a strategy will have.
fn announced(strategy: &dyn BranchStrategy, known: &RunNumbers) -> RunNumbers {
    let mut runs = known.clone();
    strategy.configs().iter().for_each(|config| runs.count(config));
    runs.beyond(known)
}

/// Returns the config of a branch, restricted for concurrent use.
fn restricted(config: &LoopConfig, store: Arc<dyn SessionStore>, budget: &Arc<Budget>) -> LoopConfig {
    let mut branch = config.child(ChildKind::Branch);
    branch.budget = Some(budget.clone());
    branch.ports.tools = Arc::new(Selection::new(branch.ports.tools, config.policy.branch_authority));
    branch.ports.store = store;
    branch
}

/// Sums the turns and the spend of all branches and of the choice.
fn spent(outcomes: &[Outcome], choice: &BranchChoice) -> (u32, Spend) {
    let (mut turns, mut spend) = (choice.turns, choice.spend);
    for outcome in outcomes {
        turns = turns.saturating_add(outcome.turns);
        spend.add(outcome.spend);
    }
    (turns, spend)
}
