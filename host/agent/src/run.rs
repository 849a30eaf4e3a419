//! The loop.
//!
//! A run processes one prompt: it asks the model, runs the tools that the model calls, returns the results and asks
//! again, until the model makes no more calls and the queues are empty. [`run`] is a plain function of a context, a
//! config, watchers and a token; it has no state of its own. Its phases:
//!
//! 1. `begin`: the prompts become part of the history.
//! 2. `turn`, repeatedly: steering messages, compaction if needed ([`crate::compaction`]), one reply
//!    ([`crate::turn`]), its tool calls ([`crate::tools::dispatch`]).
//! 3. `follow`: when the model is done, follow-up messages start another round.
//! 4. `end`: the last event, in every case.
//!
//! Invariants: `AgentStart` and `AgentEnd` are emitted exactly once; a message is in the store before it is in the
//! history, and in the history before its completion is reported; when the run ends, every tool call in the history is
//! followed by its result, and nothing that the run started is still running.

use crate::channel::Events;
use crate::compaction::{CompactionError, Compactor};
use crate::config::LoopConfig;
use crate::config::limits::Budget;
use crate::context::Context;
use crate::extension::hooks::{Flow, HookChain, Verdict};
use crate::extension::spawn::{Children, Parent};
use crate::tokens::ContextTracker;
use crate::tools::dispatch::Dispatch;
use crate::tools::repetition::Repetition;
use crate::turn::Turn;
use jiff::Timestamp;
use pinion_protocol::content::ToolCall;
use pinion_protocol::event::CompactionReason;
use pinion_protocol::event::{EventKind, Role};
use pinion_protocol::filter::admit;
use pinion_protocol::identity::{Continuation, TurnTrigger};
use pinion_protocol::json::json_bytes;
use pinion_protocol::message::{AssistantMessage, ExtensionMessage, Message, StopReason};
use pinion_protocol::outcome::{Limit, Outcome, RunEnd};
use pinion_protocol::provider::ProviderError;
use pinion_protocol::store::StoreError;
use pinion_protocol::usage::Spend;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Kind of the extension message that names the limit that ended a run.
pub const LIMIT_MESSAGE: &str = "pinion/limit";

/// Runs the agent until the model stops. With no prompts, resumes from `context`.
///
/// The run gets an id and a number of its own, which `context` holds afterwards.
///
/// Cancelling `token` ends the run promptly with [`RunEnd::Aborted`]. The future must be driven to completion: dropping
/// it leaves the context without the results of calls that ran.
pub async fn run(
    context: &mut Context,
    prompts: Vec<Message>,
    config: &LoopConfig,
    events: &Events,
    token: &CancellationToken,
) -> Outcome {
    context.begin_run(config.next_loop_id(context));
    let token = token.child_token();
    let hooks = HookChain::new(&config.ports.hooks, &token);
    let mut run = Run::new(context, config, events, &token);
    let end = within(config, &token, run.work(prompts)).await;
    let outcome = run.end(end).await;
    hooks.after_loop(&outcome).await;
    outcome
}

/// Aborts the work when its time limit is reached, and waits for its end. Time during which a person is asked does not
/// count.
async fn within(config: &LoopConfig, token: &CancellationToken, work: impl Future<Output = RunEnd>) -> RunEnd {
    tokio::pin!(work);
    let Some(time) = config.policy.limits.max_time else { return work.await };
    tokio::select! {
        biased;
        end = &mut work => return end,
        () = config.ports.approval.sleep(time) => token.cancel(),
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
    events: &'a Events,
    token: &'a CancellationToken,
    spent: Spend,
    turns: u32,
    budget: Arc<Budget>,
    added: Vec<Arc<Message>>,
    tracker: ContextTracker,
    /// True if the model has not answered since the last compaction, so that another one would not help.
    is_compacted: bool,
    repetition: Repetition,
    /// The runs that the tools of this run start; none when they may start nothing.
    children: Option<Arc<dyn Children>>,
}

/// The action after a turn.
enum Next {
    /// Another turn: the model waits for results.
    Turn,
    /// The model is done.
    Done(StopReason),
    /// The run is over.
    End(RunEnd),
}

impl<'a> Run<'a> {
    fn new(context: &'a mut Context, config: &'a LoopConfig, events: &'a Events, token: &'a CancellationToken) -> Self {
        let mut tracker = ContextTracker::new(config.ports.counter.clone());
        tracker.restart(fixed_tokens(context, config), &context.messages);
        let (spent, turns) = (Spend::default(), 0);
        let repetition = Repetition::default();
        let budget = config.budget.clone().unwrap_or_default();
        let parent = Parent { context, config, budget: &budget, events, token };
        let children = config.ports.spawner.as_ref().and_then(|spawner| spawner.open(parent));
        let (added, is_compacted) = (Vec::new(), false);
        Self {
            context,
            config,
            events,
            token,
            spent,
            turns,
            budget,
            added,
            tracker,
            is_compacted,
            repetition,
            children,
        }
    }

    async fn work(&mut self, prompts: Vec<Message>) -> RunEnd {
        let ended = async {
            if let Some(end) = self.begin(prompts).await? {
                return Ok(end);
            }
            loop {
                match self.turn().await? {
                    Next::Turn => {}
                    Next::End(end) => return Ok(end),
                    Next::Done(stop_reason) => {
                        if !self.follow().await? {
                            return Ok(RunEnd::Done { stop_reason });
                        }
                    }
                }
            }
        };
        ended.await.unwrap_or_else(|error: StoreError| RunEnd::Error { message: error.full_text() })
    }

    /// Adds the prompts to the history. Returns the end if the run is over before its first turn.
    async fn begin(&mut self, prompts: Vec<Message>) -> Result<Option<RunEnd>, StoreError> {
        let verdict = self.hooks().before_loop(self.context).await;
        let started = EventKind::AgentStart {
            agent_id: self.context.agent_id.clone(),
            session_id: self.context.session_id.clone(),
            parent_loop_id: self.context.parent_loop_id.clone(),
            continuation: self.context.continuation.clone(),
            trigger: self.trigger(),
            provider: self.config.ports.provider.name().to_owned(),
            model: self.config.policy.model.name.clone(),
        };
        self.emit(started).await;
        if let Verdict::Deny(reason) = verdict {
            return Ok(Some(self.rejected(reason).await));
        }
        match admit(&self.config.ports.filters, prompts) {
            Ok(prompts) => self.append_all(prompts).await.map(|()| None),
            Err(reason) => Ok(Some(self.rejected(reason).await)),
        }
    }

    async fn rejected(&self, reason: String) -> RunEnd {
        if self.token.is_cancelled() {
            return RunEnd::Aborted;
        }
        self.emit(EventKind::InputRejected { reason: reason.clone() }).await;
        RunEnd::Rejected { reason }
    }

    /// Adds queued messages to the history. Reports a rejected message and continues without it.
    async fn admit(&mut self, messages: Vec<Message>) -> Result<bool, StoreError> {
        match admit(&self.config.ports.filters, messages) {
            Ok(messages) => {
                let any = !messages.is_empty();
                self.append_all(messages).await?;
                Ok(any)
            }
            Err(reason) => {
                self.emit(EventKind::InputRejected { reason }).await;
                Ok(false)
            }
        }
    }

    fn hooks(&self) -> HookChain<'a> {
        HookChain::new(&self.config.ports.hooks, self.token)
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

    async fn turn(&mut self) -> Result<Next, StoreError> {
        if let Some(limit) = self.config.policy.limits.reached(self.turns, &self.budget) {
            return Ok(Next::End(RunEnd::Limit { limit }));
        }
        self.admit(self.config.inbox.steering.take()).await?;
        let (turn, trigger) = (self.turns + 1, self.trigger());
        if let Verdict::Deny(reason) = self.hooks().before_turn(self.context, turn).await {
            return Ok(Next::End(self.rejected(reason).await));
        }
        self.turns = turn;
        self.emit(EventKind::TurnStart { turn, trigger }).await;
        if self.is_full() {
            self.compact(CompactionReason::Threshold).await?;
        }
        let reply = self.ask().await?;
        let usage = reply.usage;
        self.spend(reply.spend());
        let next = self.take(reply).await?;
        let stop_reason = match &next {
            Next::Turn => StopReason::ToolUse,
            Next::Done(stop_reason) => *stop_reason,
            Next::End(RunEnd::Aborted) => StopReason::Aborted,
            Next::End(_) => StopReason::Error,
        };
        self.emit(EventKind::TurnEnd { turn, stop_reason }).await;
        if let Next::End(RunEnd::Error { message }) = &next {
            self.hooks().on_error(message).await;
        }
        let flow = self.hooks().after_turn(self.context, &usage).await;
        Ok(match (flow, next) {
            (Flow::Stop, Next::Turn | Next::Done(_)) => Next::End(RunEnd::Done { stop_reason }),
            (_, next) => next,
        })
    }

    /// Asks the model. If the vendor rejects the request as too long, compacts the conversation and retries once.
    async fn ask(&mut self) -> Result<AssistantMessage, StoreError> {
        let (reply, failure) = self.asking().reply().await;
        let Some(overflow @ ProviderError::ContextOverflow { .. }) = failure else { return Ok(reply) };
        let cause = overflow.to_string();
        tracing::warn!(%cause, "the conversation is too long for the model and is compacted");
        if !self.compact(CompactionReason::Overflow).await? {
            return Ok(reply);
        }
        self.emit(EventKind::Retry { attempt: 1, max_attempts: 1, delay_ms: 0, cause }).await;
        Ok(self.asking().reply().await.0)
    }

    fn asking(&self) -> Turn<'_> {
        Turn { context: self.context, config: self.config, events: self.events, token: self.token }
    }

    /// Returns whether the next request would leave no room for a reply.
    fn is_full(&self) -> bool {
        let policy = &self.config.policy.compaction;
        let threshold = self.config.policy.model.context_window.map(|window| policy.threshold(window));
        policy.automatic && !self.is_compacted && threshold.is_some_and(|most| self.tracker.tokens() > most)
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
        self.is_compacted = true;
        // In a long run, messages that the model no longer sees remain only in the session.
        let kept = (before - compaction.dropped).min(self.added.len());
        self.added = self.context.messages[self.context.messages.len() - kept..].to_vec();
        self.spend(Spend { usage: compaction.usage, cost: compaction.cost });
        self.tracker.restart(fixed_tokens(self.context, config), &self.context.messages);
        Ok(true)
    }

    /// Adds a reply and the results of its calls to the history.
    async fn take(&mut self, reply: AssistantMessage) -> Result<Next, StoreError> {
        let (stop_reason, error) = (reply.stop_reason, reply.error.clone());
        let calls: Vec<ToolCall> = reply.tool_calls().cloned().collect();
        self.append_reply(reply).await?;
        let dispatch = Dispatch {
            config: self.config,
            events: self.events,
            session_id: &self.context.session_id,
            loop_id: &self.context.loop_id,
            token: self.token,
            children: self.children.as_ref(),
            failure: Mutex::default(),
        };
        // Also after an abort, so that each call gets a result.
        let results = dispatch.run(&calls, &mut self.repetition).await;
        let failure = dispatch.failure().take();
        self.account_for_children();
        for stored in results.into_iter().filter(|stored| stored.is_kept) {
            self.emit(EventKind::MessageStart { role: Role::of(&stored.message) }).await;
            self.take_in(stored.message).await;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(match stop_reason {
            _ if self.token.is_cancelled() => Next::End(RunEnd::Aborted),
            StopReason::Aborted => Next::End(RunEnd::Aborted),
            StopReason::Error => Next::End(RunEnd::Error { message: error.unwrap_or_default() }),
            _ if !calls.is_empty() => Next::Turn,
            // A message that came too late to interrupt a call still needs an answer.
            _ if !self.config.inbox.steering.is_empty() => Next::Turn,
            done => Next::Done(done),
        })
    }

    /// Starts another round if a follow-up message is queued.
    async fn follow(&mut self) -> Result<bool, StoreError> {
        // A rejected message must not block the next one.
        while !self.config.inbox.follow_up.is_empty() {
            if self.admit(self.config.inbox.follow_up.take()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn spend(&mut self, spend: Spend) {
        self.spent.add(spend);
        self.budget.add(spend);
    }

    /// Adds the spend of children to this run. The shared budget already includes it.
    fn account_for_children(&mut self) {
        if let Some(children) = &self.children {
            self.spent.add(children.take_spent());
        }
    }

    async fn end(mut self, end: RunEnd) -> Outcome {
        if let Some(children) = &self.children {
            children.close().await;
            self.account_for_children();
        }
        if let RunEnd::Limit { limit } = &end
            && let Err(error) = self.append(limit_message(limit)).await
        {
            tracing::warn!(error = error.full_text(), "the limit that ended the run is not in the session");
        }
        let ended = EventKind::AgentEnd {
            end: end.clone(),
            messages: self.added.clone(),
            usage: self.spent.usage,
            cost: self.spent.cost,
            turns: self.turns,
        };
        self.emit(ended).await;
        Outcome { end, messages: self.added, usage: self.spent.usage, cost: self.spent.cost, turns: self.turns }
    }

    async fn append_all(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), StoreError> {
        for message in messages {
            self.append(message).await?;
        }
        Ok(())
    }

    async fn append(&mut self, message: Message) -> Result<(), StoreError> {
        self.emit(EventKind::MessageStart { role: Role::of(&message) }).await;
        self.keep(message).await
    }

    /// Appends a reply. Reports its start if that did not happen during streaming.
    async fn append_reply(&mut self, reply: AssistantMessage) -> Result<(), StoreError> {
        self.is_compacted = false;
        self.keep(Message::Assistant(reply)).await
    }

    async fn keep(&mut self, message: Message) -> Result<(), StoreError> {
        let message = Arc::new(self.config.ports.secrets.clean_message(message));
        self.config.ports.store.append(&message)?;
        self.take_in(message).await;
        Ok(())
    }

    /// Adds a stored message to the history.
    async fn take_in(&mut self, message: Arc<Message>) {
        self.tracker.add(&message);
        self.context.messages.push(message.clone());
        self.added.push(message.clone());
        self.emit(EventKind::MessageEnd { message }).await;
    }

    async fn emit(&self, kind: EventKind) {
        self.config.report(self.events, &self.context.loop_id, kind).await;
    }
}

/// Estimates the tokens that every request contains: the system prompt and the tools.
fn fixed_tokens(context: &Context, config: &LoopConfig) -> u64 {
    let tools = config.ports.tools.definitions();
    let texts = tools.iter().flat_map(|tool| {
        let guidelines = tool.guidelines.iter().map(String::as_str);
        [&*tool.name, &*tool.description].into_iter().chain(guidelines)
    });
    let texts: u64 = texts.map(|text| config.ports.counter.count(text)).sum();
    // The rule of thumb for text is good enough for schemas.
    let schemas: u64 = tools.iter().map(|tool| json_bytes(&tool.input_schema) / 4).sum();
    config.ports.counter.count(&context.system_prompt) + texts + schemas
}

fn limit_message(limit: &Limit) -> Message {
    let data = json!({ "limit": limit, "text": limit.to_string() });
    Message::Extension(ExtensionMessage { kind: LIMIT_MESSAGE.to_owned(), data, timestamp: Timestamp::now() })
}
