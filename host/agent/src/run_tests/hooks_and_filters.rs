//! The application's own code: hooks in one order, filters of input.

use super::notes::Notes;
use crate::testing::{Act, Reply, Setup, assert_paired, calls, counts, says};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn hooked(mut setup: Setup, notes: &Arc<Notes>) -> Setup {
    setup.hooks = vec![notes.clone()];
    setup
}

#[tokio::test]
async fn hooks_and_events_come_in_one_order_over_several_turns_and_tools() {
    let notes = Arc::new(Notes::default());
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let replies = vec![calls(&[("show", json!({})), ("talk", json!({}))]), Reply::Fails(vec![], refused)];
    let mut setup =
        hooked(Setup::new(replies), &notes).tool("show", Act::Update("half")).tool("talk", Act::Update("secret"));
    setup.strategy = Strategy::Sequential;
    let harness = setup.build();
    harness.agent.configure(|config| config.ports.store = notes.clone());
    harness.prompt("go").await;
    // The store observes each event when it happens, so the lines are in the order of hooks and events.
    let turn = ["before_turn", "[turn_start]", "transform_context", "convert_to_llm", "api_key"];
    let mut expected = vec!["before_run", "[agent_start]"];
    expected.extend(turn);
    expected.extend(["before_tool", "[tool_execution_start]", "before_update", "[tool_execution_update]"]);
    expected.extend(["after_update", "transform_result", "[tool_execution_end]", "after_tool"]);
    // The second update is hidden.
    expected.extend(["before_tool", "[tool_execution_start]", "before_update"]);
    expected.extend(["transform_result", "[tool_execution_end]", "after_tool"]);
    expected.extend(["[turn_end]", "after_turn"]);
    expected.extend(turn);
    expected.extend(["[turn_end]", "on_error", "after_turn", "[agent_end]", "after_run"]);
    assert_eq!(*notes.lines.lock().unwrap(), expected);
}

#[tokio::test]
async fn turn_that_a_hook_denies_ends_the_run_with_its_reason() {
    let notes = Arc::new(Notes { deny_turn: Some(2), ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("never")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Rejected { reason: "not this turn".into() });
    assert_eq!((outcome.turns, harness.requests()), (1, 1));
    assert_paired(&outcome.messages);
}

#[tokio::test]
async fn call_that_a_hook_denies_does_not_run_and_the_model_is_told_why() {
    let notes = Arc::new(Notes { deny_tool: Some("look"), ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("done")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    assert_eq!(harness.last_request()[2], "failed call-0: Denied: not this tool");
    assert!(harness.tools.log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn hook_can_end_the_run_after_a_turn() {
    let notes = Arc::new(Notes { stop_after_turn: true, ..Notes::default() });
    let setup = hooked(Setup::new(vec![calls(&[("look", json!({}))]), says("never")]), &notes);
    let harness = setup.tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::ToolUse });
    assert_eq!(harness.requests(), 1);
}

#[tokio::test]
async fn the_key_of_the_moment_goes_with_the_request() {
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
    fn before_turn<'a>(&'a self, _: &'a Context, _: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn abort_does_not_wait_for_a_hook_that_hangs() {
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
async fn rejected_prompt_is_reported_and_not_sent_or_stored() {
    let mut setup = Setup::new(vec![says("never")]);
    setup.filters = vec![Arc::new(Filter)];
    let mut harness = setup.build();
    let outcome = harness.prompt("bad").await;
    assert_eq!(outcome.end, RunEnd::Rejected { reason: "not here".into() });
    assert_eq!(harness.event_names(), ["agent_start", "input_rejected", "agent_end"]);
    assert_eq!((harness.requests(), harness.store.kept.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn warning_goes_with_the_message() {
    let mut setup = Setup::new(vec![says("hi")]);
    setup.filters = vec![Arc::new(Filter)];
    let harness = setup.build();
    harness.prompt("odd").await;
    assert_eq!(harness.last_request(), ["user: odd\n[Warning: mind that]"]);
}

#[tokio::test]
async fn rejected_follow_up_does_not_keep_the_next_one_from_its_turn() {
    let mut setup = Setup::new(vec![says("one"), says("two")]);
    setup.filters = vec![Arc::new(Filter)];
    let mut harness = setup.build();
    harness.agent.follow_up(Message::user("bad"));
    harness.agent.follow_up(Message::user("good"));
    harness.prompt("go").await;
    assert_eq!(harness.last_request(), ["user: go", "assistant: one", "user: good"]);
    assert_eq!(counts(&harness.event_names()).get("input_rejected"), Some(&1));
}
