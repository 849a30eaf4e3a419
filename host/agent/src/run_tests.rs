//! The loop against a scripted model and scripted tools. The rows are those of the requirements.

use crate::testing::{
    Act, Harness, Reply, Setup, assert_paired, call_events, calls, counts, letters, says, text_events,
};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

fn done(outcome: &Outcome) -> bool {
    outcome.end == RunEnd::Done { stop_reason: StopReason::Stop }
}

#[tokio::test]
async fn a_prompt_without_tools_is_one_turn() {
    let mut harness = Setup::new(vec![says("hello")]).build();
    let outcome = harness.prompt("hi").await;
    assert!(done(&outcome) && outcome.turns == 1);
    assert_eq!(outcome.text(), "hello");
    assert_eq!(outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["user: hi", "assistant: hello"]);
    assert_eq!(harness.event_names(), ["agent_start", "turn_start", "turn_end", "agent_end"]);
}

#[tokio::test]
async fn l5_events_come_in_order_and_deltas_before_the_whole() {
    let mut harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("done")]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    let events = harness.events();
    let names: Vec<&str> = events
        .iter()
        .map(|event| match event {
            EventKind::AgentStart { .. } => "agent",
            EventKind::TurnStart { .. } => "turn",
            EventKind::MessageStart { .. } => "message",
            EventKind::MessageUpdate { .. } => "delta",
            EventKind::MessageEnd { .. } => "message.",
            EventKind::ToolExecutionStart { .. } => "tool",
            EventKind::ToolExecutionEnd { .. } => "tool.",
            EventKind::TurnEnd { .. } => "turn.",
            EventKind::AgentEnd { .. } => "agent.",
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = "agent message message. \
         turn message delta delta message. tool tool. message message. turn. \
         turn message delta message. turn. agent.";
    assert_eq!(names.join(" "), expected);
}

#[tokio::test]
async fn l5_events_survive_serialization() {
    let mut harness =
        Setup::new(vec![calls(&[("look", json!({"text": "x"}))])]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    for kind in harness.events() {
        let event = Event { loop_id: "l".into(), kind };
        let line = serde_json::to_string(&event).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}

#[tokio::test]
async fn l7_one_run_at_a_time_and_the_second_is_told() {
    let harness = Setup::new(vec![calls(&[("wait", json!({}))])]).tool("wait", Act::UntilCancelled).build();
    let second = async {
        harness.tools.reached("+call-0").await;
        let second = harness.agent.run(vec![Message::user("me too")]).await;
        harness.agent.abort();
        second
    };
    let (first, second) = tokio::join!(harness.prompt("go"), second);
    assert_eq!(second, Err(AgentError::AlreadyRunning));
    assert_eq!(first.end, RunEnd::Aborted);
}

#[tokio::test]
async fn l7_continuing_needs_something_to_continue() {
    let harness = Setup::new(vec![says("hello")]).build();
    assert!(matches!(harness.agent.resume().await, Err(AgentError::NothingToContinue { .. })));
    harness.prompt("hi").await;
    assert!(matches!(harness.agent.resume().await, Err(AgentError::NothingToContinue { .. })));
}

#[tokio::test]
async fn l7_continuing_after_an_error_asks_again_without_a_new_prompt() {
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let harness = Setup::new(vec![Reply::Fails(vec![], refused), says("now")]).build();
    let failed = harness.prompt("hi").await;
    assert!(matches!(failed.end, RunEnd::Error { .. }));
    let messages = vec![Arc::new(Message::user("hi"))];
    harness.agent.reset("s".into(), messages, 0).unwrap();
    assert_eq!(harness.agent.resume().await.unwrap().text(), "now");
    assert_eq!(harness.last_request(), ["user: hi"]);
}

#[tokio::test]
async fn l8_calls_run_together_and_their_results_come_in_the_order_of_the_calls() {
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
        .tool("any", Act::Answer("a"))
        .tool_with("alone", Act::Answer("b"), |tool| tool.execution = Execution::Sequential);
    setup.strategy = strategy;
    let harness = setup.build();
    harness.prompt("go").await;
    std::mem::take(&mut *harness.tools.log.lock().unwrap())
}

#[tokio::test]
async fn l8_sequential_runs_one_after_the_other() {
    assert_eq!(order(Strategy::Sequential, &["any", "any"]).await, ["+call-0", "-call-0", "+call-1", "-call-1"]);
}

#[tokio::test]
async fn l8_a_tool_may_demand_to_be_alone() {
    let log = order(Strategy::Parallel, &["any", "any", "alone", "any"]).await;
    let at = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(at("-call-0") < at("+call-2") && at("-call-1") < at("+call-2") && at("-call-2") < at("+call-3"));
}

#[tokio::test]
async fn l8_batches_run_one_after_the_other() {
    let log = order(Strategy::Batched(2), &["any", "any", "any"]).await;
    let at = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(at("-call-0") < at("+call-2") && at("-call-1") < at("+call-2"));
}

#[tokio::test]
async fn l8_arguments_that_do_not_fit_never_reach_the_tool_and_the_model_is_told() {
    let replies = vec![
        calls(&[("look", json!({ "text": 7 })), ("look", json!("{\"text\"")), ("loook", json!({}))]),
        says("done"),
    ];
    let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    assert!(harness.tools.log.lock().unwrap().is_empty());
    let told = harness.last_request();
    assert!(told[2].starts_with("failed call-0: Invalid arguments: `/text`"), "{}", told[2]);
    assert!(told[3].starts_with("failed call-1: Invalid arguments: they are not JSON"), "{}", told[3]);
    assert_eq!(told[4], "failed call-2: There is no tool `loook`. Did you mean `look`?");
}

#[tokio::test]
async fn l8_a_tool_that_fails_is_told_to_the_model_and_the_loop_goes_on() {
    let harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("ah")]).tool("look", Act::Fail("not there")).build();
    assert!(done(&harness.prompt("go").await));
    assert_eq!(harness.last_request()[2], "failed call-0: not there");
}

/// One call runs, one has not begun; the user says something.
async fn steered(act: Act) -> (Harness, Outcome) {
    let mut setup = Setup::new(vec![calls(&[("run", json!({})), ("never", json!({}))]), says("as you wish")])
        .tool("run", act)
        .tool("never", Act::Answer("x"));
    setup.strategy = Strategy::Sequential;
    let harness = setup.build();
    let steer = async {
        harness.tools.reached("+call-0").await;
        harness.agent.steer(Message::user("stop that"));
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steer);
    (harness, outcome)
}

#[tokio::test]
async fn l9_steering_cancels_what_runs_and_skips_what_has_not_begun() {
    let (harness, outcome) = steered(Act::UntilCancelled).await;
    assert!(done(&outcome));
    let told = harness.last_request();
    assert!(told[2].starts_with("failed call-0: The user sent a message"), "{}", told[2]);
    assert!(told[3].starts_with("failed call-1: The user sent a message"), "{}", told[3]);
    assert_eq!(told[4], "user: stop that");
    assert_paired(&outcome.messages);
}

#[tokio::test]
async fn l9_what_a_cancelled_call_had_done_is_told() {
    let (harness, _) = steered(Act::AnswerOnCancel("half of it")).await;
    let told = harness.last_request();
    assert!(
        told[2].starts_with("failed call-0: The user sent a message") && told[2].ends_with("half of it"),
        "{}",
        told[2]
    );
}

#[tokio::test]
async fn l9_steering_before_the_run_comes_before_the_first_request() {
    let harness = Setup::new(vec![says("yes")]).build();
    harness.agent.steer(Message::user("mind the gap"));
    harness.prompt("go").await;
    assert_eq!(harness.last_request(), ["user: go", "user: mind the gap"]);
}

#[tokio::test]
async fn l9_steering_that_comes_with_the_last_words_is_still_answered() {
    let harness = Setup::new(vec![says("first"), says("second")]).build();
    // With room for one event the loop cannot get ahead of the watcher.
    let mut watch = harness.agent.subscribe(1);
    let agent = harness.agent.clone();
    let steer = async move {
        while let Some(event) = watch.recv().await {
            if matches!(event.kind, EventKind::MessageUpdate { .. }) {
                agent.steer(Message::user("wait"));
                break;
            }
        }
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steer);
    let said: Vec<String> = outcome.messages.iter().map(|m| letters(m)).collect();
    assert_eq!(said, ["user: go", "assistant: first", "user: wait", "assistant: second"]);
}

#[tokio::test]
async fn l9_steering_comes_before_what_follows() {
    let harness = Setup::new(vec![says("one"), says("two")]).build();
    harness.agent.follow_up(Message::user("follow"));
    harness.agent.steer(Message::user("steer"));
    let outcome = harness.prompt("go").await;
    let said: Vec<String> = outcome.messages.iter().map(|m| letters(m)).filter(|l| l.starts_with("user")).collect();
    assert_eq!(said, ["user: go", "user: steer", "user: follow"]);
}

async fn followed(mode: QueueMode) -> usize {
    let mut setup = Setup::new(vec![says("one"), says("two"), says("three")]);
    setup.queue_mode = mode;
    let harness = setup.build();
    harness.agent.follow_up(Message::user("and then"));
    harness.agent.follow_up(Message::user("and at last"));
    harness.prompt("go").await;
    harness.requests()
}

#[tokio::test]
async fn l9_follow_ups_come_when_the_agent_would_stop_one_at_a_time_or_all() {
    assert_eq!(followed(QueueMode::OneAtATime).await, 3);
    assert_eq!(followed(QueueMode::All).await, 2);
}

#[tokio::test]
async fn l9_follow_ups_do_not_come_after_an_error() {
    let refused = ProviderError::Auth { message: "bad key".into() };
    let harness = Setup::new(vec![Reply::Fails(vec![], refused)]).build();
    harness.agent.follow_up(Message::user("and then"));
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Error { message: "bad key".into() });
    assert_eq!(harness.requests(), 1);
}

async fn assert_aborted_once(mut harness: Harness, outcome: Outcome) {
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert_paired(&outcome.messages);
    let names = harness.event_names();
    assert_eq!(counts(&names)["agent_end"], 1);
    assert_eq!(names.last().unwrap(), "agent_end");
    let next = harness.prompt("again").await;
    assert!(done(&next), "the agent answers after an abort: {:?}", next.end);
    let requests = harness.model.requests.lock().unwrap();
    assert_paired(&requests.last().unwrap().messages);
}

#[tokio::test]
async fn l10_an_abort_in_the_middle_of_a_reply_keeps_what_was_said() {
    let mut begun = text_events("so far", StopReason::Stop);
    begun.truncate(3);
    let harness = Setup::new(vec![Reply::Hangs(begun), says("back")]).build();
    let agent = harness.agent.clone();
    let mut watch = harness.agent.subscribe(100);
    let abort = async move {
        while let Some(event) = watch.recv().await {
            if matches!(event.kind, EventKind::MessageUpdate { .. }) {
                agent.abort();
                break;
            }
        }
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), abort);
    assert_eq!(outcome.text(), "so far");
    assert_aborted_once(harness, outcome).await;
}

#[tokio::test]
async fn l10_an_abort_while_tools_run_pairs_every_call() {
    let replies = vec![calls(&[("hang", json!({})), ("hang", json!({}))]), says("back")];
    let harness = Setup::new(replies).tool("hang", Act::UntilCancelled).build();
    let abort = async {
        harness.tools.reached("+call-1").await;
        harness.agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), abort);
    assert!(letters(&outcome.messages[2]).starts_with("failed call-0: The run was aborted"));
    assert_aborted_once(harness, outcome).await;
}

#[tokio::test(start_paused = true)]
async fn l10_an_abort_while_waiting_to_try_again_ends_at_once() {
    let network = ProviderError::Network { message: "gone".into() };
    let harness = Setup::new(vec![Reply::Fails(vec![], network), says("back")]).build();
    let mut watch = harness.agent.subscribe(100);
    let agent = harness.agent.clone();
    let abort = async move {
        while let Some(event) = watch.recv().await {
            if matches!(event.kind, EventKind::Retry { .. }) {
                agent.abort();
                break;
            }
        }
    };
    let started = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(harness.prompt("go"), abort);
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_aborted_once(harness, outcome).await;
}

#[tokio::test(start_paused = true)]
async fn l11_what_may_pass_is_tried_again_with_growing_delays_and_told() {
    let limited = || ProviderError::RateLimited { message: "slow down".into(), retry_after: None };
    let later = ProviderError::Overloaded { message: "busy".into(), retry_after: Some(Duration::from_secs(7)) };
    let replies = vec![
        Reply::Fails(vec![], limited()),
        Reply::Fails(vec![], later),
        Reply::Fails(vec![], limited()),
        says("at last"),
    ];
    let mut harness = Setup::new(replies).build();
    let started = tokio::time::Instant::now();
    assert_eq!(harness.prompt("go").await.text(), "at last");
    assert_eq!(started.elapsed(), Duration::from_secs(1 + 7 + 4));
    let told: Vec<(u32, u64)> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Retry { attempt, delay_ms, .. } => Some((attempt, delay_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(1, 1000), (2, 7000), (3, 4000)]);
}

#[tokio::test(start_paused = true)]
async fn l11_a_reply_that_breaks_off_is_asked_for_again_and_what_it_said_is_void() {
    let mut begun = text_events("never mind", StopReason::Stop);
    begun.truncate(3);
    let harness = Setup::new(vec![Reply::Events(begun), says("whole")]).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["user: go", "assistant: whole"]);
}

#[tokio::test(start_paused = true)]
async fn l11_it_is_given_up_after_three_retries_and_the_error_says_why() {
    let network = || Reply::Fails(vec![], ProviderError::Network { message: "no route".into() });
    let harness = Setup::new(vec![network(), network(), network(), network()]).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Error { message: "network: no route".into() });
    assert_eq!(harness.requests(), 4);
}

fn endless() -> Vec<Reply> {
    (0..100).map(|_| calls(&[("look", json!({}))])).collect()
}

async fn limited(limits: RunLimits) -> Outcome {
    let mut setup = Setup::new(endless()).tool("look", Act::Answer("seen"));
    setup.limits = limits;
    let prices = Prices { input: 0.0, output: 1e6, cache_read: 0.0, cache_write: 0.0 };
    setup.model_info.prices = Some(Arc::new(prices));
    let outcome = setup.build().prompt("go").await;
    assert_paired(&outcome.messages);
    outcome
}

#[tokio::test]
async fn l12_turns_tokens_and_cost_end_a_run_with_a_message_that_names_the_limit() {
    let none = RunLimits { max_turns: None, max_tokens: None, max_time: None, max_cost: None };
    for (limits, limit, turns) in [
        (RunLimits { max_turns: Some(3), ..none.clone() }, Limit::Turns(3), 3),
        (RunLimits { max_tokens: Some(40), ..none.clone() }, Limit::Tokens(40), 3),
        (RunLimits { max_cost: Some(9.0), ..none.clone() }, Limit::Cost(9.0), 2),
    ] {
        let outcome = limited(limits).await;
        assert_eq!((outcome.end.clone(), outcome.turns), (RunEnd::Limit { limit }, turns));
        let Message::Extension(last) = &**outcome.messages.last().unwrap() else { panic!("no message") };
        assert_eq!(last.kind, LIMIT_MESSAGE);
        assert_eq!(last.data["text"], limit.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn l12_time_ends_a_run_that_hangs() {
    let mut setup = Setup::new(vec![calls(&[("hang", json!({}))])]).tool("hang", Act::UntilCancelled);
    setup.limits = RunLimits { max_time: Some(Duration::from_secs(600)), ..RunLimits::default() };
    let outcome = setup.build().prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Time(600) });
    assert_paired(&outcome.messages);
}

#[tokio::test]
async fn l13_calls_that_were_cut_off_get_an_error_and_the_loop_goes_on() {
    let cut = call_events(&[("look", json!({})), ("look", json!("{\"te"))], StopReason::Length);
    let harness = Setup::new(vec![Reply::Events(cut), says("shorter")]).tool("look", Act::Answer("seen")).build();
    assert!(done(&harness.prompt("go").await));
    let told = harness.last_request();
    assert_eq!(told[2], "result call-0: seen");
    assert!(told[3].contains("cut off by the output limit"), "{}", told[3]);
}

#[tokio::test]
async fn a_reply_that_is_cut_off_without_calls_ends_the_run_and_says_so() {
    let harness = Setup::new(vec![Reply::Events(text_events("and so", StopReason::Length))]).build();
    assert_eq!(harness.prompt("go").await.end, RunEnd::Done { stop_reason: StopReason::Length });
}

#[tokio::test]
async fn only_calls_that_can_do_harm_are_asked_about_and_a_no_is_told_to_the_model() {
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
async fn what_was_allowed_for_the_session_is_not_asked_again_unless_it_can_do_more() {
    let replies = vec![calls(&[("change", json!({}))]), calls(&[("change", json!({}))]), says("done")];
    let mut setup = Setup::new(replies).tool_with("change", Act::Answer("ok"), |tool| tool.authority.writes = true);
    let answers = crate::testing::Answers { decision: Decision::AllowForSession, asked: Default::default() };
    setup.approver = Arc::new(answers);
    let harness = setup.build();
    harness.prompt("go").await;
    assert_eq!(harness.approver.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_store_that_is_full_ends_the_run_and_nothing_is_shown_that_was_not_kept() {
    for full_after in 0..4 {
        let replies = vec![calls(&[("look", json!({}))]), says("done")];
        let mut harness = Setup::new(replies).tool("look", Act::Answer("seen")).full_after(full_after).build();
        let outcome = harness.prompt("go").await;
        assert!(
            matches!(&outcome.end, RunEnd::Error { message } if message.contains("disk full")),
            "{:?}",
            outcome.end
        );
        let shown: Vec<Arc<Message>> = harness
            .events()
            .into_iter()
            .filter_map(|event| match event {
                EventKind::MessageEnd { message } => Some(message),
                _ => None,
            })
            .collect();
        assert_eq!(shown, *harness.store.kept.lock().unwrap());
    }
}

#[tokio::test]
async fn extension_messages_live_in_the_history_and_never_reach_the_model() {
    let harness = Setup::new(vec![says("hello")]).build();
    let note = ExtensionMessage { kind: "app/note".into(), data: json!({ "n": 1 }), timestamp: jiff::Timestamp::now() };
    let outcome = harness.agent.run(vec![Message::Extension(note), Message::user("hi")]).await.unwrap();
    assert_eq!(letters(&outcome.messages[0]), "extension app/note");
    assert_eq!(harness.last_request(), ["user: hi"]);
}

#[tokio::test]
async fn guidelines_of_tools_stand_in_the_system_prompt() {
    let setup = Setup::new(vec![says("hello")]);
    let harness = setup.tool_with("look", Act::Answer("x"), |t| t.guidelines = vec!["Look first.".into()]).build();
    harness.prompt("hi").await;
    let system = harness.model.requests.lock().unwrap()[0].system.clone();
    assert_eq!(&*system, "You are a test.\n\n# Tools\n\n- `look`: Look first.");
}

#[tokio::test]
async fn a_watcher_that_is_slow_loses_nothing_that_matters() {
    let harness = Setup::new(vec![calls(&[("talk", json!({}))]), says("done")]).tool("talk", Act::Report(1000)).build();
    let mut slow = harness.agent.subscribe(1);
    let reading = async {
        let mut ends = 0;
        while let Some(event) = slow.recv().await {
            tokio::task::yield_now().await;
            match event.kind {
                EventKind::MessageEnd { .. } => ends += 1,
                EventKind::AgentEnd { .. } => break,
                _ => {}
            }
        }
        ends
    };
    let (outcome, ends) = tokio::join!(harness.prompt("go"), reading);
    assert_eq!(ends, outcome.messages.len());
}

#[tokio::test]
async fn compacting_puts_a_summary_in_the_place_of_the_conversation_and_keeps_the_last_round() {
    let harness = Setup::new(vec![says("one"), says("two"), says("what was said"), says("three")]).build();
    harness.prompt("first").await;
    harness.prompt("second").await;
    let compaction = harness.agent.compact(Some("mind the numbers")).await.unwrap();
    assert_eq!((compaction.dropped, compaction.summary.as_str()), (2, "what was said"));
    let asked = harness.last_request();
    assert!(asked.last().unwrap().contains("The user adds: mind the numbers"));
    harness.prompt("third").await;
    let seen = harness.last_request();
    assert!(seen[0].starts_with("user: [What follows is a summary") && seen[0].ends_with("what was said"));
    assert_eq!(seen[1..], ["user: second", "assistant: two", "user: third"]);
}

#[tokio::test]
async fn what_was_compacted_stays_in_the_session_and_the_view_of_it_is_the_same() {
    let harness = Setup::new(vec![says("one"), says("two"), says("summary"), says("three")]).build();
    harness.prompt("first").await;
    harness.prompt("second").await;
    harness.agent.compact(None).await.unwrap();
    harness.prompt("third").await;
    let kept = harness.store.kept.lock().unwrap().clone();
    assert_eq!(kept.len(), 7);
    let mut seen: Vec<String> = view(kept).iter().map(|m| letters(m)).collect();
    seen.pop();
    assert_eq!(seen, harness.last_request());
}

#[tokio::test]
async fn a_summary_that_is_not_written_changes_nothing() {
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let harness = Setup::new(vec![says("one"), says("two"), Reply::Fails(vec![], refused), says("three")]).build();
    assert!(matches!(harness.agent.compact(None).await, Err(CompactionError::Nothing)));
    harness.prompt("first").await;
    harness.prompt("second").await;
    assert!(matches!(harness.agent.compact(None).await, Err(CompactionError::NoSummary { .. })));
    harness.prompt("third").await;
    assert_eq!(harness.last_request().len(), 5);
}

/// A tool result of so many bytes fills the context; the model reads it again and again.
fn reader(rounds: usize, window: u64) -> Setup {
    let read = |n: usize| calls(&[("read", json!({ "text": n.to_string() }))]);
    let mut replies: Vec<Reply> = (0..rounds).map(read).collect();
    replies.push(says("done"));
    let mut setup = Setup::new(replies).tool("read", Act::Long(4_000));
    setup.model_info.context_window = Some(window);
    setup.compaction = CompactionPolicy { reserve: 1_000, by_model: false, ..CompactionPolicy::default() };
    setup
}

#[tokio::test]
async fn l16_a_full_context_is_compacted_after_tool_results_and_the_run_goes_on() {
    let mut harness = reader(12, 6_000).build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome) && outcome.turns == 13, "{:?}", outcome.end);
    let compactions: Vec<(u64, u64)> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Compaction { reason: CompactionReason::Threshold, before, after, .. } => Some((before, after)),
            _ => None,
        })
        .collect();
    assert!(compactions.len() >= 2, "{compactions:?}");
    assert!(compactions.iter().all(|(before, after)| *before > 4_900 && *after <= 2_500), "{compactions:?}");
    for request in harness.model.requests.lock().unwrap().iter() {
        assert!(messages_tokens(&request.messages, &ByteCounter) <= 5_000);
        assert_paired(&request.messages);
    }
    assert_eq!(harness.store.kept.lock().unwrap().len(), 1 + 12 * 2 + 1 + compactions.len(), "all of it is kept");
}

#[tokio::test]
async fn l16_the_model_writes_the_summary_and_a_list_takes_its_place_when_it_does_not() {
    for (reply, expected) in [(says("my summary"), "my summary"), (says(" "), "The user: the task")] {
        let mut setup = Setup::new(vec![calls(&[("read", json!({}))]), reply, says("done")]);
        setup = setup.tool("read", Act::Long(9_000));
        setup.model_info.context_window = Some(3_000);
        setup.compaction = CompactionPolicy { keep_recent: 0, result_bytes: 9_000, ..CompactionPolicy::default() };
        let harness = setup.build();
        let outcome = harness.prompt("the task").await;
        assert!(done(&outcome));
        let seen = harness.last_request();
        assert!(seen[0].contains("It is background, not a request") && seen[0].contains(expected), "{seen:?}");
    }
}

#[tokio::test]
async fn l16_there_is_no_second_compaction_before_the_model_has_answered() {
    // The system prompt alone is more than the window holds: nothing helps, and the vendor has the last word.
    let mut setup = Setup::new(vec![calls(&[("read", json!({}))]), says("one"), says("done")]);
    setup = setup.tool("read", Act::Long(100));
    setup.model_info.context_window = Some(40);
    setup.compaction = CompactionPolicy { by_model: false, keep_recent: 0, ..CompactionPolicy::default() };
    let mut harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome));
    let compactions = harness.events().iter().filter(|event| matches!(event, EventKind::Compaction { .. })).count();
    assert!(compactions <= harness.requests(), "{compactions} of {} requests", harness.requests());
}

#[tokio::test]
async fn l14_a_request_that_is_too_long_is_made_once_more_with_less() {
    let overflow = || ProviderError::ContextOverflow { message: "prompt is too long".into() };
    let replies = vec![says("one"), Reply::Fails(vec![], overflow()), says("a summary"), says("two")];
    let mut harness = Setup::new(replies).build();
    harness.prompt(&"x".repeat(50_000)).await;
    let outcome = harness.prompt("and now?").await;
    assert!(done(&outcome), "{:?}", outcome.end);
    let names = harness.event_names();
    assert_eq!(counts(&names).get("compaction"), Some(&1));
    assert_eq!(counts(&names).get("retry"), Some(&1));
    assert_eq!(harness.last_request().last().unwrap(), "user: and now?");
    assert_paired(&harness.model.requests.lock().unwrap().last().unwrap().messages);
}

#[tokio::test]
async fn l14_an_overflow_that_compaction_does_not_mend_ends_the_run_with_a_word_on_it() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    let mut setup = Setup::new(vec![says("one"), overflow(), overflow(), says("never")]);
    setup.compaction.by_model = false;
    let harness = setup.build();
    harness.prompt(&"x".repeat(50_000)).await;
    let outcome = harness.prompt("and now?").await;
    assert_eq!(outcome.end, RunEnd::Error { message: "context window exceeded: too long".into() });
    assert_eq!(harness.requests(), 3);
}

#[tokio::test]
async fn l16_a_session_that_was_compacted_by_itself_is_seen_the_same_when_it_is_loaded() {
    let harness = reader(12, 6_000).build();
    harness.prompt("go").await;
    let kept = harness.store.kept.lock().unwrap().clone();
    let mut seen = view(kept);
    seen.pop();
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!(seen, requests.last().unwrap().messages);
}

/// Writes down every hook that is called, between the events.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    deny_turn: Option<u32>,
    deny_tool: Option<&'static str>,
    stop_after_turn: bool,
}

impl Notes {
    fn note(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }
}

impl Hooks for Notes {
    fn before_loop<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Verdict> {
        self.note("before_loop");
        Box::pin(async { Verdict::Pass })
    }

    fn before_turn<'a>(&'a self, _: &'a Context, turn: u32) -> BoxFuture<'a, Verdict> {
        self.note("before_turn");
        let deny = self.deny_turn == Some(turn);
        Box::pin(async move { if deny { Verdict::Deny("not this turn".into()) } else { Verdict::Pass } })
    }

    fn transform_context(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        self.note("transform_context");
        messages
    }

    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        self.note("convert_to_llm");
        messages
    }

    fn api_key(&self) -> Option<secrecy::SecretString> {
        self.note("api_key");
        Some("of-the-moment".into())
    }

    fn before_tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Verdict> {
        self.note("before_tool");
        let deny = self.deny_tool == Some(call.name.as_str());
        Box::pin(async move { if deny { Verdict::Deny("not this tool".into()) } else { Verdict::Pass } })
    }

    fn before_update(&self, _: &str, partial: &[Content]) -> bool {
        self.note("before_update");
        partial[0].as_text() != Some("secret")
    }

    fn after_update(&self, _: &str) {
        self.note("after_update");
    }

    fn after_tool<'a>(&'a self, _: &'a ToolCall, _: &'a ToolResultMessage) -> BoxFuture<'a, ()> {
        self.note("after_tool");
        Box::pin(async {})
    }

    fn after_turn<'a>(&'a self, _: &'a Context, _: &'a Usage) -> BoxFuture<'a, Flow> {
        self.note("after_turn");
        let flow = if self.stop_after_turn { Flow::Stop } else { Flow::Continue };
        Box::pin(async move { flow })
    }

    fn on_error<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        self.note("on_error");
        Box::pin(async {})
    }

    fn after_loop<'a>(&'a self, _: &'a Outcome) -> BoxFuture<'a, ()> {
        self.note("after_loop");
        Box::pin(async {})
    }
}

fn hooked(mut setup: Setup, notes: &Arc<Notes>) -> Setup {
    setup.hooks = vec![notes.clone()];
    setup
}

#[tokio::test]
async fn l17_hooks_and_events_come_in_one_order_over_several_turns_and_tools() {
    let notes = Arc::new(Notes::default());
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let replies = vec![calls(&[("show", json!({})), ("talk", json!({}))]), Reply::Fails(vec![], refused)];
    let mut setup =
        hooked(Setup::new(replies), &notes).tool("show", Act::Update("half")).tool("talk", Act::Update("secret"));
    setup.strategy = Strategy::Sequential;
    let mut harness = setup.build();
    let mut events = harness.agent.subscribe(1);
    let watching = {
        let notes = notes.clone();
        async move {
            while let Some(event) = events.recv().await {
                let name = serde_json::to_value(&event.kind).unwrap()["type"].as_str().unwrap().to_owned();
                if !name.starts_with("message") {
                    notes.note(format!("[{name}]"));
                }
                if name == "agent_end" {
                    break;
                }
            }
        }
    };
    // The channel holds one event, so the loop never runs ahead of what is written down by more than that.
    tokio::join!(harness.prompt("go"), watching);
    let lines = notes.lines.lock().unwrap().clone();
    let of_hooks: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.starts_with('[')).collect();
    let turn = ["before_turn", "transform_context", "convert_to_llm", "api_key"];
    let mut expected = vec!["before_loop"];
    expected.extend(turn);
    expected.extend(["before_tool", "before_update", "after_update", "after_tool"]);
    expected.extend(["before_tool", "before_update", "after_tool"]);
    expected.push("after_turn");
    expected.extend(turn);
    expected.extend(["on_error", "after_turn", "after_loop"]);
    assert_eq!(of_hooks, expected);
    let at = |line: &str| lines.iter().position(|l| l == line).unwrap();
    let last = |line: &str| lines.iter().rposition(|l| l == line).unwrap();
    assert!(at("before_loop") < at("[agent_start]") && at("before_turn") < at("[turn_start]"));
    assert!(at("before_tool") < at("[tool_execution_start]"));
    assert_eq!(counts(&harness.event_names()).get("tool_execution_update"), Some(&1), "one was kept back");
    assert_eq!(last("[agent_end]") + 1, lines.len().max(last("after_loop")));
}

#[tokio::test]
async fn l17_a_turn_that_a_hook_denies_ends_the_run_with_its_reason() {
    let notes = Arc::new(Notes { deny_turn: Some(2), ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("never")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Rejected { reason: "not this turn".into() });
    assert_eq!((outcome.turns, harness.requests()), (1, 1));
    assert_paired(&outcome.messages);
}

#[tokio::test]
async fn l17_a_call_that_a_hook_denies_does_not_run_and_the_model_is_told_why() {
    let notes = Arc::new(Notes { deny_tool: Some("look"), ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("done")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    assert_eq!(harness.last_request()[2], "failed call-0: Denied: not this tool");
    assert!(harness.tools.log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn l17_a_hook_can_end_the_run_after_a_turn() {
    let notes = Arc::new(Notes { stop_after_turn: true, ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("never")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::ToolUse });
    assert_eq!(harness.requests(), 1);
}

#[tokio::test]
async fn l17_the_key_of_the_moment_goes_with_the_request() {
    use secrecy::ExposeSecret as _;
    let notes = Arc::new(Notes::default());
    let harness = hooked(Setup::new(vec![says("hi")]), &notes).build();
    harness.prompt("go").await;
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!(requests[0].options.api_key.as_ref().unwrap().expose_secret(), "of-the-moment");
}

/// A hook that never ends.
struct Stuck;

impl Hooks for Stuck {
    fn before_turn<'a>(&'a self, _: &'a Context, _: u32) -> BoxFuture<'a, Verdict> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn l17_an_abort_does_not_wait_for_a_hook_that_hangs() {
    let mut setup = Setup::new(vec![says("never")]);
    setup.hooks = vec![Arc::new(Stuck)];
    let mut harness = setup.build();
    let agent = harness.agent.clone();
    let abort = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), abort);
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert_eq!(counts(&harness.event_names()).get("agent_end"), Some(&1));
}

struct Filter;

impl InputFilter for Filter {
    fn filter(&self, text: &str) -> FilterVerdict {
        match text {
            "bad" => FilterVerdict::Reject("not here".into()),
            "odd" => FilterVerdict::Warn("mind that".into()),
            _ => FilterVerdict::Pass,
        }
    }
}

#[tokio::test]
async fn l18_a_rejected_prompt_is_told_and_nothing_is_sent_or_kept() {
    let mut setup = Setup::new(vec![says("never")]);
    setup.filters = vec![Arc::new(Filter)];
    let mut harness = setup.build();
    let outcome = harness.prompt("bad").await;
    assert_eq!(outcome.end, RunEnd::Rejected { reason: "not here".into() });
    assert_eq!(harness.event_names(), ["agent_start", "input_rejected", "agent_end"]);
    assert_eq!((harness.requests(), harness.store.kept.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn l18_a_warning_goes_with_the_message() {
    let mut setup = Setup::new(vec![says("hi")]);
    setup.filters = vec![Arc::new(Filter)];
    let harness = setup.build();
    harness.prompt("odd").await;
    assert_eq!(harness.last_request(), ["user: odd\n[Warning: mind that]"]);
}

#[tokio::test]
async fn l18_a_rejected_follow_up_does_not_keep_the_next_one_from_its_turn() {
    let mut setup = Setup::new(vec![says("one"), says("two")]);
    setup.filters = vec![Arc::new(Filter)];
    let mut harness = setup.build();
    harness.agent.follow_up(Message::user("bad"));
    harness.agent.follow_up(Message::user("good"));
    harness.prompt("go").await;
    assert_eq!(harness.last_request(), ["user: go", "assistant: one", "user: good"]);
    assert_eq!(counts(&harness.event_names()).get("input_rejected"), Some(&1));
}

#[tokio::test]
async fn l22_loops_are_numbered_and_tell_what_began_them() {
    let mut harness = Setup::new(vec![calls(&[("look", json!({}))]), says("one"), says("two")])
        .tool("look", Act::Answer("seen"))
        .build();
    let mut seen = harness.agent.subscribe(1000);
    harness.prompt("go").await;
    harness.prompt("on").await;
    let mut ids = Vec::new();
    while let Some(event) = seen.try_recv() {
        if let EventKind::AgentStart { .. } = event.kind {
            ids.push(event.loop_id.to_string());
        }
    }
    assert_eq!(ids, ["s.scripted.m.1", "s.scripted.m.2"]);
    let triggers: Vec<TurnTrigger> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::TurnStart { trigger, .. } => Some(trigger),
            _ => None,
        })
        .collect();
    assert_eq!(triggers, [TurnTrigger::User, TurnTrigger::Continuation, TurnTrigger::User]);
}

#[tokio::test]
async fn l26_the_same_call_with_the_same_result_is_interrupted_with_a_note() {
    let mut replies: Vec<Reply> = (0..5).map(|_| calls(&[("look", json!({ "text": "a" }))])).collect();
    replies.push(says("done"));
    let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome));
    assert_eq!(harness.tools.log.lock().unwrap().iter().filter(|line| line.starts_with('+')).count(), 3);
    let failed: Vec<String> = harness.last_request().into_iter().filter(|m| m.starts_with("failed")).collect();
    assert!(failed[0].contains("3 times in a row with the same result"), "{failed:?}");
}

#[tokio::test]
async fn l26_other_arguments_or_other_results_are_no_repetition() {
    let mut replies: Vec<Reply> = (0..8).map(|n| calls(&[("look", json!({ "text": format!("{}", n % 2) }))])).collect();
    replies.push(says("done"));
    let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    assert_eq!(harness.tools.log.lock().unwrap().iter().filter(|line| line.starts_with('+')).count(), 8);
}

fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "sum": { "type": "integer" } },
        "required": ["sum"],
        "additionalProperties": false,
    })
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Sum {
    sum: i64,
}

#[tokio::test]
async fn l19_an_answer_fits_its_schema_after_the_model_was_corrected_and_reminded() {
    let replies = vec![
        calls(&[("look", json!({}))]),
        says("It is five."),
        calls(&[(ANSWER_TOOL, json!({ "sum": "five" }))]),
        calls(&[(ANSWER_TOOL, json!({ "sum": 5 }))]),
        says("never"),
    ];
    let harness = Setup::new(replies).tool("look", Act::Answer("2 and 3")).build();
    let answer: Answer<Sum> = harness.agent.answer_as(vec![Message::user("add")], schema(), 1).await.unwrap();
    assert_eq!(answer.value, Sum { sum: 5 });
    assert_eq!(harness.requests(), 4);
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!(requests[0].tool_choice, ToolChoice::Auto);
    assert_eq!(requests[3].tool_choice, ToolChoice::Tool(ANSWER_TOOL.into()));
    assert!(letters(requests[3].messages.last().unwrap()).starts_with("failed call-0: Invalid arguments"));
}

#[tokio::test]
async fn l19_a_model_that_never_answers_is_given_up() {
    let harness = Setup::new(vec![says("no"), says("no"), says("no")]).build();
    let answer = harness.agent.answer(vec![Message::user("add")], schema(), 2).await;
    assert!(matches!(answer, Err(AnswerError::NoAnswer { attempts: 3 })), "{answer:?}");
    assert_eq!(harness.prompt("go on").await.text(), "nothing left to say", "the agent is as it was");
    assert_eq!(harness.model.requests.lock().unwrap().last().unwrap().tools.len(), 0);
}

#[tokio::test]
async fn l24_an_agent_goes_on_from_its_snapshot_as_a_rerun() {
    let harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("one")]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    let mut snapshot = harness.agent.snapshot().unwrap();
    snapshot.messages.pop();
    let json = serde_json::to_string(&snapshot).unwrap();
    let other = Setup::new(vec![says("another")]).tool("look", Act::Answer("seen")).build();
    let restored = Agent::restore(other.agent.config(), serde_json::from_str(&json).unwrap());
    let mut seen = restored.subscribe(100);
    let outcome = restored.resume_as(Continuation::Rerun { tag: "again".into() }).await.unwrap();
    assert_eq!(outcome.text(), "another");
    assert_eq!(other.last_request(), ["user: go", "assistant calls call-0", "result call-0: seen"]);
    let first = seen.try_recv().unwrap();
    assert_eq!(&*first.loop_id, "s.scripted.m.2");
    let EventKind::AgentStart { parent_loop_id, continuation, .. } = first.kind else { panic!("{first:?}") };
    assert_eq!(parent_loop_id.as_deref(), Some("s.scripted.m.1"));
    assert_eq!(continuation, Some(Continuation::Rerun { tag: "again".into() }));
    assert_eq!(restored.totals().requests, 3);
}

#[tokio::test]
async fn l7_send_begins_a_run_or_steers_the_one_under_way() {
    let harness =
        Setup::new(vec![calls(&[("wait", json!({}))]), says("turned")]).tool("wait", Act::UntilCancelled).build();
    let steering = async {
        harness.tools.reached("+call-0").await;
        assert_eq!(harness.agent.send(Message::user("turn")).await, Ok(None));
    };
    let (outcome, ()) = tokio::join!(harness.agent.send(Message::user("go")), steering);
    assert_eq!(outcome.unwrap().unwrap().text(), "turned");
    harness.agent.wait_until_idle().await;
}

#[test]
fn l7_a_run_can_block_its_thread() {
    let harness = Setup::new(vec![says("hello")]).build();
    let outcome = harness.agent.run_blocking(vec![Message::user("hi")]).unwrap();
    assert_eq!(outcome.text(), "hello");
}

#[tokio::test]
async fn l7_a_stream_of_events_comes_with_the_run() {
    let harness = Setup::new(vec![says("hello")]).build();
    let (mut events, run) = harness.agent.stream(vec![Message::user("hi")], 4);
    let reading = async {
        while let Some(event) = events.recv().await {
            if let EventKind::AgentEnd { end, .. } = event.kind {
                return Some(end);
            }
        }
        None
    };
    let (outcome, end) = tokio::join!(run, reading);
    assert_eq!(Some(outcome.unwrap().end), end);
}
