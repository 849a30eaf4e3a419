//! Sub-agents in the background of a run.

use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::{Harness, Reply, ScriptedModel, calls, letters, says};
use crate::*;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Separate scripts for the agent and its sub-agents.
struct Roles {
    agent: Arc<ScriptedModel>,
    sub_agents: Arc<ScriptedModel>,
}

impl Provider for Roles {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let is_sub_agent = request.system.contains("You are a sub-agent");
        let model = if is_sub_agent { &self.sub_agents } else { &self.agent };
        model.stream(request, token)
    }
}

fn in_background(prompt: &str) -> Assignment {
    Assignment { background: true, ..task(prompt) }
}

/// Builds an agent that starts sub-agents with `assignment`. Returns the model of the sub-agents, too.
fn build(assignment: Assignment, agent: Vec<Reply>, sub_agents: Vec<Reply>) -> (Harness, Arc<ScriptedModel>) {
    let harness = parent(assignment, agent).build();
    let sub_agents = Arc::new(ScriptedModel::with(sub_agents));
    let roles = Roles { agent: harness.model.clone(), sub_agents: sub_agents.clone() };
    harness.agent.configure(|config| config.ports.provider = Arc::new(roles));
    (harness, sub_agents)
}

/// Waits until the agent has made this many requests.
async fn asked(model: &ScriptedModel, requests: usize) {
    while model.requests.lock().unwrap().len() < requests {
        tokio::task::yield_now().await;
    }
}

/// Returns the history, one line each.
fn told(harness: &Harness) -> Vec<String> {
    harness.agent.history().iter().map(|message| letters(message)).collect()
}

#[tokio::test]
async fn call_returns_at_once_and_the_report_comes_as_a_message() {
    let agent = vec![delegate(), says("I go on"), says("thanks")];
    let (mut harness, _) = build(in_background("look"), agent, vec![calls(&[("read", json!({}))]), says("seen")]);
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::Stop });
    let told = told(&harness);
    assert!(told[2].starts_with("result call-0: The sub-agent works in the background as `child1.scripted.m.1`"));
    let report = told.iter().position(|line| line.contains("`child1.scripted.m.1` in the background has ended"));
    let report = &told[report.unwrap()];
    assert!(report.contains("not the user's words") && report.ends_with("seen"), "{told:?}");
    assert!(told.last().unwrap().starts_with("assistant: "), "the parent answers it: {told:?}");
    let events = harness.events_of_runs();
    let ends = events.iter().filter(|event| matches!(event.kind, EventKind::AgentEnd { .. }));
    let ends: Vec<&str> = ends.map(|event| &*event.run_id).collect();
    assert_eq!(ends, ["child1.scripted.m.1", "s.scripted.m.1"], "no run ends before its sub-agents");
    assert_eq!(outcome.spend.usage.total(), (harness.requests() as u64 + 2) * 15, "their spend counts");
}

#[tokio::test]
async fn abort_ends_sub_agents_in_the_background() {
    let agent = vec![delegate(), says("I go on")];
    let (harness, sub_agents) = build(in_background("look"), agent, vec![Reply::Hangs(vec![])]);
    let aborting = async {
        asked(&sub_agents, 1).await;
        asked(&harness.model, 2).await;
        harness.agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), aborting);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let told = told(&harness);
    assert!(told.last().unwrap().contains("has ended") && told.last().unwrap().contains("it was aborted"), "{told:?}");
}

#[tokio::test]
async fn message_of_the_user_does_not_wait_for_the_report() {
    let agent = vec![delegate(), says("I go on"), says("yes?")];
    let (mut harness, sub_agents) = build(in_background("look"), agent, vec![Reply::Hangs(vec![])]);
    let steering = async {
        asked(&sub_agents, 1).await;
        asked(&harness.model, 2).await;
        harness.agent.config().inbox.steering.push_patient(Message::user("and now?"));
        asked(&harness.model, 3).await;
        harness.agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steering);
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert!(told(&harness).contains(&"user: and now?".to_owned()));
    let waits =
        |event: &EventKind| matches!(event, EventKind::PluginNotice { text, .. } if text.contains("1 sub-agent in"));
    assert!(harness.events().iter().any(waits));
}

#[tokio::test]
async fn attempts_and_a_seventeenth_sub_agent_do_not_work_in_the_background() {
    let attempts = Some(ParallelAttempts { count: 2, choice: ChoiceName::First });
    let assignment = Assignment { attempts, ..in_background("x") };
    let (harness, _) = build(assignment, vec![delegate(), says("done")], vec![]);
    let outcome = harness.prompt("go").await;
    assert!(letters(&outcome.messages[2]).contains("several attempts cannot work in the background"));
    let tasks: Vec<_> = (0..17).map(|_| ("task", json!({}))).collect();
    let hanging = (0..16).map(|_| Reply::Hangs(vec![])).collect();
    let (harness, sub_agents) = build(in_background("x"), vec![calls(&tasks), says("done")], hanging);
    let aborting = async {
        asked(&sub_agents, 16).await;
        asked(&harness.model, 2).await;
        harness.agent.abort();
    };
    let (_, ()) = tokio::join!(harness.prompt("go"), aborting);
    let refused = told(&harness).into_iter().filter(|line| line.contains("16 sub-agents already work"));
    assert_eq!(refused.count(), 1);
}
