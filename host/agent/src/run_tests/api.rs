//! The ways to begin, to go on and to take up again.

use super::done;
use crate::testing::{Act, Reply, Setup, calls, says};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn second_concurrent_run_is_an_error() {
    let harness = Setup::new(vec![calls(&[("wait", json!({}))])]).tool("wait", Act::UntilCancelled).build();
    let second = async {
        harness.tools.reached("+call-0").await;
        let second = harness.agent.run(vec![Message::user("me too")]).await;
        harness.agent.abort();
        second
    };
    let (first, second) = tokio::join!(harness.prompt("go"), second);
    assert_eq!(second, Err(AgentError::AlreadyRunning));
    assert_eq!(first.end, RunEnd::Aborted);
}

#[tokio::test]
async fn resuming_requires_something_to_resume() {
    let harness = Setup::new(vec![says("hello")]).build();
    assert!(matches!(harness.agent.resume().await, Err(AgentError::NothingToContinue { .. })));
    harness.prompt("hi").await;
    assert!(matches!(harness.agent.resume().await, Err(AgentError::NothingToContinue { .. })));
}

#[tokio::test]
async fn continuing_after_an_error_asks_again_without_a_new_prompt() {
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let harness = Setup::new(vec![Reply::Fails(vec![], refused), says("now")]).build();
    let failed = harness.prompt("hi").await;
    assert!(matches!(failed.end, RunEnd::Failed(_)));
    assert_eq!(harness.agent.resume().await.unwrap().text(), "now");
    assert_eq!(harness.last_request(), ["user: hi"]);
}

#[tokio::test]
async fn aborted_reply_is_repeated_and_an_answered_one_stays() {
    let partial = crate::testing::text_events("half a", StopReason::Stop)[..3].to_vec();
    let harness = Setup::new(vec![Reply::Hangs(partial), says("all of it"), says("yes")]).build();
    let mut events = harness.agent.subscribe(100);
    let aborting = async {
        while !matches!(events.recv().await.unwrap().kind, EventKind::MessageUpdate { .. }) {}
        harness.agent.abort();
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), aborting);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let mut snapshot = harness.agent.snapshot().unwrap();
    assert_eq!(harness.agent.resume().await.unwrap().text(), "all of it");
    assert_eq!(harness.last_request(), ["user: go"]);
    // A prompt instead of a resumed run: the user has seen the half.
    snapshot.messages.push(Arc::new(Message::user("and?")));
    let context = Context { messages: snapshot.messages, ..Context::new("", "s") };
    harness.agent.reset(context).await;
    harness.agent.resume().await.unwrap();
    assert_eq!(harness.last_request(), ["user: go", "assistant: half a", "user: and?"]);
}

#[tokio::test]
async fn agent_resumes_from_its_snapshot_as_a_rerun() {
    let harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("one")]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    let mut snapshot = harness.agent.snapshot().unwrap();
    snapshot.messages.pop();
    let json = serde_json::to_string(&snapshot).unwrap();
    let other = Setup::new(vec![says("another")]).tool("look", Act::Answer("seen")).build();
    let restored = Agent::restore(other.agent.config(), serde_json::from_str(&json).unwrap());
    let mut seen = restored.subscribe(100);
    let outcome = restored.resume_as(Continuation::Rerun { tag: "again".into() }).await.unwrap();
    assert_eq!(outcome.text(), "another");
    assert_eq!(other.last_request(), ["user: go", "assistant calls call-0", "result call-0: seen"]);
    let first = seen.try_recv().unwrap();
    assert_eq!(&*first.run_id, "s.scripted.m.2");
    let EventKind::AgentStart { parent_run_id, continuation, .. } = first.kind else { panic!("{first:?}") };
    assert_eq!(parent_run_id.as_deref(), Some("s.scripted.m.1"));
    assert_eq!(continuation, Some(Continuation::Rerun { tag: "again".into() }));
    let triggers = std::iter::from_fn(|| seen.try_recv()).filter_map(|event| match event.kind {
        EventKind::TurnStart { turn, trigger } => Some((turn, trigger)),
        _ => None,
    });
    assert_eq!(triggers.collect::<Vec<_>>(), [(1, TurnTrigger::Continuation)]);
    assert_eq!(restored.totals().requests, 3);
}

#[tokio::test]
async fn send_starts_a_run_or_steers_the_current_one() {
    let harness =
        Setup::new(vec![calls(&[("wait", json!({}))]), says("turned")]).tool("wait", Act::UntilCancelled).build();
    let steering = async {
        harness.tools.reached("+call-0").await;
        assert_eq!(harness.agent.send(Message::user("turn")).await, Ok(None));
    };
    let (outcome, ()) = tokio::join!(harness.agent.send(Message::user("go")), steering);
    assert_eq!(outcome.unwrap().unwrap().text(), "turned");
    harness.agent.wait_until_idle().await;
}

#[tokio::test]
async fn message_sent_after_the_last_request_starts_a_run() {
    struct Slow(Arc<tokio::sync::Notify>);
    impl Hooks for Slow {
        fn after_run<'a>(&'a self, _: &'a Outcome, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
            Box::pin(self.0.notified())
        }
    }
    let gate = Arc::new(tokio::sync::Notify::new());
    let mut setup = Setup::new(vec![says("one"), says("two")]);
    setup.hooks = vec![Arc::new(Slow(gate.clone()))];
    let harness = setup.build();
    let mut first = std::pin::pin!(harness.prompt("go"));
    assert!(futures_util::poll!(&mut first).is_pending() && harness.agent.is_running());
    let mut second = std::pin::pin!(harness.agent.send(Message::user("and?")));
    assert!(futures_util::poll!(&mut second).is_pending());
    gate.notify_one();
    assert_eq!(first.await.text(), "one");
    assert!(futures_util::poll!(&mut second).is_pending());
    gate.notify_one();
    assert_eq!(second.await.unwrap().unwrap().text(), "two");
}

#[tokio::test]
async fn message_sent_during_a_lease_starts_a_run_after_it() {
    let harness = Setup::new(vec![says("picked up")]).build();
    let lease = harness.agent.lease().unwrap();
    let mut sending = std::pin::pin!(harness.agent.send(Message::user("and now?")));
    assert!(futures_util::poll!(&mut sending).is_pending());
    drop(lease);
    assert_eq!(sending.await.unwrap().unwrap().text(), "picked up");
}

#[tokio::test]
async fn conversation_is_readable_and_its_prompt_replaceable_during_a_lease() {
    let harness = Setup::new(vec![says("one"), says("two")]).build();
    harness.prompt("hi").await;
    let agent = &harness.agent;
    agent.append(vec![Message::user("long".repeat(1_000))]).unwrap();
    let idle = agent.context_estimate();
    agent.set_system_prompt("Another.");
    let lease = agent.lease().unwrap();
    assert_eq!(&*lease.context.system_prompt, "Another.");
    assert_eq!((agent.history().len(), agent.is_running()), (3, true));
    assert_eq!(agent.context_estimate(), idle);
    agent.set_system_prompt("A third.");
    assert_eq!(&*agent.system_prompt(), "A third.");
    drop(lease);
    assert_eq!((&*agent.system_prompt(), &*agent.snapshot().unwrap().system_prompt), ("A third.", "A third."));
    harness.prompt("and?").await;
    assert_eq!(&*harness.model.requests.lock().unwrap()[1].system, "A third.");
}

#[tokio::test]
async fn reader_on_another_thread_keeps_no_run_from_starting() {
    let harness = Setup::new((0..500).map(|_| says("hello")).collect()).build();
    let token = CancellationToken::new();
    let (agent, is_over) = (harness.agent.clone(), token.clone());
    let reader = std::thread::spawn(move || {
        while !is_over.is_cancelled() {
            agent.context_estimate();
        }
    });
    for _ in 0..500 {
        assert!(done(&harness.prompt("hi").await));
    }
    token.cancel();
    reader.join().unwrap();
}

#[tokio::test]
async fn message_in_progress_grows_and_the_last_error_stays_until_the_next_run() {
    let partial = crate::testing::text_events("half a", StopReason::Stop)[..3].to_vec();
    let refused = ProviderError::Api { status: Some(400), message: "no".into() };
    let harness = Setup::new(vec![Reply::Hangs(partial), Reply::Fails(vec![], refused), says("done")]).build();
    let agent = &harness.agent;
    let mut run = std::pin::pin!(harness.prompt("go"));
    assert!(futures_util::poll!(&mut run).is_pending());
    assert_eq!(agent.message_in_progress(), Some(vec![Content::text("half a")]));
    agent.abort();
    assert_eq!(run.await.end, RunEnd::Aborted);
    assert_eq!((agent.message_in_progress(), agent.last_error()), (None, None));
    harness.prompt("again").await;
    assert_eq!(agent.last_error().as_deref(), Some("HTTP 400: no"));
    harness.agent.resume().await.unwrap();
    assert_eq!(agent.last_error(), None);
}

#[test]
fn run_can_block_its_thread() {
    let harness = Setup::new(vec![says("hello")]).build();
    let outcome = harness.agent.run_blocking(vec![Message::user("hi")]).unwrap();
    assert_eq!(outcome.text(), "hello");
}

#[tokio::test]
async fn appended_messages_are_stored_and_resumed_with_events() {
    let harness = Setup::new(vec![says("hello")]).build();
    harness.agent.append(vec![Message::user("hi"), Message::user("there")]).unwrap();
    assert_eq!(*harness.store.kept.lock().unwrap(), harness.agent.history());
    assert_eq!(harness.requests(), 0);
    let (mut events, run) = harness.agent.resume_stream(100);
    assert_eq!(run.await.unwrap().text(), "hello");
    assert_eq!(harness.last_request(), ["user: hi", "user: there"]);
    let kinds: Vec<EventKind> = std::iter::from_fn(|| events.try_recv()).map(|event| event.kind).collect();
    assert!(matches!(kinds.first(), Some(EventKind::AgentStart { .. })), "{kinds:?}");
    assert!(matches!(kinds.last(), Some(EventKind::AgentEnd { .. })), "{kinds:?}");

    let full = Setup::new(vec![]).full_after(1).build();
    let appended = full.agent.append(vec![Message::user("hi"), Message::user("there"), Message::user("again")]);
    assert!(matches!(appended, Err(AgentError::Store { .. })), "{appended:?}");
    assert_eq!(full.agent.history().len(), 1, "the history holds only what is stored");
}

#[tokio::test]
async fn reset_drops_queued_messages() {
    let harness = Setup::new(vec![says("hello")]).build();
    harness.agent.steer(Message::user("old"));
    harness.agent.follow_up(Message::user("older"));
    harness.agent.reset(Context::new("", "another")).await;
    harness.prompt("hi").await;
    assert_eq!((harness.last_request(), harness.requests()), (vec!["user: hi".to_owned()], 1));
}

#[tokio::test]
async fn reset_aborts_the_run_and_keeps_its_results_out_of_the_new_conversation() {
    let replies = vec![calls(&[("wait", json!({}))]), says("hello")];
    let harness = Setup::new(replies).tool("wait", Act::AnswerOnCancel("late")).build();
    let resetting = async {
        harness.tools.reached("+call-0").await;
        harness.agent.steer(Message::user("old"));
        harness.agent.follow_up(Message::user("older"));
        harness.agent.reset(Context::new("", "another")).await;
        assert!(harness.agent.history().is_empty() && !harness.agent.is_running());
    };
    let (outcome, ()) = tokio::join!(harness.prompt("go"), resetting);
    assert_eq!(outcome.end, RunEnd::Aborted);
    crate::testing::assert_paired(&outcome.messages);
    assert_eq!(harness.prompt("hi").await.text(), "hello");
    assert_eq!((harness.last_request(), harness.requests()), (vec!["user: hi".to_owned()], 2));
}

#[tokio::test]
async fn conversation_is_replaced_after_a_pause_only() {
    let harness = Setup::new(vec![says("hello")]).build();
    let next = || Context::new("", "another");
    assert!(harness.agent.last_active_at().is_none() && !harness.agent.reset_after(Duration::ZERO, next).await);
    let before = jiff::Timestamp::now();
    harness.prompt("hi").await;
    assert!(harness.agent.last_active_at() >= Some(before));
    assert!(!harness.agent.reset_after(Duration::from_secs(3600), next).await);
    assert_eq!(harness.agent.history().len(), 2);
    let lease = harness.agent.lease().unwrap();
    assert!(!harness.agent.is_idle_for(Duration::ZERO), "in use");
    drop(lease);
    assert!(harness.agent.reset_after(Duration::ZERO, next).await);
    assert!(harness.agent.history().is_empty());
    assert_eq!(&*harness.agent.snapshot().unwrap().session_id, "another");
}

#[tokio::test]
async fn run_that_waited_before_a_reset_is_aborted_too() {
    let harness = Setup::new(vec![says("never")]).build();
    let lease = harness.agent.lease().unwrap();
    let sending = harness.agent.send(Message::user("old"));
    let resetting = harness.agent.reset(Context::new("", "another"));
    let releasing = async {
        tokio::task::yield_now().await;
        assert!(lease.token.is_cancelled());
        drop(lease);
    };
    let (sent, (), ()) = tokio::join!(sending, resetting, releasing);
    assert_eq!(sent.unwrap().unwrap().end, RunEnd::Aborted);
    assert!(harness.agent.history().is_empty() && !harness.agent.is_running());
}

#[test]
fn resuming_can_block_its_thread() {
    let harness = Setup::new(vec![says("hello")]).build();
    harness.agent.append(vec![Message::user("hi")]).unwrap();
    assert_eq!(harness.agent.resume_blocking().unwrap().text(), "hello");
}

#[tokio::test]
async fn panic_of_a_tool_or_a_store_leaves_no_call_without_a_result() {
    let replies = vec![calls(&[("bad", json!({})), ("look", json!({}))]), says("done")];
    let mut harness = Setup::new(replies).tool("bad", Act::Panic("oh no")).tool("look", Act::Answer("seen")).build();
    let outcome = harness.prompt("go").await;
    assert_eq!(outcome.text(), "done");
    let sent = harness.last_request();
    assert_eq!(sent[2..], ["failed call-0: The tool crashed: panicked: oh no", "result call-1: seen"]);

    struct Broken;
    impl SessionStore for Broken {
        fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
            assert!(!matches!(**message, Message::ToolResult(_)), "no result");
            Ok(())
        }
    }
    let replies = vec![calls(&[("look", json!({})), ("look", json!({}))])];
    let mut broken = Setup::new(replies).tool("look", Act::Answer("seen")).build();
    broken.agent.configure(|config| config.ports.store = Arc::new(Broken));
    let outcome = broken.prompt("go").await;
    assert!(matches!(&outcome.end, RunEnd::Failed(error) if error.message.contains("no result")), "{outcome:?}");
    crate::testing::assert_paired(&broken.agent.history());
    for names in [harness.event_names(), broken.event_names()] {
        assert_eq!(crate::testing::counts(&names)["agent_end"], 1);
        assert_eq!(crate::testing::counts(&names)["turn_start"], crate::testing::counts(&names)["turn_end"]);
    }
}

#[tokio::test]
async fn state_is_readable_during_a_run() {
    let replies = vec![calls(&[("wait", json!({}))]), says("turned")];
    let harness = Setup::new(replies).tool("wait", Act::UntilCancelled).build();
    let reading = async {
        harness.tools.reached("+call-0").await;
        let agent = &harness.agent;
        assert!(agent.is_running() && agent.message_in_progress().is_none());
        assert_eq!((agent.history().len(), agent.executing_calls()), (2, vec!["call-0".to_owned()]));
        assert!(agent.context_estimate().tokens > 0);
        assert!(matches!(agent.compact(None).await, Err(CompactionError::AlreadyRunning)));
        assert_eq!(agent.append(vec![Message::user("x")]), Err(AgentError::AlreadyRunning));
        agent.set_system_prompt("Another.");
        agent.steer(Message::user("turn"));
    };
    tokio::join!(harness.prompt("go"), reading);
    assert_eq!(&*harness.model.requests.lock().unwrap()[1].system, "Another.");
    assert_eq!(&*harness.agent.system_prompt(), "Another.");
    assert_eq!((harness.agent.is_running(), harness.agent.last_error()), (false, None));
    assert_eq!(harness.agent.history().len(), 5);
}

#[test]
fn tool_that_the_user_demands_is_not_demanded_of_a_sub_agent() {
    let mut config = Setup::new(vec![]).build().config();
    config.policy.tool_choice = ToolChoice::Tool("look".into());
    assert_eq!(config.child(config::ChildKind::Task).policy.tool_choice, ToolChoice::Auto);
    assert_eq!(config.child(config::ChildKind::Branch).policy.tool_choice, config.policy.tool_choice);
}

#[tokio::test]
async fn estimate_of_the_context_includes_the_schemas_of_tools() {
    let estimate = |description: String| {
        let schema = json!({ "type": "object", "properties": { "text": { "description": description } } });
        let setup = Setup::new(vec![]).tool_with("look", Act::Answer("seen"), |tool| tool.input_schema = schema);
        setup.build().agent.context_estimate().tokens
    };
    assert_eq!(estimate("x".repeat(4_000)) - estimate(String::new()), 1_000);
}

#[tokio::test]
async fn estimate_of_the_context_follows_a_reset() {
    let harness = Setup::new(vec![says("hello")]).build();
    let before = harness.agent.context_estimate().tokens;
    harness.prompt(&"a long prompt ".repeat(100)).await;
    assert!(harness.agent.context_estimate().tokens > before + 300);
    harness.agent.reset(Context::new(harness.agent.system_prompt(), "another")).await;
    assert_eq!(harness.agent.context_estimate().tokens, before);
}

#[tokio::test]
async fn blocking_call_in_a_runtime_is_an_error() {
    let harness = Setup::new(vec![says("hello")]).build();
    assert_eq!(harness.agent.run_blocking(vec![Message::user("hi")]), Err(AgentError::InRuntime));
    assert_eq!(harness.agent.resume_blocking(), Err(AgentError::InRuntime));
}

#[tokio::test]
async fn unread_watcher_does_not_delay_an_abort() {
    let harness = Setup::new(vec![says("hello")]).build();
    let mut unread = harness.agent.subscribe(1);
    let mut run = std::pin::pin!(harness.agent.run(vec![Message::user("hi")]));
    assert!(futures_util::poll!(&mut run).is_pending(), "the channel is full");
    harness.agent.abort();
    assert_eq!(run.await.unwrap().end, RunEnd::Aborted);
    let last = std::iter::from_fn(|| unread.try_recv()).last();
    assert!(matches!(last, Some(Event { kind: EventKind::AgentEnd { .. }, .. })), "{last:?}");
}

#[test]
fn types_of_the_agent_are_send_and_sync() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Agent>();
    is_shared::<AgentError>();
    is_shared::<Approval>();
    is_shared::<Budget>();
    is_shared::<CompactionError>();
    is_shared::<Context>();
    is_shared::<Event>();
    is_shared::<EventReceiver>();
    is_shared::<EventSender>();
    is_shared::<EventWatchers>();
    is_shared::<FunctionTools>();
    is_shared::<Lease<'static>>();
    is_shared::<LoopConfig>();
    is_shared::<Message>();
    is_shared::<MessageQueue>();
    is_shared::<Outcome>();
    is_shared::<ProviderError>();
    is_shared::<Request>();
    is_shared::<Schemas>();
    is_shared::<Selection>();
    is_shared::<AgentSnapshot>();
    is_shared::<SubAgents>();
    is_shared::<ToolError>();
    is_shared::<ToolInvocation>();
    is_shared::<ToolReply>();
}

#[tokio::test]
async fn totals_are_those_of_the_conversation_that_they_were_set_for() {
    let harness = Setup::new(vec![says("one"), says("two")]).build();
    harness.prompt("go").await;
    let spent = harness.agent.totals();
    assert_eq!(spent.requests, 1);
    let before = Totals { requests: 7, ..spent };
    harness.agent.set_totals(before);
    harness.prompt("on").await;
    let now = harness.agent.totals();
    assert_eq!((now.requests, now.spend.usage.total()), (8, 2 * spent.spend.usage.total()));
}

#[test]
fn only_tasks_of_a_run_are_deeper_than_it() {
    let config = Setup::new(vec![]).build().config();
    let task = config.child(crate::config::ChildKind::Task);
    assert_eq!((config.depth, task.depth), (0, 1));
    assert_eq!(task.child(crate::config::ChildKind::Branch).depth, 1);
    assert_eq!(task.child(crate::config::ChildKind::Task).depth, 2);
}

#[test]
fn size_of_a_request_includes_its_prompt_and_its_tools() {
    let estimated = |prompt: &str, tools: usize| {
        let setup = (0..tools).fold(Setup::new(vec![]), |setup, _| setup.tool("look", Act::Answer("seen")));
        let config = setup.build().config();
        crate::history::fixed_tokens(&Context::new(prompt, "s"), &config)
    };
    let prompt = "a".repeat(400);
    let (nothing, of_prompt, of_tool) = (estimated("", 0), estimated(&prompt, 0), estimated("", 1));
    assert!(nothing == 0 && of_prompt >= 100 && of_tool > 0);
    assert_eq!(estimated(&prompt, 1), of_prompt + of_tool);
    assert_eq!(estimated(&prompt, 2), of_prompt + 2 * of_tool);
}

#[test]
fn texts_without_secrets_stay_as_they_are() {
    let harness = Setup::new(vec![]).build();
    let services = harness.agent.services_for_command(&CancellationToken::new());
    assert_eq!(services.clean("the text"), "the text");
}
