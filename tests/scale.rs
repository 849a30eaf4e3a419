//! Many concurrent agents, and one very long run, with real components.

use pinion_agent::{
    CompactionPolicy, EventKind, Message, Outcome, RunEnd, SessionStore, StopReason, StoreError, ToolResultMessage,
};
use pinion_tests::{EchoModel, Sandbox, as_result, assert_paired, until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const AGENTS: usize = 100;
const CALLS: usize = 10;
const TURNS: usize = 1_000;
/// Context window in tokens; about twenty turns fill it.
const WINDOW: u64 = 8_000;

fn assert_done(outcome: &Outcome) {
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::Stop });
}

fn results(outcome: &Outcome) -> Vec<&ToolResultMessage> {
    outcome.messages.iter().filter_map(|message| as_result(message)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_agents_get_their_own_results_in_order() {
    let sandbox = Sandbox::with(&["echo"]).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let together = Arc::new(Barrier::new(AGENTS));
    let mut running = JoinSet::new();
    for number in 0..AGENTS {
        let model = EchoModel::new(format!("agent-{number}"), 1, CALLS);
        let agent = model.agent(sandbox.runtime.clone(), |_| {});
        let together = together.clone();
        running.spawn(async move {
            together.wait().await;
            (agent.run(vec![Message::user("go")]).await.unwrap(), model)
        });
    }
    let mut ended = 0;
    while let Some(run) = running.join_next().await {
        let (outcome, model) = run.unwrap();
        assert_done(&outcome);
        assert_paired(&outcome.messages);
        model.assert_results(0, &results(&outcome));
        ended += 1;
    }
    assert_eq!(ended, AGENTS);
    assert_no_task_is_left(tasks).await;
}

/// The runtime counts an ended task until its worker has noticed.
async fn assert_no_task_is_left(before: usize) {
    until("all tasks have ended", || Handle::current().metrics().num_alive_tasks() <= before).await;
}

/// Keeps all messages, like a session, and counts compactions.
#[derive(Default)]
struct Kept {
    messages: Mutex<Vec<Arc<Message>>>,
    compactions: AtomicUsize,
}

impl SessionStore for Kept {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.messages.lock().unwrap().push(message.clone());
        Ok(())
    }

    fn observe(&self, _: &Arc<str>, event: &EventKind) {
        if matches!(event, EventKind::Compaction { .. }) {
            self.compactions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs a thousand turns in a small window: order, pairing and window must hold with either kind of summary.
async fn thousand_turns(by_model: bool) -> Arc<EchoModel> {
    let sandbox = Sandbox::with(&["echo"]).await;
    let model = EchoModel::new("long", TURNS, 1);
    let kept = Arc::new(Kept::default());
    let agent = model.agent(sandbox.runtime.clone(), |config| {
        config.policy.model = EchoModel::with_window(Some(WINDOW));
        config.policy.compaction = CompactionPolicy { by_model, ..CompactionPolicy::default() };
        config.ports.store = kept.clone();
    });
    let outcome = agent.run(vec![Message::user("go")]).await.unwrap();
    assert_done(&outcome);
    assert_eq!(outcome.turns as usize, TURNS + 1);
    let messages = kept.messages.lock().unwrap();
    let results: Vec<&ToolResultMessage> = messages.iter().filter_map(|message| as_result(message)).collect();
    assert_eq!(results.len(), TURNS);
    results.iter().enumerate().for_each(|(turn, result)| model.assert_results(turn, &[result]));
    let compactions = kept.compactions.load(Ordering::Relaxed);
    assert!(compactions > TURNS / 40, "{compactions} compactions");
    assert_paired(&messages);
    drop(messages);
    assert!(model.most_tokens() <= WINDOW, "a request of {} tokens", model.most_tokens());
    model
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_turns_stay_in_order_and_in_the_window() {
    assert_eq!(thousand_turns(false).await.summaries(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_turns_with_model_summaries_stay_in_the_window() {
    assert!(thousand_turns(true).await.summaries() > TURNS / 80);
}
