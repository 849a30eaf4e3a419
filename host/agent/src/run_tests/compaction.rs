//! A context that gets full, on request, before a request, and when the vendor says so.

use super::done;
use crate::testing::{Act, Reply, ScriptedModel, Setup, assert_paired, calls, counts, letters, says};
use crate::*;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn compaction_replaces_history_by_a_summary_and_keeps_the_last_round() {
    let harness = Setup::new(vec![says("one"), says("two"), says("what was said"), says("three")]).build();
    harness.prompt("first").await;
    harness.prompt("second").await;
    let compaction = harness.agent.compact(Some("mind the numbers")).await.unwrap();
    assert_eq!((compaction.first, compaction.dropped, compaction.summary.as_str()), (1, 1, "what was said"));
    let totals = harness.agent.totals();
    assert_eq!((totals.requests, totals.spend.usage.total()), (3, 45), "the request for the summary counts");
    let asked = harness.last_request();
    assert!(asked.last().unwrap().contains("The user adds: mind the numbers"));
    harness.prompt("third").await;
    let seen = harness.last_request();
    assert_eq!(seen[0], "user: first");
    assert!(seen[1].starts_with("user: [What follows is a summary") && seen[1].ends_with("what was said"));
    assert_eq!(seen[2..], ["user: second", "assistant: two", "user: third"]);
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
async fn long_run_keeps_its_context_and_the_session_everything() {
    let mut setup = reader(200, 12_000);
    setup.limits.max_turns = None;
    let harness = setup.build();
    let outcome = harness.prompt("read it all").await;
    assert_eq!((outcome.text().as_str(), outcome.turns), ("done", 201));
    let context = harness.agent.snapshot().unwrap().messages;
    assert!(outcome.messages.len() < 40, "{} messages", outcome.messages.len());
    assert_eq!(outcome.messages[..3], context[..3], "the prompt and the first reply are kept");
    assert_eq!(outcome.messages[3..], context[context.len() - outcome.messages.len() + 3..]);
    assert_paired(&outcome.messages);
    let kept = harness.store.kept.lock().unwrap();
    assert_eq!(kept.iter().filter(|message| matches!(***message, Message::ToolResult(_))).count(), 200);
}

#[tokio::test]
async fn full_context_is_compacted_after_tool_results() {
    let mut harness = reader(24, 6_000).build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome) && outcome.turns == 25, "{:?}", outcome.end);
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
        // The scripted vendor counts less, which lowers estimates to three quarters.
        assert!(messages_tokens(&request.messages, &ByteCounter::DEFAULT) <= 5_000 * 4 / 3);
        assert_paired(&request.messages);
    }
    assert_eq!(harness.store.kept.lock().unwrap().len(), 1 + 24 * 2 + 1 + compactions.len(), "all of it is kept");
}

#[tokio::test]
async fn list_replaces_the_summary_when_the_model_writes_none() {
    for (reply, expected) in [(says("my summary"), "my summary"), (says(" "), "It called read")] {
        let mut setup = Setup::new(vec![calls(&[("read", json!({}))]), reply, says("done")]);
        setup = setup.tool("read", Act::Long(12_000));
        setup.model_info.context_window = Some(3_000);
        setup.compaction =
            CompactionPolicy { keep_recent: 0, tool_output_max_bytes: 12_000, ..CompactionPolicy::default() };
        let harness = setup.build();
        let outcome = harness.prompt("the task").await;
        assert!(done(&outcome));
        let seen = harness.last_request();
        assert_eq!(seen[0], "user: the task");
        assert!(seen[1].contains("It is background, not a request") && seen[1].contains(expected), "{seen:?}");
    }
}

#[tokio::test]
async fn nothing_is_compacted_when_the_system_prompt_fills_the_window() {
    let mut setup = Setup::new(vec![calls(&[("read", json!({}))]), says("one")]);
    setup = setup.tool("read", Act::Long(100));
    setup.model_info.context_window = Some(8);
    let mut harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert!(done(&outcome));
    assert_eq!(harness.requests(), 2, "no request for a summary");
    assert_eq!(counts(&harness.event_names()).get("compaction"), None);
}

#[tokio::test]
async fn unknown_window_is_assumed_unless_the_policy_assumes_none() {
    for (assumed, expected) in [(Some(6_000), true), (None, false)] {
        let mut setup = reader(12, 0);
        (setup.model_info.context_window, setup.compaction.assumed_window) = (None, assumed);
        let mut harness = setup.build();
        harness.prompt("go").await;
        assert_eq!(counts(&harness.event_names()).contains_key("compaction"), expected, "{assumed:?}");
    }
}

#[tokio::test]
async fn disabled_compaction_is_off_even_after_an_overflow() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    let mut setup = Setup::new(vec![says("one"), overflow(), says("never")]);
    setup.compaction.automatic = false;
    let mut harness = setup.build();
    harness.prompt(&"x".repeat(50_000)).await;
    let outcome = harness.prompt("and now?").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::Overflow, "context window of `m` exceeded: too long"));
    assert_eq!((harness.requests(), counts(&harness.event_names()).get("compaction")), (2, None));
}

#[tokio::test]
async fn overflow_with_nothing_to_drop_ends_the_run_at_once() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    let mut harness = Setup::new(vec![overflow(), says("never")]).build();
    let outcome = harness.prompt("hi").await;
    assert!(matches!(outcome.end, RunEnd::Failed(error) if error.kind == RunErrorKind::Overflow));
    let names = harness.event_names();
    assert_eq!((harness.requests(), counts(&names).get("compaction"), counts(&names).get("retry")), (1, None, None));
}

#[tokio::test]
async fn calibration_persists_across_the_runs_of_a_session() {
    let usage = |input| StreamEvent::Usage(Usage { input, output: 1, ..Usage::default() });
    let reply = |input| {
        let mut events = crate::testing::text_events("ok", StopReason::Stop);
        events.insert(1, usage(input));
        events.retain(|event| !matches!(event, StreamEvent::Usage(usage) if usage.input == 10));
        Reply::Events(events)
    };
    // About 100 tokens by the estimate, 300 by the report.
    let harness = Setup::new(vec![reply(300)]).build();
    harness.prompt(&"x".repeat(384)).await;
    let snapshot = harness.agent.snapshot().unwrap();
    let ratio = snapshot.calibration.unwrap();
    assert!(ratio > 1.5, "{ratio}");
    // The next run begins with it, also in another process that knows only the messages.
    let second = Setup::new(vec![says("no report that counts")]).build();
    let messages = snapshot.messages.clone();
    second.agent.reset(Context { messages, ..Context::new("You are a test.", "s") }).await;
    second.prompt("more").await;
    let learned = second.agent.snapshot().unwrap().calibration.unwrap();
    assert!((learned - ratio).abs() < 1e-9, "{learned} {ratio}");
    harness.prompt("more").await;
    assert!(harness.agent.snapshot().unwrap().calibration.unwrap() > 1.5);
}

#[tokio::test]
async fn summary_is_written_by_the_model_for_summaries_or_else_by_the_own_one() {
    for (reply, expected) in [(says("short"), "short"), (says(" "), "own words")] {
        let harness = Setup::new(vec![says("one"), says("two"), says("own words")]).build();
        let other = Arc::new(ScriptedModel::with(vec![reply]));
        let found = FoundModel { provider: other.clone(), model: Model { name: "small".into(), ..Model::default() } };
        harness.agent.configure(|config| config.ports.summarizer = Some(found));
        harness.prompt("first").await;
        harness.prompt("second").await;
        let compaction = harness.agent.compact(None).await.unwrap();
        assert_eq!(compaction.summary, expected);
        assert_eq!(other.requests.lock().unwrap()[0].model, "small");
    }
}

#[tokio::test]
async fn message_sent_during_a_compaction_starts_a_run_after_it() {
    let harness = Setup::new(vec![says("one"), says("two"), Reply::Hangs(vec![]), says("picked up")]).build();
    harness.prompt("first").await;
    harness.prompt("second").await;
    let mut compacting = Box::pin(harness.agent.compact(None));
    assert!(futures_util::poll!(&mut compacting).is_pending());
    let mut sending = Box::pin(harness.agent.send(Message::user("and now?")));
    assert!(futures_util::poll!(&mut sending).is_pending());
    assert_eq!(harness.agent.history().len(), 4);
    harness.agent.set_system_prompt("Another.");
    harness.agent.abort();
    let (compacted, outcome) = tokio::join!(compacting, sending);
    assert!(matches!(compacted, Err(CompactionError::Aborted)));
    assert_eq!(outcome.unwrap().unwrap().text(), "picked up");
    assert_eq!(&*harness.model.requests.lock().unwrap().last().unwrap().system, "Another.");
}

#[tokio::test]
async fn overlong_request_is_compacted_and_retried_once() {
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
async fn unfixable_overflow_ends_the_run_with_a_reason() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    let mut setup = Setup::new(vec![says("one"), overflow(), overflow(), says("never")]);
    setup.compaction.by_model = false;
    let harness = setup.build();
    harness.prompt(&"x".repeat(50_000)).await;
    let outcome = harness.prompt("and now?").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::Overflow, "context window of `m` exceeded: too long"));
    assert_eq!(harness.requests(), 3);
}

#[tokio::test]
async fn automatically_compacted_session_loads_unchanged() {
    let harness = reader(12, 6_000).build();
    harness.prompt("go").await;
    let kept = harness.store.kept.lock().unwrap().clone();
    let mut seen = view(kept);
    seen.pop();
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!(seen, requests.last().unwrap().messages);
}
