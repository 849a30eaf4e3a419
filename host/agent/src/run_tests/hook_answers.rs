//! The effects of the answers of hooks, and runs that stay whole when a hook panics.

use super::notes::Notes;
use crate::testing::{Act, Harness, Reply, Setup, assert_paired, calls, counts, letters, says};
use crate::*;
use futures_util::future::BoxFuture;
use secrecy::ExposeSecret as _;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn with_hooks(mut setup: Setup, hooks: Vec<Arc<dyn Hooks>>) -> Harness {
    setup.hooks = hooks;
    setup.build()
}

fn looking(replies: Vec<Reply>) -> Setup {
    let replies = [calls(&[("look", json!({}))])].into_iter().chain(replies).collect();
    Setup::new(replies).tool("look", Act::Answer("seen"))
}

/// Drops messages that say "private", and turns extension messages into the user's.
struct Rewrites;

impl Hooks for Rewrites {
    fn transform_context<'a>(
        &'a self,
        mut messages: Vec<Arc<Message>>,
        _: bool,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<Arc<Message>>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            messages.retain(|message| letters(message) != "user: private");
            messages.push(Arc::new(Message::user("from the first step")));
            messages
        })
    }

    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        let convert = |message: Arc<Message>| match &*message {
            Message::Extension(note) => Arc::new(Message::user(note.data["text"].as_str().unwrap())),
            Message::User(_) if letters(&message) == "user: from the first step" => {
                Arc::new(Message::user("from both steps"))
            }
            _ => message,
        };
        messages.into_iter().map(convert).collect()
    }
}

/// Sends only the last message when the one before was too long.
#[derive(Default)]
struct Prunes(Mutex<Vec<bool>>);

impl Hooks for Prunes {
    fn transform_context<'a>(
        &'a self,
        mut messages: Vec<Arc<Message>>,
        is_too_long: bool,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<Arc<Message>>> {
        self.0.lock().unwrap().push(is_too_long);
        if is_too_long {
            messages.drain(..messages.len() - 1);
        }
        Box::pin(async { messages })
    }
}

#[tokio::test]
async fn hook_knows_that_the_last_request_was_too_long() {
    let overflow = Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    let prunes = Arc::new(Prunes::default());
    let harness = with_hooks(Setup::new(vec![says("one"), overflow, says("two"), says("three")]), vec![prunes.clone()]);
    harness.agent.configure(|config| config.policy.compaction.automatic = false);
    harness.prompt("first").await;
    let failed = harness.prompt("second").await;
    assert!(matches!(failed.end, RunEnd::Failed(error) if error.kind == RunErrorKind::Overflow));
    assert_eq!(harness.agent.resume().await.unwrap().text(), "two");
    assert_eq!(harness.last_request(), ["user: second"]);
    harness.prompt("third").await;
    assert_eq!(*prunes.0.lock().unwrap(), [false, false, true, false]);
}

#[tokio::test]
async fn requests_hold_what_hooks_make_of_the_history_and_it_stays() {
    let harness = with_hooks(Setup::new(vec![says("hello")]), vec![Arc::new(Rewrites)]);
    let data = json!({ "text": "noted" });
    let note =
        Message::Extension(ExtensionMessage { kind: "app/note".into(), data, timestamp: jiff::Timestamp::now() });
    harness.agent.run(vec![note, Message::user("private"), Message::user("hi")]).await.unwrap();
    assert_eq!(harness.last_request(), ["user: noted", "user: hi", "user: from both steps"]);
    let history: Vec<String> = harness.agent.history().iter().map(|message| letters(message)).collect();
    assert_eq!(history, ["extension app/note", "user: private", "user: hi", "assistant: hello"]);
}

/// Gives out a new key each time.
#[derive(Default)]
struct FreshKeys(AtomicUsize);

impl Hooks for FreshKeys {
    fn api_key<'a>(&'a self, _: &'a CancellationToken) -> BoxFuture<'a, Option<secrecy::SecretString>> {
        Box::pin(async { Some(format!("key-{}", self.0.fetch_add(1, Ordering::Relaxed)).into()) })
    }
}

#[tokio::test(start_paused = true)]
async fn each_retry_asks_for_a_key_of_its_own() {
    let busy = || Reply::Fails(vec![], ProviderError::Overloaded { message: "busy".into(), retry_after: None });
    let harness = with_hooks(Setup::new(vec![busy(), busy(), says("hello")]), vec![Arc::new(FreshKeys::default())]);
    harness.prompt("go").await;
    let requests = harness.model.requests.lock().unwrap();
    let keys: Vec<&str> =
        requests.iter().map(|request| request.options.api_key.as_ref().unwrap().expose_secret()).collect();
    assert_eq!(keys, ["key-0", "key-1", "key-2"]);
}

/// Replaces each result, and notes the results that it saw.
struct Replaces {
    by: &'static str,
    seen: Mutex<Vec<String>>,
}

impl Replaces {
    fn new(by: &'static str) -> Arc<Self> {
        Arc::new(Self { by, seen: Mutex::default() })
    }
}

impl Hooks for Replaces {
    fn transform_result<'a>(
        &'a self,
        _: &'a ToolCall,
        result: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ToolResultMessage>> {
        Box::pin(async {
            let content = vec![Content::text(self.by)];
            let (call_id, tool_name) = ("another".into(), "another".into());
            tokio::task::yield_now().await;
            self.seen.lock().unwrap().push(letters(&Message::ToolResult(result.clone())));
            Some(ToolResultMessage { content, call_id, tool_name, ..result.clone() })
        })
    }

    fn after_tool<'a>(
        &'a self,
        _: &'a ToolCall,
        result: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        self.seen.lock().unwrap().push(letters(&Message::ToolResult(result.clone())));
        Box::pin(async {})
    }
}

fn ended_with(harness: &mut Harness) -> Vec<String> {
    let ended = harness.events().into_iter().filter_map(|event| match event {
        EventKind::ToolExecutionEnd { call_id, content, is_error, .. } => {
            let text: String = content.iter().filter_map(Content::as_text).collect();
            Some(format!("{call_id} {is_error} {text}"))
        }
        _ => None,
    });
    ended.collect()
}

#[tokio::test]
async fn replaced_result_is_stored_reported_and_sent_under_its_call() {
    let (first, second) = (Replaces::new("once"), Replaces::new("twice"));
    let mut harness = with_hooks(looking(vec![says("done")]), vec![first.clone(), second.clone()]);
    let outcome = harness.prompt("go").await;
    assert_eq!(harness.last_request()[2], "result call-0: twice");
    assert_eq!(letters(&harness.store.kept.lock().unwrap()[2]), "result call-0: twice");
    assert_eq!(ended_with(&mut harness), ["call-0 false twice"]);
    assert_eq!(*first.seen.lock().unwrap(), ["result call-0: seen", "result call-0: twice"]);
    assert_eq!(*second.seen.lock().unwrap(), ["result call-0: once", "result call-0: twice"]);
    assert_paired(&outcome.messages);
}

/// Returns the harness after a run with a call of `show` whose hook of this name panicked, and the outcome.
async fn panicked_in(hook: &'static str) -> (Harness, Outcome) {
    let setup = Setup::new(vec![calls(&[("show", json!({}))]), says("done")]).tool("show", Act::Update("half"));
    let mut harness = with_hooks(setup, vec![Arc::new(Notes { panics_in: Some(hook), ..Notes::default() })]);
    let outcome = harness.prompt("go").await;
    let names = harness.event_names();
    let counts = counts(&names);
    assert_eq!((counts["agent_start"], counts["agent_end"]), (1, 1), "{hook}");
    assert_eq!(counts.get("turn_start"), counts.get("turn_end"), "{hook}");
    assert_eq!(counts.get("tool_execution_start"), counts.get("tool_execution_end"), "{hook}");
    assert_paired(&harness.agent.history());
    assert_eq!(harness.agent.history(), outcome.messages, "{hook}");
    assert!(!harness.agent.is_running());
    (harness, outcome)
}

#[tokio::test]
async fn panic_of_a_hook_that_decides_on_a_run_ends_it() {
    for (hook, messages) in [
        ("before_run", 0),
        ("before_turn", 0),
        ("transform_context", 1),
        ("convert_to_llm", 1),
        ("api_key", 1),
        ("after_turn", 3),
    ] {
        let (_, outcome) = panicked_in(hook).await;
        let RunEnd::Failed(error) = &outcome.end else { panic!("{hook}: {:?}", outcome.end) };
        assert!(error.kind == RunErrorKind::Panic && error.message.contains("the hook is broken"), "{error}");
        assert_eq!(outcome.messages.len(), messages, "{hook}");
    }
}

#[tokio::test]
async fn panic_of_a_hook_that_decides_on_a_call_denies_or_withholds_it() {
    let (harness, outcome) = panicked_in("before_tool").await;
    assert_eq!(outcome.text(), "done");
    assert!(harness.last_request()[2].starts_with("failed call-0: The tool crashed"), "{:?}", harness.last_request());
    assert!(harness.tools.log.lock().unwrap().is_empty(), "the call did not run");

    let (harness, outcome) = panicked_in("transform_result").await;
    assert_eq!(outcome.text(), "done");
    let sent = &harness.last_request()[2];
    assert!(sent.starts_with("failed call-0: The result is withheld") && !sent.contains("shown"), "{sent}");
    assert_eq!(letters(&harness.store.kept.lock().unwrap()[2]), *sent);
}

#[tokio::test]
async fn panic_of_a_hook_that_only_observes_changes_nothing() {
    for hook in ["before_update", "after_update", "after_tool", "after_run"] {
        let (harness, outcome) = panicked_in(hook).await;
        assert_eq!(outcome.text(), "done", "{hook}");
        assert_eq!(harness.last_request()[2], "result call-0: shown", "{hook}");
    }
}

/// Cannot answer.
struct BrokenApprover;

impl Approver for BrokenApprover {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        panic!("nobody there")
    }
}

#[tokio::test]
async fn panic_of_an_approver_denies_the_call_and_the_next_one_is_asked_about() {
    let replies = vec![calls(&[("write", json!({})), ("look", json!({})), ("write", json!({}))]), says("done")];
    let mut harness = Setup::new(replies)
        .tool_with("write", Act::Answer("written"), |tool| tool.authority.writes = true)
        .tool("look", Act::Answer("seen"))
        .build();
    let broken = Approval::new(ApprovalMode::Smart, Arc::new(BrokenApprover));
    harness.agent.configure(|config| config.ports.approval = broken);
    assert_eq!(harness.prompt("go").await.text(), "done");
    let sent = harness.last_request();
    assert!(sent[2].starts_with("failed call-0: Denied: the approver panicked"), "{sent:?}");
    assert_eq!(sent[3], "result call-1: seen");
    assert!(sent[4].starts_with("failed call-2: Denied: the approver panicked"), "{sent:?}");
    assert_eq!(counts(&harness.event_names())["approval_requested"], 2);
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-1", "-call-1"]);
}

/// Denies every run, and notes the other calls.
#[derive(Default)]
struct Denies(Mutex<Vec<&'static str>>);

impl Hooks for Denies {
    fn before_run<'a>(&'a self, _: &'a Context, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async { HookVerdict::Deny("not today".into()) })
    }

    fn before_turn<'a>(&'a self, _: &'a Context, _: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        self.0.lock().unwrap().push("before_turn");
        Box::pin(async { HookVerdict::Pass })
    }

    fn after_run<'a>(&'a self, _: &'a Outcome, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push("after_run");
        Box::pin(async {})
    }
}

#[tokio::test]
async fn run_that_a_hook_denies_ends_without_a_start_or_messages() {
    let denies = Arc::new(Denies::default());
    // The second hook passes: the first denial is final.
    let hooks: Vec<Arc<dyn Hooks>> = vec![denies.clone(), Arc::new(Ends::default())];
    let mut harness = with_hooks(Setup::new(vec![says("later")]), hooks);
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Rejected { reason: "not today".into() });
    assert_eq!((harness.requests(), harness.store.kept.lock().unwrap().len(), outcome.turns), (0, 0, 0));
    assert_eq!(*denies.0.lock().unwrap(), ["after_run"]);
    let events = harness.events();
    assert_eq!(events[0], EventKind::InputRejected { reason: "not today".into() });
    assert!(matches!(&events[1], EventKind::AgentEnd { messages, turns: 0, .. } if messages.is_empty()), "{events:?}");
    assert_eq!((events.len(), &outcome.messages), (2, &Vec::new()));
    // The agent is free for another run, which has a new number.
    harness.agent.configure(|config| config.ports.hooks.clear());
    assert_eq!(harness.prompt("go").await.text(), "later");
    assert_eq!(&*harness.agent.snapshot().unwrap().run_id, "s.scripted.m.2");
}

/// Waits until the run is aborted, and then denies it.
struct DeniesLate;

impl Hooks for DeniesLate {
    fn before_run<'a>(&'a self, _: &'a Context, token: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async {
            token.cancelled().await;
            HookVerdict::Deny("too late".into())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn run_that_its_time_limit_ends_in_a_hook_has_a_start() {
    let mut setup = Setup::new(vec![says("never")]);
    setup.limits.max_time = Some(Duration::from_secs(5));
    let mut harness = with_hooks(setup, vec![Arc::new(DeniesLate)]);
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Time(5) });
    assert_eq!(harness.event_names(), ["agent_start", "agent_end"]);
}

/// Notes the ends of turns, and errors.
#[derive(Default)]
struct Ends(Mutex<Vec<String>>);

impl Hooks for Ends {
    fn after_turn<'a>(&'a self, _: &'a Context, usage: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        self.0.lock().unwrap().push(format!("after_turn {}", usage.output));
        Box::pin(async { Flow::Continue })
    }

    fn on_error<'a>(&'a self, error: &'a RunError, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(format!("on_error {:?}", error.kind));
        Box::pin(async {})
    }
}

#[tokio::test]
async fn turn_that_the_store_fails_ends_with_its_event_and_hooks() {
    // The prompt, the reply, the result: the write that fails, and the content of the turn by then.
    for (full_after, has_reply, results) in [(0, false, 0), (1, false, 0), (2, true, 0)] {
        let ends = Arc::new(Ends::default());
        let setup = looking(vec![says("never")]).full_after(full_after);
        let mut harness = with_hooks(setup, vec![ends.clone()]);
        harness.prompt("go").await;
        let turns: Vec<(StopReason, bool, usize)> = harness
            .events()
            .into_iter()
            .filter_map(|event| match event {
                EventKind::TurnEnd { stop_reason, reply, results, .. } => {
                    Some((stop_reason, reply.is_some(), results.len()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(turns, [(StopReason::Error, has_reply, results)], "full after {full_after}");
        let usage = if has_reply { "after_turn 5" } else { "after_turn 0" };
        assert_eq!(*ends.0.lock().unwrap(), ["on_error Store", usage]);
    }
}

/// Asks about calls of `write`, and notes the methods that are called.
#[derive(Default)]
struct Asks(Mutex<Vec<String>>);

impl Hooks for Asks {
    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let asks = call.name == "write";
        Box::pin(async move { if asks { HookVerdict::Ask("no way back".into()) } else { HookVerdict::Pass } })
    }

    fn after_question<'a>(
        &'a self,
        call: &'a ToolCall,
        reason: &'a str,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(format!("{}: {reason}", call.id));
        Box::pin(async {})
    }
}

impl Approver for Asks {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        let notes: Vec<_> = question.notes.iter().map(ToString::to_string).collect();
        self.0.lock().unwrap().push(format!("asked: {}", notes.join(", ")));
        let decision = match &*question.call.id {
            "call-0" => Decision::Allow,
            _ => Decision::Deny { reason: "not this one".into() },
        };
        Box::pin(async { decision })
    }
}

#[tokio::test]
async fn call_that_a_hook_asks_about_runs_only_with_the_users_yes() {
    let asks = Arc::new(Asks::default());
    let replies = vec![calls(&[("write", json!({})), ("write", json!({ "n": 2 })), ("look", json!({}))]), says("done")];
    let setup = Setup::new(replies).tool("write", Act::Answer("written")).tool("look", Act::Answer("seen"));
    let harness = with_hooks(setup, vec![asks.clone()]);
    // No mode answers for the user.
    harness.agent.configure(|config| config.ports.approval = Approval::new(ApprovalMode::All, asks.clone()));
    assert_eq!(harness.prompt("go").await.text(), "done");
    let sent = harness.last_request();
    assert_eq!(sent[2..], ["result call-0: written", "failed call-1: Denied: not this one", "result call-2: seen"]);
    let noted = asks.0.lock().unwrap();
    assert_eq!(noted.iter().filter(|line| *line == "asked: no way back").count(), 2, "{noted:?}");
    assert_eq!(noted.iter().filter(|line| line.starts_with("call-")).collect::<Vec<_>>(), ["call-0: no way back"]);
}
