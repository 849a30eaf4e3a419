//! A scripted model, scripted tools and a store, for the tests of the loop.

use crate::*;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// One reply of the scripted model.
pub(crate) enum Reply {
    Events(Vec<StreamEvent>),
    /// These, and then an error.
    Fails(Vec<StreamEvent>, ProviderError),
    /// These, and then nothing more, not even an end.
    Hangs(Vec<StreamEvent>),
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::Events(text_events(text, StopReason::Stop))
}

pub(crate) fn text_events(text: &str, stop_reason: StopReason) -> Vec<StreamEvent> {
    vec![
        StreamEvent::Start { model: None },
        StreamEvent::PartStart { index: 0, part: PartKind::Text },
        StreamEvent::Delta { index: 0, delta: text.into() },
        StreamEvent::PartEnd { index: 0, signature: None },
        StreamEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() }),
        StreamEvent::End { stop_reason },
    ]
}

/// Calls of tools: name and arguments; their ids are `call-0`, `call-1`, …
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    Reply::Events(call_events(calls, StopReason::ToolUse))
}

pub(crate) fn call_events(calls: &[(&str, Value)], stop_reason: StopReason) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Start { model: None }];
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let part = PartKind::ToolCall { id: format!("call-{index}"), name: (*name).into() };
        events.push(StreamEvent::PartStart { index, part });
        let delta = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        events.push(StreamEvent::Delta { index, delta });
        events.push(StreamEvent::PartEnd { index, signature: None });
    }
    events.push(StreamEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() }));
    events.push(StreamEvent::End { stop_reason });
    events
}

#[derive(Default)]
pub(crate) struct ScriptedModel {
    replies: Mutex<VecDeque<Reply>>,
    pub(crate) requests: Mutex<Vec<Request>>,
}

impl ScriptedModel {
    pub(crate) fn with(replies: Vec<Reply>) -> Self {
        Self { replies: Mutex::new(replies.into()), ..Self::default() }
    }
}

impl Provider for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        self.requests.lock().unwrap().push(request);
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or_else(|| says("nothing left to say"));
        let ok = |events: Vec<StreamEvent>| futures_util::stream::iter(events.into_iter().map(Ok));
        match reply {
            Reply::Events(events) => ok(events).boxed(),
            Reply::Fails(events, error) => ok(events).chain(futures_util::stream::iter([Err(error)])).boxed(),
            Reply::Hangs(events) => ok(events)
                .chain(futures_util::stream::once(async move {
                    token.cancelled().await;
                    Err(ProviderError::Cancelled)
                }))
                .boxed(),
        }
    }
}

/// Behavior of a scripted tool.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answers at once.
    Answer(&'static str),
    /// Answers after others could have begun.
    Yield(&'static str),
    /// Answers with the number of calls so far, over all tools.
    Count,
    /// Panics at once.
    Panic(&'static str),
    /// Fails at once.
    Fail(&'static str),
    /// Begins, and ends when it is let.
    Wait(Arc<Notify>),
    /// Begins, and ends with [`ToolError::Cancelled`] when it is cancelled.
    UntilCancelled,
    /// Begins, and ends with an answer when it is cancelled.
    AnswerOnCancel(&'static str),
    /// Answers with so many bytes.
    Long(usize),
    /// Shows this, and answers.
    Update(&'static str),
    /// Reports this often, and answers.
    Report(usize),
    /// Starts a sub-agent with no more authority than that, and answers with its answer.
    Delegate(Assignment, Authority),
    /// Starts a sub-agent, and ends without waiting for it.
    Forget(Assignment),
}

#[derive(Default)]
pub(crate) struct ScriptedTools {
    tools: Vec<(Arc<ToolDefinition>, Act)>,
    /// `+name` when a call begins, `-name` when it ends.
    pub(crate) log: Mutex<Vec<String>>,
    begun: Notify,
}

impl ScriptedTools {
    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
        self.begun.notify_waiters();
    }

    /// Ends once that line is in the log.
    pub(crate) async fn reached(&self, line: &str) {
        loop {
            let news = self.begun.notified();
            if self.log.lock().unwrap().iter().any(|l| l == line) {
                return;
            }
            news.await;
        }
    }
}

impl ToolExecutor for ScriptedTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.tools.iter().map(|(definition, _)| definition.clone()).collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let Some((_, act)) = self.tools.iter().find(|(tool, _)| tool.name == call.name()) else {
                return Err(ToolError::UnknownTool { tool: call.tool.name.clone(), suggestions: vec![] }).into();
            };
            self.note(format!("+{}", call.call_id));
            let tool = call.tool.name.clone();
            let result = match act {
                Act::Answer(text) => Ok(ToolOutput::text(*text)),
                Act::Yield(text) => {
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    Ok(ToolOutput::text(*text))
                }
                Act::Count => Ok(ToolOutput::text(self.log.lock().unwrap().len().to_string())),
                Act::Panic(message) => panic!("{message}"),
                Act::Fail(message) => Err(ToolError::Failed { tool, message: (*message).into(), retryable: false }),
                Act::Wait(gate) => {
                    gate.notified().await;
                    Ok(ToolOutput::text("let go"))
                }
                Act::UntilCancelled => {
                    call.token.cancelled().await;
                    Err(ToolError::Cancelled { tool })
                }
                Act::AnswerOnCancel(text) => {
                    call.token.cancelled().await;
                    Ok(ToolOutput::text(*text))
                }
                Act::Long(bytes) => Ok(ToolOutput::text("x".repeat(*bytes))),
                Act::Update(text) => {
                    progress.update(vec![Content::text(*text)]);
                    Ok(ToolOutput::text("shown"))
                }
                Act::Delegate(assignment, at_most) => match call.agents {
                    None => Err(ToolError::Denied { tool, reason: "no sub-agents here".into() }),
                    Some(agents) => match agents.run(assignment.clone(), *at_most, |_| true).await {
                        Ok(report) => Ok(ToolOutput::text(report.for_model())),
                        Err(SubAgentError::Cancelled) => Err(ToolError::Cancelled { tool }),
                        Err(error) => Err(ToolError::Failed { tool, message: error.to_string(), retryable: false }),
                    },
                },
                Act::Forget(assignment) => {
                    let agents = call.agents.unwrap();
                    let mut running = Box::pin(agents.run(assignment.clone(), Authority::ALL, |_| true));
                    assert!(futures_util::poll!(&mut running).is_pending());
                    // Until its model was asked.
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    Ok(ToolOutput::text("forgotten"))
                }
                Act::Report(times) => {
                    (0..*times).for_each(|n| progress.report(format!("{n}")));
                    Ok(ToolOutput::text("reported"))
                }
            };
            self.note(format!("-{}", call.call_id));
            ToolReply { result, ledger: Some(Ledger { plugin: "scripted".into(), ..Ledger::default() }) }
        })
    }
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) kept: Mutex<Vec<Arc<Message>>>,
    /// Fails from this message on.
    full_after: Option<usize>,
    /// Name of the sub-agent.
    name: String,
    /// Sessions of sub-agents, with the calls that they work on.
    pub(crate) children: Mutex<Vec<(String, Arc<Store>)>>,
}

impl SessionStore for Store {
    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        let mut children = self.children.lock().unwrap();
        let name = format!("{}child{}", self.name, children.len() + 1);
        let store = Arc::new(Store { name: name.clone(), ..Store::default() });
        children.push((format!("{} {} {} {}", call.tool, call.call_id, call.agent_id, call.run_id), store.clone()));
        Some(ChildSession { id: name.into(), store })
    }

    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        let mut kept = self.kept.lock().unwrap();
        if self.full_after.is_some_and(|full| kept.len() >= full) {
            return Err(StoreError { message: "disk full".into(), source: None });
        }
        kept.push(message.clone());
        Ok(())
    }
}

/// Answers every question the same way, and remembers the questions.
pub(crate) struct Answers {
    pub(crate) decision: Decision,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Approver for Answers {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        let agent = question.agent.map(|agent| format!("{agent}: ")).unwrap_or_default();
        self.asked.lock().unwrap().push(format!("{agent}{}", question.tool.name));
        Box::pin(async { self.decision.clone() })
    }
}

/// A loop in the making.
pub(crate) struct Setup {
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) tools: ScriptedTools,
    pub(crate) store: Store,
    pub(crate) strategy: Strategy,
    pub(crate) limits: RunLimits,
    pub(crate) mode: ApprovalMode,
    pub(crate) approver: Arc<Answers>,
    pub(crate) model_info: Model,
    pub(crate) queue_mode: QueueMode,
    pub(crate) compaction: CompactionPolicy,
    pub(crate) hooks: Vec<Arc<dyn Hooks>>,
    pub(crate) filters: Vec<Arc<dyn InputFilter>>,
    pub(crate) sub_agents: SubAgentPolicy,
}

impl Setup {
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        let model = ScriptedModel::with(replies);
        let approver = Answers { decision: Decision::Allow, asked: Mutex::default() };
        Self {
            model: Arc::new(model),
            tools: ScriptedTools::default(),
            store: Store::default(),
            strategy: Strategy::Parallel,
            limits: RunLimits { max_time: None, ..RunLimits::default() },
            mode: ApprovalMode::Smart,
            approver: Arc::new(approver),
            model_info: Model { name: "m".into(), ..Model::default() },
            queue_mode: QueueMode::OneAtATime,
            compaction: CompactionPolicy::default(),
            hooks: vec![],
            filters: vec![],
            sub_agents: SubAgentPolicy::default(),
        }
    }

    /// A tool that takes an optional `text` and can do no harm.
    pub(crate) fn tool(self, name: &str, act: Act) -> Self {
        self.tool_with(name, act, |_| {})
    }

    pub(crate) fn tool_with(mut self, name: &str, act: Act, change: impl FnOnce(&mut ToolDefinition)) -> Self {
        let mut definition = ToolDefinition {
            name: name.into(),
            label: name.into(),
            description: "A scripted tool.".into(),
            input_schema: json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
            guidelines: vec![],
            authority: Authority::READ_ONLY,
            execution: Execution::Parallel,
            source: Default::default(),
        };
        change(&mut definition);
        self.tools.tools.push((Arc::new(definition), act));
        self
    }

    pub(crate) fn full_after(mut self, messages: usize) -> Self {
        self.store.full_after = Some(messages);
        self
    }

    pub(crate) fn build(self) -> Harness {
        let (tools, store) = (Arc::new(self.tools), Arc::new(self.store));
        let mut config = LoopConfig::new(self.model.clone(), self.model_info, tools.clone());
        config.ports.approval = Approval::new(self.mode, self.approver.clone());
        config.ports.store = store.clone();
        config.ports.retry = Arc::new(Backoff { jitter: (1.0, 1.0), ..Backoff::default() });
        config.ports.hooks = self.hooks;
        config.ports.filters = self.filters;
        config.ports.spawner = crate::test_spawner(self.sub_agents);
        config.policy.strategy = self.strategy;
        config.policy.limits = self.limits;
        config.policy.compaction = self.compaction;
        config.inbox.steering = Arc::new(MessageQueue::new(self.queue_mode));
        config.inbox.follow_up = Arc::new(MessageQueue::new(self.queue_mode));
        let context = Context::new("You are a test.", "s");
        let agent = Agent::new(config, context);
        let seen = agent.subscribe(10_000);
        Harness { agent: Arc::new(agent), model: self.model, tools, store, approver: self.approver, seen }
    }
}

/// A loop, and everything around it.
pub(crate) struct Harness {
    pub(crate) agent: Arc<Agent>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) tools: Arc<ScriptedTools>,
    pub(crate) store: Arc<Store>,
    pub(crate) approver: Arc<Answers>,
    seen: EventReceiver,
}

impl Harness {
    pub(crate) async fn prompt(&self, text: &str) -> Outcome {
        self.agent.run(vec![Message::user(text)]).await.unwrap()
    }

    pub(crate) fn config(&self) -> LoopConfig {
        self.agent.config()
    }

    /// The events so far.
    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        self.events_of_runs().into_iter().map(|event| event.kind).collect()
    }

    /// Returns the events that arrived, with the ids of their runs.
    pub(crate) fn events_of_runs(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.seen.try_recv()).collect()
    }

    /// The names of the events so far, without events of messages.
    pub(crate) fn event_names(&mut self) -> Vec<String> {
        let names = self
            .events()
            .into_iter()
            .map(|event| serde_json::to_value(&event).unwrap()["type"].as_str().unwrap().to_owned());
        names.filter(|name| !name.starts_with("message")).collect()
    }

    /// The messages of the last request, in letters.
    pub(crate) fn last_request(&self) -> Vec<String> {
        let requests = self.model.requests.lock().unwrap();
        requests.last().unwrap().messages.iter().map(|m| letters(m)).collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.model.requests.lock().unwrap().len()
    }
}

/// `user: …`, `assistant: …`, `assistant calls …`, `result …: …`, `failed …: …`.
pub(crate) fn letters(message: &Message) -> String {
    let text = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<String>();
    match message {
        Message::User(m) => format!("user: {}", text(&m.content)),
        Message::Assistant(m) => {
            let calls: Vec<&str> = m.tool_calls().map(|c| c.id.as_str()).collect();
            if calls.is_empty() {
                format!("assistant: {}", m.text())
            } else {
                format!("assistant calls {}", calls.join(" "))
            }
        }
        Message::ToolResult(m) => {
            format!("{} {}: {}", if m.is_error { "failed" } else { "result" }, m.call_id, text(&m.content))
        }
        Message::Extension(m) => format!("extension {}", m.kind),
    }
}

/// Each call of the messages has one result, before the next message that is not a result, in the order of the calls.
pub(crate) fn assert_paired(messages: &[Arc<Message>]) {
    let mut open: VecDeque<String> = VecDeque::new();
    for message in messages {
        match &**message {
            Message::ToolResult(result) => {
                assert_eq!(open.pop_front().as_deref(), Some(result.call_id.as_str()), "results come in order");
            }
            Message::Extension(_) => {}
            other => {
                assert!(open.is_empty(), "{open:?} have no result before {}", letters(other));
                if let Message::Assistant(reply) = other {
                    open.extend(reply.tool_calls().map(|call| call.id.clone()));
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result");
}

/// Counts each name.
pub(crate) fn counts(names: &[String]) -> HashMap<&str, usize> {
    names.iter().fold(HashMap::new(), |mut counts, name| {
        *counts.entry(name.as_str()).or_default() += 1;
        counts
    })
}
