//! Only the approved code runs, even if a plugin's file is replaced between the decision and the call.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{Approval, ApprovalMode, Decision, DenyAll, Question};
use pinion_agent::config::Strategy;
use pinion_agent::content::ToolCall;
use pinion_agent::hooks::HookVerdict;
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent};
use pinion_agent::tool::ToolError;
use pinion_agent::{Agent, Approver, Content, Context, Hooks, LoopConfig, Message, Model, Provider, ToolExecutor as _};
use pinion_plugin_runtime::{FileAccess, PartialLimits};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, builtin, guest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Makes these calls, one list per turn, and then ends.
struct Script(Mutex<Vec<Vec<(&'static str, Value)>>>);

impl Provider for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
        let mut turns = self.0.lock().unwrap();
        let calls = if turns.is_empty() { Vec::new() } else { turns.remove(0) };
        let stop_reason = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
        let mut events = vec![StreamEvent::Start { model: None }];
        for (index, (name, arguments)) in calls.into_iter().enumerate() {
            let id = format!("call-{}-{index}", turns.len());
            events.push(StreamEvent::PartStart { index, part: PartKind::ToolCall { id, name: name.into() } });
            events.push(StreamEvent::Delta { index, delta: arguments.to_string() });
            events.push(StreamEvent::PartEnd { index, signature: None });
        }
        events.push(StreamEvent::End { stop_reason });
        futures_util::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

/// Answers every question the same way after a side effect.
struct Answer<F> {
    decision: Decision,
    first: F,
    asked: Mutex<Vec<(String, Arc<str>, u32)>>,
}

impl<F: Fn(usize) + Send + Sync> Approver for Answer<F> {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        let source = &question.tool.source;
        let mut asked = self.asked.lock().unwrap();
        asked.push((question.tool.name.clone(), source.digest.clone(), source.generation));
        (self.first)(asked.len());
        Box::pin(async { self.decision.clone() })
    }
}

fn answer<F: Fn(usize) + Send + Sync>(decision: Decision, first: F) -> Arc<Answer<F>> {
    Arc::new(Answer { decision, first, asked: Mutex::default() })
}

fn unanswered() -> Arc<DenyAll> {
    Arc::new(DenyAll { reason: "no one to ask".into() })
}

/// A plugin `greet` in a replaceable file, granted to write, whose tool does not write yet.
struct Target {
    sandbox: Sandbox,
    _directory: TempDir,
    file: PathBuf,
}

impl Target {
    async fn new(component: &str) -> Self {
        Self::with(component, |builder| builder).await
    }

    async fn with(component: &str, change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("greet.wasm");
        std::fs::copy(guest(component), &file).unwrap();
        let builder = SandboxBuilder::default().file(file.clone()).files("greet", ".", FileAccess::Write);
        Self { sandbox: change(builder).build().await, _directory: directory, file }
    }

    fn armed(&self) -> bool {
        self.sandbox.workspace().join("armed.txt").exists()
    }

    fn agent(&self, mode: ApprovalMode, approver: Arc<dyn Approver>, turns: Vec<Vec<(&'static str, Value)>>) -> Agent {
        let model = Arc::new(Script(Mutex::new(turns)));
        let mut config = LoopConfig::new(model, Model::default(), self.sandbox.runtime.clone());
        config.ports.approval = Approval::new(mode, approver);
        config.ports.spawner =
            Some(pinion_orchestration::sub_agents(pinion_agent::delegation::SubAgentPolicy::default()));
        Agent::new(config, Context::new("You are a test.", "s"))
    }
}

fn replace(file: &Path, component: &str) {
    std::fs::copy(guest(component), file).unwrap();
}

/// Rewrites the file with the same code but other bytes: an additional empty custom section.
fn rewrite(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    std::fs::write(file, bytes).unwrap();
}

fn greet() -> (&'static str, Value) {
    ("greet", json!({}))
}

/// Returns the results of a run as text.
async fn results(agent: &Agent) -> Vec<String> {
    let outcome = agent.run(vec![Message::user("go")]).await.unwrap();
    let results = outcome.messages.iter().filter_map(|message| match &**message {
        Message::ToolResult(result) => Some(result.content.iter().filter_map(Content::as_text).collect()),
        _ => None,
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn file_replaced_after_load_is_approved_in_its_new_form() {
    let target = Target::new("greet_one").await;
    replace(&target.file, "greet_armed");
    let agent = target.agent(ApprovalMode::Smart, unanswered(), vec![vec![greet()]]);
    let results = results(&agent).await;
    assert_ne!(results, ["hello, armed"]);
    assert!(!target.armed(), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_replaced_during_the_question_is_asked_about_again() {
    let target = Target::new("greet_armed").await;
    let file = target.file.clone();
    let approver = answer(Decision::Allow, move |times| {
        if times == 1 {
            rewrite(&file);
        }
    });
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), vec![vec![greet()]]);
    assert_eq!(results(&agent).await, ["hello, armed"]);
    let asked = approver.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].1 != asked[1].1 && asked[1].2 == 2, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_identical_bytes_asks_nothing() {
    let target = Target::new("greet_armed").await;
    let file = target.file.clone();
    let approver = answer(Decision::Allow, move |_| replace(&file, "greet_armed"));
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), vec![vec![greet()]]);
    assert_eq!(results(&agent).await, ["hello, armed"]);
    assert_eq!(approver.asked.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn always_does_not_cover_another_component_of_that_name() {
    let target = Target::new("greet_armed").await;
    let approver = answer(Decision::AllowForSession, |_| {});
    let turns = || vec![vec![greet()], vec![greet()]];
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), turns());
    results(&agent).await;
    assert_eq!(approver.asked.lock().unwrap().len(), 1);
    rewrite(&target.file);
    agent.configure(|config| config.ports.provider = Arc::new(Script(Mutex::new(turns()))));
    results(&agent).await;
    assert_eq!(approver.asked.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn always_ends_with_the_session() {
    let target = Target::new("greet_armed").await;
    let approver = answer(Decision::AllowForSession, |_| {});
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), vec![vec![greet()]]);
    results(&agent).await;
    agent.reset(pinion_agent::Context::new("", "another")).await;
    agent.configure(|config| config.ports.provider = Arc::new(Script(Mutex::new(vec![vec![greet()]]))));
    results(&agent).await;
    assert_eq!(approver.asked.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_of_a_batch_cannot_replace_the_second() {
    for strategy in [Strategy::Sequential, Strategy::Parallel] {
        let target = Target::with("greet_one", |builder| builder.file(builtin("shell")).trust("shell")).await;
        let armed = guest("greet_armed");
        let command = format!("cp {} {}", armed.display(), target.file.display());
        // The user allows the program but no writing tool.
        struct ProgramsOnly;
        impl Approver for ProgramsOnly {
            fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
                let allow = question.tool.name == "bash";
                let deny = || Decision::Deny { reason: "not that".into() };
                Box::pin(async move { if allow { Decision::Allow } else { deny() } })
            }
        }
        let calls = vec![("bash", json!({ "command": command })), greet(), greet()];
        let agent = target.agent(ApprovalMode::Smart, Arc::new(ProgramsOnly), vec![calls, vec![greet()]]);
        agent.configure(|config| config.policy.strategy = strategy);
        let results = results(&agent).await;
        assert!(!results.iter().any(|result| result.contains("armed")), "{strategy:?}: {results:?}");
        assert!(!target.armed(), "{strategy:?}: {results:?}");
    }
}

/// Replaces the file while an application's hook runs.
struct SwappingHook {
    file: PathBuf,
    calls: Mutex<usize>,
}

impl Hooks for SwappingHook {
    fn before_tool<'a>(&'a self, _: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        if *calls == 1 {
            rewrite(&self.file);
        }
        Box::pin(async { HookVerdict::Pass })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_replaced_during_a_hook_is_decided_again() {
    let target = Target::new("greet_armed").await;
    let hook = Arc::new(SwappingHook { file: target.file.clone(), calls: Mutex::default() });
    let approver = answer(Decision::Allow, |_| {});
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), vec![vec![greet()]]);
    agent.configure(|config| config.ports.hooks.push(hook.clone()));
    assert_eq!(results(&agent).await, ["hello, armed"]);
    assert_eq!((approver.asked.lock().unwrap().len(), *hook.calls.lock().unwrap()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_rejects_unapproved_generation_before_running_code() {
    let target = Target::new("greet_one").await;
    let call = target.sandbox.invocation("greet", json!({}), CancellationToken::new());
    replace(&target.file, "greet_armed");
    let reply = target.sandbox.runtime.call(call, &Progress::default()).await;
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })) && reply.ledger.is_none(), "{reply:?}");
    assert!(!target.armed());
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_of_another_plugin_does_not_reach_a_tool() {
    let target = Target::new("greet_armed").await;
    let mut call = target.sandbox.invocation("greet", json!({}), CancellationToken::new());
    for change in [0, 1, 2, 3] {
        let mut tool = (*target.sandbox.tool("greet")).clone();
        match change {
            0 => tool.source.plugin = "other".into(),
            1 => tool.source.digest = "00".into(),
            2 => tool.source.generation += 1,
            _ => tool.authority.writes = false,
        }
        call.tool = Arc::new(tool);
        let reply = target.sandbox.runtime.call(call.clone(), &Progress::default()).await;
        assert!(matches!(reply.result, Err(ToolError::Changed { .. })), "{change}: {reply:?}");
    }
    assert!(!target.armed());
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_removed_after_approval_is_unknown() {
    let target = Target::new("greet_armed").await;
    let (file, runtime) = (target.file.clone(), target.sandbox.runtime.clone());
    let approver = answer(Decision::Allow, move |_| {
        std::fs::remove_file(&file).unwrap();
        // Otherwise the plugin stays for a while, in case a build removed its file.
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(runtime.refresh()));
    });
    let agent = target.agent(ApprovalMode::Smart, approver, vec![vec![greet()]]);
    let results = results(&agent).await;
    assert!(results[0].contains("no tool `greet`"), "{results:?}");
    assert!(!target.armed());
}

#[tokio::test(flavor = "multi_thread")]
async fn planner_gains_nothing_from_a_growing_tool() {
    let target = Target::new("greet_one").await;
    let approver = answer(Decision::Allow, |_| {});
    let agent = target.agent(ApprovalMode::All, approver, vec![vec![greet()]]);
    replace(&target.file, "greet_armed");
    let _ = pinion_orchestration::make_plan(&agent, vec![Message::user("plan")]).await;
    assert!(!target.armed());
}

fn delegate() -> (&'static str, Value) {
    ("delegate", json!({ "prompt": "greet" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_call_is_bound_to_the_approved_generation() {
    let target = Target::with("greet_armed", |builder| builder.guest("delegator").agents("delegator", None)).await;
    let file = target.file.clone();
    let approver = answer(Decision::AllowForSession, move |times| {
        if times == 1 {
            rewrite(&file);
        }
    });
    let turns = vec![vec![delegate()], vec![greet()], vec![], vec![greet()]];
    let agent = target.agent(ApprovalMode::Smart, approver.clone(), turns);
    results(&agent).await;
    assert!(target.armed());
    let asked = approver.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|(_, _, generation)| *generation).collect::<Vec<_>>(), [1, 2], "the parent knows, too");
}

/// Time limit of the delegating call.
const DEADLINE: Duration = Duration::from_secs(2);

/// Answers yes after more time than the call may take.
struct Slow;

impl Approver for Slow {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async {
            // The deadline is one of real time, so that only real time shows that it pauses.
            tokio::time::sleep(2 * DEADLINE).await;
            Decision::Allow
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_pauses_while_the_user_decides_for_a_sub_agent() {
    let limits = PartialLimits { deadline_ms: Some(2_000), grace_ms: Some(100), ..PartialLimits::default() };
    let target = Target::with("greet_armed", |builder| {
        builder.guest("delegator").agents("delegator", None).limits("delegator", limits)
    });
    let target = target.await;
    let agent = target.agent(ApprovalMode::Smart, Arc::new(Slow), vec![vec![delegate()], vec![greet()]]);
    let results = results(&agent).await;
    assert!(target.armed() && !results[0].contains("deadline"), "{results:?}");
}
