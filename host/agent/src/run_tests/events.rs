//! Order and content of the events for watchers, the store and the model.

use super::done;
use crate::testing::{Act, Setup, calls, letters, says};
use crate::*;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_prompt_without_tools_is_one_turn() {
    let mut harness = Setup::new(vec![says("hello")]).build();
    let outcome = harness.prompt("hi").await;
    assert!(done(&outcome) && outcome.turns == 1);
    assert_eq!(outcome.text(), "hello");
    assert_eq!(outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["user: hi", "assistant: hello"]);
    assert_eq!(harness.event_names(), ["agent_start", "turn_start", "turn_end", "agent_end"]);
}

#[tokio::test]
async fn events_come_in_order_and_deltas_before_the_whole() {
    let mut harness =
        Setup::new(vec![calls(&[("look", json!({}))]), says("done")]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    let events = harness.events();
    let names: Vec<&str> = events
        .iter()
        .map(|event| match event {
            EventKind::AgentStart { .. } => "agent",
            EventKind::TurnStart { .. } => "turn",
            EventKind::MessageStart { .. } => "message",
            EventKind::MessageUpdate { .. } => "delta",
            EventKind::MessageEnd { .. } => "message.",
            EventKind::ToolExecutionStart { .. } => "tool",
            EventKind::ToolExecutionEnd { .. } => "tool.",
            EventKind::TurnEnd { .. } => "turn.",
            EventKind::AgentEnd { .. } => "agent.",
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = "agent turn message message. \
         message delta delta message. tool tool. message message. turn. \
         turn message delta message. turn. agent.";
    assert_eq!(names.join(" "), expected);
}

#[tokio::test]
async fn events_survive_serialization() {
    let mut harness =
        Setup::new(vec![calls(&[("look", json!({"text": "x"}))])]).tool("look", Act::Answer("seen")).build();
    harness.prompt("go").await;
    for kind in harness.events() {
        let event = Event { run_id: "l".into(), kind };
        let line = serde_json::to_string(&event).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}

#[tokio::test]
async fn full_store_ends_the_run_and_only_stored_messages_are_shown() {
    for full_after in 0..4 {
        let replies = vec![calls(&[("look", json!({}))]), says("done")];
        let mut harness = Setup::new(replies).tool("look", Act::Answer("seen")).full_after(full_after).build();
        let outcome = harness.prompt("go").await;
        assert!(
            matches!(&outcome.end, RunEnd::Failed(error) if error.kind == RunErrorKind::Store && error.message.contains("disk full")),
            "{:?}",
            outcome.end
        );
        let shown: Vec<Arc<Message>> = harness
            .events()
            .into_iter()
            .filter_map(|event| match event {
                EventKind::MessageEnd { message } => Some(message),
                _ => None,
            })
            .collect();
        assert_eq!(shown, *harness.store.kept.lock().unwrap());
    }
}

#[tokio::test]
async fn reply_that_cannot_be_stored_is_in_the_outcome_only() {
    let harness = Setup::new(vec![says("paid for"), says("later")]).full_after(1).build();
    let outcome = harness.prompt("go").await;
    assert!(matches!(outcome.end, RunEnd::Failed(_)) && outcome.text() == "paid for", "{outcome:?}");
    assert_eq!(harness.agent.snapshot().unwrap().messages.len(), 1, "the history holds only what is stored");
}

#[tokio::test]
async fn extension_messages_live_in_the_history_and_never_reach_the_model() {
    let harness = Setup::new(vec![says("hello")]).build();
    let note = ExtensionMessage { kind: "app/note".into(), data: json!({ "n": 1 }), timestamp: jiff::Timestamp::now() };
    let outcome = harness.agent.run(vec![Message::Extension(note), Message::user("hi")]).await.unwrap();
    assert_eq!(letters(&outcome.messages[0]), "extension app/note");
    assert_eq!(harness.last_request(), ["user: hi"]);
}

#[tokio::test]
async fn guidelines_of_tools_stand_in_the_system_prompt() {
    let setup = Setup::new(vec![says("hello")]);
    let harness = setup.tool_with("look", Act::Answer("x"), |t| t.guidelines = vec!["Look first.".into()]).build();
    harness.prompt("hi").await;
    let system = harness.model.requests.lock().unwrap()[0].system.clone();
    assert_eq!(&*system, "You are a test.\n\n# Tools\n\n- `look`: Look first.");
}

#[tokio::test]
async fn slow_watcher_loses_no_essential_event() {
    let harness = Setup::new(vec![calls(&[("talk", json!({}))]), says("done")]).tool("talk", Act::Report(1000)).build();
    let mut slow = harness.agent.subscribe(1);
    let reading = async {
        let mut ends = 0;
        while let Some(event) = slow.recv().await {
            tokio::task::yield_now().await;
            match event.kind {
                EventKind::MessageEnd { .. } => ends += 1,
                EventKind::AgentEnd { .. } => break,
                _ => {}
            }
        }
        ends
    };
    let (outcome, ends) = tokio::join!(harness.prompt("go"), reading);
    assert_eq!(ends, outcome.messages.len());
}

#[tokio::test]
async fn runs_are_numbered_and_name_their_trigger() {
    let mut harness = Setup::new(vec![calls(&[("look", json!({}))]), says("one"), says("two")])
        .tool("look", Act::Answer("seen"))
        .build();
    let mut seen = harness.agent.subscribe(1000);
    harness.prompt("go").await;
    harness.prompt("on").await;
    let mut ids = Vec::new();
    while let Some(event) = seen.try_recv() {
        if let EventKind::AgentStart { .. } = event.kind {
            ids.push(event.run_id.to_string());
        }
    }
    assert_eq!(ids, ["s.scripted.m.1", "s.scripted.m.2"]);
    let triggers: Vec<TurnTrigger> = harness
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::TurnStart { trigger, .. } => Some(trigger),
            _ => None,
        })
        .collect();
    assert_eq!(triggers, [TurnTrigger::User, TurnTrigger::Continuation, TurnTrigger::User]);
}

#[tokio::test]
async fn ids_of_runs_name_the_config_and_count_its_runs() {
    let harness = Setup::new(vec![says("one"), says("two"), says("three"), says("four"), says("five")]).build();
    let mut seen = harness.agent.subscribe(1000);
    harness.prompt("go").await;
    harness.agent.configure(|config| config.policy.model.name = "other".into());
    harness.prompt("on").await;
    harness.agent.configure(|config| config.policy.options.thinking = ThinkingLevel::High);
    harness.prompt("on").await;
    harness.agent.configure(|config| config.policy.config_id = Some("fast".into()));
    harness.prompt("on").await;
    harness.agent.configure(|config| config.policy.config_id = None);
    harness.agent.reset(Context { runs: harness.agent.snapshot().unwrap().runs, ..Context::new("", "s") }).await;
    harness.prompt("on").await;
    let own = harness.agent.snapshot().unwrap().agent_id;
    let starts = std::iter::from_fn(|| seen.try_recv()).filter_map(|event| match event.kind {
        EventKind::AgentStart { agent_id, session_id, model, .. } => {
            assert_eq!(agent_id, own);
            Some(format!("{session_id} {model} {}", event.run_id))
        }
        _ => None,
    });
    assert_eq!(
        starts.collect::<Vec<_>>(),
        [
            "s m s.scripted.m.1",
            "s other s.scripted.other.1",
            "s other s.scripted.other.thinking.1",
            "s other s.fast.1",
            "s other s.scripted.other.thinking.2",
        ]
    );
}

#[tokio::test]
async fn function_that_runs_numbers_its_runs_as_an_agent_does() {
    let harness = Setup::new(vec![says("one"), says("two")]).build();
    let mut context = Context::new("You are a test.", "s");
    for (prompt, id) in [("go", "s.scripted.m.1"), ("on", "s.scripted.m.2")] {
        let token = CancellationToken::new();
        let config = harness.config();
        let outcome = run(&mut context, vec![Message::user(prompt)], &config, &EventWatchers::default(), &token).await;
        assert!(done(&outcome));
        assert_eq!((&*context.run_id, context.messages.len()), (id, 2 * context.runs.total() as usize));
    }
    assert_eq!(harness.last_request(), ["user: go", "assistant: one", "user: on"]);
}

#[tokio::test]
async fn turn_end_carries_the_reply_its_results_and_the_spend_so_far() {
    let replies = vec![calls(&[("look", json!({})), ("look", json!({}))]), says("done")];
    let mut setup = Setup::new(replies).tool("look", Act::Answer("seen"));
    let prices = Prices { input: 1e5, output: 1e5, cache_read: 0.0, cache_write: 0.0 };
    setup.model_info.prices = Some(Arc::new(prices));
    let mut harness = setup.build();
    harness.prompt("go").await;
    let ends = harness.events().into_iter().filter_map(|event| match event {
        EventKind::TurnEnd { turn, stop_reason, reply, results, usage, cost } => {
            let reply = letters(&reply.unwrap());
            let results: Vec<String> = results.iter().map(|message| letters(message)).collect();
            Some((turn, stop_reason, reply, results, usage.input, usage.output, cost.map(|cost| cost.total())))
        }
        _ => None,
    });
    let results = vec!["result call-0: seen".to_owned(), "result call-1: seen".to_owned()];
    let first = (1, StopReason::ToolUse, "assistant calls call-0 call-1".to_owned(), results, 10, 5, Some(1.5));
    let last = (2, StopReason::Stop, "assistant: done".to_owned(), vec![], 20, 10, Some(3.0));
    assert_eq!(ends.collect::<Vec<_>>(), [first, last]);
}
