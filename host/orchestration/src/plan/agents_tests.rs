//! Agents that make plans and execute them, with scripted models and tools.

use super::agents::ONLY_READING;
use super::*;
use crate::testing::*;
use crate::*;
use serde_json::{Value, json};
use std::sync::Mutex;

fn answer(plan: Value) -> Reply {
    calls(&[(ANSWER_TOOL, plan)])
}

fn two_steps() -> Value {
    let step =
        |title: &str| json!({ "title": title, "description": "", "files": ["a.rs"], "acceptance": ["it works"] });
    json!({ "title": "Fix it all", "summary": "It is broken.", "steps": [step("Find it"), step("Fix it")] })
}

fn plan_of_two() -> Plan {
    serde_json::from_value(two_steps()).unwrap()
}

fn done(report: &str) -> Reply {
    answer(json!({ "done": true, "report": report }))
}

async fn planned(setup: Setup) -> (Harness, Result<StructuredAnswer<Plan>, AnswerError>) {
    let harness = setup.build();
    let plan = make_plan(&harness.agent, vec![Message::user("fix it")]).await;
    (harness, plan)
}

#[tokio::test]
async fn planner_gets_only_read_only_tools() {
    let replies = vec![calls(&[("write", json!({})), ("run", json!({})), ("look", json!({}))]), answer(two_steps())];
    let setup = Setup::new(replies)
        .tool("look", Act::Answer("seen"))
        .tool_with("write", Act::Answer("written"), |tool| tool.authority.writes = true)
        .tool_with("run", Act::Answer("ran"), |tool| tool.authority.executes = true)
        .tool_with("send", Act::Answer("sent"), |tool| tool.authority.network = true)
        .tool_with("agent", Act::Answer("asked"), |tool| tool.authority.delegates = true);
    let (harness, plan) = planned(setup).await;
    assert_eq!(plan.unwrap().value, plan_of_two());
    let requests = harness.model.requests.lock().unwrap();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["look", "agent", ANSWER_TOOL]);
    let request: Vec<String> = requests[1].messages.iter().map(|message| letters(message)).collect();
    assert_eq!(
        request[2..],
        [
            format!("failed call-0: Denied: {ONLY_READING}"),
            format!("failed call-1: Denied: {ONLY_READING}"),
            "result call-2: seen".to_owned()
        ]
    );
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-2", "-call-2"]);
}

#[tokio::test]
async fn plan_is_reported_after_its_run() {
    let (mut harness, plan) = planned(Setup::new(vec![answer(two_steps())])).await;
    let title = plan.unwrap().value.title;
    let events = harness.events();
    let last = events.last().unwrap();
    assert!(matches!(last, EventKind::PlanMade { title: made, steps: 2 } if *made == title), "{last:?}");
    let (mut failed, plan) = planned(Setup::new(vec![says("no"), says("no"), says("no")])).await;
    assert!(plan.is_err());
    assert!(!failed.events().iter().any(|event| matches!(event, EventKind::PlanMade { .. })));
}

/// Claims to be read-only, and records the authority of each call.
#[derive(Default)]
struct Liar(Mutex<Vec<Authority>>);

impl ToolExecutor for Liar {
    fn definitions(&self) -> Vec<std::sync::Arc<ToolDefinition>> {
        vec![std::sync::Arc::new(ToolDefinition {
            name: "look".into(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            guidelines: vec![],
            authority: Authority::READ_ONLY,
            execution: Execution::Parallel,
            source: Default::default(),
        })]
    }

    fn call<'a>(
        &'a self,
        call: ToolInvocation,
        _: &'a dyn ToolProgress,
    ) -> futures_util::future::BoxFuture<'a, ToolReply> {
        self.0.lock().unwrap().push(call.at_most);
        Box::pin(async { Ok(ToolOutput::text("seen")).into() })
    }
}

#[tokio::test]
async fn planner_call_stays_read_only_if_its_tool_changes() {
    let harness = Setup::new(vec![calls(&[("look", json!({}))]), answer(two_steps())]).build();
    let liar = std::sync::Arc::new(Liar::default());
    harness.agent.configure(|config| config.ports.tools = liar.clone());
    make_plan(&harness.agent, vec![Message::user("fix it")]).await.unwrap();
    let at_most = liar.0.lock().unwrap()[0];
    assert!(at_most.is_within(Authority { delegates: true, ..Authority::READ_ONLY }), "{at_most:?}");
}

#[tokio::test]
async fn incomplete_plan_is_rejected() {
    let no_steps = json!({ "title": "x", "summary": "", "steps": [] });
    let mut no_criteria = two_steps();
    no_criteria["steps"][0]["acceptance"] = json!([]);
    let mut marked = two_steps();
    marked["steps"][0]["status"] = json!("done");
    for incomplete in [no_steps, no_criteria, marked] {
        let (harness, plan) = planned(Setup::new(vec![answer(incomplete), answer(two_steps())])).await;
        assert_eq!(plan.unwrap().value, plan_of_two());
        assert_eq!(harness.requests(), 2);
    }
}

#[tokio::test]
async fn planner_instructions_are_removed_after_planning() {
    let (harness, plan) = planned(Setup::new(vec![answer(two_steps())])).await;
    plan.unwrap();
    harness.prompt("hello").await;
    let requests = harness.model.requests.lock().unwrap();
    assert!(requests[0].system.starts_with("You are a test.\n\n# Planning"));
    assert_eq!(&*requests[1].system, "You are a test.");
    assert_eq!(requests[1].tools.len(), 0);
}

#[tokio::test]
async fn executor_gets_the_plan_its_statuses_and_the_step() {
    let mut plan = plan_of_two();
    let harness = Setup::new(vec![done("found"), done("fixed")]).build();
    let answer = execute_step(&harness.agent, &plan, 0).await.unwrap();
    assert_eq!(answer.value, StepReport { done: true, report: "found".into() });
    let first = harness.last_request();
    assert_eq!(first.len(), 1, "the conversation was empty");
    for part in [&plan.to_markdown()[..], "Do step 1 of 2 now: Find it", "acceptance criteria"] {
        assert!(first[0].contains(part), "no `{part}` in {}", first[0]);
    }
    assert!(!first[0].contains("partly done"));
    plan.steps[0].status = StepStatus::Done;
    plan.steps[1].status = StepStatus::Running;
    execute_step(&harness.agent, &plan, 1).await.unwrap();
    let second = harness.last_request();
    let prompt = second.last().unwrap();
    assert!(prompt.contains(&plan.to_markdown()) && prompt.contains("it may be partly done"), "{prompt}");
    assert!(!second[0].contains("# Planning") && second.len() == 4);
}

async fn statuses(reply: Reply, is_aborted: bool) -> Vec<StepStatus> {
    let mut harness = Setup::new(vec![reply]).tool("hang", Act::UntilCancelled).build();
    let abort = async {
        if is_aborted {
            harness.tools.reached("+call-0").await;
            harness.agent.abort();
        }
    };
    let plan = plan_of_two();
    let (_, ()) = tokio::join!(execute_step(&harness.agent, &plan, 1), abort);
    let events = harness.events().into_iter().filter_map(|event| match event {
        EventKind::PlanStep { step: 2, steps: 2, title, status } if title == "Fix it" => Some(status),
        _ => None,
    });
    events.collect()
}

#[tokio::test]
async fn watchers_see_the_start_and_the_end_of_a_step() {
    use StepStatus::{Done, Failed, Running};
    assert_eq!(statuses(done("ok"), false).await, [Running, Done]);
    assert_eq!(statuses(answer(json!({ "done": false, "report": "no" })), false).await, [Running, Failed]);
    let refused = Reply::Fails(vec![], ProviderError::Auth { message: "no key".into() });
    assert_eq!(statuses(refused, false).await, [Running, Failed]);
    assert_eq!(statuses(calls(&[("hang", json!({}))]), true).await, [Running, Running]);
}

#[tokio::test]
async fn step_events_carry_the_ids_of_its_runs() {
    let harness = Setup::new(vec![says("hm"), done("ok")]).build();
    let mut watch = harness.agent.subscribe(1000);
    execute_step(&harness.agent, &plan_of_two(), 0).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = watch.try_recv() {
        if matches!(event.kind, EventKind::PlanStep { .. } | EventKind::AgentStart { .. } | EventKind::AgentEnd { .. })
        {
            let name = serde_json::to_value(&event.kind).unwrap()["type"].as_str().unwrap().to_owned();
            seen.push(format!("{name} {}", event.run_id.rsplit('.').next().unwrap()));
        }
    }
    assert_eq!(seen, ["plan_step 1", "agent_start 1", "agent_end 1", "agent_start 2", "agent_end 2", "plan_step 2"]);
}

#[tokio::test]
async fn missing_step_is_an_error_and_nothing_runs() {
    let harness = Setup::new(vec![]).build();
    let error = execute_step(&harness.agent, &plan_of_two(), 2).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), harness.requests()), ("there is no step 3: the plan has 2", 0));
}

#[tokio::test]
async fn step_with_a_denied_call_is_never_done() {
    let reason = || "no".to_owned();
    for (decision, is_unanswered) in
        [(Decision::Deny { reason: reason() }, false), (Decision::Unanswered { reason: reason() }, true)]
    {
        let mut setup = Setup::new(vec![calls(&[("change", json!({}))]), done("all done"), done("next")]).tool_with(
            "change",
            Act::Answer("changed"),
            |tool| tool.authority.writes = true,
        );
        setup.approver = std::sync::Arc::new(Answers { decision, asked: Mutex::default() });
        let mut harness = setup.build();
        let plan = plan_of_two();
        let Err(AnswerError::Denied { calls, report }) = execute_step(&harness.agent, &plan, 0).await else {
            panic!("the step counts as done")
        };
        assert_eq!(calls, [DeniedCall { tool: "change".into(), reason: reason(), is_unanswered }]);
        assert_eq!(report, "all done");
        let statuses = |harness: &mut Harness| -> Vec<StepStatus> {
            let events = harness.events().into_iter();
            events
                .filter_map(|e| if let EventKind::PlanStep { status, .. } = e { Some(status) } else { None })
                .collect()
        };
        assert_eq!(statuses(&mut harness), [StepStatus::Running, StepStatus::Failed]);
        // Earlier denials do not affect the next step.
        assert!(execute_step(&harness.agent, &plan, 1).await.unwrap().value.done);
    }
}
