//! The tool calls of one assistant message: prepare, check, approve, execute, finalize.
//!
//! In all cases, each call gets exactly one result, in the order of the calls: one that ran, one that was refused, one
//! that was cancelled in the middle, one that was never begun. The next request to the model depends on it.
//!
//! Calls of a group run concurrently, and each starts as soon as its own question is answered. Questions are asked one
//! at a time, in the order of the calls. An urgent message of the user ends an open question like a running call.
//!
//! `ToolExecutionStart` and `ToolExecutionEnd` come in pairs, for calls that run: after approval and `before_tool`. A call
//! that does not run (unknown, invalid, repeated, denied, skipped) has only its result.
//!
//! The session's store gets each result when its call ends, before the end is reported, so that a kill in the middle of
//! a long call does not lose the results of concurrent calls.

mod decide;

use crate::config::{LoopConfig, Strategy};
use crate::extension::hooks::HookChain;
use crate::extension::plugin_hooks::HookCaller;
use crate::extension::spawn::RunChildren;
use crate::tools::result::{Interrupt, StoredResult, UnboundedResult, crashed};
use crate::tools::services::{NestedCalls, RunAccess};
use futures_util::future::join_all;
use jiff::Timestamp;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::authority::Authority;
use pinion_protocol::content::{Content, ToolCall, text_of};
use pinion_protocol::definition::{Execution, ToolDefinition};
use pinion_protocol::delegation::SubAgents;
use pinion_protocol::event::EventKind;
use pinion_protocol::guard::caught_async;
use pinion_protocol::hook::{CallFailure, CallOutcome, HookNote};
use pinion_protocol::message::{Message, ToolResultMessage};
use pinion_protocol::repetition::{CallKey, Repetition};
use pinion_protocol::services::Services;
use pinion_protocol::store::StoreError;
use pinion_protocol::tool::{Display, ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Maximum number of new decisions on a call whose tool was replaced meanwhile.
const MAX_CHANGES: usize = 3;

/// Everything the calls of one message need.
pub(crate) struct Dispatch<'a> {
    pub(crate) config: &'a LoopConfig,
    pub(crate) events: &'a EventWatchers,
    pub(crate) session_id: &'a Arc<str>,
    pub(crate) run_id: &'a Arc<str>,
    /// The conversation up to the message with the calls.
    pub(crate) history: &'a [Arc<Message>],
    pub(crate) token: &'a CancellationToken,
    pub(crate) children: Option<&'a Arc<dyn RunChildren>>,
    pub(crate) access: Option<&'a Arc<RunAccess>>,
    /// The depth of further calls that calls may make.
    pub(crate) depth_left: u32,
    /// True if another call makes these calls: their results are not part of the history.
    pub(crate) is_nested: bool,
    /// Error of the session store. Once set, nothing more is written and no further call starts.
    pub(crate) failure: Mutex<Option<StoreError>>,
}

/// A call as the model wrote it, and whether it can run.
struct PreparedCall<'a> {
    wrote: &'a ToolCall,
    ready: Result<Ready<'a>, ToolError>,
}

/// A call that can run once it is approved.
struct Ready<'a> {
    /// The call with the arguments that the tool gets.
    call: Cow<'a, ToolCall>,
    tool: Arc<ToolDefinition>,
    /// Remarks of plugins' hooks, which the user decides on.
    notes: Vec<HookNote>,
}

/// The handles of a call.
#[derive(Clone)]
struct Uses {
    agents: Option<SubAgents>,
    services: Option<Services>,
}

impl PreparedCall<'_> {
    fn key(&self) -> CallKey {
        CallKey::new(self.wrote, self.ready.as_ref().ok().map(|ready| &*ready.tool))
    }
}

impl Dispatch<'_> {
    /// Runs the calls and returns their results in order: one for each, unless the session could not be written.
    pub(crate) async fn run(&self, calls: &[ToolCall], repetition: &mut Repetition) -> Vec<StoredResult> {
        let definitions = self.config.ports.tools.definitions();
        let mut prepared = Vec::with_capacity(calls.len());
        for call in calls {
            prepared.push(PreparedCall { wrote: call, ready: self.check(call, &definitions).await });
        }
        let mut results = Vec::with_capacity(calls.len());
        for group in self.groups(prepared) {
            if self.failure().is_some() {
                break;
            }
            match self.interrupt() {
                Some(why) => results.extend(group.iter().map(|prepared| self.skip(prepared.wrote, why))),
                None => results.extend(self.run_group(group, repetition).await),
            }
        }
        results
    }

    async fn report(&self, kind: EventKind) {
        self.config.report(self.events, self.run_id, kind).await;
    }

    /// Locks the error. A panic leaves it consistent, so poisoning is ignored.
    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a result to the session, unless an earlier write failed.
    fn store(&self, result: ToolResultMessage) -> StoredResult {
        let message = Arc::new(self.config.ports.secrets.clean_message(Message::ToolResult(result)));
        if self.is_nested {
            return StoredResult { message, is_kept: false };
        }
        let mut failure = self.failure();
        if failure.is_none() {
            *failure = self.config.ports.store.append(&message).err();
        }
        StoredResult { message, is_kept: failure.is_none() }
    }

    fn interrupt(&self) -> Option<Interrupt> {
        if self.token.is_cancelled() {
            return Some(Interrupt::Aborted);
        }
        self.config.inbox.steering.is_urgent().then_some(Interrupt::Steered)
    }

    /// Refuses a call that gave the same result too many times.
    fn refuse_repetition<'c>(&self, prepared: PreparedCall<'c>, repetition: &Repetition) -> PreparedCall<'c> {
        if prepared.ready.is_err() || !repetition.is_repetition(prepared.key(), self.max_repeats()) {
            return prepared;
        }
        let times = self.config.policy.max_repeats.max(1);
        PreparedCall { ready: Err(ToolError::Repeated { tool: prepared.wrote.name.clone(), times }), ..prepared }
    }

    fn max_repeats(&self) -> usize {
        self.config.policy.max_repeats.max(1) as usize
    }

    /// Splits the calls into groups that run concurrently.
    fn groups<'c>(&self, prepared: Vec<PreparedCall<'c>>) -> Vec<Vec<PreparedCall<'c>>> {
        let most = match self.config.policy.strategy {
            Strategy::Parallel => usize::MAX,
            Strategy::Sequential => 1,
            Strategy::Batched(n) => n.max(1),
        };
        let mut groups: Vec<Vec<PreparedCall<'c>>> = Vec::new();
        let mut is_full = true;
        for call in prepared {
            let is_alone = call.ready.as_ref().is_ok_and(|ready| ready.tool.execution == Execution::Sequential);
            match groups.last_mut().filter(|group| !is_full && !is_alone && group.len() < most) {
                Some(group) => group.push(call),
                None => groups.push(vec![call]),
            }
            is_full = is_alone;
        }
        groups
    }

    /// Runs the calls concurrently, each as soon as it may run.
    async fn run_group(&self, group: Vec<PreparedCall<'_>>, repetition: &mut Repetition) -> Vec<StoredResult> {
        // Cancelled with the run, and by an urgent message of the user.
        let token = self.token.child_token();
        let keys: Vec<_> = group.iter().map(PreparedCall::key).collect();
        let group: Vec<_> = group.into_iter().map(|prepared| self.refuse_repetition(prepared, repetition)).collect();
        let is_refused = |prepared: &PreparedCall<'_>| matches!(prepared.ready, Err(ToolError::Repeated { .. }));
        let calls: Vec<_> = keys.into_iter().zip(group.iter().map(is_refused)).collect();
        let running = join_all(group.into_iter().map(|prepared| self.execute(prepared, &token)));
        let steering = async {
            self.config.inbox.steering.urged().await;
            token.cancel();
            std::future::pending::<()>().await;
        };
        let results = tokio::select! {
            results = running => results,
            () = steering => Vec::new(),
        };
        for ((key, is_refused), stored) in calls.into_iter().zip(&results) {
            repetition.record(key, stored.result().filter(|_| !is_refused), self.max_repeats());
        }
        results
    }

    fn hooks(&self) -> HookChain<'_> {
        HookChain::new(&self.config.ports.hooks, self.token)
    }

    fn plugin_hooks(&self) -> HookCaller<'_> {
        let Self { config, events, session_id, run_id, token, .. } = *self;
        HookCaller { config, events, session_id, run_id, token }
    }

    /// Asks whether the call may run, and runs it.
    async fn execute(&self, prepared: PreparedCall<'_>, token: &CancellationToken) -> StoredResult {
        let PreparedCall { wrote, ready } = prepared;
        let decided = caught_async(self.decide(ready, token)).await;
        let interrupt = || token.is_cancelled().then(|| self.interrupt().unwrap_or(Interrupt::Aborted));
        match decided.unwrap_or_else(|panicked| Err(crashed(&wrote.name, panicked))) {
            Ok(ready) => self.perform(wrote, ready, token).await.0,
            Err(error) => self.refuse(wrote, &error, interrupt()),
        }
    }

    /// Makes a call for another call.
    ///
    /// # Errors
    /// The call did not run, or failed.
    pub(crate) async fn run_nested(
        &self,
        wrote: &ToolCall,
        repetition: &mut Repetition,
    ) -> Result<ToolOutput, ToolError> {
        let ready = self.check(wrote, &self.config.ports.tools.definitions()).await;
        let prepared = PreparedCall { wrote, ready };
        let key = prepared.key();
        let PreparedCall { ready, .. } = self.refuse_repetition(prepared, repetition);
        if matches!(ready, Err(ToolError::Repeated { .. })) {
            repetition.record(key, None, self.max_repeats());
        }
        let decided = caught_async(self.decide(ready, self.token)).await;
        let ready = decided.unwrap_or_else(|panicked| Err(crashed(&wrote.name, panicked)))?;
        let (stored, error) = self.perform(wrote, ready, self.token).await;
        let Some(result) = stored.result() else { return Ok(ToolOutput::default()) };
        repetition.record(key, Some(result), self.max_repeats());
        let ToolResultMessage { content, details, is_error, .. } = result.clone();
        match error {
            Some(error) => Err(error.with_text(text_of(&content))),
            None => Ok(ToolOutput { content, details, is_error, display: Display::Plain }),
        }
    }

    /// Runs a call that was approved. Also returns the kind of the error, if there was one.
    async fn perform<'c>(
        &self,
        wrote: &'c ToolCall,
        mut ready: Ready<'c>,
        token: &CancellationToken,
    ) -> (StoredResult, Option<ToolError>) {
        let interrupt = || token.is_cancelled().then(|| self.interrupt().unwrap_or(Interrupt::Aborted));
        let started = EventKind::ToolExecutionStart {
            call_id: wrote.id.clone(),
            tool: wrote.name.clone(),
            arguments: ready.call.arguments.clone(),
        };
        self.report(started).await;
        // No other call starts sub-agents, and a copy takes time.
        let history = if ready.tool.authority.delegates { self.history } else { &[] };
        let agents = self.children.map(|children| children.clone().for_call(wrote, history, token));
        let nested = Arc::new(NestedCalls::default());
        let services = self.access.map(|access| access.for_call(&wrote.id, self.depth_left, &nested, token));
        let uses = Uses { agents: agents.clone(), services };
        let reply = caught_async(self.call_as_decided(wrote, &mut ready, &uses, token)).await;
        let reply = reply.unwrap_or_else(|panicked| Err(crashed(&wrote.name, panicked)).into());
        nested.close().await;
        let child = agents.and_then(|agents| agents.last_run());
        let error = reply.result.as_ref().err().map(|error| error.with_text(String::new()));
        (self.finish(wrote, &ready, reply, child, interrupt()).await, error)
    }

    /// Calls the approved version of the tool. If another version has replaced it, decides again.
    async fn call_as_decided<'c>(
        &self,
        wrote: &'c ToolCall,
        ready: &mut Ready<'c>,
        uses: &Uses,
        token: &CancellationToken,
    ) -> ToolReply {
        let mut changes = 0;
        loop {
            let reply = self.call(ready, uses.clone(), token).await;
            let is_changed = matches!(reply.result, Err(ToolError::Changed { .. }));
            if !is_changed || changes == MAX_CHANGES || token.is_cancelled() {
                return reply;
            }
            changes += 1;
            *ready = match self.decide_again(wrote, ready, token).await {
                Ok(ready) => ready,
                Err(error) => return Err(error).into(),
            };
        }
    }

    async fn call(&self, ready: &Ready<'_>, uses: Uses, token: &CancellationToken) -> ToolReply {
        let Ready { call, tool, .. } = ready;
        let invocation = ToolInvocation {
            call_id: call.id.clone(),
            session_id: self.session_id.clone(),
            run_id: self.run_id.clone(),
            tool: tool.clone(),
            arguments: call.arguments.clone(),
            at_most: Authority::ALL,
            agents: uses.agents,
            services: uses.services,
            token: token.clone(),
        };
        let progress = Reporter {
            call_id: &call.id,
            config: self.config,
            events: self.events,
            run_id: self.run_id,
            hooks: self.hooks(),
        };
        self.config.ports.tools.call(invocation, &progress).await
    }

    /// Stores the result of a call that ran, and reports its end.
    async fn finish(
        &self,
        call: &ToolCall,
        ran: &Ready<'_>,
        reply: ToolReply,
        child: Option<Arc<str>>,
        interrupt: Option<Interrupt>,
    ) -> StoredResult {
        let failure = CallFailure::from_result(&reply.result);
        let UnboundedResult { output, is_error } = UnboundedResult::from_result(reply.result, interrupt);
        let mut display = output.display.clone();
        let mut result = self.result(call, output, is_error);
        let outcome = || CallOutcome {
            content: result.content.clone(),
            details: result.details.clone(),
            display: display.clone(),
            failure: failure.or(is_error.then_some(CallFailure::Cancelled)),
        };
        if let Some(revised) = self.plugin_hooks().after_call(&ran.call, &ran.tool, outcome).await {
            display = revised.display;
            result.content = self.config.policy.output.apply(revised.content);
            result.details = revised.details;
            result.is_error |= revised.failure.is_some();
        }
        result.child_run_id = child.as_deref().map(str::to_owned);
        let (result, display) = match self.hooks().transform_result(call, &result).await {
            Some(other) => (other, Display::Plain),
            None => (result, display),
        };
        let stored = self.store(result);
        if let Message::ToolResult(result) = &*stored.message {
            let ended = EventKind::ToolExecutionEnd {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                is_error: result.is_error,
                content: result.content.clone(),
                details: result.details.clone(),
                display,
                ledger: reply.ledger,
                child_run_id: child,
            };
            self.report(ended).await;
            self.hooks().after_tool(call, result).await;
        }
        stored
    }

    /// Stores the result of a call that did not run.
    fn refuse(&self, call: &ToolCall, error: &ToolError, interrupt: Option<Interrupt>) -> StoredResult {
        let text = match (error, interrupt) {
            (ToolError::Cancelled { .. }, Some(why)) => why.text().to_owned(),
            (error, _) => error.for_model(),
        };
        self.store(self.result(call, ToolOutput::text(text), true))
    }

    fn result(&self, call: &ToolCall, output: ToolOutput, is_error: bool) -> ToolResultMessage {
        ToolResultMessage {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: self.config.policy.output.apply(output.content),
            details: output.details,
            is_error,
            child_run_id: None,
            timestamp: Timestamp::now(),
        }
    }

    /// Stores the result of a call that never started.
    fn skip(&self, call: &ToolCall, why: Interrupt) -> StoredResult {
        self.refuse(call, &ToolError::Cancelled { tool: call.name.clone() }, Some(why))
    }
}

/// Reports progress of a running call to the watchers; dropped if they are behind.
struct Reporter<'a> {
    call_id: &'a str,
    config: &'a LoopConfig,
    events: &'a EventWatchers,
    run_id: &'a Arc<str>,
    hooks: HookChain<'a>,
}

impl ToolProgress for Reporter<'_> {
    fn report(&self, message: String) {
        let progress = EventKind::Progress { call_id: self.call_id.to_owned(), text: message };
        self.config.offer(self.events, self.run_id, &progress);
    }

    fn update(&self, partial: Vec<Content>) {
        self.hooks.update(self.call_id, partial, |partial| {
            let update = EventKind::ToolExecutionUpdate { call_id: self.call_id.to_owned(), partial };
            self.config.offer(self.events, self.run_id, &update);
        });
    }
}
