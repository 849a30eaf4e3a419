//! An abort at any point ends the run once, with every call paired.

use super::done;
use crate::testing::{Act, Harness, Reply, Setup, assert_paired, calls, counts, letters, says, text_events};
use crate::*;
use serde_json::json;
use std::time::Duration;

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
async fn abort_during_a_reply_keeps_the_partial_text() {
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
async fn abort_during_calls_pairs_every_call() {
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
async fn abort_during_a_retry_delay_ends_immediately() {
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

#[tokio::test]
async fn dropped_run_leaves_no_call_without_a_result() {
    let replies = vec![calls(&[("hang", json!({})), ("hang", json!({}))]), says("back")];
    let harness = Setup::new(replies).tool("hang", Act::UntilCancelled).build();
    tokio::select! {
        _ = harness.prompt("go") => panic!("the calls end only when they are cancelled"),
        () = harness.tools.reached("+call-0") => {}
    }
    assert!(!harness.agent.is_running());
    assert_paired(&harness.agent.history());
    let kept = harness.store.kept.lock().unwrap().len();
    assert_eq!(kept, harness.agent.history().len(), "the results are in the session");
    let next = harness.prompt("again").await;
    assert!(done(&next), "{:?}", next.end);
    let sent = harness.last_request();
    assert!(sent[2].starts_with("failed call-0: ") && sent[3].starts_with("failed call-1: "), "{sent:?}");
    assert_eq!(sent[4..], ["user: again"]);
}
