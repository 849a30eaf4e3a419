//! Tools and commands that change while a plugin runs.

use futures_util::{FutureExt as _, StreamExt as _};
use pinion_agent::approval::{Approval, ApprovalMode, DenyAll};
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent};
use pinion_agent::tool::ToolError;
use pinion_agent::{Agent, Context, LoopConfig, Message, Model, Provider, ToolExecutor as _};
use pinion_plugin_runtime::{HostAction, NoticeEvent, Runtime};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, guest, until};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The guest `bridge`, which offers this at first, with all its grants.
fn bridge(offer: Value) -> SandboxBuilder {
    // The cache of all tests has the last offer for each config.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = json!([std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)]);
    configured(json!({ "offer": offer, "number": number }))
}

fn configured(config: Value) -> SandboxBuilder {
    SandboxBuilder::default().guest("bridge").trust("bridge").config("bridge", config)
}

fn offer(tools: &[&str]) -> Value {
    json!({ "tools": tools.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() })
}

fn names(runtime: &Runtime) -> Vec<String> {
    runtime.definitions().iter().map(|tool| tool.name.clone()).collect()
}

/// Makes the bridge offer something else, and waits until it does.
async fn steer(sandbox: &Sandbox, offer: Value, expected: &[&str]) {
    sandbox.text("steer", json!({ "offer": offer, "changed": 1 })).await;
    until("the offer has changed", || names(&sandbox.runtime) == expected).await;
}

async fn settled(builder: SandboxBuilder) -> Sandbox {
    let sandbox = builder.build().await;
    sandbox.runtime.offers_settled().await;
    sandbox
}

/// Rewrites a file with the same code but other bytes: an additional empty custom section.
fn rewrite(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_plugin_replaces_the_tools_of_its_load() {
    let sandbox = settled(bridge(offer(&["one", "two"]))).await;
    assert_eq!(names(&sandbox.runtime), ["steer", "one", "two"]);
    assert_eq!(sandbox.text("two", json!({})).await, "two after 1 lists");
    steer(&sandbox, offer(&["three"]), &["steer", "three"]).await;
    assert_eq!(sandbox.text("three", json!({})).await, "three after 2 lists");
    assert_eq!(sandbox.runtime.plugins()[0].generation, 1, "no new generation of code");
    assert_eq!(sandbox.runtime.plugins()[0].tools, ["steer", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_definitions_keep_their_place_and_identity() {
    let sandbox = settled(bridge(offer(&["one", "two", "three"]))).await;
    let before = sandbox.runtime.definitions();
    steer(&sandbox, offer(&["new", "three", "one", "two"]), &["steer", "one", "two", "three", "new"]).await;
    let after = sandbox.runtime.definitions();
    assert!(before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)));
    // The same offer in another order changes nothing at all.
    sandbox.text("steer", json!({ "offer": offer(&["two", "one", "three", "new"]), "changed": 1 })).await;
    steer(&sandbox, offer(&["one", "two", "three"]), &["steer", "one", "two", "three"]).await;
    let last = sandbox.runtime.definitions();
    assert!(before.iter().zip(&last).all(|(before, last)| Arc::ptr_eq(before, last)));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_change_with_the_tools() {
    let sandbox = settled(bridge(json!({ "commands": [{ "name": "hello" }] }))).await;
    let run = |name: &'static str| sandbox.runtime.run_command(name, "", "s", None, CancellationToken::new());
    assert_eq!(run("hello").await.unwrap(), [HostAction::Print("hello".into())]);
    sandbox.text("steer", json!({ "offer": { "commands": [{ "name": "bye" }] }, "changed": 1 })).await;
    until("the command is there", || sandbox.runtime.commands().iter().any(|command| command.name == "bye")).await;
    assert_eq!(run("bye").await.unwrap(), [HostAction::Print("bye".into())]);
    assert!(run("hello").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_instance_is_asked_what_it_offers() {
    let sandbox = settled(bridge(offer(&["one"]))).await;
    steer(&sandbox, offer(&["two"]), &["steer", "two"]).await;
    assert!(sandbox.error("two", json!({ "trap": true })).await.contains("as planned"));
    // The next call creates the instance, which does not know the other offer.
    sandbox.text("two", json!({})).await;
    until("the first offer is back", || names(&sandbox.runtime) == ["steer", "one"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_tool_that_is_gone_says_so() {
    let sandbox = settled(bridge(offer(&["one"]))).await;
    let call = sandbox.invocation("one", json!({}), CancellationToken::new());
    steer(&sandbox, offer(&[]), &["steer"]).await;
    let error = sandbox.runtime.call(call, &Progress::default()).await.result.unwrap_err();
    assert!(matches!(error, ToolError::Failed { .. }), "{error:?}");
    assert_eq!(error.for_model(), "the plugin `bridge` no longer offers `one`");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_ends_although_its_tool_goes_meanwhile() {
    let sandbox = settled(bridge(offer(&["one"]))).await;
    let said = sandbox.text("one", json!({ "offer": offer(&[]), "changed": 1 })).await;
    assert_eq!(said, "one after 1 lists");
    until("the tool is gone", || names(&sandbox.runtime) == ["steer"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offer_survives_a_reload_and_calls_wait_for_the_new_instance() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("bridge.wasm");
    std::fs::copy(guest("bridge"), &file).unwrap();
    let first = json!({ "offer": { "tools": [{ "name": "one" }], "wait_for": "go" } });
    let builder = SandboxBuilder::default().file(file.clone()).trust("bridge").config("bridge", first);
    let sandbox = settled(builder.with_file("workspace/go", "")).await;
    assert_eq!(names(&sandbox.runtime), ["steer", "one"]);
    std::fs::remove_file(sandbox.workspace().join("go")).unwrap();
    rewrite(&file);
    sandbox.runtime.refresh().await;
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
    assert_eq!(names(&sandbox.runtime), ["steer", "one"], "shown until the new instance has answered");
    let call = sandbox.text("one", json!({}));
    tokio::pin!(call);
    assert!(call.as_mut().now_or_never().is_none());
    sandbox.write("go", "");
    assert_eq!(call.await, "one after 1 lists");
}

#[tokio::test(flavor = "multi_thread")]
async fn last_offer_is_shown_at_the_next_start() {
    let cache = TempDir::new().unwrap();
    let config = json!({ "offer": { "tools": [{ "name": "one" }], "wait_for": "go" } });
    let builder = || configured(config.clone()).cache(cache.path());
    settled(builder().with_file("workspace/go", "")).await;
    let sandbox = builder().build().await;
    assert_eq!(names(&sandbox.runtime), ["steer", "one"], "its instance has not answered yet");
    sandbox.write("go", "");
    assert_eq!(sandbox.text("one", json!({})).await, "one after 1 lists");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_list_leaves_the_offer_in_place_and_is_reported_once() {
    let sandbox = settled(bridge(offer(&["one"]))).await;
    for lists in 2..4 {
        sandbox.text("steer", json!({ "offer": { "mode": "fail" }, "changed": 1 })).await;
        let said = format!("steer after {lists} lists");
        let mut now = String::new();
        while now != said {
            now = sandbox.text("steer", json!({})).await;
        }
    }
    assert_eq!(names(&sandbox.runtime), ["steer", "one"]);
    let offers = sandbox.notices().into_iter().filter_map(|notice| match notice.event {
        NoticeEvent::Offer(text) => Some(text),
        _ => None,
    });
    let texts: Vec<String> = offers.collect();
    assert_eq!(texts, ["its list is refused, and the one before stays: the server is down"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_of_lifetime_call_is_asked_on_fresh_instances() {
    let mut bytes = std::fs::read(guest("bridge")).unwrap();
    let manifest = br#"{"manifest":1,"api":"0.1.0","name":"bridge","version":"1","lifetime":"call"}"#;
    let name = b"pinion:manifest";
    let length = u8::try_from(1 + name.len() + manifest.len()).unwrap();
    assert!(length < 128, "one byte of LEB128");
    bytes.extend([0, length, u8::try_from(name.len()).unwrap()]);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(manifest);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("bridge.wasm");
    std::fs::write(&file, bytes).unwrap();
    let config = json!({ "offer": offer(&["one"]), "number": std::process::id() });
    let builder = SandboxBuilder::default().file(file).trust("bridge").config("bridge", config);
    let sandbox = settled(builder).await;
    assert_eq!(sandbox.runtime.problems(), []);
    assert_eq!(names(&sandbox.runtime), ["steer", "one"]);
    assert_eq!(sandbox.text("one", json!({})).await, "one after 0 lists", "its instance never listed anything");
    // The state that a call leaves behind is gone with its instance, and the sign of a change has no effect.
    sandbox.text("steer", json!({ "offer": offer(&["two"]), "changed": 1 })).await;
    sandbox.runtime.offers_settled().await;
    assert_eq!(names(&sandbox.runtime), ["steer", "one"]);
}

/// One reply of the model.
#[derive(Default)]
struct Turn {
    /// Waits until these are the tools, in the middle of the reply.
    until: Option<Vec<&'static str>>,
    call: Option<(&'static str, Value)>,
}

/// Replies as scripted, and records the requests.
struct Scripted {
    runtime: Arc<Runtime>,
    turns: Mutex<VecDeque<Turn>>,
    requests: Mutex<Vec<Request>>,
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Request, _: CancellationToken) -> EventStream {
        self.requests.lock().unwrap().push(request);
        let turn = self.turns.lock().unwrap().pop_front().unwrap_or_default();
        let runtime = self.runtime.clone();
        let mut events = vec![StreamEvent::Start { model: None }];
        let stop_reason = if turn.call.is_some() { StopReason::ToolUse } else { StopReason::Stop };
        if let Some((name, arguments)) = turn.call {
            let id = format!("call-{}", self.turns.lock().unwrap().len());
            events.push(StreamEvent::PartStart { index: 0, part: PartKind::ToolCall { id, name: name.into() } });
            events.push(StreamEvent::Delta { index: 0, delta: arguments.to_string() });
            events.push(StreamEvent::PartEnd { index: 0, signature: None });
        }
        events.push(StreamEvent::End { stop_reason });
        async move {
            if let Some(expected) = turn.until {
                until("the tools have changed", || names(&runtime) == expected).await;
            }
            futures_util::stream::iter(events.into_iter().map(Ok))
        }
        .flatten_stream()
        .boxed()
    }
}

/// Runs an agent on the bridge and returns the requests to the model.
async fn requests(sandbox: &Sandbox, turns: Vec<Turn>) -> Vec<Request> {
    let (runtime, turns) = (sandbox.runtime.clone(), Mutex::new(turns.into()));
    let model = Arc::new(Scripted { runtime: runtime.clone(), turns, requests: Mutex::default() });
    let mut config = LoopConfig::new(model.clone(), Model::default(), runtime);
    config.ports.approval = Approval::new(ApprovalMode::All, Arc::new(DenyAll { reason: "nobody".into() }));
    Agent::new(config, Context::new("You are a test.", "s")).run(vec![Message::user("go")]).await.unwrap();
    std::mem::take(&mut *model.requests.lock().unwrap())
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| &*tool.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn change_in_the_middle_of_a_turn_is_seen_at_the_next_request() {
    let sandbox = settled(bridge(offer(&["one"]))).await;
    let other = json!({ "offer": offer(&["two"]), "changed": 1 });
    let turns = vec![
        Turn { until: None, call: Some(("steer", other)) },
        Turn { until: Some(vec!["steer", "two"]), call: Some(("two", json!({}))) },
    ];
    let requests = requests(&sandbox, turns).await;
    let tools: Vec<_> = requests.iter().map(offered).collect();
    assert_eq!(tools, [["steer", "one"], ["steer", "one"], ["steer", "two"]]);
    assert!(Arc::ptr_eq(&requests[0].tools[0], &requests[2].tools[0]), "the beginning of the request is the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_are_in_the_prompt_while_a_tool_is_offered() {
    let sandbox = settled(bridge(json!({ "instructions": "Be brief.\n# Not a section" }))).await;
    let requests = requests(&sandbox, Vec::new()).await;
    let expected =
        "You are a test.\n\n# Tools\n\nThe plugin `bridge` says about its tools:\n\n> Be brief.\n> # Not a section";
    assert_eq!(&*requests[0].system, expected);
    let alone = settled(bridge(json!({ "instructions": "Be brief.", "alone": true }))).await;
    let requests = self::requests(&alone, Vec::new()).await;
    assert_eq!(&*requests[0].system, "You are a test.");
}
