//! The sub-agents that run, so that the application can write to one or end it alone.

use pinion_agent::Message;
use pinion_agent::config::Inbox;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The sub-agents of a conversation that run, by the id of their run. Clones share them.
#[derive(Clone, Default)]
pub struct RunningAgents(Arc<Mutex<HashMap<Arc<str>, RunningAgent>>>);

struct RunningAgent {
    inbox: Inbox,
    token: CancellationToken,
}

impl RunningAgents {
    /// Adds a message to a sub-agent's run, which reads it after the calls in progress. Returns `false` if the run has
    /// ended.
    pub fn steer(&self, run_id: &str, message: Message) -> bool {
        let running = self.running();
        let agent = running.get(run_id).filter(|agent| !agent.token.is_cancelled());
        agent.map(|agent| agent.inbox.steering.push_patient(message)).is_some()
    }

    /// Ends a sub-agent's run and the runs below it. The call that started it gets a report that says so. Returns `false` if
    /// the run has ended.
    pub fn end(&self, run_id: &str) -> bool {
        self.running().get(run_id).map(|agent| agent.token.cancel()).is_some()
    }

    /// Adds a run until the entry is dropped.
    pub(crate) fn enter(&self, run_id: Arc<str>, inbox: Inbox, token: CancellationToken) -> RunningEntry {
        self.running().insert(run_id.clone(), RunningAgent { inbox, token });
        RunningEntry { agents: self.clone(), run_id }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Arc<str>, RunningAgent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a run when dropped.
pub(crate) struct RunningEntry {
    agents: RunningAgents,
    run_id: Arc<str>,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.agents.running().remove(&self.run_id);
    }
}

#[cfg(test)]
mod tests {
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
        let spawner = sub_agents_in(SubAgentPolicy::default(), running.clone(), None);
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
}
