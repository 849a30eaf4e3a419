//! Sub-agents, with a scripted model that answers parent and child in turn.

use crate::testing::{Act, Answers, Harness, Reply, Setup, calls, letters, says};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) fn task(prompt: &str) -> Assignment {
    Assignment { prompt: prompt.into(), ..Assignment::default() }
}

/// Creates a parent with the tools `task`, which starts a sub-agent, `read` and `write`.
pub(crate) fn parent(assignment: Assignment, replies: Vec<Reply>) -> Setup {
    parent_with(assignment, Authority::ALL, replies)
}

fn parent_with(assignment: Assignment, at_most: Authority, replies: Vec<Reply>) -> Setup {
    let delegates = |tool: &mut ToolDefinition| {
        tool.authority = Authority { delegates: true, ..Authority::default() };
    };
    Setup::new(replies)
        .tool_with("task", Act::Delegate(assignment, at_most), delegates)
        .tool("read", Act::Answer("contents"))
        .tool_with("write", Act::Answer("written"), |tool| tool.authority.writes = true)
}

pub(crate) fn delegate() -> Reply {
    calls(&[("task", json!({}))])
}

/// Returns the names of the tools in a request.
fn offered(harness: &Harness, request: usize) -> Vec<String> {
    harness.model.requests.lock().unwrap()[request].tools.iter().map(|tool| tool.name.clone()).collect()
}

fn result_of(outcome: &Outcome) -> ToolResultMessage {
    let mut results = outcome.messages.iter().filter_map(|message| match &**message {
        Message::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    results.next_back().unwrap()
}

#[tokio::test]
async fn sub_agent_has_its_own_conversation_and_returns_its_last_message() {
    let replies = vec![delegate(), calls(&[("read", json!({}))]), says("it says contents"), says("thanks")];
    let harness = parent(task("read the file"), replies).build();
    let outcome = harness.prompt("what does it say?").await;
    assert_eq!(outcome.text(), "thanks");
    assert_eq!(letters(&outcome.messages[2]), "result call-0: it says contents");
    let requests = harness.model.requests.lock().unwrap();
    let first: Vec<String> = requests[1].messages.iter().map(|message| letters(message)).collect();
    assert_eq!(first, ["user: read the file"]);
    assert!(requests[1].system.starts_with("You are a test.") && requests[1].system.contains("You are a sub-agent"));
}

#[tokio::test]
async fn sub_agent_stops_after_fifty_turns_with_a_note_for_the_parent() {
    let reads = (0..60).map(|n| calls(&[("read", json!({ "text": n.to_string() }))]));
    let replies = std::iter::once(delegate()).chain(reads).collect();
    let mut setup = parent(task("read on"), replies);
    setup.limits.max_turns = Some(1);
    let harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert_eq!(harness.requests(), 1 + 50);
    let Content::Text { text } = &result_of(&outcome).content[0] else { panic!() };
    assert_eq!(
        text,
        "(the sub-agent returned no text)\n\n\
         [The sub-agent did not finish: it reached its limit of 50 turns.]"
    );
}

#[tokio::test]
async fn assignment_can_only_lower_the_turn_limit() {
    for (asked, expected) in [(3, 3), (99, 50)] {
        let reads = (0..60).map(|n| calls(&[("read", json!({ "text": n.to_string() }))]));
        let replies = std::iter::once(delegate()).chain(reads).collect();
        let mut setup = parent(Assignment { max_turns: Some(asked), ..task("read on") }, replies);
        setup.limits.max_turns = Some(1);
        let harness = setup.build();
        harness.prompt("go").await;
        assert_eq!(harness.requests(), 1 + expected);
    }
}

#[tokio::test]
async fn sub_agent_events_reach_the_watchers_within_its_call() {
    let mut harness = parent(task("look"), vec![delegate(), says("seen"), says("done")]).build();
    harness.prompt("go").await;
    let events = harness.events_of_runs();
    let child = events
        .iter()
        .position(
            |event| matches!(&event.kind, EventKind::AgentStart { trigger, .. } if *trigger == TurnTrigger::SubAgent),
        )
        .unwrap();
    let (parent_id, child_id) = (events[0].run_id.clone(), events[child].run_id.clone());
    assert_ne!(parent_id, child_id);
    let at = |wanted: &str| {
        events.iter().position(|event| serde_json::to_value(&event.kind).unwrap()["type"] == wanted).unwrap()
    };
    let ends: Vec<&str> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::AgentEnd { .. }))
        .map(|event| &*event.run_id)
        .collect();
    assert_eq!(ends, [&*child_id, &*parent_id]);
    assert!(
        at("tool_execution_start") < child && child < at("agent_end") && at("agent_end") < at("tool_execution_end")
    );
    let text = events.iter().any(|event| {
        event.run_id == child_id
            && matches!(&event.kind, EventKind::MessageUpdate { delta: ContentDelta::Text { delta }, .. } if delta == "seen")
    });
    assert!(text, "what it says is shown as it comes");
}

#[tokio::test]
async fn runs_and_sessions_are_linked_both_ways() {
    let mut harness = parent(task("look"), vec![delegate(), says("seen"), says("done")]).build();
    let outcome = harness.prompt("go").await;
    let events = harness.events_of_runs();
    let starts: Vec<(&str, Option<&str>, &str)> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::AgentStart { parent_run_id, session_id, .. } => {
                Some((&*event.run_id, parent_run_id.as_deref(), &**session_id))
            }
            _ => None,
        })
        .collect();
    assert_eq!(starts, [("s.scripted.m.1", None, "s"), ("child1.scripted.m.1", Some("s.scripted.m.1"), "child1")]);
    assert_eq!(result_of(&outcome).child_run_id.as_deref(), Some("child1.scripted.m.1"));
    let child = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolExecutionEnd { child_run_id, .. } => child_run_id.as_deref(),
        _ => None,
    });
    assert_eq!(child, Some("child1.scripted.m.1"));
    let children = harness.store.children.lock().unwrap();
    assert_eq!(children[0].0, "task call-0 sub-agent s.scripted.m.1");
    let kept: Vec<String> = children[0].1.kept.lock().unwrap().iter().map(|message| letters(message)).collect();
    assert_eq!(kept, ["user: look", "assistant: seen"]);
}

#[tokio::test]
async fn sub_agent_is_cancelled_with_its_parent() {
    let replies = vec![delegate(), calls(&[("hang", json!({}))])];
    let mut harness = parent(task("hang"), replies).tool("hang", Act::UntilCancelled).build();
    let aborting = async {
        harness.tools.reached("+call-0").await;
        while harness.tools.log.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        harness.agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), aborting);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let ends = harness.events().into_iter().filter(|event| matches!(event, EventKind::AgentEnd { .. })).count();
    assert_eq!(ends, 2, "the child ended, and then the parent");
}

#[tokio::test]
async fn steering_the_parent_cancels_its_sub_agents() {
    let replies = vec![delegate(), calls(&[("hang", json!({}))]), says("understood")];
    let harness = parent(task("hang"), replies).tool("hang", Act::UntilCancelled).build();
    let steering = async {
        while harness.tools.log.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        harness.agent.steer(Message::user("stop that"));
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steering);
    assert_eq!(outcome.text(), "understood");
    assert!(result_of(&outcome).is_error);
}

#[tokio::test]
async fn run_waits_for_sub_agents_that_their_call_abandoned() {
    let setup = Setup::new(vec![calls(&[("forget", json!({}))]), Reply::Hangs(vec![]), says("done")]);
    let mut harness = setup.tool("forget", Act::Forget(task("hang"))).build();
    harness.prompt("go").await;
    let ends: Vec<String> = harness
        .events_of_runs()
        .into_iter()
        .filter(|event| matches!(event.kind, EventKind::AgentEnd { .. }))
        .map(|event| event.run_id.to_string())
        .collect();
    assert_eq!(ends, ["child1.scripted.m.1", "s.scripted.m.1"]);
}

#[tokio::test]
async fn sub_agent_error_is_reported_and_the_parent_continues() {
    let refused = ProviderError::Auth { message: "no key".into() };
    let replies = vec![delegate(), Reply::Fails(vec![], refused), says("then not")];
    let harness = parent(task("look"), replies).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.text(), "then not");
    let Content::Text { text } = &result_of(&outcome).content[0] else { panic!() };
    assert!(text.contains("it failed") && text.contains("no key"), "{text}");
}

#[tokio::test]
async fn invalid_assignment_error_lists_valid_values() {
    let kind = AgentKind { name: "reviewer".into(), ..AgentKind::default() };
    for (assignment, expected) in [
        (task("  "), "the prompt is empty"),
        (Assignment { kind: Some("nobody".into()), ..task("x") }, "there is no agent `nobody`; available: `reviewer`"),
        (
            Assignment { tools: Some(vec!["raed".into()]), ..task("x") },
            "a sub-agent cannot get the tool `raed` here; available: `read`, `write`",
        ),
    ] {
        let mut setup = parent(assignment, vec![delegate(), says("done")]);
        setup.sub_agents.kinds = vec![kind.clone()];
        let harness = setup.build();
        let outcome = harness.prompt("go").await;
        let Content::Text { text } = &result_of(&outcome).content[0] else { panic!() };
        assert!(text.contains(expected), "{text}");
        assert_eq!(harness.requests(), 2, "no sub-agent ran");
    }
}

#[tokio::test]
async fn sub_agent_gets_only_the_assigned_tools() {
    let assignment = Assignment { tools: Some(vec!["read".into()]), ..task("write it") };
    let replies = vec![delegate(), calls(&[("write", json!({}))]), says("I cannot"), says("done")];
    let harness = parent(assignment, replies).build();
    harness.prompt("go").await;
    assert_eq!(offered(&harness, 1), ["read"]);
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0"], "`write` did not run");
}

#[tokio::test]
async fn sub_agent_has_no_more_authority_than_the_starting_tool() {
    let replies = vec![delegate(), calls(&[("write", json!({}))]), says("I cannot"), says("done")];
    let harness = parent_with(task("write it"), Authority::READ_ONLY, replies).build();
    harness.prompt("go").await;
    assert_eq!(
        (offered(&harness, 0), offered(&harness, 1)),
        (vec!["task".into(), "read".into(), "write".into()], vec!["read".to_owned()])
    );
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0"], "`write` did not run");
}

#[tokio::test]
async fn sub_agent_calls_pass_the_parents_approval_and_hooks() {
    struct NoReading;
    impl Hooks for NoReading {
        fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
            let verdict = if call.name == "read" { HookVerdict::Deny("not this".into()) } else { HookVerdict::Pass };
            Box::pin(async { verdict })
        }
    }
    let both = calls(&[("read", json!({})), ("write", json!({}))]);
    let mut setup = parent(task("read and write"), vec![delegate(), both, says("neither"), says("done")]);
    setup.hooks = vec![Arc::new(NoReading)];
    setup.approver = Arc::new(Answers { decision: Decision::Deny { reason: "no".into() }, asked: Mutex::default() });
    let harness = setup.build();
    harness.prompt("go").await;
    assert_eq!(*harness.approver.asked.lock().unwrap(), ["sub-agent: write"]);
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0"], "neither ran");
}

#[tokio::test]
async fn nested_sub_agents_require_configuration() {
    for (depth, tools, requests) in
        [(0, vec![], 2), (1, vec!["read", "write"], 3), (2, vec!["task", "read", "write"], 5)]
    {
        let mut replies = vec![delegate()];
        if depth > 1 {
            replies.push(delegate());
        }
        let mut setup = parent(task("look"), replies);
        setup.sub_agents.max_depth = depth;
        let harness = setup.build();
        harness.prompt("go").await;
        assert_eq!(harness.requests(), requests, "depth {depth}");
        if depth > 0 {
            assert_eq!(offered(&harness, 1), tools);
        }
    }
}

#[tokio::test]
async fn sub_agent_spend_counts_towards_the_parents_limits() {
    let reads = (0..30).map(|n| calls(&[("read", json!({ "text": n.to_string() }))]));
    let replies = std::iter::once(delegate()).chain(reads).collect();
    let mut setup = parent(task("read on"), replies);
    // Each reply uses 15 tokens.
    setup.limits.max_tokens = Some(60);
    let harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Tokens(60) });
    assert_eq!((harness.requests(), outcome.spend.usage.total()), (4, 60));
    assert_eq!(harness.agent.totals().spend.usage.total(), 60);
}

#[tokio::test]
async fn configured_agent_has_its_own_system_prompt_and_thinking_level() {
    let replies = vec![delegate(), says("seen"), says("done")];
    let mut setup = parent(Assignment { kind: Some("thinker".into()), ..task("look") }, replies);
    setup.sub_agents.kinds = vec![AgentKind {
        name: "thinker".into(),
        system_prompt: Some("You think.".into()),
        instructions: Some("Twice.".into()),
        thinking: Some(ThinkingLevel::High),
        ..AgentKind::default()
    }];
    let harness = setup.build();
    harness.agent.configure(|config| config.policy.options.thinking_budgets = [(ThinkingLevel::High, 9_999)].into());
    harness.prompt("go").await;
    let requests = harness.model.requests.lock().unwrap();
    assert!(requests[1].system.starts_with("You think.\n\n# Your role") && requests[1].system.ends_with("Twice."));
    let thinking: Vec<_> = requests.iter().map(|it| (it.options.thinking, it.options.budget())).collect();
    assert_eq!((thinking[0], thinking[1]), (Default::default(), (ThinkingLevel::High, Some(9_999))));
}

#[tokio::test]
async fn configured_agent_has_its_own_model_instructions_and_tools() {
    struct Models(Arc<crate::testing::ScriptedModel>);
    impl ModelSource for Models {
        fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>> {
            let found = match name {
                "big" => {
                    Ok(FoundModel { provider: self.0.clone(), model: Model { name: "big".into(), ..Model::default() } })
                }
                _ => Err("no such model".to_owned()),
            };
            Box::pin(async { found })
        }
    }
    let kind = |name: &str, model: &str| AgentKind {
        name: name.into(),
        description: "reads".into(),
        instructions: Some("Read like an editor.".into()),
        tools: Some(vec!["read".into()]),
        models: vec![model.into()],
        max_turns: Some(2),
        ..AgentKind::default()
    };
    for (name, expected) in [("reader", "seen"), ("broken", "cannot use the sub-agent's model `small`: no such model")]
    {
        let assignment = Assignment { kind: Some(name.into()), ..task("look") };
        let mut setup = parent(assignment, vec![delegate(), says("seen"), says("done")]);
        setup.sub_agents.kinds = vec![kind("reader", "big"), kind("broken", "small")];
        setup.sub_agents.models = Some(Arc::new(Models(setup.model.clone())));
        let harness = setup.build();
        let outcome = harness.prompt("go").await;
        assert!(letters(&outcome.messages[2]).contains(expected), "{}", letters(&outcome.messages[2]));
        if name == "reader" {
            let requests = harness.model.requests.lock().unwrap();
            assert_eq!(requests[1].model, "big");
            assert!(requests[1].system.ends_with("Read like an editor."));
            drop(requests);
            assert_eq!(offered(&harness, 1), ["read"]);
        }
    }
}

#[tokio::test]
async fn sub_agents_per_call_are_limited() {
    struct Eager;
    impl ToolExecutor for Eager {
        fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
            vec![Arc::new(ToolDefinition {
                name: "task".into(),
                label: String::new(),
                description: String::new(),
                input_schema: json!({ "type": "object" }),
                guidelines: vec![],
                authority: Authority::default(),
                execution: Execution::Parallel,
                source: Default::default(),
            })]
        }

        fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
            Box::pin(async move {
                let agents = call.agents.unwrap();
                let mut said = Vec::new();
                for _ in 0..20 {
                    said.push(agents.run(task("x"), Authority::default(), |_| true).await.map(|report| report.text));
                }
                let refused = said.iter().filter(|said| **said == Err(SubAgentError::TooMany { limit: 16 })).count();
                Ok(ToolOutput::text(format!("{refused} refused"))).into()
            })
        }
    }
    let model = Setup::new(vec![delegate()]).model;
    let mut config = LoopConfig::new(model, Model::default(), Arc::new(Eager));
    config.ports.spawner = Some(sub_agents(SubAgentPolicy::default()));
    let agent = Agent::new(config, Context::new("", "s"));
    let outcome = agent.run(vec![Message::user("go")]).await.unwrap();
    assert_eq!(letters(&outcome.messages[2]), "result call-0: 4 refused");
}

#[tokio::test]
async fn sub_agent_cannot_give_the_parents_structured_answer() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let replies = vec![
        delegate(),
        calls(&[("final_answer", json!({ "n": 1 }))]),
        says("I cannot"),
        calls(&[("final_answer", json!({ "n": 2 }))]),
    ];
    let harness = parent(task("answer"), replies).build();
    let answer = answer(&harness.agent, vec![Message::user("go")], schema, 0).await.unwrap();
    assert_eq!(answer.value, json!({ "n": 2 }));
    assert_eq!(offered(&harness, 1), ["read", "write"]);
}

#[tokio::test]
async fn attempts_run_concurrently_read_only_and_return_one_report() {
    let attempts = ParallelAttempts { count: 3, choice: ChoiceName::Judge };
    let assignment = Assignment { attempts: Some(attempts), ..task("how many?") };
    let replies = vec![delegate(), says("one"), says("two"), says("three"), says("Answer 2."), says("thanks")];
    let mut harness = parent(assignment, replies).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(letters(&outcome.messages[2]), "result call-0: two");
    assert_eq!(offered(&harness, 1), ["read"]);
    assert_eq!(outcome.spend.usage.total(), 6 * 15, "all attempts and the judge count");
    let events = harness.events_of_runs();
    let chosen = events.iter().find_map(|event| match &event.kind {
        EventKind::ParallelEnd { chosen, .. } => chosen.clone(),
        _ => None,
    });
    assert_eq!(chosen.as_deref(), Some("child1.scripted.m.2"));
    assert_eq!(result_of(&outcome).child_run_id.as_deref(), Some("child1.scripted.m.2"));
    let parents = events.iter().filter_map(|event| match &event.kind {
        EventKind::AgentStart { parent_run_id, agent_id, .. } if &**agent_id == "sub-agent" => parent_run_id.clone(),
        _ => None,
    });
    assert_eq!(parents.collect::<Vec<_>>(), vec![Arc::<str>::from("s.scripted.m.1"); 3]);
}

#[tokio::test]
async fn number_of_attempts_is_limited() {
    for count in [0, MAX_ATTEMPTS + 1, u32::MAX] {
        let attempts = Some(ParallelAttempts { count, choice: ChoiceName::First });
        let harness = parent(Assignment { attempts, ..task("x") }, vec![delegate(), says("done")]).build();
        let outcome = harness.prompt("go").await;
        let Content::Text { text } = &result_of(&outcome).content[0] else { panic!() };
        assert!(text.contains("the number of attempts must be 1 to 8"), "{text}");
        assert_eq!(harness.requests(), 2);
    }
}

#[tokio::test]
async fn concurrent_sub_agents_share_one_token_limit() {
    let tasks: Vec<_> = (0..4).map(|_| ("task", json!({}))).collect();
    let reads = (0..200).map(|n| calls(&[("read", json!({ "text": n.to_string() }))]));
    let attempts = Some(ParallelAttempts { count: 4, choice: ChoiceName::First });
    let replies = std::iter::once(calls(&tasks)).chain(reads).collect();
    let mut setup = parent(Assignment { attempts, ..task("read on") }, replies);
    // Each reply uses 15 tokens.
    setup.limits.max_tokens = Some(600);
    let harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Tokens(600) });
    // Only requests that were open when the limit was reached can exceed it.
    assert!(harness.requests() < 600 / 15 + 16, "{} requests", harness.requests());
    assert_eq!(outcome.spend.usage.total(), harness.requests() as u64 * 15);
}

/// Allows every call after a delay.
struct Slow(Duration);

impl Approver for Slow {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Decision::Allow
        })
    }
}

#[tokio::test(start_paused = true)]
async fn sub_agent_time_limit_pauses_during_approval() {
    let assignment =
        Assignment { prompt: "do".into(), max_time: Some(Duration::from_secs(5)), ..Assignment::default() };
    let replies =
        vec![calls(&[("hand", json!({}))]), calls(&[("change", json!({}))]), says("the child"), says("the parent")];
    let setup = Setup::new(replies).tool("hand", Act::Delegate(assignment, Authority::ALL)).tool_with(
        "change",
        Act::Answer("ok"),
        |tool| tool.authority.writes = true,
    );
    let harness = setup.build();
    harness.agent.configure(|config| {
        config.ports.approval = Approval::new(ApprovalMode::Smart, Arc::new(Slow(Duration::from_secs(3600))));
        config.policy.limits.max_time = Some(Duration::from_secs(60));
    });
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.text(), "the parent");
    assert_eq!(harness.last_request()[2], "result call-0: the child");
}
