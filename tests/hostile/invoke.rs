//! Calls that tools make: no more tools, effects or depth than they may have, and everything that guards a call of the
//! model guards them.

use super::talks::{ScriptedUser, Talk, Told, assert_alive, steps};
use pinion_agent::content::ToolCall;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::hooks::HookVerdict;
use pinion_agent::{EventKind, Hooks, RunEnd, ToolExecutor as _};
use pinion_plugin_runtime::{EngineLimits, InvokeGrant, PartialLimits};
use pinion_tests::{Sandbox, SandboxBuilder, builtin, guest};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

fn builder() -> SandboxBuilder {
    SandboxBuilder::default().guest("talker").guest("echo").trust("echo").grant("talker", |grants| {
        grants.invoke = Some(InvokeGrant::default());
        grants.ui = true;
    })
}

/// Returns `talker` under another name, with tools of other names: `tolker`, `tolk` and so on.
fn other_talker(directory: &TempDir) -> PathBuf {
    let mut bytes = std::fs::read(guest("talker")).unwrap();
    // The name as text, and as the operand of `i32.const`.
    let names: [(&[u8], &[u8]); 2] = [(b"talk", b"tolk"), (b"\xf4\xc2\xb1\xdb\x06", b"\xf4\xde\xb1\xdb\x06")];
    for (name, other) in names {
        for at in 0..bytes.len() - name.len() {
            if bytes[at..].starts_with(name) {
                bytes[at..at + name.len()].copy_from_slice(other);
            }
        }
    }
    let path = directory.path().join("tolker.wasm");
    std::fs::write(&path, bytes).unwrap();
    path
}

async fn both_talkers(directory: &TempDir) -> Sandbox {
    let grant = |grants: &mut pinion_plugin_runtime::Grants| grants.invoke = Some(InvokeGrant::default());
    let sandbox = builder().file(other_talker(directory)).grant("tolker", grant).build().await;
    let is_loaded = sandbox.runtime.definitions().iter().any(|tool| tool.name == "tolk_reading");
    assert!(is_loaded, "{:?}", sandbox.notices());
    sandbox
}

async fn told(sandbox: &Sandbox, user: &Arc<ScriptedUser>, tool: &'static str, does: Value) -> Told {
    Talk::new(sandbox, user.clone(), [steps(tool, does)], |_| {}).run().await
}

fn echo(message: &str) -> Value {
    json!({ "call": ["echo", { "message": message }] })
}

/// Returns the ids of the calls that started and of those that ended, in the order of the events.
fn calls(told: &Told) -> (Vec<String>, Vec<String>) {
    let started = told.events.iter().filter_map(|event| match event {
        EventKind::ToolExecutionStart { call_id, .. } => Some(call_id.clone()),
        _ => None,
    });
    let ended = told.events.iter().filter_map(|event| match event {
        EventKind::ToolExecutionEnd { call_id, .. } => Some(call_id.clone()),
        _ => None,
    });
    (started.collect(), ended.collect())
}

#[tokio::test]
async fn ungranted_plugin_calls_and_lists_nothing() {
    let sandbox = SandboxBuilder::default().guest("talker").guest("echo").build().await;
    let told = told(&sandbox, &ScriptedUser::with([]), "talk_reading", json!(["tools", echo("hi")])).await;
    let result = told.result();
    assert!(result.starts_with('\n') && result.contains("may not call other tools"), "{result}");
    assert_eq!(calls(&told).0, ["call-0"]);
}

#[tokio::test]
async fn call_of_a_call_has_events_and_no_message_of_its_own() {
    let sandbox = builder().build().await;
    let told = told(&sandbox, &ScriptedUser::with([]), "talk_reading", json!([echo("one"), echo("two")])).await;
    assert!(told.result().contains("one") && told.result().contains("two"), "{}", told.result());
    let (started, ended) = calls(&told);
    assert_eq!(started, ["call-0", "call-0/1", "call-0/2"]);
    assert_eq!(ended, ["call-0/1", "call-0/2", "call-0"]);
    let mut ledgers = told.events.iter().filter_map(|event| match event {
        EventKind::ToolExecutionEnd { ledger: Some(ledger), .. } => Some(ledger.to_string()),
        _ => None,
    });
    assert!(ledgers.next_back().unwrap().contains("2 tool calls"));
}

#[tokio::test]
async fn list_in_the_grant_bounds_the_tools() {
    let names = ["fail".to_owned()];
    let sandbox = builder()
        .grant("talker", |grants| grants.invoke = Some(InvokeGrant { tools: Some(names.into()) }))
        .build()
        .await;
    let does = json!(["tools", echo("hi"), { "call": ["fail", { "message": "why not" }] }]);
    let result = told(&sandbox, &ScriptedUser::with([]), "talk_reading", does).await.result();
    assert!(result.starts_with("fail\n") && result.contains("NotFound") && result.contains("why not"), "{result}");
}

#[tokio::test]
async fn tool_calls_only_tools_within_its_declared_effects() {
    let sandbox = builder().file(builtin("fs")).trust("fs").trust("echo").build().await;
    let user = ScriptedUser::with([]);
    let write = json!({ "call": ["write", { "path": "made", "content": "x" }] });
    let none = told(&sandbox, &user, "talk", json!(["tools", echo("hi"), write])).await.result();
    assert!(!none.lines().next().unwrap().contains("echo") && none.matches("NotFound").count() == 2, "{none}");
    let reading = told(&sandbox, &user, "talk_reading", json!([echo("hi"), write])).await.result();
    assert!(reading.contains("hi") && reading.matches("NotFound").count() == 1, "{reading}");
    assert!(user.approvals.lock().unwrap().is_empty() && !sandbox.workspace().join("made").exists());
}

#[tokio::test]
async fn user_approves_the_call_of_a_call() {
    let sandbox = builder().file(builtin("fs")).trust("fs").build().await;
    let does = json!([{ "call": ["write", { "path": "made", "content": "x" }] }]);
    let user = ScriptedUser::with([]);
    user.denies.store(true, Ordering::SeqCst);
    let denied = told(&sandbox, &user, "talk_writing", does.clone()).await.result();
    assert!(denied.contains("Denied") && denied.contains("the user denied it"), "{denied}");
    assert!(!sandbox.workspace().join("made").exists());
    user.denies.store(false, Ordering::SeqCst);
    told(&sandbox, &user, "talk_writing", does).await;
    assert_eq!((sandbox.read("made").as_str(), user.approvals.lock().unwrap().len()), ("x", 2));
}

#[tokio::test]
async fn arguments_of_a_call_of_a_call_match_its_schema() {
    let sandbox = builder().build().await;
    let does = json!([{ "call": ["echo", { "message": 7 }] }, { "call": ["echo", []] }, { "call": ["eco", {}] }]);
    let told = told(&sandbox, &ScriptedUser::with([]), "talk_reading", does).await;
    let result = told.result();
    assert_eq!((result.matches("InvalidInput").count(), result.matches("NotFound").count()), (2, 1), "{result}");
    assert_eq!(calls(&told).0, ["call-0"]);
}

#[tokio::test]
async fn plugin_cannot_call_its_own_tools() {
    let sandbox = builder().build().await;
    let does = json!(["tools", { "call": ["talk", { "steps": [] }] }]);
    let result = told(&sandbox, &ScriptedUser::with([]), "talk_reading", does).await.result();
    assert!(!result.lines().next().unwrap().contains("talk") && result.contains("NotFound"), "{result}");
}

#[tokio::test]
async fn calls_nest_at_most_four_deep() {
    let directory = TempDir::new().unwrap();
    let sandbox = both_talkers(&directory).await;
    let mut does = json!([echo("the end")]);
    for depth in 0..7 {
        let tool = if depth % 2 == 0 { "talk_reading" } else { "tolk_reading" };
        does = json!([{ "call": [tool, { "steps": does }] }]);
    }
    // The outermost call is of `talk_reading`, so the next one is of the other plugin.
    let told = told(&sandbox, &ScriptedUser::with([]), "tolk_reading", does).await;
    assert!(told.result().contains("it is too deep") && !told.result().contains("the end"), "{}", told.result());
    let (started, ended) = calls(&told);
    assert_eq!((started.len(), ended.len()), (5, 5), "{started:?}");
    assert_eq!(started[4], "call-0/1/1/1/1");
    assert_alive(&sandbox).await;
}

#[tokio::test]
async fn repeated_call_of_a_call_is_refused() {
    let sandbox = builder().build().await;
    let does: Vec<Value> = (0..8).map(|_| echo("again")).collect();
    let told = told(&sandbox, &ScriptedUser::with([]), "talk_reading", json!(does)).await;
    assert_eq!(calls(&told).1.len(), 4, "{}", told.result());
}

/// Denies calls of `echo`.
struct NoEcho;

impl Hooks for NoEcho {
    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let is_echo = call.name == "echo";
        Box::pin(async move { if is_echo { HookVerdict::Deny("not today".to_owned()) } else { HookVerdict::Pass } })
    }
}

#[tokio::test]
async fn hook_denies_the_call_of_a_call() {
    let sandbox = builder().build().await;
    let does = steps("talk_reading", json!([echo("hi")]));
    let talk = Talk::new(&sandbox, ScriptedUser::with([]), [does], |config| config.ports.hooks.push(Arc::new(NoEcho)));
    let told = talk.run().await;
    assert!(told.result().contains("not today") && calls(&told).0.len() == 1, "{}", told.result());
}

#[tokio::test]
async fn aborted_run_ends_the_calls_of_calls() {
    let directory = TempDir::new().unwrap();
    let sandbox = both_talkers(&directory).await;
    let user = ScriptedUser::with([]);
    let inner = json!({ "steps": [{ "call": ["talk_reading", { "steps": [{ "confirm": "stop here" }] }] }] });
    let talk = Talk::new(&sandbox, user.clone(), [("tolk_reading", inner)], |_| {});
    let agent = talk.agent.clone();
    let running = tokio::spawn(talk.run());
    user.shown.notified().await;
    agent.abort();
    let told = running.await.unwrap();
    assert!(matches!(told.outcome.end, RunEnd::Aborted));
    assert_eq!(calls(&told), (vec!["call-0".into(), "call-0/1".into()], vec!["call-0/1".into(), "call-0".into()]));
    assert_alive(&sandbox).await;
}

#[tokio::test]
async fn deadline_of_the_caller_ends_its_call() {
    let directory = TempDir::new().unwrap();
    let limits = PartialLimits { deadline_ms: Some(500), grace_ms: Some(100), ..PartialLimits::default() };
    let grant = |grants: &mut pinion_plugin_runtime::Grants| grants.invoke = Some(InvokeGrant::default());
    let sandbox = builder().file(other_talker(&directory)).grant("tolker", grant).limits("tolker", limits);
    let sandbox = sandbox.build().await;
    let does = json!([{ "call": ["talk_reading", { "steps": ["spin"] }] }]);
    let told = told(&sandbox, &ScriptedUser::with([]), "tolk_reading", does).await;
    assert!(told.result().contains("500"), "{}", told.result());
    let (started, ended) = calls(&told);
    assert_eq!((started.len(), ended), (2, vec!["call-0/1".to_owned(), "call-0".to_owned()]));
    assert_alive(&sandbox).await;
}

#[tokio::test]
async fn calls_that_wait_for_calls_leave_turns_for_them() {
    let engine = EngineLimits { concurrent_calls: 2, ..EngineLimits::default() };
    let sandbox = builder().engine(engine).build().await;
    let call = || steps("talk_reading", json!([echo("a"), echo("b")]));
    let told = Talk::new(&sandbox, ScriptedUser::with([]), std::iter::repeat_with(call).take(8), |_| {}).run().await;
    assert!(
        told.results().iter().all(|result| result.contains("Ok(") && !result.contains("Err(")),
        "{:?}",
        told.results()
    );
    assert_eq!(calls(&told).1.len(), 24);
}

#[tokio::test]
async fn command_calls_no_tools() {
    let sandbox = builder().build().await;
    let talk = Talk::new(&sandbox, ScriptedUser::with([]), [], |_| {});
    let token = CancellationToken::new();
    let services = talk.agent.services_for_command(&token);
    let typed = json!(["tools", echo("hi")]).to_string();
    let actions = sandbox.runtime.run_command("talk", &typed, "s", Some(services), token).await.unwrap();
    assert!(format!("{actions:?}").contains("only calls of tools may"), "{actions:?}");
}
