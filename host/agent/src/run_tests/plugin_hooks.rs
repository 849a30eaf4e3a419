//! Hooks of plugins for runs, sessions and replies.

use crate::testing::{Harness, Setup, calls, letters, says};
use crate::*;
use futures_util::future::BoxFuture;
use pinion_protocol::hook::{
    AddedInstructions, ArgumentCheck, CallOutcome, CheckedCall, CheckedPrompt, CheckedStop, HookCall, HookedCall,
    HookedRun, ReplacedPart, RevisedCall, RevisedReply, StartedSession, StoppingRun,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Hooks at some points, which note everything that they see.
struct RunHooks {
    points: Vec<HookPoint>,
    seen: Mutex<Vec<String>>,
    /// Cancelled by the hook after a reply, which then never answers.
    aborts: Option<CancellationToken>,
}

impl RunHooks {
    fn at(points: &[HookPoint]) -> Arc<Self> {
        Arc::new(Self { points: points.to_vec(), seen: Mutex::default(), aborts: None })
    }

    fn note(&self, text: String) {
        self.seen.lock().unwrap().push(text);
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn called(point: HookPoint, answer: HookAnswer) -> Vec<HookCall> {
    vec![HookCall { point, plugin: "p".into(), answer, text: String::new(), ledger: None }]
}

impl PluginHooks for RunHooks {
    fn wants(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    fn before_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: &'a ArgumentCheck<'a>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedCall> {
        Box::pin(async { unreachable!() })
    }

    fn after_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: CallOutcome,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedCall> {
        Box::pin(async { unreachable!() })
    }

    fn before_prompt<'a>(&'a self, _: &'a str, _: &'a str, _: &'a CancellationToken) -> BoxFuture<'a, CheckedPrompt> {
        Box::pin(async { unreachable!() })
    }

    fn before_compaction<'a>(
        &'a self,
        _: &'a str,
        _: ReplacedPart<'a>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, AddedInstructions> {
        Box::pin(async { unreachable!() })
    }

    fn before_stop<'a>(&'a self, stop: StoppingRun<'a>, _: &'a CancellationToken) -> BoxFuture<'a, CheckedStop> {
        self.note(format!("{} after {} turns, {}", stop.reply, stop.turns, stop.continuations));
        let calls = called(HookPoint::BeforeStop, HookAnswer::Continued);
        Box::pin(async { CheckedStop { reasons: vec!["the tests fail".into()], calls } })
    }

    fn session_start<'a>(
        &'a self,
        run: HookedRun<'a>,
        is_new: bool,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedSession> {
        self.note(format!("{} {is_new}", run.depth));
        let calls = called(HookPoint::SessionStart, HookAnswer::Added);
        Box::pin(async { StartedSession { context: vec!["it is Monday".into()], calls } })
    }

    fn after_reply<'a>(
        &'a self,
        _: HookedRun<'a>,
        texts: Vec<String>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedReply> {
        Box::pin(async move {
            if let Some(token) = &self.aborts {
                token.cancel();
                std::future::pending::<()>().await;
            }
            let texts = texts.iter().map(|text| text.replace("secret", "")).collect();
            RevisedReply { texts: Some(texts), calls: called(HookPoint::AfterReply, HookAnswer::Revised) }
        })
    }

    fn observe(&self, _: String) {}
}

fn with_plugin(setup: Setup, hooks: &Arc<RunHooks>) -> Harness {
    let harness = setup.build();
    let hooks = hooks.clone();
    harness.agent.configure(|config| config.ports.plugin_hooks = Some(hooks));
    harness
}

fn history(harness: &Harness) -> Vec<String> {
    harness.agent.history().iter().map(|message| letters(message)).collect()
}

#[tokio::test]
async fn hook_makes_a_run_continue_at_most_three_times() {
    let hooks = RunHooks::at(&[HookPoint::BeforeStop]);
    let mut harness = with_plugin(Setup::new(["one", "two", "three", "four"].map(says).into()), &hooks);
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Done { stop_reason: StopReason::Stop });
    assert_eq!(outcome.text(), "four");
    assert_eq!(
        hooks.seen(),
        ["one after 1 turns, 0", "two after 2 turns, 1", "three after 3 turns, 2"],
        "the last reply ends the run"
    );
    assert_eq!(history(&harness)[1..4], ["assistant: one", "user: the tests fail", "assistant: two"]);
    let continued =
        |event: &EventKind| matches!(event, EventKind::Hook { hook, .. } if hook.answer == HookAnswer::Continued);
    assert_eq!(harness.events().iter().filter(|event| continued(event)).count(), 3);
}

#[tokio::test]
async fn run_at_its_limit_is_not_continued() {
    let hooks = RunHooks::at(&[HookPoint::BeforeStop]);
    let harness = with_plugin(Setup::new(vec![says("one")]), &hooks);
    harness.agent.configure(|config| config.policy.limits.max_turns = Some(1));
    let outcome = harness.prompt("go").await;
    assert_eq!((outcome.end, hooks.seen().len()), (RunEnd::Done { stop_reason: StopReason::Stop }, 0));
}

#[tokio::test]
async fn context_at_the_start_of_a_session_goes_with_the_prompt() {
    let hooks = RunHooks::at(&[HookPoint::SessionStart]);
    let harness = with_plugin(Setup::new(["one", "two"].map(says).into()), &hooks);
    harness.prompt("go").await;
    assert_eq!(harness.last_request(), ["user: goit is Monday"]);
    harness.prompt("on").await;
    assert_eq!(hooks.seen(), ["0 true", "0 false"]);
}

#[tokio::test]
async fn revised_reply_is_stored_and_sent_onward() {
    let hooks = RunHooks::at(&[HookPoint::AfterReply]);
    let replies = vec![says("a secret b"), calls(&[("look", json!({}))]), says("secret")];
    let setup = Setup::new(replies).tool("look", crate::testing::Act::Answer("seen"));
    let harness = with_plugin(setup, &hooks);
    assert_eq!(harness.prompt("go").await.text(), "a  b");
    assert_eq!(letters(&harness.store.kept.lock().unwrap()[1]), "assistant: a  b");
    assert_eq!(harness.prompt("on").await.text(), "[A plugin removed this text.]");
    assert!(harness.last_request().contains(&"assistant: a  b".to_owned()));
}

#[tokio::test]
async fn reply_of_an_aborted_run_is_withheld_from_hooks_that_did_not_see_it() {
    let mut hooks = RunHooks::at(&[HookPoint::AfterReply]);
    let token = CancellationToken::new();
    Arc::get_mut(&mut hooks).unwrap().aborts = Some(token.clone());
    let harness = with_plugin(Setup::new(vec![says("a secret")]), &hooks);
    let agent = harness.agent.clone();
    tokio::spawn(async move {
        token.cancelled().await;
        agent.abort();
    });
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert!(history(&harness)[1].contains("The run was aborted before"), "{:?}", history(&harness));
}
