//! Tool calls: order, arguments, approval, repetition, calls that were cut off.

use super::done;
use crate::testing::{Act, Reply, Setup, call_events, calls, counts, says, text_events};
use crate::*;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

#[tokio::test]
async fn calls_run_concurrently_with_results_in_call_order() {
    let gate = Arc::new(Notify::new());
    let replies = vec![calls(&[("slow", json!({})), ("fast", json!({}))]), says("done")];
    let harness = Setup::new(replies).tool("slow", Act::Wait(gate.clone())).tool("fast", Act::Answer("quick")).build();
    let release = async {
        harness.tools.reached("-call-1").await;
        gate.notify_one();
    };
    tokio::join!(harness.prompt("go"), release);
    let log = harness.tools.log.lock().unwrap().clone();
    assert_eq!(log, ["+call-0", "+call-1", "-call-1", "-call-0"]);
    let expected = ["user: go", "assistant calls call-0 call-1", "result call-0: let go", "result call-1: quick"];
    assert_eq!(harness.last_request(), expected);
}

async fn order(strategy: Strategy, names: &[&str]) -> Vec<String> {
    let mut setup = Setup::new(vec![calls(&names.iter().map(|n| (*n, json!({}))).collect::<Vec<_>>()), says("done")])
        .tool("any", Act::Yield("a"))
        .tool_with("alone", Act::Yield("b"), |tool| tool.execution = Execution::Sequential);
    setup.strategy = strategy;
    let harness = setup.build();
    harness.prompt("go").await;
    std::mem::take(&mut *harness.tools.log.lock().unwrap())
}

#[tokio::test]
async fn sequential_runs_one_after_the_other() {
    assert_eq!(order(Strategy::Sequential, &["any", "any"]).await, ["+call-0", "-call-0", "+call-1", "-call-1"]);
}

#[tokio::test]
async fn tool_may_demand_to_be_alone() {
    let log = order(Strategy::Parallel, &["any", "any", "alone", "any"]).await;
    let at = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(at("-call-0") < at("+call-2") && at("-call-1") < at("+call-2") && at("-call-2") < at("+call-3"));
}

#[tokio::test]
async fn batches_run_one_after_the_other() {
    let log = order(Strategy::Batched(2), &["any", "any", "any"]).await;
    let at = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(at("-call-0") < at("+call-2") && at("-call-1") < at("+call-2"));
    assert!(at("+call-1") < at("-call-0"), "the calls of a batch run at once: {log:?}");
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_tool_and_are_reported() {
    let replies = vec![
        calls(&[("look", json!({ "text": 7 })), ("look", json!("{\"text\"")), ("loook", json!({}))]),
        says("done"),
    ];
    let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    assert!(harness.tools.log.lock().unwrap().is_empty());
    let sent = harness.last_request();
    assert!(sent[2].starts_with("failed call-0: Invalid arguments: `/text`"), "{}", sent[2]);
    assert!(sent[3].starts_with("failed call-1: Invalid arguments: they are not JSON"), "{}", sent[3]);
    assert_eq!(sent[4], "failed call-2: There is no tool `loook`. Did you mean `look`?");
}

#[tokio::test]
async fn decorated_names_of_tools_lead_to_a_suggestion() {
    let names =
        ["functions.look", "default_api:look", "tool.look", "LOOK", "look<|channel|>commentary", "default_api_look"];
    let wrong: Vec<_> = names.iter().map(|name| (*name, json!({}))).collect();
    let harness = Setup::new(vec![calls(&wrong), says("done")]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    for (name, sent) in names.iter().zip(&harness.last_request()[2..]) {
        assert!(sent.ends_with(&format!("There is no tool `{name}`. Did you mean `look`?")), "{sent}");
    }
}

#[tokio::test]
async fn tool_that_fails_is_told_to_the_model_and_the_loop_goes_on() {
    let harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("ah")]).tool("look", Act::Fail("not there")).build();
    assert!(done(&harness.prompt("go").await));
    assert_eq!(harness.last_request()[2], "failed call-0: not there");
}

#[tokio::test]
async fn truncated_calls_get_an_error_and_the_run_continues() {
    let cut = call_events(&[("look", json!({})), ("look", json!("{\"te"))], StopReason::Length);
    let harness = Setup::new(vec![Reply::Events(cut), says("shorter")]).tool("look", Act::Answer("seen")).build();
    assert!(done(&harness.prompt("go").await));
    let sent = harness.last_request();
    assert_eq!(sent[2], "result call-0: seen");
    assert!(sent[3].contains("cut off by the output limit"), "{}", sent[3]);
}

#[tokio::test]
async fn a_reply_that_is_cut_off_without_calls_ends_the_run_and_says_so() {
    let harness = Setup::new(vec![Reply::Events(text_events("and so", StopReason::Length))]).build();
    assert_eq!(harness.prompt("go").await.end, RunEnd::Done { stop_reason: StopReason::Length });
}

#[tokio::test]
async fn reply_keeps_the_requested_model_beside_the_one_that_answered() {
    let mut events = text_events("hi", StopReason::Stop);
    events[0] = StreamEvent::Start { model: Some("other".into()) };
    let harness = Setup::new(vec![Reply::Events(events)]).build();
    let outcome = harness.prompt("go").await;
    let Some(Message::Assistant(reply)) = outcome.messages.last().map(|message| &**message) else { panic!() };
    let requested = harness.config().policy.model.name;
    assert_eq!((&*reply.model, reply.requested_model.as_deref()), ("other", Some(&*requested)));
}

#[tokio::test]
async fn only_harmful_calls_are_asked_about_and_denials_reach_the_model() {
    let mut setup = Setup::new(vec![calls(&[("look", json!({})), ("change", json!({}))]), says("pity")])
        .tool("look", Act::Answer("seen"))
        .tool_with("change", Act::Answer("changed"), |tool| tool.authority.writes = true);
    setup.approver = Arc::new(crate::testing::Answers {
        decision: Decision::Deny { reason: "not today".into() },
        asked: Default::default(),
    });
    let mut harness = setup.build();
    harness.prompt("go").await;
    assert_eq!(*harness.approver.asked.lock().unwrap(), ["change"]);
    assert_eq!(harness.last_request()[3], "failed call-1: Denied: not today");
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0"]);
    let names = harness.event_names();
    assert_eq!((counts(&names)["approval_requested"], counts(&names)["approval_resolved"]), (1, 1));
}

#[tokio::test]
async fn session_approval_lasts_until_a_tool_can_do_more() {
    let replies = vec![calls(&[("change", json!({}))]), calls(&[("change", json!({}))]), says("done")];
    let mut setup = Setup::new(replies).tool_with("change", Act::Answer("ok"), |tool| tool.authority.writes = true);
    let answers = crate::testing::Answers { decision: Decision::AllowForSession, asked: Default::default() };
    setup.approver = Arc::new(answers);
    let harness = setup.build();
    harness.prompt("go").await;
    assert_eq!(harness.approver.asked.lock().unwrap().len(), 1);

    let replies = vec![calls(&[("change", json!({}))]), says("done")];
    let more = |tool: &mut ToolDefinition| (tool.authority.writes, tool.authority.executes) = (true, true);
    let other = Setup::new(replies).tool_with("change", Act::Answer("ok"), more).build();
    other.agent.configure(|config| config.ports.approval = harness.config().ports.approval);
    other.prompt("go").await;
    assert_eq!(harness.approver.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn results_are_bounded_before_they_are_stored_and_sent() {
    let harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("done")]).tool("look", Act::Long(100_000)).build();
    harness.agent.configure(|config| config.policy.output.max_text_bytes = 1_000);
    harness.prompt("go").await;
    let told = harness.last_request()[2].clone();
    assert!(told.len() < 1_100 && told.contains("bytes were left out"), "{} bytes", told.len());
    assert_eq!(crate::testing::letters(&harness.store.kept.lock().unwrap()[2]), told);
}

#[tokio::test]
async fn secrets_are_redacted_in_prompts_replies_and_results() {
    const KEY: &str = "sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt";
    let replies = vec![calls(&[("look", json!({ "text": KEY }))]), says(KEY)];
    let mut harness = Setup::new(replies).tool("look", Act::Answer(KEY)).build();
    harness.agent.configure(|config| config.ports.secrets.add(&KEY.into()));
    let outcome = harness.prompt(KEY).await;
    let kept = serde_json::to_string(&*harness.store.kept.lock().unwrap()).unwrap();
    let ended = harness.events().into_iter().filter(|event| !matches!(event, EventKind::MessageUpdate { .. }));
    let ended = ended.filter(|event| !matches!(event, EventKind::ToolExecutionStart { .. }));
    let events = serde_json::to_string(&ended.collect::<Vec<_>>()).unwrap();
    for (text, where_from) in [(kept, "session"), (events, "events"), (format!("{outcome:?}"), "outcome")] {
        assert!(!text.contains("Zq7Xw3Vb9Nm2") && text.contains("[redacted]"), "{where_from}: {text}");
    }
}

#[tokio::test]
async fn repeated_call_with_the_same_result_is_refused_with_a_note() {
    let mut replies: Vec<Reply> = (0..5).map(|_| calls(&[("look", json!({ "text": "a" }))])).collect();
    replies.push(says("done"));
    let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome));
    assert_eq!(harness.tools.log.lock().unwrap().iter().filter(|line| line.starts_with('+')).count(), 3);
    let failed: Vec<String> = harness.last_request().into_iter().filter(|m| m.starts_with("failed")).collect();
    assert!(failed[0].contains("gave the same result 3 times"), "{failed:?}");
}

/// Makes calls of `look` with these texts, one in each turn, and returns how many of them ran.
async fn looked(texts: &[&str], act: Act) -> usize {
    let mut replies: Vec<Reply> = texts.iter().map(|text| calls(&[("look", json!({ "text": text }))])).collect();
    replies.push(says("done"));
    let harness = Setup::new(replies).tool("look", act).build();
    assert!(done(&harness.prompt("go").await));
    harness.tools.log.lock().unwrap().iter().filter(|line| line.starts_with('+')).count()
}

#[tokio::test]
async fn calls_that_alternate_with_the_same_results_are_refused() {
    assert_eq!(looked(&["a", "b"].repeat(5), Act::Answer("seen")).await, 6);
    assert_eq!(looked(&["a", "b", "c", "d"].repeat(4), Act::Answer("seen")).await, 12);
}

#[tokio::test]
async fn different_arguments_or_results_are_not_a_repetition() {
    assert_eq!(looked(&["a", "a", "b", "b", "a", "a", "c", "c", "a"], Act::Answer("seen")).await, 9);
    assert_eq!(looked(&["a"; 8], Act::Count).await, 8, "each result differs from the one before");
    assert_eq!(looked(&["a", "b"].repeat(4), Act::Count).await, 8);
}

#[test]
fn calls_of_another_version_of_the_tool_are_not_a_repetition() {
    use pinion_protocol::repetition::{CallKey, Repetition};
    let call = ToolCall::new("c", "look", json!({}));
    let harness = Setup::new(vec![]).tool("look", Act::Answer("seen")).build();
    let before = (*harness.tools.definitions()[0]).clone();
    let key = |tool: &ToolDefinition| CallKey::new(&call, Some(tool));
    let mut repetition = Repetition::default();
    (0..3).for_each(|_| repetition.record(key(&before), None, 3));
    assert!(repetition.is_repetition(key(&before), 3));
    let changes: [fn(&mut ToolDefinition); 2] =
        [|tool| tool.source.generation += 1, |tool| tool.source.digest = "new".into()];
    for change in changes {
        let mut after = before.clone();
        change(&mut after);
        assert!(!repetition.is_repetition(key(&after), 3));
    }
}

#[tokio::test]
async fn results_are_stored_as_calls_end_and_reported_in_call_order() {
    let gate = Arc::new(Notify::new());
    let replies = vec![calls(&[("slow", json!({})), ("fast", json!({}))]), says("done")];
    let mut harness =
        Setup::new(replies).tool("slow", Act::Wait(gate.clone())).tool("fast", Act::Answer("quick")).build();
    let kept = |harness: &crate::testing::Harness| -> Vec<String> {
        harness.store.kept.lock().unwrap().iter().map(|m| crate::testing::letters(m)).collect()
    };
    let release = async {
        // The fast call is in the store, while the slow one still runs.
        while !kept(&harness).iter().any(|line| line == "result call-1: quick") {
            tokio::task::yield_now().await;
        }
        assert_eq!(kept(&harness).len(), 3);
        gate.notify_one();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), release);
    assert_eq!(kept(&harness)[2..4], ["result call-1: quick", "result call-0: let go"]);
    crate::testing::assert_paired(&outcome.messages);
    let sent: Vec<String> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::MessageEnd { message } => Some(crate::testing::letters(&message)),
            _ => None,
        })
        .collect();
    assert_eq!(sent[2..4], ["result call-0: let go", "result call-1: quick"]);
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_ends_the_run_and_no_further_call_begins() {
    let replies = vec![calls(&[("look", json!({})), ("look", json!({})), ("look", json!({}))]), says("done")];
    let mut setup = Setup::new(replies).tool("look", Act::Answer("seen")).full_after(3);
    setup.strategy = Strategy::Sequential;
    let harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert!(matches!(outcome.end, RunEnd::Failed(_)), "{:?}", outcome.end);
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0", "+call-1", "-call-1"]);
    assert_eq!(outcome.messages.len(), 3, "what is in the store is in the history, and nothing else");
}
