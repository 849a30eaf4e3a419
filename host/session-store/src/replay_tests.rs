use super::*;
use crate::recovery::open_to_continue;
use crate::session::Session;
use crate::testing::{assistant, calls, result, user, workspace};
use pinion_protocol::{
    ChildCall, CompactionReason, Content, Display, ExtensionMessage, Ledger, SessionStore, StopReason, TurnTrigger,
};
use serde_json::json;
use tempfile::TempDir;

fn start() -> EventKind {
    EventKind::AgentStart {
        agent_id: "agent".into(),
        session_id: "s".into(),
        parent_run_id: None,
        call_id: None,
        continuation: None,
        trigger: TurnTrigger::User,
        provider: "p".into(),
        model: "m".into(),
        directory: Default::default(),
    }
}

fn end(input: u64, turns: u32) -> EventKind {
    let usage = Usage { input, ..Usage::default() };
    let end = RunEnd::Done { stop_reason: StopReason::Stop };
    EventKind::AgentEnd { end, messages: Vec::new(), usage, cost: None, turns }
}

fn executed(id: &str, display: Display) -> EventKind {
    EventKind::ToolExecutionEnd {
        call_id: id.into(),
        tool: "read".into(),
        is_error: false,
        content: vec![Content::text("line one\nline two")],
        details: None,
        display,
        ledger: Some(Ledger { plugin: "fs".into(), fuel: 7, ..Ledger::default() }),
        child_run_id: None,
    }
}

fn compacted(session: &Session, run: &str, dropped: usize) {
    let data = json!({ "summary": "so far", "kept": 0 });
    let (kind, timestamp) = (COMPACTION_MESSAGE.to_owned(), crate::testing::time());
    session.append(&Arc::new(Message::Extension(ExtensionMessage { kind, data, timestamp }))).unwrap();
    let spend = Spend { usage: Usage { input: 100, ..Usage::default() }, cost: None };
    let (reason, summary) = (CompactionReason::Asked, "so far".to_owned());
    session.observe(
        &run.into(),
        &EventKind::Compaction { reason, dropped, summary, failure: None, before: 9, after: 5, spend },
    );
}

/// The names of events, with the details that the tests check.
fn told(events: &[Event]) -> Vec<String> {
    let one = |event: &Event| match &event.kind {
        EventKind::AgentStart { call_id, .. } => format!("start {}", call_id.as_deref().unwrap_or_default()),
        EventKind::AgentEnd { end, .. } => format!("end {end}"),
        EventKind::MessageEnd { message } => format!("{:?}", pinion_protocol::Role::from_message(message)),
        EventKind::ToolExecutionStart { arguments, .. } => format!("call {arguments}"),
        EventKind::ToolExecutionEnd { display, ledger, .. } => format!("{display:?} {}", ledger.as_ref().unwrap().fuel),
        EventKind::Compaction { dropped, summary, before, after, .. } => {
            format!("compaction {dropped} {summary} {before} {after}")
        }
        other => format!("{other:?}"),
    };
    events.iter().map(one).collect()
}

#[test]
fn past_calls_have_their_ledger_and_display() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.observe(&"s.c.1".into(), &start());
    for message in [user("go"), calls(&["1"])] {
        session.append(&message).unwrap();
    }
    session.observe(&"s.c.1".into(), &executed("1", Display::Code("rust".into())));
    session.append(&result("1")).unwrap();
    session.observe(&"s.c.1".into(), &end(3, 2));
    let events = History::read(session.path()).unwrap().into_events(Some(session.path()));
    let expected =
        ["start ", "User", "Assistant", r#"call {"path":"a.txt"}"#, r#"Code("rust") 7"#, "ToolResult", "end done"];
    assert_eq!(told(&events), expected);
    assert!(events.iter().all(|event| &*event.run_id == "s.c.1"));
}

#[test]
fn run_that_a_hook_denied_is_a_rejection_and_an_end_of_its_own() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.observe(&"s.c.1".into(), &start());
    session.append(&user("go")).unwrap();
    session.observe(&"s.c.1".into(), &end(3, 1));
    let reason = "not today".to_owned();
    session.observe(&"s.c.2".into(), &EventKind::InputRejected { reason: reason.clone() });
    let (rejected, usage) = (RunEnd::Rejected { reason }, Usage::default());
    let denied = EventKind::AgentEnd { end: rejected, messages: Vec::new(), usage, cost: None, turns: 0 };
    session.observe(&"s.c.2".into(), &denied);
    let events = History::read(session.path()).unwrap().into_events(Some(session.path()));
    let seen: Vec<String> =
        events.iter().zip(told(&events)).map(|(at, told)| format!("{} {told}", at.run_id)).collect();
    assert_eq!(seen[..3], ["s.c.1 start ", "s.c.1 User", "s.c.1 end done"]);
    assert_eq!(seen[3..], ["s.c.2 InputRejected { reason: \"not today\" }", "s.c.2 end not today"]);
}

#[test]
fn ledger_may_follow_the_result_of_its_call() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    for message in [user("go"), calls(&["1"]), result("1")] {
        session.append(&message).unwrap();
    }
    session.observe(&"s.c.1".into(), &executed("1", Display::Markdown));
    let events = History::read(session.path()).unwrap().into_events(Some(session.path()));
    let expected = ["User", "Assistant", "ToolResult", r#"call {"path":"a.txt"}"#, "Markdown 7"];
    assert_eq!(told(&events), expected);
}

#[test]
fn sub_agents_are_told_before_the_result_of_their_call() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.observe(&"s.c.1".into(), &start());
    for message in [user("go"), calls(&["1", "2"])] {
        session.append(&message).unwrap();
    }
    for (call_id, text) in [("2", "second"), ("1", "first")] {
        let call = ChildCall { call_id, tool: "task", agent_id: "sub-agent", run_id: "s.c.1" };
        let child = session.child(call).unwrap();
        child.store.observe(&"k.c.1".into(), &start());
        child.store.append(&user(text)).unwrap();
        child.store.observe(&"k.c.1".into(), &end(1, 1));
    }
    for message in [result("1"), result("2")] {
        session.append(&message).unwrap();
    }
    let events = History::read(session.path()).unwrap().into_events(Some(session.path()));
    let told = told(&events);
    let expected =
        ["start ", "User", "Assistant", "start 1", "User", "end done", "ToolResult", "start 2", "User", "end done"];
    assert_eq!(told[..10], expected, "{told:?}");
    // The run has no end, because it was killed.
    assert_eq!(told[10..], ["ToolResult", "end aborted"]);
}

#[test]
fn compacted_messages_are_told_with_the_summary_below() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.observe(&"s.c.1".into(), &start());
    for message in [user("one"), Arc::new(assistant(vec![Content::text("1")]))] {
        session.append(&message).unwrap();
    }
    session.observe(&"s.c.1".into(), &end(3, 1));
    compacted(&session, "s.c.2", 2);
    session.append(&user("two")).unwrap();
    let events = History::read(session.path()).unwrap().into_events(Some(session.path()));
    let expected = ["start ", "User", "Assistant", "end done", "Extension", "compaction 2 so far 9 5", "User"];
    assert_eq!(told(&events), expected);
}

#[test]
fn spend_counts_all_branches_summaries_and_killed_runs() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    for (number, prompt) in ["one", "two"].into_iter().enumerate() {
        let run = format!("s.c.{}", number + 1).into();
        session.append(&user(prompt)).unwrap();
        session.observe(&run, &start());
        session.append(&Arc::new(assistant(vec![Content::text("reply")]))).unwrap();
        session.observe(&run, &end(1_000, 2));
    }
    compacted(&session, "s.c.3", 2);
    let first = crate::transcript::Transcript::open(&path).unwrap().branch().next().unwrap().unwrap().id;
    session.go_back(Some(first)).unwrap();
    session.observe(&"s.c.4".into(), &start());
    session.append(&Arc::new(assistant(vec![Content::text("killed")]))).unwrap();
    drop(session);
    let opened = open_to_continue(&path, workspace()).unwrap();
    // Two runs and a summary that were left behind, and a reply of 15 tokens.
    assert_eq!((opened.totals.requests, opened.totals.spend.usage.total()), (2 + 2 + 1 + 1, 2 * 1_000 + 100 + 15));
}
