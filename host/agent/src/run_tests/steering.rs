//! Messages that come in the middle of a run, and those that wait for its end.

use super::done;
use crate::testing::{Act, Harness, Reply, Setup, assert_paired, calls, letters, says};
use crate::*;
use serde_json::json;

/// The model makes three calls; the user says something when this many of them run.
async fn steered(act: Act, strategy: Strategy, running: usize) -> (Harness, Outcome) {
    let mut setup =
        Setup::new(vec![calls(&[("run", json!({})), ("run", json!({})), ("run", json!({}))]), says("as you wish")])
            .tool("run", act);
    setup.strategy = strategy;
    let harness = setup.build();
    let steer = async {
        harness.tools.reached(&format!("+call-{}", running - 1)).await;
        harness.agent.steer(Message::user("stop that"));
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steer);
    (harness, outcome)
}

#[tokio::test]
async fn steering_cancels_running_calls_and_skips_the_rest() {
    for (strategy, running) in [
        (Strategy::Sequential, 1),
        (Strategy::Batched(1), 1),
        (Strategy::Batched(2), 2),
        (Strategy::Batched(3), 3),
        (Strategy::Parallel, 3),
    ] {
        let (harness, outcome) = steered(Act::UntilCancelled, strategy, running).await;
        assert!(done(&outcome));
        let sent = harness.last_request();
        for (call, sent) in sent[2..5].iter().enumerate() {
            assert!(sent.starts_with(&format!("failed call-{call}: The user sent a message")), "{strategy:?}: {sent}");
        }
        assert_eq!(sent[5..], ["user: stop that"]);
        assert_paired(&outcome.messages);
        let mut log = harness.tools.log.lock().unwrap().clone();
        log.sort_unstable();
        let begun_and_ended = ["+", "-"].iter().flat_map(|sign| (0..running).map(move |n| format!("{sign}call-{n}")));
        assert_eq!(log, begun_and_ended.collect::<Vec<_>>(), "{strategy:?}: the rest does not begin");
    }
}

#[tokio::test]
async fn what_a_cancelled_call_had_done_is_told() {
    let (harness, _) = steered(Act::AnswerOnCancel("half of it"), Strategy::Sequential, 1).await;
    let sent = harness.last_request();
    assert!(
        sent[2].starts_with("failed call-0: The user sent a message") && sent[2].ends_with("half of it"),
        "{}",
        sent[2]
    );
}

/// Says something patiently while a call runs, which ends when `then` lets it.
async fn patient(then: impl FnOnce(&Harness, &tokio::sync::Notify)) -> (Harness, Outcome) {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let replies = vec![calls(&[("wait", json!({})), ("hang", json!({}))]), says("as you wish")];
    let mut setup = Setup::new(replies).tool("wait", Act::Wait(gate.clone())).tool("hang", Act::UntilCancelled);
    setup.queue_mode = QueueMode::All;
    setup.strategy = Strategy::Sequential;
    let harness = setup.build();
    let steer = async {
        harness.tools.reached("+call-0").await;
        harness.agent.config().inbox.steering.push_patient(Message::user("also this"));
        harness.agent.config().inbox.steering.push_patient(Message::user("and that"));
        tokio::task::yield_now().await;
        then(&harness, &gate);
        harness.tools.reached("+call-1").await;
        harness.agent.config().inbox.steering.urge();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steer);
    (harness, outcome)
}

#[tokio::test]
async fn patient_messages_wait_for_calls_and_can_become_urgent() {
    let (harness, outcome) = patient(|_, gate| gate.notify_one()).await;
    assert!(done(&outcome));
    let sent = harness.last_request();
    assert!(sent[2].starts_with("result call-0"), "the first call ends by itself: {sent:?}");
    assert!(sent[3].starts_with("failed call-1: The user sent a message"), "the second one is interrupted: {sent:?}");
    assert_eq!(sent[4..], ["user: also this", "user: and that"]);
}

#[tokio::test]
async fn interrupting_calls_without_a_message_changes_nothing() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let replies = vec![calls(&[("wait", json!({}))]), says("done")];
    let harness = Setup::new(replies).tool("wait", Act::Wait(gate.clone())).build();
    let idle = async {
        harness.tools.reached("+call-0").await;
        harness.agent.config().inbox.steering.urge();
        tokio::task::yield_now().await;
        gate.notify_one();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), idle);
    assert!(done(&outcome));
    assert!(harness.last_request()[2].starts_with("result call-0"));
}

#[tokio::test]
async fn steering_before_the_run_comes_before_the_first_request() {
    let harness = Setup::new(vec![says("yes")]).build();
    harness.agent.steer(Message::user("mind the gap"));
    harness.prompt("go").await;
    assert_eq!(harness.last_request(), ["user: go", "user: mind the gap"]);
}

#[tokio::test]
async fn steering_that_comes_with_the_last_words_is_still_answered() {
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
async fn steering_comes_before_what_follows() {
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
async fn follow_ups_come_when_the_agent_would_stop_one_at_a_time_or_all() {
    assert_eq!(followed(QueueMode::OneAtATime).await, 3);
    assert_eq!(followed(QueueMode::All).await, 2);
}

#[tokio::test]
async fn follow_ups_do_not_come_after_an_error() {
    let refused = ProviderError::Auth { message: "bad key".into() };
    let harness = Setup::new(vec![Reply::Fails(vec![], refused)]).build();
    harness.agent.follow_up(Message::user("and then"));
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::failed(RunErrorKind::Authentication, "bad key"));
    assert_eq!(harness.requests(), 1);
}

/// Never answers.
struct SilentProvider;

impl Approver for SilentProvider {
    fn decide<'a>(
        &'a self,
        _: Question<'a>,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> futures_util::future::BoxFuture<'a, Decision> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn steering_ends_an_open_question_and_other_calls_do_not_wait_for_it() {
    let replies = vec![calls(&[("write", json!({})), ("look", json!({})), ("nope", json!({}))]), says("done")];
    let mut harness = Setup::new(replies)
        .tool_with("write", Act::Answer("written"), |tool| tool.authority.writes = true)
        .tool("look", Act::Answer("seen"))
        .build();
    let silent = Approval::new(ApprovalMode::Smart, std::sync::Arc::new(SilentProvider));
    harness.agent.configure(|config| config.ports.approval = silent.clone());
    let steer = async {
        harness.tools.reached("-call-1").await;
        harness.agent.steer(Message::user("stop that"));
    };
    tokio::join!(harness.prompt("go"), steer);
    let sent = harness.last_request();
    assert!(sent[2].starts_with("failed call-0: The user sent a message"), "{sent:?}");
    assert_eq!(sent[3], "result call-1: seen");
    assert_eq!(silent.denied_count(), 0, "nobody said no");
    let names = harness.event_names();
    let counts = crate::testing::counts(&names);
    assert_eq!((counts["tool_execution_start"], counts["tool_execution_end"]), (1, 1), "only `look` ran");
    assert_eq!((counts["approval_requested"], counts["approval_resolved"]), (1, 1));
}
