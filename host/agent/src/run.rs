//! The loop.
//!
//! A run processes one prompt: it asks the model, runs the tools that the model calls, returns the results and asks
//! again, until the model makes no more calls and the queues are empty. [`run`] keeps no state. Its phases:
//!
//! 1. `begin`: filters and hooks of plugins check the prompts.
//! 2. `turn`, repeatedly: messages, [`crate::compaction`], a reply ([`crate::turn`]), its calls ([`crate::tools::dispatch`]).
//! 3. `follow`: when the model is done, messages in the queues, reports of sub-agents, or else hooks of plugins start
//!    another round.
//! 4. `end`: the last event, in every case.
//!
//! A panic of a port or a hook ends the run with an error, after open calls got a result. Invariants: `AgentEnd` is
//! emitted once, and so is `AgentStart` unless a hook denies the run; a message is stored before it is in the history,
//! and there before it is reported; at the end, every call has its result, and nothing that the run started is running.

mod ending;
mod follow;

use crate::compaction::{CompactionError, Compactor};
use crate::config::LoopConfig;
use crate::context::Context;
use crate::extension::hooks::{Flow, HookChain, HookVerdict};
use crate::extension::plugin_hooks::HookCaller;
use crate::extension::spawn::{Parent, RunChildren};
use crate::history::{Added, estimate_of, fixed_tokens, track};
use crate::tools::dispatch::Dispatch;
use crate::tools::services::RunAccess;
use crate::turn::ModelTurn;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::content::ToolCall;
use pinion_protocol::event::{CompactionReason, EventKind, Role};
use pinion_protocol::guard::caught_async;
use pinion_protocol::identity::{Continuation, TurnTrigger};
use pinion_protocol::limits::Budget;
use pinion_protocol::message::{AssistantMessage, Message, StopReason};
use pinion_protocol::outcome::{Limit, Outcome, RunEnd, RunError, RunErrorKind};
use pinion_protocol::repetition::Repetition;
use pinion_protocol::services::MAX_CALL_DEPTH;
use pinion_protocol::store::StoreError;
use pinion_protocol::tokens::ContextTracker;
use pinion_protocol::usage::{Spend, Usage};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Runs the agent until the model stops. With no prompts, resumes from `context`, which holds the id of the run afterwards.
///
/// Cancelling `token` ends the run promptly with [`RunEnd::Aborted`]. The future must be driven to completion: dropping
/// it leaves the context without the results of calls that ran. [`crate::Agent::run`] may be dropped.
pub async fn run(
    context: &mut Context,
    prompts: Vec<Message>,
    config: &LoopConfig,
    events: &EventWatchers,
    token: &CancellationToken,
) -> Outcome {
    config.begin_run(context);
    let token = token.child_token();
    let events = &events.until(&token);
    let hooks = HookChain::new(&config.ports.hooks, &token);
    let mut run = Run::new(context, config, events, &token);
    let over = if config.policy.limits.ends_between_turns { run.budget.over().clone() } else { token.clone() };
    let end = match caught_async(within(config, &over, run.work(prompts))).await {
        Ok(end) => end,
        Err(panicked) => run.recover(&panicked).await,
    };
    let outcome = run.end(end).await;
    hooks.after_run(&outcome).await;
    outcome
}

/// Cancels `over` at the time limit of the work, and waits for its end. Time during which a person is asked does not count.
async fn within(config: &LoopConfig, over: &CancellationToken, work: impl Future<Output = RunEnd>) -> RunEnd {
    tokio::pin!(work);
    let Some(time) = config.policy.limits.max_time.filter(|time| !time.is_zero()) else { return work.await };
    tokio::select! {
        biased;
        end = &mut work => return end,
        () = config.ports.approval.sleep(time) => over.cancel(),
    }
    match work.await {
        RunEnd::Aborted => RunEnd::Limit { limit: Limit::Time(time.as_secs()) },
        other => other,
    }
}

/// A run in progress.
struct Run<'a> {
    context: &'a mut Context,
    config: &'a LoopConfig,
    events: &'a EventWatchers,
    token: &'a CancellationToken,
    spent: Spend,
    turns: u32,
    budget: Arc<Budget>,
    added: Added,
    /// Messages that filters admitted to the next turn.
    pending: Vec<Message>,
    open: Option<OpenTurn>,
    tracker: ContextTracker,
    repetition: Repetition,
    /// Times that hooks of plugins made the run continue.
    continuations: u32,
    /// The runs that the tools of this run start; `None` when they may start nothing.
    children: Option<Arc<dyn RunChildren>>,
    /// The run, as its calls use it; `None` before it begins.
    access: Option<Arc<RunAccess>>,
}

/// A turn in progress.
#[derive(Default)]
struct OpenTurn {
    reply: Option<Arc<Message>>,
    results: Vec<Arc<Message>>,
    usage: Usage,
}

/// The action after a turn.
enum NextStep {
    /// Another turn: the model waits for results.
    Turn,
    /// The model is done.
    Done(StopReason),
    /// The run is over.
    End(RunEnd),
}

impl<'a> Run<'a> {
    fn new(
        context: &'a mut Context,
        config: &'a LoopConfig,
        events: &'a EventWatchers,
        token: &'a CancellationToken,
    ) -> Self {
        Self {
            context,
            config,
            events,
            token,
            spent: Spend::default(),
            turns: 0,
            budget: config.budget.clone().unwrap_or_default(),
            added: Added::default(),
            pending: Vec::new(),
            open: None,
            tracker: ContextTracker::new(config.ports.counter.clone()),
            repetition: Repetition::default(),
            continuations: 0,
            children: None,
            access: None,
        }
    }

    async fn work(&mut self, prompts: Vec<Message>) -> RunEnd {
        let ended = async {
            if let Some(end) = self.begin(prompts).await {
                return Ok(end);
            }
            loop {
                match self.turn().await {
                    NextStep::Done(stop_reason) => {
                        if let Some(end) = self.follow(stop_reason).await {
                            return Ok(end);
                        }
                    }
                    NextStep::Turn => {}
                    NextStep::End(end) => {
                        // Messages whose turn did not start still belong to the conversation.
                        self.append_pending().await?;
                        return Ok(end);
                    }
                }
            }
        };
        ended.await.unwrap_or_else(|error: StoreError| RunEnd::Failed(error.into()))
    }

    /// Starts the run unless a hook denies it. Returns its end if it is over before its first turn.
    async fn begin(&mut self, prompts: Vec<Message>) -> Option<RunEnd> {
        let verdict = caught_async(self.hooks().before_run(self.context)).await;
        if let Ok(HookVerdict::Deny(reason) | HookVerdict::Ask(reason)) = &verdict
            && !self.token.is_cancelled()
        {
            return Some(self.reject(reason.clone()).await);
        }
        self.emit(EventKind::AgentStart {
            agent_id: self.context.agent_id.clone(),
            session_id: self.context.session_id.clone(),
            parent_run_id: self.context.parent_run_id.clone(),
            call_id: self.context.call_id.clone(),
            continuation: self.context.continuation.clone(),
            trigger: self.trigger(),
            provider: self.config.ports.provider.name().to_owned(),
            model: self.config.policy.model.name.clone(),
            directory: self.config.directory,
        })
        .await;
        match verdict {
            Ok(HookVerdict::Pass) => {}
            Ok(HookVerdict::Deny(_) | HookVerdict::Ask(_)) => return Some(RunEnd::Aborted),
            Err(panicked) => return Some(RunEnd::failed(RunErrorKind::Panic, panicked.to_string())),
        }
        self.restart_tracker();
        let Self { context, config, events, token, budget, .. } = &*self;
        let parent = Parent { context, config, budget, events, token };
        self.children = config.ports.spawner.as_ref().and_then(|spawner| spawner.open(parent));
        let (session_id, run_id) = (self.context.session_id.clone(), self.context.run_id.clone());
        let config = LoopConfig { budget: Some(self.budget.clone()), ..self.config.clone() };
        self.access = Some(RunAccess::new(config, self.events.clone(), session_id, run_id));
        match self.plugin_hooks().admit(prompts).await {
            Ok(prompts) => {
                let is_new = self.context.messages.is_empty();
                self.pending = self.plugin_hooks().session_start(is_new, prompts).await;
            }
            Err(reason) => return Some(self.rejected(reason).await),
        }
        None
    }

    async fn rejected(&self, reason: String) -> RunEnd {
        if self.token.is_cancelled() { RunEnd::Aborted } else { self.reject(reason).await }
    }

    async fn reject(&self, reason: String) -> RunEnd {
        self.emit(EventKind::InputRejected { reason: reason.clone() }).await;
        RunEnd::Rejected { reason }
    }

    /// Makes queued messages pending. Reports a rejected message and continues without it.
    async fn admit(&mut self, messages: Vec<Message>) {
        match self.plugin_hooks().admit(messages).await {
            Ok(messages) => self.pending.extend(messages),
            Err(reason) => self.emit(EventKind::InputRejected { reason }).await,
        }
    }

    async fn append_pending(&mut self) -> Result<(), StoreError> {
        for message in std::mem::take(&mut self.pending) {
            self.append(message).await?;
        }
        Ok(())
    }

    fn hooks(&self) -> HookChain<'a> {
        HookChain::new(&self.config.ports.hooks, self.token)
    }

    fn plugin_hooks(&self) -> HookCaller<'_> {
        let Self { context, config, events, token, .. } = self;
        HookCaller { config, events, session_id: &context.session_id, run_id: &context.run_id, token }
    }

    /// Returns the cause of the next turn.
    fn trigger(&self) -> TurnTrigger {
        match &self.context.continuation {
            _ if self.turns > 0 => TurnTrigger::Continuation,
            None => self.context.first_trigger,
            Some(Continuation::Branch { .. }) => TurnTrigger::Branch,
            Some(Continuation::Default | Continuation::Rerun { .. }) => TurnTrigger::Continuation,
        }
    }

    async fn turn(&mut self) -> NextStep {
        if let Some(limit) = self.config.policy.limits.reached(self.turns, &self.budget) {
            return NextStep::End(RunEnd::Limit { limit });
        }
        let (turn, trigger) = (self.turns + 1, self.trigger());
        if let HookVerdict::Deny(reason) | HookVerdict::Ask(reason) = self.hooks().before_turn(self.context, turn).await
        {
            return NextStep::End(self.rejected(reason).await);
        }
        self.turns = turn;
        self.open = Some(OpenTurn::default());
        self.emit(EventKind::TurnStart { turn, trigger }).await;
        let next = self.exchange().await.unwrap_or_else(|error| NextStep::End(RunEnd::Failed(error.into())));
        let stop_reason = match &next {
            NextStep::Turn => StopReason::ToolUse,
            NextStep::Done(stop_reason) => *stop_reason,
            NextStep::End(RunEnd::Aborted) => StopReason::Aborted,
            NextStep::End(_) => StopReason::Error,
        };
        let usage = self.end_turn(stop_reason).await;
        if let NextStep::End(RunEnd::Failed(error)) = &next {
            self.hooks().on_error(error).await;
        }
        let flow = self.hooks().after_turn(self.context, &usage).await;
        match (flow, next) {
            (Flow::Stop, NextStep::Turn | NextStep::Done(_)) => NextStep::End(RunEnd::Done { stop_reason }),
            (_, next) => next,
        }
    }

    /// Adds the new messages, the reply and the results of its calls to the history.
    async fn exchange(&mut self) -> Result<NextStep, StoreError> {
        if let Some(prompt) = self.events.state(&self.context.run_id).and_then(|mut state| state.take_new_prompt()) {
            self.context.system_prompt = prompt;
            self.restart_tracker();
        }
        self.admit(self.config.inbox.steering.take_messages()).await;
        self.pending.extend(self.take_reports());
        self.append_pending().await?;
        if self.is_full() {
            self.compact(CompactionReason::Threshold).await?;
        }
        let (reply, failure) = self.ask().await?;
        self.add_reply(reply, failure).await
    }

    /// Reports the end of the turn in progress, if there is one, and returns its usage.
    async fn end_turn(&mut self, stop_reason: StopReason) -> Usage {
        let Some(OpenTurn { reply, results, usage }) = self.open.take() else { return Usage::default() };
        let Spend { usage: total, cost } = self.spent;
        self.emit(EventKind::TurnEnd { turn: self.turns, stop_reason, reply, results, usage: total, cost }).await;
        usage
    }

    /// Asks the model. If the vendor rejects the request as too long, compacts the conversation and retries once.
    async fn ask(&mut self) -> Result<(AssistantMessage, Option<RunError>), StoreError> {
        let (reply, failure) = self.request().await;
        let overflow = failure.as_ref().filter(|_| self.context.is_too_long);
        let Some(cause) = overflow.map(RunError::to_string) else { return Ok((reply, failure)) };
        if !self.config.policy.compaction.automatic || !self.compact(CompactionReason::Overflow).await? {
            return Ok((reply, failure));
        }
        tracing::warn!(%cause, "the conversation was too long for the model and has been compacted");
        self.emit(EventKind::Retry { attempt: 1, max_attempts: 1, delay_ms: 0, cause }).await;
        Ok(self.request().await)
    }

    async fn request(&mut self) -> (AssistantMessage, Option<RunError>) {
        let Self { config, events, token, .. } = *self;
        let mut turn = ModelTurn { context: self.context, config, events, token, spend: Spend::default() };
        let reply = turn.reply(config.policy.tool_choice.clone()).await;
        self.spend(turn.spend);
        self.context.is_too_long = reply.1.as_ref().is_some_and(|error| error.kind == RunErrorKind::Overflow);
        reply
    }

    /// Returns whether the next request would leave no room for a reply.
    fn is_full(&self) -> bool {
        let policy = &self.config.policy.compaction;
        let threshold = policy.threshold_of(self.config.policy.model.context_window);
        policy.automatic && threshold.is_some_and(|most| self.tracker.tokens() > most)
    }

    /// Compacts the conversation; returns false if that is not possible.
    async fn compact(&mut self, reason: CompactionReason) -> Result<bool, StoreError> {
        let Self { config, events, token, .. } = *self;
        let before = self.context.messages.len();
        let compactor = Compactor { context: &mut *self.context, config, events, token };
        let compaction = match compactor.make_room(reason, &self.tracker).await {
            Ok(compaction) => compaction,
            Err(CompactionError::Store(error)) => return Err(error),
            // The next request notices an abort again.
            Err(_) => return Ok(false),
        };
        self.added.compacted(&self.context.messages, before, &compaction);
        self.spend(compaction.spend);
        self.tracker.compacted(fixed_tokens(self.context, config), &self.context.messages);
        self.publish_estimate();
        if let Some(mut state) = self.events.state(&self.context.run_id) {
            state.history.clone_from(&self.context.messages);
        }
        Ok(true)
    }

    /// Adds a reply and the results of its calls to the history.
    async fn add_reply(&mut self, reply: AssistantMessage, failure: Option<RunError>) -> Result<NextStep, StoreError> {
        let reply = self.plugin_hooks().after_reply(reply).await;
        let stop_reason = reply.stop_reason;
        let calls: Vec<ToolCall> = reply.tool_calls().cloned().collect();
        self.append_reply(reply).await?;
        let dispatch = Dispatch {
            config: self.config,
            events: self.events,
            session_id: &self.context.session_id,
            run_id: &self.context.run_id,
            history: &self.context.messages,
            token: self.token,
            children: self.children.as_ref(),
            access: self.access.as_ref(),
            depth_left: MAX_CALL_DEPTH,
            is_nested: false,
            failure: Mutex::default(),
        };
        // Also after an abort, so that each call gets a result.
        let results = dispatch.run(&calls, &mut self.repetition).await;
        let unstored = dispatch.failure().take();
        self.account_for_children();
        for stored in results.into_iter().filter(|stored| stored.is_kept) {
            self.emit(EventKind::MessageStart { role: Role::from_message(&stored.message) }).await;
            if let Some(open) = &mut self.open {
                open.results.push(stored.message.clone());
            }
            self.take_in(stored.message).await;
        }
        if let Some(error) = unstored {
            return Err(error);
        }
        Ok(match failure {
            _ if self.token.is_cancelled() || stop_reason == StopReason::Aborted => NextStep::End(RunEnd::Aborted),
            Some(error) => NextStep::End(RunEnd::Failed(error)),
            None if !calls.is_empty() => match self.repetition.end_turn() {
                Ok(()) => NextStep::Turn,
                Err(stuck) => NextStep::End(RunEnd::Failed(stuck)),
            },
            None => NextStep::Done(stop_reason),
        })
    }

    fn spend(&mut self, spend: Spend) {
        self.spent.add(spend);
        self.budget.add(spend);
    }

    /// Adds the spend of children, and of requests that calls made, to this run. The shared budget already includes it.
    fn account_for_children(&mut self) {
        if let Some(children) = &self.children {
            self.spent.add(children.take_spent());
        }
        if let Some(access) = &self.access {
            self.spent.add(access.take_spent());
        }
    }

    async fn append(&mut self, message: Message) -> Result<(), StoreError> {
        self.emit(EventKind::MessageStart { role: Role::from_message(&message) }).await;
        self.keep(Arc::new(self.config.ports.secrets.clean_message(message))).await
    }

    /// Appends a reply. Reports its start if that did not happen during streaming. One that cannot be stored is paid for,
    /// so it is in the outcome, but not in the history.
    async fn append_reply(&mut self, reply: AssistantMessage) -> Result<(), StoreError> {
        let usage = reply.usage;
        let reply = Arc::new(self.config.ports.secrets.clean_message(Message::Assistant(reply)));
        if let Err(error) = self.keep(reply.clone()).await {
            self.added.messages.push(reply);
            return Err(error);
        }
        if let Some(open) = &mut self.open {
            (open.reply, open.usage) = (Some(reply), usage);
        }
        Ok(())
    }

    async fn keep(&mut self, message: Arc<Message>) -> Result<(), StoreError> {
        self.config.ports.store.append(&message)?;
        self.take_in(message).await;
        Ok(())
    }

    /// Adds a stored message to the history.
    async fn take_in(&mut self, message: Arc<Message>) {
        self.tracker.add(&message);
        self.context.calibration = Some(self.tracker.ratio());
        self.publish_estimate();
        self.context.messages.push(message.clone());
        self.added.messages.push(message.clone());
        self.emit(EventKind::MessageEnd { message }).await;
    }

    fn restart_tracker(&mut self) {
        track(&mut self.tracker, self.context, self.config);
        self.publish_estimate();
    }

    fn publish_estimate(&self) {
        if let Some(mut state) = self.events.state(&self.context.run_id) {
            state.estimate = estimate_of(&self.tracker, self.config);
        }
    }

    async fn emit(&self, kind: EventKind) {
        self.config.report(self.events, &self.context.run_id, kind).await;
    }
}
