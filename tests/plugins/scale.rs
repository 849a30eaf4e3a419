//! Many concurrent agents, and one very long run, with real components.

use futures_util::future::{BoxFuture, join_all};
use pinion_agent::compaction::CompactionPolicy;
use pinion_agent::message::{StopReason, ToolResultMessage};
use pinion_agent::store::StoreError;
use pinion_agent::tool::{ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{Content, EventKind, Message, Outcome, RunEnd, SessionStore, ToolDefinition, ToolExecutor};
use pinion_plugin_runtime::Runtime;
use pinion_tests::{EchoModel, Pinion, Sandbox, as_result, assert_paired, until};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const AGENTS: usize = 100;
const CALLS: usize = 10;
/// Time limit for something that should happen at once.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Context window in tokens; about twenty turns fill it.
const WINDOW: u64 = 8_000;

/// Returns the number of turns of a long run: a sample, or all with `PINION_LONG=1`.
fn turns() -> usize {
    if std::env::var_os("PINION_LONG").is_some() { 3_000 } else { 1_000 }
}

fn assert_done(outcome: &Outcome) {
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::Stop });
}

fn results(outcome: &Outcome) -> Vec<&ToolResultMessage> {
    outcome.messages.iter().filter_map(|message| as_result(message)).collect()
}

/// Holds each call of an agent until all calls of its message have begun.
struct AtOnce {
    runtime: Arc<Runtime>,
    begun: Barrier,
    held: AtomicUsize,
}

impl AtOnce {
    fn from_sandbox(sandbox: &Sandbox) -> Arc<Self> {
        Arc::new(Self { runtime: sandbox.runtime.clone(), begun: Barrier::new(CALLS), held: AtomicUsize::new(0) })
    }
}

impl ToolExecutor for AtOnce {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.runtime.definitions()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            // A loop that makes the calls one by one fails here instead of waiting without end.
            if tokio::time::timeout(TIMEOUT, self.begun.wait()).await.is_ok() {
                self.held.fetch_add(1, Ordering::Relaxed);
            }
            self.runtime.call(call, progress).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_agents_make_ten_calls_each_at_once_in_order() {
    let sandbox = Sandbox::with(&["echo"]).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let together = Arc::new(Barrier::new(AGENTS));
    let mut running = JoinSet::new();
    for number in 0..AGENTS {
        let model = EchoModel::new(format!("agent-{number}"), 1, CALLS);
        let tools = AtOnce::from_sandbox(&sandbox);
        let agent = model.agent(tools.clone(), |_| {});
        let together = together.clone();
        running.spawn(async move {
            together.wait().await;
            (agent.run(vec![Message::user("go")]).await.unwrap(), model, tools)
        });
    }
    let mut ended = 0;
    while let Some(run) = running.join_next().await {
        let (outcome, model, tools) = run.unwrap();
        assert_done(&outcome);
        assert_paired(&outcome.messages);
        model.assert_results(0, &results(&outcome));
        assert_eq!(tools.held.load(Ordering::Relaxed), CALLS, "calls in flight at once");
        ended += 1;
    }
    assert_eq!(ended, AGENTS);
    assert_no_task_is_left(tasks).await;
}

/// Counts the guests that hold their memory as told.
#[derive(Default)]
struct Holding(AtomicUsize);

impl ToolProgress for Holding {
    fn report(&self, _: String) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn update(&self, _: Vec<Content>) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_guests_are_inside_their_calls_at_once() {
    let sandbox = Sandbox::with(&["loiter"]).await;
    let (holding, token) = (Holding::default(), CancellationToken::new());
    // They do not end before they are cancelled.
    let calls = (0..CALLS).map(|_| sandbox.call_with("hoard", json!({ "amount": 1 }), &holding, token.clone()));
    let all = async {
        until("all guests are in their calls", || holding.0.load(Ordering::Relaxed) == CALLS).await;
        token.cancel();
    };
    tokio::join!(join_all(calls), all);
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

/// Runs many turns in a small window, which the model has or the policy assumes: order, pairing and window must hold with
/// either kind of summary, and requests must not grow.
async fn long_run(by_model: bool, is_known: bool) -> Arc<EchoModel> {
    let turns = turns();
    let sandbox = Sandbox::with(&["echo"]).await;
    let model = EchoModel::new("long", turns, 1);
    let kept = Arc::new(Kept::default());
    let agent = model.agent(sandbox.runtime.clone(), |config| {
        config.policy.model = EchoModel::with_window(is_known.then_some(WINDOW));
        let assumed_window = (!is_known).then_some(WINDOW);
        config.policy.compaction = CompactionPolicy { by_model, assumed_window, ..CompactionPolicy::default() };
        config.ports.store = kept.clone();
    });
    let outcome = agent.run(vec![Message::user("go")]).await.unwrap();
    assert_done(&outcome);
    assert_eq!(outcome.turns as usize, turns + 1);
    let messages = kept.messages.lock().unwrap();
    let results: Vec<&ToolResultMessage> = messages.iter().filter_map(|message| as_result(message)).collect();
    assert_eq!(results.len(), turns);
    results.iter().enumerate().for_each(|(turn, result)| model.assert_results(turn, &[result]));
    let compactions = kept.compactions.load(Ordering::Relaxed);
    assert!(compactions > turns / 40, "{compactions} compactions");
    assert_paired(&messages);
    drop(messages);
    assert!(model.most_tokens() <= WINDOW, "a request of {} tokens", model.most_tokens());
    assert_flat(&model.sizes());
    assert!(outcome.messages.len() < turns / 4, "{} messages in memory", outcome.messages.len());
    model
}

/// Asserts that the last third of the requests is no larger than the first, in tokens and in messages. The work for a turn
/// is proportional to them.
fn assert_flat(sizes: &[(u64, usize)]) {
    let third = sizes.len() / 3;
    let most = |sizes: &[(u64, usize)]| {
        let tokens = sizes.iter().map(|(tokens, _)| *tokens).max().unwrap();
        let mean = sizes.iter().map(|(tokens, _)| *tokens).sum::<u64>() / sizes.len() as u64;
        (tokens, mean, sizes.iter().map(|(_, messages)| *messages).max().unwrap())
    };
    let (first, last) = (most(&sizes[..third]), most(&sizes[sizes.len() - third..]));
    let is_flat = last.0 <= first.0 * 11 / 10 && last.1 <= first.1 * 11 / 10 && last.2 <= first.2 * 11 / 10;
    assert!(is_flat, "largest, mean and messages: {first:?} in the first third, {last:?} in the last");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_run_stays_in_order_and_in_the_window() {
    assert_eq!(long_run(false, true).await.summaries(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_run_with_model_summaries_stays_in_the_window() {
    assert!(long_run(true, true).await.summaries() > turns() / 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_run_with_an_unknown_window_stays_in_the_assumed_one() {
    assert!(long_run(true, false).await.summaries() > turns() / 80);
}

/// Runs many turns with the command and returns the memory of its process near a third of them and near the end, in
/// kilobytes. At both, a tool waits until the memory was read.
#[cfg(target_os = "linux")]
fn memory_of_a_long_run(turns: usize) -> (u64, u64) {
    let pinion = Pinion::default();
    pinion.config("[compaction]\nassumed-window = 8000\nby-model = false\n[limits]\nmax-turns = 0\nmax-tokens = 0\n");
    let bash = |command: String| json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] });
    let wait = |name: &str| bash(format!("touch {name}; while [ -e {name} ]; do sleep 0.01; done"));
    let mut replies: Vec<Value> = (0..turns)
        .map(|turn| {
            json!({ "calls": [{ "tool": "write", "arguments": {
        "path": format!("{}.txt", turn % 10), "content": format!("{turn} {}", "x".repeat(300)) } }] })
        })
        .collect();
    replies[turns / 3] = wait("early");
    replies[turns - 1] = wait("late");
    replies.push(json!({ "text": "done" }));
    let script = pinion.script(&replies);
    let mut command = pinion.command(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    let mut running = command.stderr(Stdio::null()).spawn().unwrap();
    let mut memory = |name: &str| -> u64 {
        let file = pinion.workspace().join(name);
        while !file.exists() {
            assert!(running.try_wait().unwrap().is_none(), "the run ended before `{name}`");
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
        assert!(status.starts_with("Name:\tpinion\n"), "{status}");
        std::fs::remove_file(file).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let memory = (memory("early"), memory("late"));
    let ended = running.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(0), &b"done\n"[..]));
    memory
}

#[cfg(target_os = "linux")]
#[test]
fn memory_of_a_long_run_is_flat() {
    let turns = if std::env::var_os("PINION_LONG").is_some() { 3_000 } else { 300 };
    let (early, late) = memory_of_a_long_run(turns);
    assert!(late < early + 8_000, "{early} kB after a third of {turns} turns, {late} kB at the end");
}
