//! Sub-agents that the user writes to, or ends alone.

use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::{Act, Reply, calls, letters, says};
use crate::*;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

const CHILD: &str = "child1.scripted.m.1";

fn running_harness(act: Act, replies: Vec<Reply>) -> (crate::testing::Harness, RunningAgents) {
    let running = RunningAgents::default();
    let harness = parent(task("hang"), replies).tool("hang", act).build();
    let spawner = sub_agents_in(SubAgentPolicy::default(), running.clone());
    harness.agent.configure(|config| config.ports.spawner = Some(spawner));
    (harness, running)
}

async fn until_calls(harness: &crate::testing::Harness, count: usize) {
    while harness.tools.log.lock().unwrap().len() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sub_agent_that_is_ended_alone_leaves_a_report_to_its_parent() {
    let replies = vec![delegate(), calls(&[("hang", json!({}))]), says("then without it")];
    let (harness, running) = running_harness(Act::UntilCancelled, replies);
    let ending = async {
        until_calls(&harness, 2).await;
        assert!(!running.end("other") && running.end(CHILD));
        assert!(!running.steer(CHILD, Message::user("too late")));
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), ending);
    assert_eq!(
        (outcome.end.clone(), outcome.text()),
        (RunEnd::Done { stop_reason: StopReason::Stop }, "then without it".into())
    );
    let result = letters(&outcome.messages[2]);
    assert!(result.contains("[The sub-agent did not finish: it was aborted.]"), "{result}");
    assert!(!running.end(CHILD), "the run has ended");
}

#[tokio::test]
async fn message_to_a_sub_agent_is_read_after_its_call() {
    let go_on = Arc::new(Notify::new());
    let replies = vec![delegate(), calls(&[("hang", json!({}))]), says("read"), says("done")];
    let (harness, running) = running_harness(Act::Wait(go_on.clone()), replies);
    let steering = async {
        until_calls(&harness, 2).await;
        assert!(running.steer(CHILD, Message::user("look elsewhere")));
        go_on.notify_one();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), steering);
    assert_eq!(outcome.text(), "done");
    let requests = harness.model.requests.lock().unwrap();
    let read: Vec<String> = requests[2].messages.iter().map(|message| letters(message)).collect();
    assert_eq!(read.last().map(String::as_str), Some("user: look elsewhere"));
    assert!(
        !requests[3].messages.iter().any(|message| letters(message).contains("elsewhere")),
        "only the child reads it"
    );
}
