//! A call runs only as approved, and time limits leave out the time that the user takes to answer.

use crate::testing::{Act, Answers, Harness, Setup, assert_paired, calls, says};
use crate::*;
use futures_util::future::BoxFuture;
use pinion_protocol::approval::{CallRules, Ruling};
use pinion_protocol::hook::{
    AcceptedCall, AddedInstructions, ArgumentCheck, CallOutcome, CheckedCall, CheckedPrompt, HookPoint, HookedCall,
    PluginHooks, ReplacedPart, RevisedCall,
};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Executes one tool, whose version may change at any time.
#[derive(Default)]
struct Versions {
    current: Mutex<Option<Arc<ToolDefinition>>>,
    /// Changes the version before each call.
    restless: bool,
    /// The generations that ran.
    ran: Mutex<Vec<u32>>,
}

fn version(generation: u32, digest: &str, change: impl FnOnce(&mut ToolDefinition)) -> Arc<ToolDefinition> {
    let mut tool = ToolDefinition {
        name: "act".into(),
        label: "Act".into(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        guidelines: Vec::new(),
        authority: Authority { writes: true, ..Authority::READ_ONLY },
        execution: Execution::Parallel,
        source: ToolSource { plugin: "p".into(), digest: digest.into(), generation, ..ToolSource::default() },
    };
    change(&mut tool);
    Arc::new(tool)
}

impl Versions {
    fn from_tool(tool: Arc<ToolDefinition>) -> Arc<Self> {
        Arc::new(Self { current: Mutex::new(Some(tool)), ..Self::default() })
    }

    fn set(&self, tool: Option<Arc<ToolDefinition>>) {
        *self.current.lock().unwrap() = tool;
    }
}

impl ToolExecutor for Versions {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.current.lock().unwrap().clone().into_iter().collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let mut current = self.current.lock().unwrap();
        if let Some(tool) = current.as_mut().filter(|_| self.restless) {
            let next = tool.source.generation + 1;
            *tool = version(next, &format!("d{next}"), |_| {});
        }
        let tool = call.tool.name.clone();
        let result = match current.as_ref() {
            None => Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }),
            Some(current) if !current.is_same_version(&call.tool) => Err(ToolError::Changed { tool }),
            Some(current) => {
                self.ran.lock().unwrap().push(current.source.generation);
                Ok(ToolOutput::text("done"))
            }
        };
        Box::pin(async { result.into() })
    }
}

/// Changes the tool when it is asked, and gives the answers in turn; the last one again and again.
struct Swapping {
    tools: Arc<Versions>,
    swaps: Mutex<Vec<Option<Arc<ToolDefinition>>>>,
    answer: Decision,
    asked: Mutex<Vec<u32>>,
}

impl Approver for Swapping {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        self.asked.lock().unwrap().push(question.tool.source.generation);
        if let Some(next) = self.swaps.lock().unwrap().pop() {
            self.tools.set(next);
        }
        Box::pin(async { self.answer.clone() })
    }
}

struct ApprovalRun {
    asked: Vec<u32>,
    ran: Vec<u32>,
    sent: Vec<String>,
}

/// Calls `act` once. The tool is replaced each time the user is asked.
async fn run(tools: Arc<Versions>, swaps: Vec<Option<Arc<ToolDefinition>>>, answer: Decision) -> ApprovalRun {
    run_calls(tools, swaps, answer, 1).await
}

async fn run_calls(
    tools: Arc<Versions>,
    swaps: Vec<Option<Arc<ToolDefinition>>>,
    answer: Decision,
    count: usize,
) -> ApprovalRun {
    run_with(tools, swaps, answer, &vec![("act", json!({ "n": null })); count]).await
}

async fn run_with(
    tools: Arc<Versions>,
    mut swaps: Vec<Option<Arc<ToolDefinition>>>,
    answer: Decision,
    made: &[(&str, serde_json::Value)],
) -> ApprovalRun {
    swaps.reverse();
    let approver =
        Arc::new(Swapping { tools: tools.clone(), swaps: Mutex::new(swaps), answer, asked: Mutex::default() });
    let replies = vec![calls(made), says("done")];
    let harness = Setup::new(replies).build();
    harness.agent.configure(|config| {
        config.ports.tools = tools.clone();
        config.ports.approval = Approval::new(ApprovalMode::Smart, approver.clone()).with_rules(Arc::new(Reaching));
    });
    let outcome = harness.prompt("go").await;
    assert_paired(&outcome.messages);
    let sent = harness.last_request().split_off(2);
    let (asked, ran) = (approver.asked.lock().unwrap().clone(), tools.ran.lock().unwrap().clone());
    ApprovalRun { asked, ran, sent }
}

#[tokio::test]
async fn a_tool_that_is_replaced_while_the_user_is_asked_is_asked_about_again() {
    let swaps = vec![Some(version(2, "b", |_| {}))];
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1, 2], vec![2]));
    assert_eq!(ended.sent, ["result call-0: done"]);
}

#[tokio::test]
async fn the_same_code_under_another_number_is_not_asked_about_again() {
    let swaps = vec![Some(version(2, "a", |_| {}))];
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1], vec![2]));
}

#[tokio::test]
async fn always_is_remembered_for_one_plugin_digest_and_authority() {
    let more = |tool: &mut ToolDefinition| tool.authority.executes = true;
    let other = |tool: &mut ToolDefinition| tool.source.plugin = "q".into();
    let versions = [version(2, "b", |_| {}), version(3, "b", more), version(4, "b", other), version(5, "b", other)];
    let swaps = versions.into_iter().map(Some).collect();
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::AllowForSession).await;
    // After three changes the call is given up; it is never made without a decision on its current form.
    assert_eq!((ended.asked, ended.ran), (vec![1, 2, 3, 4], vec![]));
    let swaps = vec![Some(version(2, "b", |_| {})), Some(version(3, "a", |_| {}))];
    let ended = run_calls(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::AllowForSession, 2).await;
    assert_eq!((ended.asked, ended.ran), (vec![1, 2], vec![3, 3]), "what was allowed comes back");
}

#[tokio::test]
async fn always_covers_only_calls_that_reach_the_same() {
    let tool = version(1, "a", |tool| tool.source.approved_by = ["server".into()].into());
    let reaching = |server: &str, n: u32| ("act", json!({ "server": server, "n": n }));
    let made =
        [reaching("one", 1), reaching("one", 2), reaching("two", 1), reaching("two", 2), ("act", json!({ "n": 1 }))];
    let ended = run_with(Versions::from_tool(tool), Vec::new(), Decision::AllowForSession, &made).await;
    assert_eq!((ended.asked.len(), ended.ran.len()), (3, 5));
}

/// Rules that say that a call reaches the address in its argument `url`.
struct Reaching;

impl CallRules for Reaching {
    fn ruling(&self, _: ApprovalMode, _: &Question<'_>) -> Ruling {
        Ruling::Mode
    }

    fn reach(&self, question: &Question<'_>) -> Option<String> {
        question.call.arguments["url"].as_str().map(|url| url.split('/').next().unwrap().to_owned())
    }
}

#[tokio::test]
async fn always_covers_only_calls_that_reach_the_same_by_the_rules() {
    let fetching = |url: &str| ("act", json!({ "url": url }));
    let made = [fetching("one/a"), fetching("one/b"), fetching("two/a"), fetching("one/c"), fetching("two/b")];
    let tools = Versions::from_tool(version(1, "a", |_| {}));
    let ended = run_with(tools, Vec::new(), Decision::AllowForSession, &made).await;
    assert_eq!((ended.asked.len(), ended.ran.len()), (2, 5));
}

#[tokio::test]
async fn a_tool_that_is_replaced_again_and_again_is_not_called() {
    let tools = Arc::new(Versions {
        current: Mutex::new(Some(version(1, "d1", |_| {}))),
        restless: true,
        ran: Mutex::default(),
    });
    let ended = run(tools, Vec::new(), Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1, 2, 3, 4], vec![]));
    assert!(ended.sent[0].contains("replaced repeatedly"), "{:?}", ended.sent);
}

#[tokio::test]
async fn a_harmless_tool_that_grows_between_check_and_call_needs_approval() {
    let harmless = version(1, "a", |tool| tool.authority = Authority::READ_ONLY);
    // The user is asked about the definition that the tool has become.
    let tools = Arc::new(Versions { current: Mutex::new(Some(harmless)), restless: true, ran: Mutex::default() });
    let ended = run(tools, Vec::new(), Decision::Unanswered { reason: "nobody".into() }).await;
    assert_eq!((ended.asked, ended.ran), (vec![2], vec![]));
    assert_eq!(ended.sent, ["failed call-0: Denied: nobody"]);
}

#[tokio::test]
async fn arguments_are_checked_against_the_schema_of_the_tool_that_runs() {
    let strict = |tool: &mut ToolDefinition| {
        tool.input_schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    };
    let swaps = vec![Some(version(2, "b", strict))];
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1], vec![]));
    assert!(ended.sent[0].starts_with("failed call-0: Invalid arguments"), "{:?}", ended.sent);
}

#[tokio::test]
async fn arguments_that_change_with_the_schema_are_asked_about_again() {
    // The same code in name, another schema: the null goes.
    let optional = |tool: &mut ToolDefinition| {
        tool.input_schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    };
    let swaps = vec![Some(version(2, "a", optional))];
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), swaps, Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1, 2], vec![2]));
}

#[tokio::test]
async fn a_tool_that_goes_away_while_the_user_is_asked_is_unknown() {
    let ended = run(Versions::from_tool(version(1, "a", |_| {})), vec![None], Decision::Allow).await;
    assert_eq!((ended.asked, ended.ran), (vec![1], vec![]));
    assert_eq!(ended.sent, ["failed call-0: There is no tool `act`."]);
}

#[tokio::test]
async fn a_selection_refuses_a_definition_that_exceeds_it() {
    let tools = Versions::from_tool(version(1, "a", |_| {}));
    let selection = Selection::new(tools.clone(), Authority::READ_ONLY);
    assert!(selection.definitions().is_empty());
    let call = ToolInvocation {
        call_id: "c".into(),
        session_id: "s".into(),
        run_id: "l".into(),
        tool: version(1, "a", |_| {}),
        arguments: json!({}),
        at_most: Authority::ALL,
        agents: None,
        services: None,
        token: CancellationToken::new(),
    };
    struct SilentProgress;
    impl ToolProgress for SilentProgress {
        fn report(&self, _: String) {}
        fn update(&self, _: Vec<Content>) {}
    }
    assert!(selection.call(call, &SilentProgress).await.result.is_err());
    assert!(tools.ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_was_allowed_for_a_session_ends_with_it() {
    let replies = vec![calls(&[("change", json!({}))]), says("a"), calls(&[("change", json!({}))]), says("b")];
    let mut setup = Setup::new(replies).tool_with("change", Act::Answer("ok"), |tool| tool.authority.writes = true);
    setup.approver = Arc::new(Answers { decision: Decision::AllowForSession, asked: Mutex::default() });
    let harness = setup.build();
    harness.prompt("go").await;
    harness.agent.reset(Context::new("", "next")).await;
    harness.prompt("go").await;
    assert_eq!(harness.approver.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn denials_are_kept_with_who_gave_them() {
    let denied_by = |decision: Decision| async {
        let mut setup = Setup::new(vec![calls(&[("change", json!({})), ("look", json!({}))]), says("a")])
            .tool("look", Act::Answer("seen"))
            .tool_with("change", Act::Answer("ok"), |tool| tool.authority.writes = true);
        setup.approver = Arc::new(Answers { decision, asked: Mutex::default() });
        let mut harness = setup.build();
        harness.prompt("go").await;
        let unanswered = harness.events().into_iter().find_map(|event| match event {
            EventKind::ApprovalResolved { allowed, unanswered, .. } => Some((allowed, unanswered)),
            _ => None,
        });
        (harness.config().ports.approval.denied(), unanswered.unwrap())
    };
    let call = |is_unanswered| DeniedCall { tool: "change".into(), reason: "no".into(), is_unanswered };
    let (denied, event) = denied_by(Decision::Deny { reason: "no".into() }).await;
    assert_eq!((denied, event), (vec![call(false)], (false, None)));
    let (denied, event) = denied_by(Decision::Unanswered { reason: "no".into() }).await;
    assert_eq!((denied, event), (vec![call(true)], (false, Some("no".into()))));
    assert_eq!(denied_by(Decision::Allow).await, (vec![], (true, None)));
}

/// Answers yes after a while.
struct Slow(Duration);

impl Approver for Slow {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Decision::Allow
        })
    }
}

fn slow(setup: Setup, seconds: u64) -> Harness {
    let harness = setup.build();
    harness.agent.configure(|config| {
        config.ports.approval = Approval::new(ApprovalMode::Smart, Arc::new(Slow(Duration::from_secs(seconds))));
        config.policy.limits.max_time = Some(Duration::from_secs(60));
    });
    harness
}

#[tokio::test(start_paused = true)]
async fn time_in_which_the_user_is_asked_does_not_count_against_the_limit() {
    let setup = || {
        Setup::new(vec![calls(&[("change", json!({}))]), says("done")])
            .tool_with("change", Act::Answer("ok"), |tool| tool.authority.writes = true)
    };
    assert!(super::done(&slow(setup(), 3600).prompt("go").await));
    let stuck = Setup::new(vec![calls(&[("change", json!({}))]), says("done")]).tool_with(
        "change",
        Act::UntilCancelled,
        |tool| tool.authority.writes = true,
    );
    let started = tokio::time::Instant::now();
    let outcome = slow(stuck, 100).prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Time(60) });
    assert_eq!(started.elapsed().as_secs(), 160, "work still counts");
}

/// A plugin that writes other arguments each time that it is asked about a call.
#[derive(Default)]
struct Rewriting(AtomicU32);

impl PluginHooks for Rewriting {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::BeforeToolCall
    }

    fn before_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: &'a ArgumentCheck<'a>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedCall> {
        let arguments = Some(json!({ "n": self.0.fetch_add(1, Ordering::Relaxed) }));
        let accepted = AcceptedCall { arguments, ..AcceptedCall::default() };
        Box::pin(async { CheckedCall { result: Ok(accepted), calls: Vec::new() } })
    }

    fn after_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: CallOutcome,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedCall> {
        Box::pin(async { unreachable!() })
    }

    fn before_prompt<'a>(&'a self, _: &'a str, _: &'a str, _: &'a CancellationToken) -> BoxFuture<'a, CheckedPrompt> {
        Box::pin(async { unreachable!() })
    }

    fn before_compaction<'a>(
        &'a self,
        _: &'a str,
        _: ReplacedPart<'a>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, AddedInstructions> {
        Box::pin(async { unreachable!() })
    }

    fn observe(&self, _: String) {}
}

#[tokio::test]
async fn other_arguments_for_the_same_code_are_asked_about_again() {
    let tools = Versions::from_tool(version(1, "a", |_| {}));
    let swaps = Mutex::new(vec![Some(version(2, "a", |_| {}))]);
    let approver = Arc::new(Swapping { tools: tools.clone(), swaps, answer: Decision::Allow, asked: Mutex::default() });
    let harness = Setup::new(vec![calls(&[("act", json!({}))]), says("done")]).build();
    harness.agent.configure(|config| {
        config.ports.tools = tools.clone();
        config.ports.approval = Approval::new(ApprovalMode::Smart, approver.clone());
        config.ports.plugin_hooks = Some(Arc::new(Rewriting::default()));
    });
    harness.prompt("go").await;
    assert_eq!((&*approver.asked.lock().unwrap(), &*tools.ran.lock().unwrap()), (&vec![1, 2], &vec![2]));
}
