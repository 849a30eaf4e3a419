//! An agent with a scripted model, a scripted user, and the guest `talker`, which uses both as its script says.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{Approval, ApprovalMode, Approver, Decision, Question};
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, Severity, UserInterface};
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, ProviderError, Request, StreamEvent};
use pinion_agent::tool::ANSWER_TOOL;
use pinion_agent::{
    Agent, Content, Context, EventKind, LoopConfig, Message, Model, Outcome, Provider, ToolExecutor as _, Usage,
};
use pinion_plugin_runtime::Runtime;
use pinion_tests::{Sandbox, assert_served};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Returns a call of a tool of `talker` with these steps.
pub(super) fn steps(tool: &'static str, steps: Value) -> (&'static str, Value) {
    (tool, json!({ "steps": steps }))
}

/// The model: makes these calls in its first reply, ends in the next one, and answers requests of plugins.
#[derive(Default)]
pub(super) struct Scripted {
    calls: Vec<(&'static str, Value)>,
    /// The requests of plugins.
    pub(super) asked: Mutex<Vec<Request>>,
    /// The answers to them; "answered" when no answer is left. An empty one never comes.
    pub(super) answers: Mutex<VecDeque<String>>,
    numbers: AtomicUsize,
}

fn part(index: usize, part: PartKind, delta: String) -> [StreamEvent; 3] {
    [
        StreamEvent::PartStart { index, part },
        StreamEvent::Delta { index, delta },
        StreamEvent::PartEnd { index, signature: None },
    ]
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let mut events = vec![StreamEvent::Start { model: None }];
        let mut stop_reason = StopReason::Stop;
        if request.system.starts_with("Be terse.") {
            let is_structured = request.tools.iter().any(|tool| tool.name == ANSWER_TOOL);
            self.asked.lock().unwrap().push(request);
            let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(|| "answered".to_owned());
            if answer.is_empty() {
                let never = async move {
                    token.cancelled().await;
                    Err(ProviderError::Cancelled)
                };
                return futures_util::stream::once(never).boxed();
            }
            let kind = match is_structured {
                true => PartKind::ToolCall { id: "answer".to_owned(), name: ANSWER_TOOL.to_owned() },
                false => PartKind::Text,
            };
            events.extend(part(0, kind, answer));
            stop_reason = if is_structured { StopReason::ToolUse } else { StopReason::Stop };
        } else if matches!(request.messages.last().map(|m| &**m), Some(Message::User(_))) {
            for (index, (name, arguments)) in self.calls.iter().enumerate() {
                let id = format!("call-{}", self.numbers.fetch_add(1, Ordering::Relaxed));
                let kind = PartKind::ToolCall { id, name: (*name).to_owned() };
                events.extend(part(index, kind, arguments.to_string()));
            }
            stop_reason = StopReason::ToolUse;
        } else {
            events.extend(part(0, PartKind::Text, "done".to_owned()));
        }
        events.push(StreamEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() }));
        events.push(StreamEvent::End { stop_reason });
        futures_util::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

/// The user: gives these answers, and no answer when they are used up.
#[derive(Default)]
pub(super) struct ScriptedUser {
    answers: Mutex<VecDeque<Result<DialogAnswer, DialogError>>>,
    /// The dialogs that were shown, in order.
    pub(super) dialogs: Mutex<Vec<Dialog>>,
    pub(super) notices: Mutex<Vec<String>>,
    pub(super) segments: Mutex<Vec<Option<String>>>,
    /// The tools that the user was asked to approve.
    pub(super) approvals: Mutex<Vec<String>>,
    pub(super) denies: AtomicBool,
    open: AtomicUsize,
    /// The most dialogs that were open at once.
    pub(super) most_open: AtomicUsize,
    /// Shown dialogs are announced here.
    pub(super) shown: tokio::sync::Notify,
}

impl ScriptedUser {
    pub(super) fn with(answers: impl IntoIterator<Item = Result<DialogAnswer, DialogError>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    pub(super) fn questions(&self) -> Vec<String> {
        self.dialogs.lock().unwrap().iter().map(|dialog| dialog.question.clone()).collect()
    }
}

/// Counts a dialog as open until it is answered or dropped.
struct IsOpen<'a>(&'a ScriptedUser);

impl Drop for IsOpen<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl UserInterface for ScriptedUser {
    fn ask<'a>(
        &'a self,
        dialog: &'a Dialog,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<DialogAnswer, DialogError>> {
        Box::pin(async move {
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            let _open = IsOpen(self);
            self.most_open.fetch_max(open, Ordering::SeqCst);
            self.dialogs.lock().unwrap().push(dialog.clone());
            self.shown.notify_one();
            tokio::task::yield_now().await;
            let answer = self.answers.lock().unwrap().pop_front();
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }

    fn notify(&self, plugin: &str, _: Severity, text: &str) {
        self.notices.lock().unwrap().push(format!("{plugin}: {text}"));
    }

    fn status(&self, _: &str, text: Option<&str>) {
        self.segments.lock().unwrap().push(text.map(str::to_owned));
    }
}

impl Approver for ScriptedUser {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        self.approvals.lock().unwrap().push(question.tool.name.clone());
        let decision = match self.denies.load(Ordering::SeqCst) {
            true => Decision::Deny { reason: "the user denied it".to_owned() },
            false => Decision::Allow,
        };
        Box::pin(async { decision })
    }
}

/// An agent that is about to make calls.
pub(super) struct Talk {
    runtime: Arc<Runtime>,
    pub(super) agent: Arc<Agent>,
    pub(super) model: Arc<Scripted>,
    events: pinion_agent::channel::EventReceiver,
}

/// A run that has ended.
pub(super) struct Told {
    pub(super) outcome: Outcome,
    pub(super) events: Vec<EventKind>,
}

impl Talk {
    /// Prepares an agent whose model makes these calls, under a config that `change` adjusts.
    pub(super) fn new(
        sandbox: &Sandbox,
        user: Arc<ScriptedUser>,
        calls: impl IntoIterator<Item = (&'static str, Value)>,
        change: impl FnOnce(&mut LoopConfig),
    ) -> Self {
        let model = Arc::new(Scripted { calls: calls.into_iter().collect(), ..Scripted::default() });
        let mut config = LoopConfig::new(model.clone(), Model::default(), sandbox.runtime.clone());
        config.ports.approval = Approval::new(ApprovalMode::Smart, user.clone()).with_user(user);
        config.ports.completer = Some(pinion_orchestration::completions());
        change(&mut config);
        let agent = Arc::new(Agent::new(config, Context::new("You are a test.", "session-1")));
        let events = agent.subscribe(100_000);
        Self { runtime: sandbox.runtime.clone(), agent, model, events }
    }

    /// Runs the agent to its end. If there is another plugin, it is served after that.
    pub(super) async fn run(mut self) -> Told {
        let outcome = self.agent.run(vec![Message::user("go")]).await.unwrap();
        if self.runtime.has_plugin("echo") {
            assert_served(&self.runtime).await;
        }
        let events = std::iter::from_fn(|| self.events.try_recv()).map(|event| event.kind).collect();
        Told { outcome, events }
    }
}

impl Told {
    /// Returns the texts of the results that the model got, in order.
    pub(super) fn results(&self) -> Vec<String> {
        let text = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<String>();
        let results = self.outcome.messages.iter().filter_map(|message| match &**message {
            Message::ToolResult(result) => Some(text(&result.content)),
            _ => None,
        });
        results.collect()
    }

    /// Returns the text of the only result.
    pub(super) fn result(&self) -> String {
        let results = self.results();
        assert_eq!(results.len(), 1, "{results:?}");
        results.into_iter().next().unwrap()
    }

    /// Returns the drawings among the events, as JSON.
    pub(super) fn drawings(&self) -> Vec<Value> {
        let drawings = self.events.iter().filter(|event| matches!(event, EventKind::Drawing { .. }));
        drawings.map(|event| serde_json::to_value(event).unwrap()).collect()
    }
}

/// Checks that the runtime still answers a harmless call.
pub(super) async fn assert_alive(sandbox: &Sandbox) {
    assert!(!sandbox.runtime.definitions().is_empty());
    let said = sandbox.text("talk", json!({ "steps": [{ "notify": ["still here", 1] }] })).await;
    assert_eq!(said, "notified");
}
