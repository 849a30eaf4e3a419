//! The tool calls of one assistant message: prepare, approve, execute, finalize.
//!
//! Whatever happens, each call gets exactly one result, in the order of the calls: one that ran, one that was refused,
//! one that was cancelled in the middle, one that was never begun. The next request to the model depends on it.
//!
//! The session's store gets each result when its call ends, before the end is reported, so that a kill in the middle
//! of a long call does not lose the results of those beside it.

use crate::channel::Events;
use crate::config::{LoopConfig, Strategy};
use crate::extension::hooks::{HookChain, Verdict};
use crate::extension::spawn::Children;
use crate::tools::repetition::Repetition;
use futures_util::future::join_all;
use jiff::Timestamp;
use pinion_protocol::approval::{Decision, Question};
use pinion_protocol::authority::Authority;
use pinion_protocol::content::{Content, ToolCall};
use pinion_protocol::definition::Execution;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::delegation::SubAgents;
use pinion_protocol::event::EventKind;
use pinion_protocol::message::{Message, ToolResultMessage};
use pinion_protocol::store::StoreError;
use pinion_protocol::tool::{Display, ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Result of a call that a message of the user interrupted.
const STEERED: &str = "The user sent a message before this call ended; the call was interrupted.";
/// Maximum number of new decisions on a call whose tool was replaced meanwhile.
const MAX_CHANGES: usize = 3;
/// Result of an aborted call.
const ABORTED: &str = "The run was aborted before this call ended.";

/// Everything the calls of one message need.
pub(crate) struct Dispatch<'a> {
    pub(crate) config: &'a LoopConfig,
    pub(crate) events: &'a Events,
    pub(crate) session_id: &'a Arc<str>,
    pub(crate) loop_id: &'a Arc<str>,
    pub(crate) token: &'a CancellationToken,
    pub(crate) children: Option<&'a Arc<dyn Children>>,
    /// Error of the session store. Once set, nothing more is written and no further call starts.
    pub(crate) failure: Mutex<Option<StoreError>>,
}

/// The result of a call.
pub(crate) struct Stored {
    pub(crate) message: Arc<Message>,
    /// True if the session contains the result.
    pub(crate) is_kept: bool,
}

impl Stored {
    fn result(&self) -> Option<&ToolResultMessage> {
        match &*self.message {
            Message::ToolResult(result) => Some(result),
            _ => None,
        }
    }
}

/// A call with its tool, or the reason it cannot run.
struct Prepared<'a> {
    /// The call as the model wrote it.
    wrote: &'a ToolCall,
    /// The call with the arguments that the tool gets.
    call: Cow<'a, ToolCall>,
    tool: Result<Arc<ToolDefinition>, ToolError>,
}

/// The reason a call was skipped or interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    Steered,
    Aborted,
}

impl Interrupt {
    fn text(self) -> &'static str {
        match self {
            Self::Steered => STEERED,
            Self::Aborted => ABORTED,
        }
    }
}

impl Dispatch<'_> {
    /// Runs the calls and returns their results in order: one for each, unless the session could not be written.
    pub(crate) async fn run(&self, calls: &[ToolCall], repetition: &mut Repetition) -> Vec<Stored> {
        let definitions = self.config.ports.tools.definitions();
        let mut prepared: Vec<Prepared<'_>> = Vec::with_capacity(calls.len());
        for call in calls {
            prepared.push(self.prepare(call, &definitions).await);
        }
        let mut results = Vec::with_capacity(calls.len());
        for group in self.groups(&mut prepared) {
            let done = results.len();
            if self.failure().is_some() {
                break;
            }
            match self.interrupt() {
                Some(why) => results.extend(self.skip(group, why).await),
                None => {
                    let refused: Vec<bool> =
                        group.iter_mut().map(|prepared| self.refuse_repetition(prepared, repetition)).collect();
                    results.extend(self.run_group(group).await);
                    let news = calls[done..].iter().zip(&results[done..]).zip(refused);
                    // A refused call has no result to compare.
                    let made = news.filter(|(_, refused)| !refused);
                    let made = made.filter_map(|((call, stored), _)| Some((call, stored.result()?)));
                    made.for_each(|(call, result)| repetition.record(call, result));
                }
            }
        }
        results
    }

    async fn report(&self, kind: EventKind) {
        self.config.report(self.events, self.loop_id, kind).await;
    }

    /// Locks the error. A panic leaves it consistent, so poisoning is ignored.
    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a result to the session, unless an earlier write failed.
    fn store(&self, result: ToolResultMessage) -> Stored {
        let message = Arc::new(self.config.ports.secrets.clean_message(Message::ToolResult(result)));
        let mut failure = self.failure();
        if failure.is_none() {
            *failure = self.config.ports.store.append(&message).err();
        }
        Stored { message, is_kept: failure.is_none() }
    }

    fn interrupt(&self) -> Option<Interrupt> {
        if self.token.is_cancelled() {
            return Some(Interrupt::Aborted);
        }
        (!self.config.inbox.steering.is_empty()).then_some(Interrupt::Steered)
    }

    /// Finds the tool and validates the arguments. An error becomes the call's result, and no tool runs.
    async fn prepare<'c>(&self, call: &'c ToolCall, definitions: &[Arc<ToolDefinition>]) -> Prepared<'c> {
        let tool = definitions.iter().find(|tool| tool.name == call.name).cloned();
        let tool = tool.ok_or_else(|| ToolError::UnknownTool {
            tool: call.name.clone(),
            suggestions: similar(&call.name, definitions),
        });
        let invalid = |message| ToolError::InvalidArguments { tool: call.name.clone(), message };
        let mut accepted = Cow::Borrowed(call);
        let tool = match (tool, &call.partial) {
            (Ok(_), Some(partial)) => Err(invalid(cut_off(partial))),
            (Ok(tool), None) => match self.config.schemas.check(&tool, &call.arguments).await {
                Ok(Cow::Borrowed(_)) => Ok(tool),
                Ok(Cow::Owned(arguments)) => {
                    accepted.to_mut().arguments = arguments;
                    Ok(tool)
                }
                Err(problem) => Err(invalid(problem)),
            },
            (Err(error), _) => Err(error),
        };
        Prepared { wrote: call, call: accepted, tool }
    }

    /// Refuses a call that gave the same result too many times in a row. Returns whether it did.
    fn refuse_repetition(&self, prepared: &mut Prepared<'_>, repetition: &Repetition) -> bool {
        let times = repetition.times(&prepared.call);
        let refused = prepared.tool.is_ok() && times >= self.config.policy.max_repeats.max(1);
        if refused {
            prepared.tool = Err(ToolError::Repeated { tool: prepared.call.name.clone(), times });
        }
        refused
    }

    /// Splits the calls into groups that run concurrently.
    fn groups<'p, 'c>(&self, prepared: &'p mut [Prepared<'c>]) -> Vec<&'p mut [Prepared<'c>]> {
        let most = match self.config.policy.strategy {
            Strategy::Parallel => usize::MAX,
            Strategy::Sequential => 1,
            Strategy::Batched(n) => n.max(1),
        };
        let is_alone = |p: &Prepared<'_>| p.tool.as_ref().is_ok_and(|t| t.execution == Execution::Sequential);
        let mut groups = Vec::new();
        let mut rest = prepared;
        while !rest.is_empty() {
            let together = rest.iter().take(most).take_while(|p| !is_alone(p)).count().max(1);
            let (group, after) = rest.split_at_mut(together);
            groups.push(group);
            rest = after;
        }
        groups
    }

    /// Asks for approval, one call after the other, and runs the calls together.
    async fn run_group(&self, group: &mut [Prepared<'_>]) -> Vec<Stored> {
        for prepared in group.iter_mut() {
            self.approve(prepared, self.token).await;
        }
        // Cancelled with the run, and by the user's next message.
        let token = self.token.child_token();
        let calls = join_all(group.iter_mut().map(|prepared| self.execute(prepared, &token)));
        let steering = async {
            self.config.inbox.steering.filled().await;
            token.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            results = calls => results,
            () = steering => Vec::new(),
        }
    }

    async fn approve(&self, prepared: &mut Prepared<'_>, token: &CancellationToken) {
        let Ok(tool) = &prepared.tool else { return };
        if !self.config.ports.approval.must_ask(tool) {
            return;
        }
        let call_id = prepared.call.id.clone();
        let requested = EventKind::ApprovalRequested {
            call_id: call_id.clone(),
            tool: tool.name.clone(),
            authority: tool.authority,
        };
        self.report(requested).await;
        let question = Question { call: &prepared.call, tool };
        let decision = tokio::select! {
            decision = self.config.ports.approval.ask(question, token) => decision,
            () = token.cancelled() => Decision::Deny { reason: ABORTED.to_owned() },
        };
        let (refused, unanswered) = match decision {
            Decision::Allow | Decision::AllowForSession => (None, None),
            Decision::Deny { reason } => (Some(reason), None),
            Decision::Unanswered { reason } => (Some(reason.clone()), Some(reason)),
        };
        let resolved = EventKind::ApprovalResolved { call_id, allowed: refused.is_none(), unanswered };
        self.report(resolved).await;
        if let Some(reason) = refused {
            prepared.tool = Err(ToolError::Denied { tool: prepared.call.name.clone(), reason });
        }
    }

    fn hooks(&self) -> HookChain<'_> {
        HookChain::new(&self.config.ports.hooks, self.token)
    }

    /// Asks the application's hooks, which can deny a call that was approved.
    async fn ask_hooks(&self, prepared: &mut Prepared<'_>) {
        if prepared.tool.is_ok()
            && let Verdict::Deny(reason) = self.hooks().before_tool(&prepared.call).await
        {
            prepared.tool = Err(ToolError::Denied { tool: prepared.call.name.clone(), reason });
        }
    }

    async fn execute(&self, prepared: &mut Prepared<'_>, token: &CancellationToken) -> Stored {
        let wrote = prepared.wrote;
        self.ask_hooks(prepared).await;
        let started = EventKind::ToolExecutionStart {
            call_id: wrote.id.clone(),
            tool: wrote.name.clone(),
            arguments: prepared.call.arguments.clone(),
        };
        self.report(started).await;
        let agents = self.children.map(|children| children.clone().for_call(wrote, token));
        let reply = self.call_as_decided(prepared, agents.as_ref(), token).await;
        let interrupt = token.is_cancelled().then(|| self.interrupt().unwrap_or(Interrupt::Aborted));
        let child = agents.and_then(|agents| agents.last_loop());
        self.finalize(wrote, reply, child, interrupt).await
    }

    /// Calls the approved version of the tool. If another version has replaced it, decides again.
    async fn call_as_decided(
        &self,
        prepared: &mut Prepared<'_>,
        agents: Option<&SubAgents>,
        token: &CancellationToken,
    ) -> ToolReply {
        let mut changes = 0;
        loop {
            let nothing = Err(ToolError::Cancelled { tool: prepared.wrote.name.clone() });
            let tool = match std::mem::replace(&mut prepared.tool, nothing) {
                Ok(tool) => tool,
                Err(error) => return Err(error).into(),
            };
            let reply = self.call(&prepared.call, tool.clone(), agents.cloned(), token).await;
            let is_changed = matches!(reply.result, Err(ToolError::Changed { .. }));
            if !is_changed || changes == MAX_CHANGES || token.is_cancelled() {
                return reply;
            }
            changes += 1;
            self.decide_again(prepared, &tool, token).await;
        }
    }

    /// Prepares a call for the current version of the tool. A decision on the same code with the same arguments remains
    /// valid.
    async fn decide_again(&self, prepared: &mut Prepared<'_>, decided_on: &ToolDefinition, token: &CancellationToken) {
        let again = self.prepare(prepared.wrote, &self.config.ports.tools.definitions()).await;
        let before = std::mem::replace(prepared, again);
        let is_same_code = prepared.tool.as_ref().is_ok_and(|tool| tool.runs_same_code(decided_on));
        if !is_same_code || before.call.arguments != prepared.call.arguments {
            self.approve(prepared, token).await;
        }
        self.ask_hooks(prepared).await;
    }

    async fn call(
        &self,
        call: &ToolCall,
        tool: Arc<ToolDefinition>,
        agents: Option<SubAgents>,
        token: &CancellationToken,
    ) -> ToolReply {
        let invocation = ToolInvocation {
            call_id: call.id.clone(),
            session_id: self.session_id.clone(),
            loop_id: self.loop_id.clone(),
            tool,
            arguments: call.arguments.clone(),
            at_most: Authority::ALL,
            agents,
            token: token.clone(),
        };
        let progress = Reporter {
            call_id: &call.id,
            config: self.config,
            events: self.events,
            loop_id: self.loop_id,
            hooks: self.hooks(),
        };
        self.config.ports.tools.call(invocation, &progress).await
    }

    /// Bounds the output, makes it the call's result, and stores that.
    async fn finalize(
        &self,
        call: &ToolCall,
        reply: ToolReply,
        child: Option<Arc<str>>,
        interrupt: Option<Interrupt>,
    ) -> Stored {
        let Finished { output, is_error } = Finished::of(reply.result, interrupt);
        let content = self.config.policy.output.apply(output.content);
        let ended = EventKind::ToolExecutionEnd {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            is_error,
            content: content.clone(),
            details: output.details.clone(),
            display: output.display,
            ledger: reply.ledger,
            child_loop_id: child.clone(),
        };
        let stored = self.store(ToolResultMessage {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content,
            details: output.details,
            is_error,
            child_loop_id: child.map(|id| id.to_string()),
            timestamp: Timestamp::now(),
        });
        self.report(ended).await;
        if let Some(result) = stored.result() {
            self.hooks().after_tool(call, result).await;
        }
        stored
    }

    /// Stores the results of calls that never started.
    async fn skip(&self, group: &[Prepared<'_>], why: Interrupt) -> Vec<Stored> {
        let mut results = Vec::with_capacity(group.len());
        for prepared in group {
            let error = ToolError::Cancelled { tool: prepared.call.name.clone() };
            results.push(self.finalize(&prepared.call, Err(error).into(), None, Some(why)).await);
        }
        results
    }
}

/// A result before the output bounds apply.
struct Finished {
    output: ToolOutput,
    is_error: bool,
}

impl Finished {
    fn of(result: Result<ToolOutput, ToolError>, interrupt: Option<Interrupt>) -> Self {
        match (result, interrupt) {
            (Ok(output), None) => Self { output, is_error: false },
            // The partial output may matter to the model.
            (Ok(mut output), Some(why)) => {
                output.content.insert(0, Content::text(format!("{}\n", why.text())));
                Self { output, is_error: true }
            }
            (Err(ToolError::Cancelled { .. }), Some(why)) => Self::error(why.text().to_owned()),
            (Err(error), _) => Self::error(error.for_model()),
        }
    }

    fn error(text: String) -> Self {
        Self { output: ToolOutput { display: Display::Plain, ..ToolOutput::text(text) }, is_error: true }
    }
}

/// Reports progress of a running call to the watchers; dropped if they are behind.
struct Reporter<'a> {
    call_id: &'a str,
    config: &'a LoopConfig,
    events: &'a Events,
    loop_id: &'a Arc<str>,
    hooks: HookChain<'a>,
}

impl ToolProgress for Reporter<'_> {
    fn report(&self, message: String) {
        let progress = EventKind::Progress { call_id: self.call_id.to_owned(), text: message };
        self.config.offer(self.events, self.loop_id, &progress);
    }

    fn update(&self, partial: Vec<Content>) {
        self.hooks.update(self.call_id, partial, |partial| {
            let update = EventKind::ToolExecutionUpdate { call_id: self.call_id.to_owned(), partial };
            self.config.offer(self.events, self.loop_id, &update);
        });
    }
}

fn cut_off(partial: &str) -> String {
    format!(
        "they are not JSON, or were cut off by the output limit after {} bytes. Call the tool again, with less at once",
        partial.len()
    )
}

/// Returns existing names similar to an unknown one.
fn similar(name: &str, definitions: &[Arc<ToolDefinition>]) -> Vec<String> {
    let mut near: Vec<(f64, &str)> = definitions
        .iter()
        .map(|tool| (strsim::jaro_winkler(name, &tool.name), tool.name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.75)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}
