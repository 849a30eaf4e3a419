//! The uses that calls make of their conversation: of its user, tools, model and session.
//!
//! Calls that another call makes take the same path as a call of the model, with a ceiling on their tools, and report
//! the same events. Their results go to the call that made them instead of into the history, and they end before that
//! call.

use crate::config::{LoopConfig, Ports};
use crate::tools::dispatch::Dispatch;
use futures_util::future::BoxFuture;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::content::ToolCall;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::delegation::Ceiling;
use pinion_protocol::dialog::{Dialog, DialogAnswer, DialogError, Severity};
use pinion_protocol::drawing::{DrawingBlock, DrawnPart};
use pinion_protocol::event::EventKind;
use pinion_protocol::repetition::Repetition;
use pinion_protocol::selection::Selection;
use pinion_protocol::services::{
    CallServices, CompletionAnswer, CompletionError, CompletionTask, NestedCall, Services,
};
use pinion_protocol::store::SessionStore;
use pinion_protocol::tool::{ANSWER_TOOL, ToolError, ToolExecutor as _, ToolOutput};
use pinion_protocol::usage::Spend;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Calls that one call may make.
const MAX_CALLS: u32 = 1_000;

/// A run, as its calls use it.
pub(crate) struct RunAccess {
    config: Arc<LoopConfig>,
    events: EventWatchers,
    /// Spend of calls that the run has not counted as its own yet.
    spent: Mutex<Spend>,
    session_id: Arc<str>,
    run_id: Arc<str>,
}

impl RunAccess {
    pub(crate) fn new(config: LoopConfig, events: EventWatchers, session_id: Arc<str>, run_id: Arc<str>) -> Arc<Self> {
        Arc::new(Self { config: Arc::new(config), events, spent: Mutex::default(), session_id, run_id })
    }

    /// Returns the spend of calls since the last call of this method.
    pub(crate) fn take_spent(&self) -> Spend {
        std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the services for a call of the run, which may make calls to this depth. Cancelling `token` ends the work
    /// that the call waits for.
    pub(crate) fn for_call(
        self: &Arc<Self>,
        call_id: &str,
        depth: u32,
        calls: &Arc<NestedCalls>,
        token: &CancellationToken,
    ) -> Services {
        let call = RunningCall { run: self.clone(), id: call_id.to_owned(), depth, calls: calls.clone() };
        Services::new(Conversation { config: self.config.clone(), call: Some(call), token: token.clone() })
    }
}

/// Returns the services for a slash command. Cancelling `token` ends the work that the command waits for.
pub(crate) fn for_command(config: LoopConfig, token: CancellationToken) -> Services {
    Services::new(Conversation { config: Arc::new(config), call: None, token })
}

/// The conversation that serves a tool call or a slash command.
struct Conversation {
    config: Arc<LoopConfig>,
    /// The tool call; `None` for a slash command.
    call: Option<RunningCall>,
    token: CancellationToken,
}

/// The tool call that is served.
struct RunningCall {
    run: Arc<RunAccess>,
    id: String,
    depth: u32,
    calls: Arc<NestedCalls>,
}

impl CallServices for Conversation {
    fn ask(&self, mut dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
        let Ports { approval, secrets, .. } = &self.config.ports;
        secrets.clean_dialog(&mut dialog);
        Box::pin(async move { approval.dialog(&dialog, &self.token).await })
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        let Ports { approval, secrets, .. } = &self.config.ports;
        let text = secrets.clean(text).into_owned();
        match &self.call {
            _ if !approval.may_notify(plugin) => {}
            None => approval.user().notify(plugin, severity, &text),
            Some(RunningCall { run, .. }) => {
                let notice = EventKind::PluginNotice { plugin: plugin.to_owned(), severity, text };
                self.config.offer(&run.events, &run.run_id, &notice);
            }
        }
    }

    fn status(&self, plugin: &str, text: Option<&str>) {
        let text = text.map(|text| self.config.ports.secrets.clean(text));
        self.config.ports.approval.user().status(plugin, text.as_deref());
    }

    fn draw(&self, plugin: &str, part: DrawnPart, mut blocks: Vec<DrawingBlock>) -> BoxFuture<'_, bool> {
        let Some(RunningCall { run, id, .. }) = &self.call else { return Box::pin(async { false }) };
        self.config.ports.secrets.clean_blocks(&mut blocks);
        let drawing = EventKind::Drawing { call_id: id.clone(), plugin: plugin.to_owned(), part, blocks };
        Box::pin(async move {
            self.config.report(&run.events, &run.run_id, drawing).await;
            true
        })
    }

    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        Box::pin(async move {
            match &self.call {
                Some(call) => call.calls.complete(&call.run, task, &self.token).await,
                None => Err(CompletionError::Invalid { message: "no model can be asked here".to_owned() }),
            }
        })
    }

    fn session(&self) -> Arc<dyn SessionStore> {
        self.config.ports.store.clone()
    }

    fn clean(&self, text: &str) -> String {
        self.config.ports.secrets.clean(text).into_owned()
    }

    fn call_depth_left(&self) -> u32 {
        self.call.as_ref().map_or(0, |call| call.depth)
    }

    fn callable(&self, plugin: &str, ceiling: Ceiling) -> Vec<Arc<ToolDefinition>> {
        match self.call_depth_left() {
            0 => Vec::new(),
            _ => within(&self.config, plugin, ceiling).definitions(),
        }
    }

    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match &self.call {
                Some(caller) => caller.calls.call(caller, call, &self.token).await,
                None => Err(denied(&call.tool, "no tools can be called here")),
            }
        })
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.config.ports.approval.sleep(time))
    }
}

/// Restricts the tools of a run to those that a plugin's call may call. Only the model may give its structured answer.
fn within(config: &LoopConfig, plugin: &str, Ceiling { authority, may_use }: Ceiling) -> Selection {
    let tools = Selection::new(config.ports.tools.clone(), authority).without_plugin(plugin);
    tools.with_predicate(move |name| name != ANSWER_TOOL && may_use(name))
}

fn denied(tool: &str, reason: &str) -> ToolError {
    ToolError::Denied { tool: tool.to_owned(), reason: reason.to_owned() }
}

/// The calls that one call makes.
#[derive(Default)]
pub(crate) struct NestedCalls {
    count: AtomicU32,
    running: TaskTracker,
    repetition: Arc<tokio::sync::Mutex<Repetition>>,
    /// Cancelled when the call that makes them has ended.
    over: CancellationToken,
}

impl NestedCalls {
    /// Cancels the calls whose callers are gone, and waits for their end.
    pub(crate) async fn close(&self) {
        self.over.cancel();
        self.running.close();
        self.running.wait().await;
    }

    /// Asks a model in a separate task, so that the spend is counted even if the caller is gone.
    async fn complete(
        &self,
        run: &Arc<RunAccess>,
        task: CompletionTask,
        token: &CancellationToken,
    ) -> Result<CompletionAnswer, CompletionError> {
        let completer = run.config.ports.completer.clone().filter(|_| !self.running.is_closed());
        let message = "no model can be asked here".to_owned();
        let completer = completer.ok_or(CompletionError::Invalid { message })?;
        let token = token.child_token();
        let _cancelled_with_us = token.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let run = run.clone();
        self.running.spawn(async move {
            let (answer, spend) = completer.complete(&run.config, task, &token).await;
            run.spent.lock().unwrap_or_else(PoisonError::into_inner).add(spend);
            // The receiver is gone if the call has ended.
            let _ = sender.send(answer);
        });
        receiver.await.unwrap_or(Err(CompletionError::Cancelled))
    }

    /// Makes a call and waits for its end. It is a separate task, so that it ends properly even if its caller is gone.
    async fn call(
        &self,
        caller: &RunningCall,
        call: NestedCall,
        token: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let NestedCall { tool, arguments, plugin, ceiling } = call;
        let RunningCall { run, id: parent, depth, .. } = caller;
        let depth = depth.checked_sub(1).ok_or_else(|| denied(&tool, "calls are nested too deep"))?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_CALLS || self.running.is_closed() {
            return Err(denied(&tool, &format!("this call has made {MAX_CALLS} calls, the maximum")));
        }
        let tools = within(&run.config, &plugin, ceiling);
        let call = ToolCall::new(format!("{parent}/{}", number + 1), tool.clone(), arguments);
        let token = token.child_token();
        let _cancelled_with_us = token.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let (run, repetition, over) = (run.clone(), self.repetition.clone(), self.over.clone());
        self.running.spawn(async move {
            let mut config = LoopConfig::clone(&run.config);
            config.ports.tools = Arc::new(tools);
            let dispatch = Dispatch {
                config: &config,
                events: &run.events,
                session_id: &run.session_id,
                run_id: &run.run_id,
                history: &[],
                token: &token,
                children: None,
                access: Some(&run),
                depth_left: depth,
                is_nested: true,
                failure: Mutex::default(),
            };
            let mut repetition = repetition.lock().await;
            let result = {
                let running = dispatch.run_nested(&call, &mut repetition);
                tokio::pin!(running);
                tokio::select! {
                    biased;
                    result = &mut running => result,
                    () = over.cancelled() => {
                        token.cancel();
                        running.await
                    }
                }
            };
            // The receiver is gone if the call that waited has ended.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(ToolError::Cancelled { tool }))
    }
}
