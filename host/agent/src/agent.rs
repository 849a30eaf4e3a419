//! The agent API for applications: a conversation, a config, and at most one run at a time.

use crate::compaction::{Compaction, CompactionError, compact};
use crate::config::LoopConfig;
use crate::context::Context;
use crate::history::estimate;
use crate::run::run;
use crate::running::ConversationUse;
use crate::snapshot::{AgentSnapshot, Totals};
use crate::tools::services::for_command;
use jiff::Timestamp;
use pinion_interaction::channel::{EventReceiver, EventWatchers};
use pinion_protocol::content::Content;
use pinion_protocol::event::EventKind;
use pinion_protocol::history::{cancelled_results, check_unanswered};
use pinion_protocol::identity::Continuation;
use pinion_protocol::live_state::{ContextEstimate, Live};
use pinion_protocol::message::Message;
use pinion_protocol::outcome::Outcome;
use pinion_protocol::services::Services;
use pinion_protocol::usage::Spend;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A conversation with a config. All methods take `&self`; the type is `Send` and `Sync`.
pub struct Agent {
    config: Mutex<LoopConfig>,
    /// Locked by a run until it ends.
    context: tokio::sync::Mutex<Context>,
    events: EventWatchers,
    running: ConversationUse,
    spent: Mutex<Totals>,
    live: Arc<Live>,
}

/// Exclusive use of an idle agent, until it is dropped. Readers of the agent see the conversation as it was before.
pub struct Lease<'a> {
    /// The conversation.
    pub context: tokio::sync::MutexGuard<'a, Context>,
    /// Cancelled by [`Agent::abort`].
    pub token: CancellationToken,
    agent: &'a Agent,
}

impl Lease<'_> {
    /// Returns the agent's watchers.
    pub fn events(&self) -> &EventWatchers {
        &self.agent.events
    }

    /// Checks that a run without a prompt has something to answer.
    ///
    /// # Errors
    /// The history is empty, or the model has spoken last.
    pub fn can_continue(&self) -> Result<(), AgentError> {
        check_unanswered(&self.context.messages).map_err(|why| AgentError::NothingToContinue { why })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // The future of a run was dropped in the middle of a turn, by a timeout for example.
        for message in cancelled_results(&self.context.messages) {
            if let Err(error) = self.agent.config().ports.store.append(&message) {
                tracing::warn!(error = error.full_text(), "the result of a cancelled call is not in the session");
            }
            self.context.messages.push(message);
        }
        self.agent.running.end();
        self.context.system_prompt = self.agent.live.state().end();
    }
}

/// The reason a run did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent is running: steer the run, or queue a follow-up message.
    #[error("a run is under way")]
    AlreadyRunning,
    /// The thread belongs to an asynchronous runtime, which a blocking call would stop: await the call instead.
    #[error("a blocking call in an asynchronous runtime")]
    InRuntime,
    /// The session could not be written.
    #[error("{message}")]
    Store {
        /// The error text, with its cause.
        message: String,
    },
    /// There is no asynchronous runtime.
    #[error("no runtime to run in: {message}")]
    NoRuntime {
        /// The cause.
        message: String,
    },
    /// The history is empty, or the model has spoken last.
    #[error("nothing to continue: {why}")]
    NothingToContinue {
        /// The reason.
        why: &'static str,
    },
}

impl Agent {
    /// Creates an agent that continues from a context, and has its id for its whole life.
    pub fn new(config: LoopConfig, context: Context) -> Self {
        Self {
            config: Mutex::new(config),
            context: tokio::sync::Mutex::new(context),
            events: EventWatchers::default(),
            running: ConversationUse::default(),
            spent: Mutex::default(),
            live: Arc::default(),
        }
    }

    /// Returns the services for a slash command. Cancelling `token` ends the calls that the command waits for.
    pub fn services_for_command(&self, token: &CancellationToken) -> Services {
        for_command(self.config(), token.clone())
    }

    /// Watches all runs from now on, through a channel for `capacity` events. It must be read or dropped. The stream
    /// ends when the agent was dropped; the stream of [`Self::stream`] ends with its run.
    pub fn subscribe(&self, capacity: usize) -> EventReceiver {
        self.events.subscribe(capacity)
    }

    /// Runs prompts. [`Agent::abort`] ends the run promptly and reports its end. Dropping the future cancels the calls that
    /// are under way and answers them in the history, without an [`EventKind::AgentEnd`] or an outcome; the reply that the
    /// model was writing is lost.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub async fn run(&self, prompts: Vec<Message>) -> Result<Outcome, AgentError> {
        self.run_with(&self.config(), None, prompts).await
    }

    /// Runs the agent once with another config, and with `instructions` at the end of the system prompt.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub async fn run_with(
        &self,
        config: &LoopConfig,
        instructions: Option<&str>,
        prompts: Vec<Message>,
    ) -> Result<Outcome, AgentError> {
        let lease = self.lease_context(self.idle()?);
        Ok(self.drive(lease, prompts, config, None, instructions).await)
    }

    /// Like [`Self::run`], but also returns a stream of the run's events, which ends with the run, or when the future is
    /// dropped. Poll both, or drop the stream.
    pub fn stream(
        &self,
        prompts: Vec<Message>,
        capacity: usize,
    ) -> (EventReceiver, impl Future<Output = Result<Outcome, AgentError>> + '_) {
        self.events.subscribe_to(self.run(prompts), capacity)
    }

    /// Like [`Self::run`], but blocks the calling thread, which must not have an asynchronous runtime, until the run
    /// ends.
    ///
    /// # Errors
    /// Fails if the agent is running, if the thread belongs to a runtime, or if a runtime cannot be created.
    pub fn run_blocking(&self, prompts: Vec<Message>) -> Result<Outcome, AgentError> {
        block_on(self.run(prompts))?
    }

    /// Resumes without a new prompt, after an interrupted turn or an error. A failed reply stays in the history, and the
    /// model repeats it without seeing it.
    ///
    /// # Errors
    /// Fails if the agent is running, or if there is nothing to resume.
    pub async fn resume(&self) -> Result<Outcome, AgentError> {
        self.resume_as(Continuation::Default).await
    }

    /// Like [`Self::resume`], but also returns a stream of the run's events, like [`Self::stream`].
    pub fn resume_stream(
        &self,
        capacity: usize,
    ) -> (EventReceiver, impl Future<Output = Result<Outcome, AgentError>> + '_) {
        self.events.subscribe_to(self.resume(), capacity)
    }

    /// Like [`Self::resume`], but blocks the calling thread like [`Self::run_blocking`].
    ///
    /// # Errors
    /// Fails like [`Self::resume`] and [`Self::run_blocking`].
    pub fn resume_blocking(&self) -> Result<Outcome, AgentError> {
        block_on(self.resume())?
    }

    /// Like [`Self::resume`], but marks the run as a rerun or a branch, for example after [`Agent::restore`].
    ///
    /// # Errors
    /// Fails if the agent is running, or if there is nothing to resume.
    pub async fn resume_as(&self, continuation: Continuation) -> Result<Outcome, AgentError> {
        let lease = self.lease_context(self.idle()?);
        lease.can_continue()?;
        Ok(self.drive(lease, Vec::new(), &self.config(), Some(continuation), None).await)
    }

    /// Takes the idle agent for work that consists of several runs, such as parallel branches.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub fn lease(&self) -> Result<Lease<'_>, AgentError> {
        let lease = self.lease_context(self.idle()?);
        self.live.state().estimate = estimate(&lease.context, &self.config());
        Ok(lease)
    }

    /// Sends a message in any state. While a run is under way, the message steers it, and there is no outcome; a run that
    /// is aborted or fails leaves it to the next one. Otherwise it starts a run, which continues the previous one if that
    /// was interrupted. The run waits for the end of a compaction, of branches, or of a run that is past its last request,
    /// so that no hook of that run may wait for it.
    ///
    /// # Errors
    /// Never fails today; the type matches the other ways to start a run.
    pub async fn send(&self, message: Message) -> Result<Option<Outcome>, AgentError> {
        {
            // Locked, so that the run looks for messages after this one.
            let state = self.live.state();
            if state.is_steerable() {
                self.steer(message);
                return Ok(None);
            }
        }
        let lease = self.lease_context(self.context.lock().await);
        let continuation = lease.can_continue().is_ok().then_some(Continuation::Default);
        Ok(Some(self.drive(lease, vec![message], &self.config(), continuation, None).await))
    }

    /// Waits until the agent is idle.
    pub async fn wait_until_idle(&self) {
        drop(self.context.lock().await);
    }

    /// Returns the state of the agent, to continue later or elsewhere, as a rerun or a branch.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub fn snapshot(&self) -> Result<AgentSnapshot, AgentError> {
        let context = self.idle()?;
        let config = self.config();
        Ok(AgentSnapshot {
            agent_id: context.agent_id.clone(),
            session_id: context.session_id.clone(),
            run_id: context.run_id.clone(),
            system_prompt: context.system_prompt.clone(),
            messages: context.messages.clone(),
            steering: config.inbox.steering.waiting(),
            follow_up: config.inbox.follow_up.waiting(),
            runs: context.runs.clone(),
            totals: self.totals(),
            calibration: context.calibration,
        })
    }

    /// Restores an agent from a snapshot, with a new config, whose queues get the queued messages.
    pub fn restore(config: LoopConfig, mut snapshot: AgentSnapshot) -> Self {
        std::mem::take(&mut snapshot.steering).into_iter().for_each(|message| config.inbox.steering.push(message));
        std::mem::take(&mut snapshot.follow_up).into_iter().for_each(|message| config.inbox.follow_up.push(message));
        let spent = Mutex::new(snapshot.totals);
        Self { spent, ..Self::new(config, snapshot.into_context()) }
    }

    fn idle(&self) -> Result<tokio::sync::MutexGuard<'_, Context>, AgentError> {
        loop {
            match self.context.try_lock() {
                Err(_) if self.live.state().is_lent() => return Err(AgentError::AlreadyRunning),
                // Another thread reads it, or is about to lend it.
                Err(_) => std::thread::yield_now(),
                Ok(mut context) => {
                    context.system_prompt = self.live.state().prompt_or(&context.system_prompt);
                    return Ok(context);
                }
            }
        }
    }

    /// Shows the conversation to readers while it is in use.
    fn lease_context<'a>(&'a self, mut context: tokio::sync::MutexGuard<'a, Context>) -> Lease<'a> {
        let token = self.running.begin();
        context.system_prompt = self.live.state().lend(context.messages.clone(), &context.system_prompt);
        Lease { context, token, agent: self }
    }

    /// Replaces the conversation by a summary that the model writes.
    ///
    /// # Errors
    /// Fails if the agent is running, or if there is nothing to compact; the conversation is unchanged.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<Compaction, CompactionError> {
        let mut lease = self.lease().map_err(|_| CompactionError::AlreadyRunning)?;
        let (config, token) = (self.config(), lease.token.clone());
        config.begin_run(&mut lease.context);
        let compaction = compact(&mut lease.context, instructions, &config, &self.events, &token).await?;
        self.add(1, compaction.spend);
        Ok(compaction)
    }

    /// Interrupts the tools of the current turn and adds the message before the next request. One that waits for the tools is
    /// pushed into the queue itself: [`crate::config::MessageQueue::push_patient`].
    pub fn steer(&self, message: Message) {
        self.config().inbox.steering.push(message);
    }

    /// Queues a message that starts another round when the agent would stop.
    pub fn follow_up(&self, message: Message) {
        self.config().inbox.follow_up.push(message);
    }

    /// Aborts the current run or compaction. Does nothing if the agent is idle.
    pub fn abort(&self) {
        self.running.abort();
    }

    /// Returns the config of the next run.
    pub fn config(&self) -> LoopConfig {
        lock(&self.config).clone()
    }

    /// Changes the config of subsequent runs.
    pub fn configure(&self, change: impl FnOnce(&mut LoopConfig)) {
        change(&mut lock(&self.config));
    }

    /// Starts another conversation. Aborts a run that is under way and waits for its end, so that its results stay in
    /// the conversation before; no hook or tool of that run may wait for it. Empties the queues, keeps the totals, and
    /// forgets the approvals for the previous session. The agent keeps its id.
    pub async fn reset(&self, conversation: Context) {
        let aborts = self.running.abort_all();
        let mut context = self.context.lock().await;
        drop(aborts);
        // A system prompt that was set belongs to the previous conversation.
        self.live.state().prompt_or(&context.system_prompt);
        *context = Context { agent_id: context.agent_id.clone(), ..conversation };
        let config = self.config();
        config.inbox.steering.clear();
        config.inbox.follow_up.clear();
        config.ports.approval.forget();
    }

    /// Starts another conversation like [`Self::reset`] if the agent has been idle for at least `pause`. Returns whether it did.
    pub async fn reset_after(&self, pause: Duration, conversation: impl FnOnce() -> Context) -> bool {
        let is_due = self.is_idle_for(pause);
        if is_due {
            self.reset(conversation()).await;
        }
        is_due
    }

    /// Returns whether the agent is idle and was last used at least `pause` ago; false if it was never used.
    pub fn is_idle_for(&self, pause: Duration) -> bool {
        let ago = |last: Timestamp| Duration::try_from(Timestamp::now().duration_since(last)).unwrap_or_default();
        !self.is_running() && self.last_active_at().is_some_and(|last| ago(last) >= pause)
    }

    /// Returns the time of the last start or end of a run, a compaction or a lease; `None` before the first one.
    pub fn last_active_at(&self) -> Option<Timestamp> {
        self.running.last_active()
    }

    /// Returns whether a run, a compaction or a lease is under way.
    pub fn is_running(&self) -> bool {
        self.idle().is_err()
    }

    /// Returns a copy of the history, in any state.
    pub fn history(&self) -> Vec<Arc<Message>> {
        self.idle().map_or_else(|_| self.live.state().history.clone(), |context| context.messages.clone())
    }

    /// Appends messages to the session and the history. While a run is under way, use [`Self::steer`] or
    /// [`Self::follow_up`].
    ///
    /// # Errors
    /// Fails if the agent is running, or if a message cannot be stored; it and later ones are then not appended.
    pub fn append(&self, messages: Vec<Message>) -> Result<(), AgentError> {
        let mut context = self.idle()?;
        let ports = self.config().ports;
        for message in messages {
            let message = Arc::new(ports.secrets.clean_message(message));
            let stored = ports.store.append(&message);
            stored.map_err(|error| AgentError::Store { message: error.full_text() })?;
            context.messages.push(message);
        }
        Ok(())
    }

    /// Returns the system prompt, without the guidelines of tools and the instructions of a single run.
    pub fn system_prompt(&self) -> Arc<str> {
        self.idle().map_or_else(|_| self.live.state().system_prompt(), |context| context.system_prompt.clone())
    }

    /// Replaces the system prompt: in a run from its next turn on, in any other state from the next run on.
    pub fn set_system_prompt(&self, prompt: impl Into<Arc<str>>) {
        self.live.state().set_system_prompt(prompt.into());
    }

    /// Returns the parts of the message that the model is writing; `None` if it is not writing any.
    pub fn message_in_progress(&self) -> Option<Vec<Content>> {
        self.live.state().partial()
    }

    /// Returns the ids of the calls that are running.
    pub fn executing_calls(&self) -> Vec<String> {
        self.live.state().executing.clone()
    }

    /// Returns the error that ended the last run, if one did. The next run clears it.
    pub fn last_error(&self) -> Option<String> {
        self.live.state().last_error.clone()
    }

    /// Returns the estimated size of the next request, which decides on compaction. While a run is under way, as of its
    /// last message.
    pub fn context_estimate(&self) -> ContextEstimate {
        self.idle().map_or_else(|_| self.live.state().estimate, |context| estimate(&context, &self.config()))
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> Totals {
        *lock(&self.spent)
    }

    async fn drive(
        &self,
        mut lease: Lease<'_>,
        prompts: Vec<Message>,
        config: &LoopConfig,
        continuation: Option<Continuation>,
        instructions: Option<&str>,
    ) -> Outcome {
        let (context, token) = (&mut *lease.context, &lease.token);
        context.parent_run_id = continuation.is_some().then(|| context.run_id.clone());
        context.continuation = continuation;
        context.system_prompt = self.live.state().begin(config.next_run_id(context), instructions);
        let outcome = run(context, prompts, config, &self.events.described_by(&self.live), token).await;
        self.add(u64::from(outcome.turns), outcome.spend);
        outcome
    }

    /// Reports an event that happens before or after a run to the session's store and the watchers.
    pub async fn report(&self, run_id: &Arc<str>, kind: EventKind) {
        self.config().report(&self.events, run_id, kind).await;
    }

    /// Returns the id of the last run.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub fn last_run_id(&self) -> Result<Arc<str>, AgentError> {
        Ok(self.idle()?.run_id.clone())
    }

    /// Returns the id that the next run gets when nothing else changes until then.
    ///
    /// # Errors
    /// Fails if the agent is running.
    pub fn next_run_id(&self) -> Result<Arc<str>, AgentError> {
        Ok(self.config().next_run_id(&*self.idle()?))
    }

    /// Replaces the totals, for another conversation.
    pub fn set_totals(&self, totals: Totals) {
        *lock(&self.spent) = totals;
    }

    /// Adds requests that were made outside its runs, and their spend, to the totals.
    pub fn add(&self, requests: u64, spend: Spend) {
        lock(&self.spent).add(requests, spend);
    }
}

/// Drives work of an agent on a separate runtime, and blocks the calling thread until it ends.
///
/// # Errors
/// Fails if the thread belongs to a runtime, or if a runtime cannot be created.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, AgentError> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(AgentError::InRuntime);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| AgentError::NoRuntime { message: error.to_string() })?;
    Ok(runtime.block_on(work))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
