//! Calls of MCP clients: each is a run of one turn, with the client in place of the model.
//!
//! So a client's call passes the same checks as a model's call, through the same code: the schema, the hooks of
//! plugins, the rules, the mode, a question where they demand one, the audit log, and a new decision when its tool is
//! replaced. The client's user answers the question, if the client can ask. Nothing is kept in a session, and nothing
//! can be undone.

use pinion_agent::approval::{Approval, ApprovalMode, Approver, Decision, Question};
use pinion_agent::channel::EventWatchers;
use pinion_agent::content::ToolCall;
use pinion_agent::delegation::Ceiling;
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogForm, Severity};
use pinion_agent::drawing::{DrawingBlock, DrawnPart};
use pinion_agent::futures_util::StreamExt as _;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::futures_util::stream;
use pinion_agent::hooks::{Flow, Hooks};
use pinion_agent::limits::RunLimits;
use pinion_agent::message::{StopReason, ToolResultMessage};
use pinion_agent::output_bounds::OutputBounds;
use pinion_agent::provider::{EventStream, PartKind, Provider, Request, StreamEvent};
use pinion_agent::schema::Schemas;
use pinion_agent::secrets::Secrets;
use pinion_agent::serde_json::Value;
use pinion_agent::services::{
    BatchAnswer, BatchQuestion, CallServices, CompletionAnswer, CompletionError, CompletionTask, NestedCall, Services,
};
use pinion_agent::tool::{Ledger, ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_agent::{
    Content, Context, LoopConfig, Message, Model, Outcome, SessionStore, ToolDefinition, ToolExecutor, Usage, run,
};
use pinion_app::approve::permissions::CallPermissions;
use pinion_console::approve::described;
use pinion_conversation::call_rows::account;
use pinion_mcp::serve::{Client, OfferedCall, OfferedReply};
use pinion_plugin_runtime::Runtime;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Bytes of a question about a call. People do not read longer ones.
const MAX_QUESTION: usize = 64 << 10;
/// The reason for a denial without a user to ask.
const NOBODY: &str = "it needs approval, and the client cannot ask its user\nhint: a rule in `[permissions]` or \
                      `pinion mcp serve --approve all` allows it";
/// The runtime bounds results. They are not cut further, because resources must be whole.
const NO_BOUNDS: OutputBounds = OutputBounds {
    max_text_bytes: usize::MAX,
    max_images: usize::MAX,
    max_image_bytes: usize::MAX,
    max_parts: usize::MAX,
};

/// The runtime limits calls.
const NO_LIMITS: RunLimits = RunLimits::NONE;

/// The parts that all calls of a server share.
pub(super) struct ServedCalls {
    pub(super) tools: Arc<dyn ToolExecutor>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) permissions: Arc<CallPermissions>,
    /// Redacted in the questions of plugins.
    pub(super) secrets: Secrets,
    pub(super) mode: ApprovalMode,
    pub(super) session: Arc<str>,
    pub(super) schemas: Arc<Schemas>,
    pub(super) count: AtomicU32,
}

impl ServedCalls {
    /// Decides on a call and runs it.
    pub(super) async fn make(&self, call: OfferedCall) -> OfferedReply {
        let OfferedCall { tool, arguments, token, progress, client } = call;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let wrote = ToolCall::new(format!("mcp-{number}"), tool.name.clone(), arguments);
        let tools = Arc::new(ClientTools {
            inner: self.tools.clone(),
            runtime: self.runtime.clone(),
            name: tool.name.clone(),
            call_id: wrote.id.clone(),
            progress,
            client: client.clone(),
            secrets: self.secrets.clone(),
            made: Mutex::default(),
        });
        let approver = ClientApprover { client, permissions: self.permissions.clone() };
        let mut config =
            LoopConfig::new(Arc::new(ClientModel(Mutex::new(Some(wrote)))), Model::default(), tools.clone());
        config.ports.approval = Approval::new(self.mode, Arc::new(approver)).with_rules(self.permissions.clone());
        config.ports.hooks = vec![Arc::new(OneTurn)];
        config.ports.plugin_hooks = Some(self.runtime.clone());
        // The client chose the texts of the run; `tools` redacts results.
        config.ports.secrets = Secrets::default();
        config.policy.output = NO_BOUNDS;
        config.policy.limits = NO_LIMITS;
        config.policy.compaction.automatic = false;
        config.policy.config_id = Some("client".to_owned());
        config.schemas = self.schemas.clone();
        let mut context = Context::new("", self.session.clone());
        context.runs = [(config.id(), number)].into_iter().collect();
        let outcome = run(&mut context, Vec::new(), &config, &EventWatchers::default(), &token).await;
        tools.reply(&outcome)
    }
}

/// Makes the call of a client, once.
struct ClientModel(Mutex<Option<ToolCall>>);

impl Provider for ClientModel {
    fn name(&self) -> &str {
        "mcp"
    }

    fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
        let mut events = vec![StreamEvent::Start { model: None }];
        let call = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stop_reason = if call.is_some() { StopReason::ToolUse } else { StopReason::Stop };
        if let Some(ToolCall { id, name, arguments, .. }) = call {
            events.push(StreamEvent::PartStart { index: 0, part: PartKind::ToolCall { id, name } });
            events.push(StreamEvent::Delta { index: 0, delta: arguments.to_string() });
            events.push(StreamEvent::PartEnd { index: 0, signature: None });
        }
        events.push(StreamEvent::End { stop_reason });
        stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

/// Ends a run after its first turn: the result is the client's.
struct OneTurn;

impl Hooks for OneTurn {
    fn after_turn<'a>(&'a self, _: &'a Context, _: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        Box::pin(async { Flow::Stop })
    }
}

/// Asks the client's user about calls.
struct ClientApprover {
    client: Client,
    permissions: Arc<CallPermissions>,
}

impl Approver for ClientApprover {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        let deny = |reason: &str| Decision::Deny { reason: reason.to_owned() };
        Box::pin(async move {
            let text = described(&question, self.permissions.explained(&question));
            if text.len() > MAX_QUESTION {
                return deny("it is too long for a question to the user");
            }
            match self.client.approves(text).await {
                Ok(true) => Decision::Allow,
                Ok(false) => deny("the user denied it"),
                Err(DialogError::Headless) => Decision::Unanswered { reason: NOBODY.to_owned() },
                Err(_) => deny("the user closed the question without an answer"),
            }
        })
    }
}

/// The tools of one call, and of those that it makes, with the handles of its client.
struct ClientTools {
    inner: Arc<dyn ToolExecutor>,
    runtime: Arc<Runtime>,
    name: String,
    call_id: String,
    progress: Arc<dyn ToolProgress>,
    client: Client,
    secrets: Secrets,
    /// Facts about the client's own call, once it ran.
    made: Mutex<Option<Made>>,
}

struct Made {
    is_fault: bool,
    ledger: Option<Ledger>,
}

impl ClientTools {
    /// Returns the result of the client's call.
    fn reply(&self, outcome: &Outcome) -> OfferedReply {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (is_fault, ledger) = made.map_or((false, None), |made| (made.is_fault, made.ledger));
        let result = outcome.messages.iter().find_map(|message| match &**message {
            Message::ToolResult(result) if result.call_id == self.call_id => Some(result),
            _ => None,
        });
        let output = match result {
            Some(ToolResultMessage { content, details, is_error, .. }) => ToolOutput {
                content: content.clone(),
                details: details.clone(),
                is_error: *is_error,
                ..ToolOutput::default()
            },
            None => ToolOutput { is_error: true, ..ToolOutput::text("the call was cancelled") },
        };
        OfferedReply { output, is_fault, ledger }
    }
}

impl ToolExecutor for ClientTools {
    /// Also has the called tool if it is only a resource, which other calls cannot name.
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let mut definitions = self.inner.definitions();
        if !definitions.iter().any(|tool| tool.name == self.name) {
            definitions.extend(self.runtime.all_definitions().into_iter().find(|tool| tool.name == self.name));
        }
        definitions
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let is_own = call.call_id == self.call_id;
        let (client, secrets) = (self.client.services(), self.secrets.clone());
        let services = |run| Services::new(ClientServices { run, client, secrets });
        let call = ToolInvocation { services: call.services.clone().map(services), ..call };
        Box::pin(async move {
            let tool = call.tool.name.clone();
            let reply = self.inner.call(call, &*self.progress).await;
            if let Some(ledger) = &reply.ledger {
                tracing::info!(tool, ledger = %account(ledger).as_str(), "served a call");
            }
            if is_own {
                let is_fault = matches!(reply.result, Err(ToolError::Fault { .. }));
                let made = Made { is_fault, ledger: reply.ledger.clone() };
                *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            }
            reply
        })
    }
}

/// Returns the services of a slash command of a client, which has no run.
pub(super) fn services_for_command(client: Services, secrets: Secrets) -> Services {
    Services::new(ClientServices { run: client.clone(), client, secrets })
}

/// The services of a call: its run's services, with the client in place of the user and the model.
struct ClientServices {
    run: Services,
    client: Services,
    secrets: Secrets,
}

impl ClientServices {
    fn cleaned_form(&self, form: DialogForm) -> DialogForm {
        let question = self.secrets.clean(&form.question).into_owned();
        DialogForm { question, schema: self.secrets.clean_json(form.schema), ..form }
    }

    fn cleaned_task(&self, task: CompletionTask) -> CompletionTask {
        let part = |part: Content| match part {
            Content::Text { text } => Content::text(self.secrets.clean(&text)),
            other => other,
        };
        let turn = |turn: Vec<Content>| turn.into_iter().map(part).collect();
        let system = self.secrets.clean(&task.system).into_owned();
        CompletionTask { system, turns: task.turns.into_iter().map(turn).collect(), ..task }
    }
}

impl CallServices for ClientServices {
    fn ask(&self, mut dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
        self.secrets.clean_dialog(&mut dialog);
        self.client.ask(dialog)
    }

    fn fill(&self, form: DialogForm) -> BoxFuture<'_, Option<Result<Value, DialogError>>> {
        self.client.fill(self.cleaned_form(form))
    }

    fn ask_all(&self, questions: Vec<(String, BatchQuestion)>) -> BoxFuture<'_, Option<Vec<BatchAnswer>>> {
        let cleaned = |question| match question {
            BatchQuestion::Form(form) => BatchQuestion::Form(self.cleaned_form(form)),
            BatchQuestion::Completion(task) => BatchQuestion::Completion(self.cleaned_task(task)),
            BatchQuestion::Directories => BatchQuestion::Directories,
        };
        let questions = questions.into_iter().map(|(name, question)| (name, cleaned(question)));
        self.client.ask_all(questions.collect())
    }

    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        self.client.complete(self.cleaned_task(task))
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        self.client.notify(plugin, severity, text);
    }

    fn status(&self, plugin: &str, text: Option<&str>) {
        self.client.status(plugin, text);
    }

    fn draw(&self, plugin: &str, part: DrawnPart, blocks: Vec<DrawingBlock>) -> BoxFuture<'_, bool> {
        self.client.draw(plugin, part, blocks)
    }

    fn call_depth_left(&self) -> u32 {
        self.run.call_depth_left()
    }

    fn callable(&self, plugin: &str, ceiling: Ceiling) -> Vec<Arc<ToolDefinition>> {
        self.run.callable(plugin, ceiling)
    }

    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.run.call(call)
    }

    fn session(&self) -> Arc<dyn SessionStore> {
        self.run.session()
    }

    fn clean(&self, text: &str) -> String {
        self.secrets.clean(text).into_owned()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.run.sleep(time)
    }
}
