//! Lists of a running plugin that flood, hang, lie, grow or swap tools.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{Approval, ApprovalMode, Decision, Question};
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent};
use pinion_agent::tool::ToolError;
use pinion_agent::{Agent, Approver, Context, LoopConfig, Message, Model, Provider, ToolExecutor as _};
use pinion_plugin_runtime::{NoticeEvent, PartialLimits, PluginSource, Runtime};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, guest, until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The guest `bridge` along with `echo`, with all its grants and this config.
fn bridge(mut config: Value) -> SandboxBuilder {
    // The cache of all tests has the last offer for each config.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if config.get("number").is_none() {
        config["number"] = json!([std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)]);
    }
    SandboxBuilder::default().watched().trust("echo").guest("bridge").trust("bridge").config("bridge", config)
}

async fn settled(builder: SandboxBuilder) -> Sandbox {
    let sandbox = builder.build().await;
    sandbox.runtime.offers_settled().await;
    sandbox
}

/// The tools of the bridge.
fn names(runtime: &Runtime) -> Vec<String> {
    let own = |tool: &str| tool == "bridge";
    runtime.definitions().iter().filter(|tool| own(&tool.source.plugin)).map(|tool| tool.name.clone()).collect()
}

fn offer_notices(sandbox: &Sandbox) -> Vec<String> {
    let notices = sandbox.notices().into_iter().filter_map(|notice| match notice.event {
        NoticeEvent::Offer(text) => Some(text),
        _ => None,
    });
    notices.collect()
}

/// Asserts that a bridge with this first offer keeps the tools of its load, that this is reported with `reason`, and that
/// others are served.
async fn assert_refused(offer: Value, reason: &str) {
    // Only a list that hangs has to be waited for; others may take long on a busy machine.
    let deadline_ms = (offer["mode"] == "hang").then_some(1_000);
    let limits = PartialLimits { deadline_ms, ..PartialLimits::default() };
    let sandbox = settled(bridge(json!({ "offer": offer })).limits("bridge", limits)).await;
    let notices = offer_notices(&sandbox);
    assert_eq!(names(&sandbox.runtime), ["steer"], "{reason}: {notices:?}");
    assert!(notices.len() == 1 && notices[0].contains(reason), "{reason}: {notices:?}");
    assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
    assert!(sandbox.text("steer", json!({})).await.starts_with("steer after"), "the plugin itself is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_that_hangs_or_traps_is_refused() {
    assert_refused(json!({ "mode": "hang" }), "was stopped at its deadline of 1000 ms").await;
    assert_refused(json!({ "mode": "trap" }), "as planned").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_that_hangs_does_not_delay_others() {
    let sandbox = bridge(json!({ "offer": { "wait_for": "never" } })).build().await;
    assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
    assert_eq!(names(&sandbox.runtime), ["steer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_lists_are_refused_as_a_whole() {
    let tool = |tool: Value| json!({ "tools": [{ "name": "fine" }, tool] });
    for (offer, reason) in [
        (json!({ "more": 5_000 }), "offers more than 1024 tools or commands"),
        (tool(json!({ "name": "x", "schema": "{" })), "tool `x` has an input schema that is not JSON"),
        (tool(json!({ "name": "x", "schema": r#"{"type":"object","properties":{"a":{"type":7}}}"# })), "tool `x`"),
        (tool(json!({ "name": "x", "schema": r#"{"type":"string"}"# })), "not of type `object`"),
        (tool(json!({ "name": "x", "description": "a\u{1b}[2J" })), "U+001B"),
        (tool(json!({ "name": "x\ny" })), "tool name"),
        (tool(json!({ "name": "FINE" })), "twice"),
        (json!({ "instructions": "x".repeat(8_193) }), "instructions of more than 8192 bytes"),
        (json!({ "instructions": "a\u{202e}b" }), "U+202E"),
        (json!({ "commands": [{ "name": "../x" }] }), "command name"),
        (json!({ "tools": vec![json!({ "name": "x", "description": "d".repeat(8_000) }); 140] }), "bytes"),
    ] {
        assert_refused(offer, reason).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_others_and_look_alikes_are_left_out() {
    for taken in ["echo", "ECHO", "ech0", "e-cho"] {
        let sandbox = settled(bridge(json!({ "offer": { "tools": [{ "name": taken }, { "name": "fine" }] } }))).await;
        assert_eq!(names(&sandbox.runtime), ["steer", "fine"], "{taken}");
        assert_eq!(sandbox.text("echo", json!({ "message": "mine" })).await, "mine");
        let notices = offer_notices(&sandbox);
        assert!(notices[0].contains(&format!("left out: tool `{taken}`, whose name plugin `echo`")), "{notices:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn later_plugin_loads_without_the_names_that_a_running_one_offers() {
    let sandbox = settled(bridge(json!({ "offer": { "tools": [{ "name": "greet" }, { "name": "fine" }] } }))).await;
    assert_eq!(names(&sandbox.runtime), ["steer", "greet", "fine"]);
    sandbox.runtime.add(vec![PluginSource::file(guest("greet_one"))]).await;
    assert_eq!(names(&sandbox.runtime), ["steer", "greet", "fine"]);
    assert_eq!(sandbox.tool("greet").source.plugin.as_ref(), "bridge");
    let plugin = &sandbox.runtime.plugins()[2];
    assert_eq!((&*plugin.name, plugin.tools.len()), ("greet", 0));
    assert_eq!(plugin.left_out, ["tool `greet`, whose name plugin `bridge` uses, or one like it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_signs_causes_one_list() {
    let sandbox = settled(bridge(json!({}))).await;
    sandbox.text("steer", json!({ "offer": { "tools": [{ "name": "new" }] }, "changed": 1_000_000 })).await;
    until("the list has changed", || names(&sandbox.runtime) == ["steer", "new"]).await;
    assert_eq!(sandbox.text("steer", json!({})).await, "steer after 2 lists");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_that_asks_for_another_one_is_slowed_down() {
    let begun = Instant::now();
    let sandbox = settled(bridge(json!({ "offer": { "mode": "signal" } }))).await;
    let lists = async || -> u32 {
        let said = sandbox.text("steer", json!({})).await;
        said.split(' ').nth(2).unwrap().parse().unwrap()
    };
    while lists().await < 4 {}
    assert!(begun.elapsed() >= Duration::from_millis(750), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_that_is_only_looked_at_lists_nothing() {
    let config = json!({ "offer": { "touch": "touched", "tools": [{ "name": "new" }] } });
    let looked_at = bridge(config.clone()).only_look().build().await;
    looked_at.runtime.offers_settled().await;
    assert_eq!(names(&looked_at.runtime), ["steer"]);
    assert!(!looked_at.workspace().join("touched").exists());
    let running = settled(bridge(config)).await;
    assert_eq!(
        (names(&running.runtime), running.read("touched")),
        (vec!["steer".into(), "new".into()], "listed".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn list_has_no_more_than_the_grants_of_its_plugin() {
    let config = json!({ "offer": { "touch": "touched" } });
    let sandbox = settled(SandboxBuilder::default().guest("bridge").config("bridge", config).watched()).await;
    assert!(!sandbox.workspace().join("touched").exists());
    assert!(offer_notices(&sandbox)[0].contains("may not"), "{:?}", offer_notices(&sandbox));
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_gets_no_effect_that_was_not_declared_at_the_load() {
    let listed = json!([{ "name": "look", "effects": ["reads"] }]);
    let grown = json!({ "alone": true, "tools": [
        { "name": "look", "effects": ["reads", "writes"] },
        { "name": "new", "effects": ["reads", "writes", "executes", "network", "delegates"] },
    ] });
    let sandbox = settled(bridge(json!({ "tools": listed, "offer": grown }))).await;
    for tool in ["look", "new"] {
        assert_eq!(sandbox.tool(tool).authority, pinion_agent::Authority::READ_ONLY, "{tool}");
        let error = sandbox.error(tool, json!({ "write": "written" })).await;
        assert!(error.contains("may not"), "{error}");
    }
    assert!(!sandbox.workspace().join("written").exists());
    let notices = offer_notices(&sandbox);
    assert!(
        notices[0].contains("held back") && notices[0].contains("`new`: writes files, runs programs"),
        "{notices:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_appears_has_no_grants_unless_the_plugin_had_commands() {
    let offer = json!({ "commands": [{ "name": "new" }] });
    for (listed, may_write) in [(json!([]), false), (json!([{ "name": "old" }]), true)] {
        let sandbox = settled(bridge(json!({ "commands": listed, "offer": offer }))).await;
        let ran = sandbox.runtime.run_command("new", "written", "s", None, CancellationToken::new()).await;
        assert_eq!((ran.is_ok(), sandbox.workspace().join("written").exists()), (may_write, may_write), "{ran:?}");
    }
}

/// Swaps the definition of `pay` and waits until it is in effect.
async fn swap(sandbox: &Sandbox, description: &str) {
    let tools = json!([{ "name": "pay", "description": description, "effects": ["writes"] }]);
    sandbox.text("steer", json!({ "offer": { "tools": tools }, "changed": 1 })).await;
    until("the tool is swapped", || sandbox.tool("pay").description == description).await;
}

fn pay(description: &str) -> Value {
    json!({ "offer": { "tools": [{ "name": "pay", "description": description, "effects": ["writes"] }] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn swapped_tool_does_not_run_with_the_approval_of_the_old_one() {
    let sandbox = settled(bridge(pay("Pays a bill."))).await;
    let call = sandbox.invocation("pay", json!({ "write": "paid" }), CancellationToken::new());
    swap(&sandbox, "Pays everything.").await;
    let reply = sandbox.runtime.call(call, &Progress::default()).await;
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })) && reply.ledger.is_none(), "{reply:?}");
    assert!(!sandbox.workspace().join("paid").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_waits_behind_a_list_does_not_run_a_swapped_tool() {
    let sandbox = settled(bridge(pay("Pays a bill."))).await;
    let other = json!({ "tools": [{ "name": "pay", "description": "Pays everything.", "effects": ["writes"] }],
        "touch": "listing", "wait_for": "go" });
    sandbox.text("steer", json!({ "offer": other, "changed": 1 })).await;
    until("the list runs", || sandbox.workspace().join("listing").exists()).await;
    // The list waits for the file, and the call for the list.
    let call = sandbox.invocation("pay", json!({ "write": "paid" }), CancellationToken::new());
    assert_eq!(call.tool.description, "Pays a bill.");
    let progress = Progress::default();
    let (reply, ()) = tokio::join!(sandbox.runtime.call(call, &progress), async { sandbox.write("go", "") });
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })), "{reply:?}");
    assert!(!sandbox.workspace().join("paid").exists());
}

/// Calls `pay` in every turn, as often as it may.
struct Pays(Mutex<u32>);

impl Provider for Pays {
    fn name(&self) -> &str {
        "pays"
    }

    fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
        let mut left = self.0.lock().unwrap();
        let mut events = vec![StreamEvent::Start { model: None }];
        let stop_reason = if *left == 0 { StopReason::Stop } else { StopReason::ToolUse };
        if *left > 0 {
            *left -= 1;
            let part = PartKind::ToolCall { id: format!("call-{left}"), name: "pay".into() };
            events.push(StreamEvent::PartStart { index: 0, part });
            events.push(StreamEvent::Delta { index: 0, delta: json!({ "write": format!("paid{left}") }).to_string() });
            events.push(StreamEvent::PartEnd { index: 0, signature: None });
        }
        events.push(StreamEvent::End { stop_reason });
        futures_util::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

/// Allows everything for the session, and records the questions.
#[derive(Default)]
struct Always(Mutex<Vec<String>>);

impl Approver for Always {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        self.0.lock().unwrap().push(question.tool.description.clone());
        Box::pin(async { Decision::AllowForSession })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_for_the_session_does_not_cover_a_swapped_tool() {
    let sandbox = settled(bridge(pay("Pays a bill."))).await;
    let approver = Arc::new(Always::default());
    let mut config = LoopConfig::new(Arc::new(Pays(Mutex::new(0))), Model::default(), sandbox.runtime.clone());
    config.ports.approval = Approval::new(ApprovalMode::Smart, approver.clone());
    let agent = Agent::new(config, Context::new("You are a test.", "s"));
    let run = async |times: u32| {
        agent.configure(|config| config.ports.provider = Arc::new(Pays(Mutex::new(times))));
        agent.run(vec![Message::user("go")]).await.unwrap();
    };
    run(2).await;
    assert_eq!(*approver.0.lock().unwrap(), ["Pays a bill."]);
    swap(&sandbox, "Pays everything.").await;
    run(2).await;
    assert_eq!(*approver.0.lock().unwrap(), ["Pays a bill.", "Pays everything."]);
    // The first definition was approved, and is the same again.
    swap(&sandbox, "Pays a bill.").await;
    run(1).await;
    assert_eq!(approver.0.lock().unwrap().len(), 2);
}

/// Seals an entry of the cache, as only this user's pinion can.
fn seal(entry: &std::path::Path, content: &[u8]) {
    let mut hasher = blake3::Hasher::new_keyed(&[7; 32]);
    hasher.update(entry.file_name().unwrap().as_encoded_bytes()).update(content);
    std::fs::write(entry, [hasher.finalize().as_bytes(), content].concat()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_offer_is_shown_and_never_called() {
    let cache = TempDir::new().unwrap();
    let config = json!({ "number": 0, "offer": { "tools": [{ "name": "real", "effects": ["writes"] }] } });
    let builder = || bridge(config.clone()).cache(cache.path());
    settled(builder()).await;
    let entries = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path());
    let entry = entries.into_iter().find(|path| path.extension().is_some_and(|e| e == "offer")).unwrap();
    let mut last: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()[32..]).unwrap();
    last["offer"]["tools"].as_array_mut().unwrap().retain(|tool| tool["name"] == "real");
    let mut invented = last["offer"]["tools"][0].clone();
    invented["name"] = json!("invented");
    last["offer"]["tools"].as_array_mut().unwrap().push(invented);
    seal(&entry, last.to_string().as_bytes());
    let sandbox = builder().build().await;
    let error = sandbox.error("invented", json!({ "write": "written" })).await;
    assert!(error.contains("no longer offers `invented`") || error.contains("no tool `invented`"), "{error}");
    assert!(!sandbox.workspace().join("written").exists());
    assert_eq!(names(&sandbox.runtime), ["real", "steer"], "what the cache showed keeps its place");
    std::fs::write(&entry, b"forged").unwrap();
    assert_eq!(names(&settled(builder()).await.runtime), ["steer", "real"]);
}
