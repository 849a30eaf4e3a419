//! An agent, as applications hold it: a conversation, a config, and at most one run at a time.

use crate::channel::{EventReceiver, Events};
use crate::compaction::{Compaction, CompactionError, compact};
use crate::config::{Context, LoopConfig};
use crate::message::Message;
use crate::outcome::Outcome;
use crate::run::run;
use crate::usage::{Cost, Usage};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// An agent. All methods take it shared; it is `Send` and `Sync`.
pub struct Agent {
    config: Mutex<LoopConfig>,
    /// Held by a run as long as it lasts.
    context: tokio::sync::Mutex<Context>,
    events: Events,
    running: Mutex<CancellationToken>,
    loops: AtomicU32,
    spent: Mutex<Totals>,
}

/// What an agent has spent since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Requests to models.
    pub requests: u64,
    /// Their tokens.
    pub usage: Usage,
    /// What they cost; none when no price was known.
    pub cost: Option<Cost>,
}

/// A run was not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// One is under way: steer it, or let a message follow.
    #[error("a run is under way")]
    AlreadyRunning,
    /// The history is empty, or the model has spoken last.
    #[error("there is nothing to continue: {why}")]
    NothingToContinue {
        /// Which of the two.
        why: &'static str,
    },
}

impl Agent {
    /// An agent that goes on from a context.
    pub fn new(config: LoopConfig, context: Context) -> Self {
        Self {
            config: Mutex::new(config),
            context: tokio::sync::Mutex::new(context),
            events: Events::default(),
            running: Mutex::default(),
            loops: AtomicU32::new(0),
            spent: Mutex::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn watched_by(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// Watches all runs from now on, through a channel for `capacity` events. It must be read or dropped.
    pub fn subscribe(&self, capacity: usize) -> EventReceiver {
        self.events.subscribe(capacity)
    }

    /// Works prompts off. The future must be driven to its end; [`Agent::abort`] ends it soon.
    ///
    /// # Errors
    /// A run is under way.
    pub async fn run(&self, prompts: Vec<Message>) -> Result<Outcome, AgentError> {
        let mut context = self.context.try_lock().map_err(|_| AgentError::AlreadyRunning)?;
        Ok(self.drive(&mut context, prompts).await)
    }

    /// Goes on without a new prompt: after an interrupted turn, or after an error.
    ///
    /// # Errors
    /// A run is under way, or there is nothing to go on from.
    pub async fn resume(&self) -> Result<Outcome, AgentError> {
        let mut context = self.context.try_lock().map_err(|_| AgentError::AlreadyRunning)?;
        let last = context.messages.iter().rev().find(|message| !matches!(***message, Message::Extension(_)));
        let nothing = |why| Err(AgentError::NothingToContinue { why });
        match last.map(|message| &**message) {
            None => nothing("nothing was said yet"),
            Some(Message::Assistant(_)) => nothing("the model has spoken last"),
            Some(_) => Ok(self.drive(&mut context, Vec::new()).await),
        }
    }

    /// Replaces the conversation by a summary that the model writes.
    ///
    /// # Errors
    /// The conversation is as it was; a run under way counts as nothing to compact.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<Compaction, CompactionError> {
        let mut context = self.context.try_lock().map_err(|_| CompactionError::Nothing)?;
        let (config, token) = (self.config(), self.begin(&mut context));
        let compaction = compact(&mut context, instructions, &config, &self.events, &token).await?;
        self.add(1, &compaction.usage, compaction.cost);
        Ok(compaction)
    }

    /// Interrupts the tools of the turn under way; the message comes before the next request.
    pub fn steer(&self, message: Message) {
        self.config().steering.push(message);
    }

    /// The message begins another round when the agent would stop.
    pub fn follow_up(&self, message: Message) {
        self.config().follow_up.push(message);
    }

    /// Ends the run or compaction under way soon. Nothing happens when there is none.
    pub fn abort(&self) {
        lock(&self.running).cancel();
    }

    /// Changes how runs work from the next one on.
    pub fn configure(&self, change: impl FnOnce(&mut LoopConfig)) {
        change(&mut lock(&self.config));
    }

    /// Begins another conversation, whose session has this id; what was spent stays.
    ///
    /// # Errors
    /// A run is under way.
    pub fn reset(&self, session_id: Arc<str>, messages: Vec<Arc<Message>>) -> Result<(), AgentError> {
        let mut context = self.context.try_lock().map_err(|_| AgentError::AlreadyRunning)?;
        context.session_id = session_id;
        context.messages = messages;
        let config = self.config();
        config.steering.clear();
        config.follow_up.clear();
        Ok(())
    }

    /// What was spent so far.
    pub fn totals(&self) -> Totals {
        *lock(&self.spent)
    }

    async fn drive(&self, context: &mut Context, prompts: Vec<Message>) -> Outcome {
        let (config, token) = (self.config(), self.begin(context));
        let outcome = run(context, prompts, &config, &self.events, &token).await;
        self.add(u64::from(outcome.turns), &outcome.usage, outcome.cost);
        outcome
    }

    /// A new loop, with an id and a token of its own.
    fn begin(&self, context: &mut Context) -> CancellationToken {
        let number = self.loops.fetch_add(1, Ordering::Relaxed) + 1;
        let config = self.config();
        context.loop_id = format!("{}.{}.{number}", context.session_id, config.id()).into();
        let token = CancellationToken::new();
        *lock(&self.running) = token.clone();
        token
    }

    fn config(&self) -> LoopConfig {
        lock(&self.config).clone()
    }

    fn add(&self, requests: u64, usage: &Usage, cost: Option<Cost>) {
        let mut spent = lock(&self.spent);
        spent.requests += requests;
        spent.usage = spent.usage.combine(usage);
        if let Some(cost) = cost {
            spent.cost = Some(spent.cost.unwrap_or_default().combine(&cost));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
