//! Approvals, and tools that change.

use super::*;
use futures_util::{FutureExt as _, StreamExt as _};
use pinion_agent::approval::{Approval, ApprovalMode, Decision, Question};
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent};
use pinion_agent::tool::ToolError;
use pinion_agent::{Agent, Approver, Context, LoopConfig, Message, Model, Provider};
use pinion_tests::{Progress, until};
use tokio_util::sync::CancellationToken;

/// An approval is bound to the digest in `source.definition`; see `tests/hostile/offers.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn approval_is_bound_to_the_command_and_the_definition() {
    let described = |about: &str| {
        let schema = json!({ "type": "object" });
        defined("pay", json!({ "name": "pay", "description": "Pays.", "inputSchema": schema, "outputSchema": about }))
    };
    let servers = Servers::echoing(vec![server("a", vec![described("x")])]);
    let sandbox = bridge(&servers).await;
    let approved = sandbox.invocation("a__pay", json!({}), CancellationToken::new());
    let digest = |sandbox: &Sandbox| sandbox.tool("a__pay").source.definition.clone();
    let first = digest(&sandbox);
    servers.replace(vec![server("a", vec![described("y")])]);
    until("the definition has changed", || digest(&sandbox) != first).await;
    let second = digest(&sandbox);
    let shown = sandbox.tool("a__pay");
    assert_eq!((&shown.description, &shown.input_schema), (&approved.tool.description, &approved.tool.input_schema));
    let reply = sandbox.runtime.call(approved, &Progress::default()).await;
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })), "{reply:?}");
    let other_command = McpServer { identity: "another command".into(), ..server("a", vec![described("y")]) };
    servers.replace(vec![other_command]);
    until("the command has changed", || digest(&sandbox) != second).await;
    assert_eq!(servers.received(), [], "no call reached the server");
}

/// Calls these tools, one in each turn, and records the requests. A turn begins once `before` has these tools.
struct Scripted {
    sandbox: Arc<Sandbox>,
    calls: Mutex<Vec<(Vec<&'static str>, Option<&'static str>)>>,
    requests: Mutex<Vec<Request>>,
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Request, _: CancellationToken) -> EventStream {
        self.requests.lock().unwrap().push(request);
        let (expected, call) = self.calls.lock().unwrap().remove(0);
        let sandbox = self.sandbox.clone();
        let mut events = vec![StreamEvent::Start { model: None }];
        if let Some(name) = call {
            let id = format!("call-{}", self.calls.lock().unwrap().len());
            events.push(StreamEvent::PartStart { index: 0, part: PartKind::ToolCall { id, name: name.into() } });
            events.push(StreamEvent::Delta { index: 0, delta: "{}".into() });
            events.push(StreamEvent::PartEnd { index: 0, signature: None });
        }
        events.push(StreamEvent::End {
            stop_reason: if call.is_some() { StopReason::ToolUse } else { StopReason::Stop },
        });
        async move {
            until("the tools have changed", || names(&sandbox) == expected).await;
            futures_util::stream::iter(events.into_iter().map(Ok))
        }
        .flatten_stream()
        .boxed()
    }
}

/// Allows everything for the session, and records the questions.
#[derive(Default)]
struct Always(Mutex<Vec<String>>);

impl Approver for Always {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        self.0.lock().unwrap().push(question.tool.name.clone());
        Box::pin(async { Decision::AllowForSession })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_in_mid_turn_keeps_the_prompt_and_asks_about_new_tools() {
    let listed = Mutex::new(vec![server("a", vec![tool("one"), tool("two")]), server("b", vec![tool("late")])]);
    let changed: Arc<std::sync::OnceLock<Arc<Servers>>> = Arc::default();
    let changing = changed.clone();
    let servers = Servers::new(vec![server("a", vec![tool("one")])], move |request| {
        if matches!(request, McpRequest::CallTool { name, .. } if name == "one") {
            changing.get().unwrap().replace(listed.lock().unwrap().clone());
        }
        Ok(text("done"))
    });
    let _ = changed.set(servers.clone());
    let sandbox = Arc::new(bridge(&servers).await);
    let all = vec!["a__one", "a__two", "b__late"];
    let calls = vec![
        (vec!["a__one"], Some("a__one")),
        (all.clone(), Some("b__late")),
        (all.clone(), Some("b__late")),
        (all, None),
    ];
    let (calls, requests) = (Mutex::new(calls), Mutex::default());
    let model = Arc::new(Scripted { sandbox: sandbox.clone(), calls, requests });
    let approver = Arc::new(Always::default());
    let mut config = LoopConfig::new(model.clone(), Model::default(), sandbox.runtime.clone());
    config.ports.approval = Approval::new(ApprovalMode::Smart, approver.clone());
    Agent::new(config, Context::new("You are a test.", "s")).run(vec![Message::user("go")]).await.unwrap();
    let requests = std::mem::take(&mut *model.requests.lock().unwrap());
    let last = requests.last().unwrap();
    assert_eq!((requests.len(), last.tools.len()), (4, 3));
    assert!(Arc::ptr_eq(&requests[0].tools[0], &last.tools[0]) && requests[0].system == last.system);
    assert_eq!(*approver.0.lock().unwrap(), ["a__one", "b__late"], "each tool is asked about once");
}
