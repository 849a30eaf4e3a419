//! Retried requests, and limits that end a run.

use crate::testing::{Act, Reply, Setup, assert_paired, calls, letters, says, text_events};
use crate::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn retryable_errors_are_retried_with_growing_delays() {
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
    let sent: Vec<(u32, u64)> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Retry { attempt, delay_ms, .. } => Some((attempt, delay_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [(1, 1000), (2, 7000), (3, 4000)]);
}

#[tokio::test(start_paused = true)]
async fn interrupted_reply_is_requested_again_and_discarded() {
    let mut begun = text_events("never mind", StopReason::Stop);
    begun.truncate(3);
    let harness = Setup::new(vec![Reply::Events(begun), says("whole")]).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["user: go", "assistant: whole"]);
}

/// The vendor charges for the tokens that it had read and written before it failed.
#[tokio::test(start_paused = true)]
async fn spend_of_discarded_attempts_counts() {
    let begun = StreamEvent::Usage(Usage { input: 100, output: 7, ..Usage::default() });
    let begun = vec![StreamEvent::Start { model: None }, begun];
    let busy = || ProviderError::Overloaded { message: "busy".into(), retry_after: None };
    let mut setup = Setup::new(vec![Reply::Fails(begun.clone(), busy()), Reply::Fails(begun, busy()), says("done")]);
    let prices = Prices { input: 0.0, output: 1e6, cache_read: 0.0, cache_write: 0.0 };
    setup.model_info.prices = Some(Arc::new(prices));
    let outcome = setup.build().prompt("go").await;
    assert_eq!(outcome.text(), "done");
    assert_eq!(outcome.spend.usage, Usage { input: 210, output: 19, ..Usage::default() });
    assert_eq!(outcome.spend.dollars(), 19.0);
    let Message::Assistant(reply) = &**outcome.messages.last().unwrap() else { panic!("no reply") };
    assert_eq!(reply.usage.input, 10, "the size of the context is that of the last request");
}

#[tokio::test(start_paused = true)]
async fn delay_of_the_vendor_is_told_once() {
    let limited = ProviderError::RateLimited { message: "slow".into(), retry_after: Some(Duration::from_secs(310)) };
    let outcome = Setup::new(vec![Reply::Fails(vec![], limited)]).build().prompt("go").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::RateLimited, "rate limited: slow (retry in 5 min 10 s)"));
}

#[tokio::test(start_paused = true)]
async fn run_fails_after_ten_retries_with_the_cause() {
    let network = || Reply::Fails(vec![], ProviderError::Network { message: "no route".into() });
    let harness = Setup::new((0..20).map(|_| network()).collect()).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::Network, "network: no route"));
    assert_eq!(harness.requests(), 11);
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_cut_off_each_time_is_paid_for_four_times() {
    let lost = || ProviderError::Network { message: "the connection was lost".into() };
    let begun = || text_events("a long answer", StopReason::Stop)[..3].to_vec();
    let mut replies = vec![Reply::Fails(vec![], lost()), Reply::Fails(vec![], lost())];
    replies.extend((0..20).map(|_| Reply::Fails(begun(), lost())));
    let mut harness = Setup::new(replies).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::Network, "network: the connection was lost"));
    assert_eq!(harness.requests(), 2 + 4, "failures before the reply begins cost nothing, and do not count");
    let announced = harness.events().into_iter().filter_map(|event| match event {
        EventKind::Retry { attempt, max_attempts, .. } => Some((attempt, max_attempts)),
        _ => None,
    });
    assert_eq!(announced.collect::<Vec<_>>(), [(1, 10), (2, 10), (3, 5), (4, 5), (5, 5)]);
}

#[tokio::test]
async fn run_of_a_model_that_only_repeats_calls_ends() {
    let repeated = [
        ("a call", vec![("look", json!({ "text": "a" }))], 3 + 5),
        ("an unknown tool", vec![("lok", json!({ "text": "a" }))], 3 + 5),
        ("invalid arguments", vec![("look", json!({ "text": 7, "n": [] }))], 3 + 5),
        ("calls in turns", vec![("look", json!({ "text": "a" })), ("look", json!({ "text": "b" }))], 6 + 5),
    ];
    for (what, cycle, turns) in repeated {
        let replies = (0..100).map(|n| calls(&[cycle[n % cycle.len()].clone()])).collect();
        let harness = Setup::new(replies).tool("look", Act::Answer("seen")).build();
        let outcome = harness.prompt("go").await;
        assert_paired(&outcome.messages);
        assert_eq!(outcome.turns, turns, "{what}");
        let RunEnd::Failed(error) = outcome.end else { panic!("{what}: {:?}", outcome.end) };
        assert!(error.message.contains("repeated calls"), "{what}: {error}");
    }
}

#[tokio::test]
async fn turn_with_another_call_begins_the_count_anew() {
    let look = |text: &str| calls(&[("look", json!({ "text": text }))]);
    let mut replies: Vec<Reply> = (0..7).map(|_| look("a")).collect();
    replies.push(look("b"));
    replies.extend((0..7).map(|_| look("a")));
    replies.push(says("done"));
    let outcome = Setup::new(replies).tool("look", Act::Answer("seen")).build().prompt("go").await;
    assert_eq!((outcome.end, outcome.turns), (RunEnd::Done { stop_reason: StopReason::Stop }, 16));
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
async fn limits_end_a_run_with_a_message_that_names_the_limit() {
    let none = RunLimits::NONE;
    for (limits, limit, turns) in [
        (RunLimits { max_turns: Some(3), ..none.clone() }, Limit::Turns(3), 3),
        (RunLimits { max_tokens: Some(40), ..none.clone() }, Limit::Tokens(40), 3),
        (RunLimits { max_input_tokens: Some(21), ..none.clone() }, Limit::InputTokens(21), 3),
        (RunLimits { max_output_tokens: Some(6), ..none.clone() }, Limit::OutputTokens(6), 2),
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
async fn limits_of_zero_do_not_limit() {
    let busy = Reply::Fails(vec![], ProviderError::Overloaded { message: "busy".into(), retry_after: None });
    let mut setup =
        Setup::new(vec![busy, calls(&[("look", json!({}))]), says("done")]).tool("look", Act::Answer("seen"));
    setup.limits = RunLimits {
        max_turns: Some(0),
        max_tokens: Some(0),
        max_input_tokens: Some(0),
        max_output_tokens: Some(0),
        max_time: Some(Duration::ZERO),
        max_cost: Some(0.0),
        ..RunLimits::NONE
    };
    let prices = Prices { input: 0.0, output: 1e6, cache_read: 0.0, cache_write: 0.0 };
    setup.model_info.prices = Some(Arc::new(prices));
    // A limit would end the run during the delay before the retry.
    assert_eq!(setup.build().prompt("go").await.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn time_ends_a_run_that_hangs() {
    let mut setup = Setup::new(vec![calls(&[("hang", json!({}))])]).tool("hang", Act::UntilCancelled);
    setup.limits = RunLimits { max_time: Some(Duration::from_secs(600)), ..RunLimits::default() };
    let outcome = setup.build().prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Time(600) });
    assert_paired(&outcome.messages);
}

#[tokio::test(start_paused = true)]
async fn time_limit_can_let_the_call_in_progress_end() {
    let replies = vec![calls(&[("wait", json!({}))]), says("not asked for")];
    let gate = Arc::new(tokio::sync::Notify::new());
    let mut setup = Setup::new(replies).tool("wait", Act::Wait(gate.clone()));
    setup.limits = RunLimits { max_time: Some(Duration::from_secs(600)), ends_between_turns: true, ..RunLimits::NONE };
    let harness = setup.build();
    let opened = async {
        tokio::time::sleep(Duration::from_secs(900)).await;
        gate.notify_one();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), opened);
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Time(600) });
    assert!(letters(&outcome.messages[2]).starts_with("result call-0"), "{:?}", outcome.messages);
    assert_eq!(harness.requests(), 1);
}
