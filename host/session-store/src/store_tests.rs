use super::*;
use crate::record::CallLedger;
use crate::testing::{calls, result, time, user, workspace};
use crate::transcript::Transcript;
use crate::{ExportFormat, Payload, export, render};
use pinion_protocol::delegation::WorkDirectory;
use pinion_protocol::{
    ChoiceAccount, CompactionReason, Display, Ledger, RunEnd, Spend, StopReason, ToolResultMessage, TurnTrigger, Usage,
};
use std::path::Path;
use tempfile::TempDir;

fn start(session: &str) -> EventKind {
    EventKind::AgentStart {
        agent_id: "agent".into(),
        session_id: session.into(),
        parent_run_id: None,
        call_id: None,
        continuation: None,
        trigger: TurnTrigger::User,
        provider: "p".into(),
        model: "m".into(),
        directory: WorkDirectory::Parent,
    }
}

fn end() -> EventKind {
    EventKind::AgentEnd {
        end: RunEnd::Done { stop_reason: StopReason::Stop },
        messages: vec![user("x")],
        usage: Usage { input: 3, ..Usage::default() },
        cost: None,
        turns: 2,
    }
}

fn retry(cause: &str) -> EventKind {
    EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1_000, cause: cause.into() }
}

fn observe(session: &Session, kinds: Vec<EventKind>) {
    kinds.iter().for_each(|kind| session.observe(&"s.c.1".into(), kind));
}

fn types(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn events_of_a_run_are_recorded_in_its_session() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.append(&user("go")).unwrap();
    let id = session.id().to_owned();
    let Message::ToolResult(plain) = &*result("1") else { panic!() };
    let delegated = ToolResultMessage { child_run_id: Some("k.c.1".into()), ..plain.clone() };
    let delegated = Arc::new(Message::ToolResult(ToolResultMessage { timestamp: time(), ..delegated }));
    let kinds = vec![
        start(&id),
        EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
        retry(&"ä".repeat(Record::MAX_TEXT)),
        EventKind::Compaction {
            reason: CompactionReason::Asked,
            dropped: 4,
            summary: "…".into(),
            failure: None,
            before: 2,
            after: 1,
            spend: Spend::default(),
        },
        EventKind::MessageEnd { message: delegated },
        end(),
    ];
    observe(&session, kinds);
    assert_eq!(types(session.path()).len(), 2 + 5);
    let runs = Transcript::open(session.path()).unwrap().runs().unwrap();
    let found = runs.get("s.c.1").unwrap();
    assert_eq!((found.retries, found.spawned[0].child_run_id.as_str()), (1, "k.c.1"));
    let (_, ended) = found.end.as_ref().unwrap();
    assert_eq!((ended.turns, ended.messages, ended.usage.input), (2, 1, 3));
}

#[test]
fn records_wait_for_the_first_message() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    observe(&session, vec![start(session.id())]);
    assert!(!session.path().exists());
    session.append(&user("go")).unwrap();
    observe(&session, vec![end()]);
    assert_eq!(types(session.path()), ["session", "run_start", "message", "run_end"]);
}

#[test]
fn records_waiting_for_the_first_message_are_bounded() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    for _ in 0..10_000 {
        observe(&session, vec![retry("busy")]);
    }
    session.append(&user("go")).unwrap();
    assert!(types(session.path()).len() < 100);
}

#[test]
fn failing_to_record_an_event_is_not_an_error() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl/b.jsonl"), workspace());
    std::fs::write(directory.path().join("a.jsonl"), "a file in the place of a directory").unwrap();
    observe(&session, vec![start(session.id()), end()]);
    assert!(session.append(&user("go")).is_err());
}

fn ledger() -> Ledger {
    Ledger { plugin: "fs".into(), generation: 1, fuel: 1_500, time_us: 250, files: 1, ..Ledger::default() }
}

/// The end of a call of the tool `read`, with its ledger.
fn call_end(call_id: &str) -> EventKind {
    EventKind::ToolExecutionEnd {
        call_id: call_id.into(),
        tool: "read".into(),
        is_error: false,
        content: Vec::new(),
        details: None,
        display: Display::default(),
        ledger: Some(ledger()),
        child_run_id: None,
    }
}

#[test]
fn ledger_of_a_call_is_recorded_before_its_result() {
    let root = TempDir::new().unwrap();
    let session = Session::begin(&root.path().join("a.jsonl"), workspace());
    session.append(&user("go")).unwrap();
    session.append(&calls(&["c1"])).unwrap();
    observe(&session, vec![call_end("c1")]);
    session.append(&result("c1")).unwrap();
    assert_eq!(types(session.path()), ["session", "message", "message", "ledger", "message"]);
    let entry = Transcript::open(session.path()).unwrap().branch().nth(2).unwrap().unwrap();
    let expected = CallLedger {
        run_id: "s.c.1".into(),
        call_id: "c1".into(),
        tool: "read".into(),
        ledger: ledger(),
        display: Display::Plain,
    };
    assert_eq!(entry.payload, Payload::Record(Record::CallLedger(expected)));
}

#[test]
fn call_without_a_ledger_leaves_no_record() {
    let root = TempDir::new().unwrap();
    let session = Session::begin(&root.path().join("a.jsonl"), workspace());
    session.append(&user("go")).unwrap();
    let mut denied = call_end("c1");
    if let EventKind::ToolExecutionEnd { ledger, .. } = &mut denied {
        *ledger = None;
    }
    observe(&session, vec![denied]);
    assert_eq!(types(session.path()), ["session", "message"]);
}

#[test]
fn ledgers_are_shown_with_their_calls() {
    let root = TempDir::new().unwrap();
    let session = Session::begin(&root.path().join("a.jsonl"), workspace());
    session.append(&user("go")).unwrap();
    session.append(&calls(&["c1", "c2"])).unwrap();
    for call_id in ["c2", "c1"] {
        observe(&session, vec![call_end(call_id)]);
        session.append(&result(call_id)).unwrap();
    }
    let mut transcript = Transcript::open(session.path()).unwrap();
    let mut texts = [Vec::new(), Vec::new(), Vec::new()];
    let [html, markdown, terminal] = &mut texts;
    export(&mut transcript, ExportFormat::Html, html).unwrap();
    export(&mut transcript, ExportFormat::Markdown, markdown).unwrap();
    render(&mut transcript, terminal).unwrap();
    for text in texts.map(|text| String::from_utf8(text).unwrap().replace('\\', "")) {
        let account = "fs #1 · 0.25 ms · 1.5 k fuel · 0 B memory · 0 host calls · 1 file";
        let places: Vec<usize> = text.match_indices(account).map(|(at, _)| at).collect();
        let results: Vec<usize> = text.match_indices("line one").map(|(at, _)| at).collect();
        assert_eq!((places.len(), results.len()), (2, 2), "{text}");
        assert!(results[0] < places[0] && places[0] < results[1] && results[1] < places[1], "{text}");
    }
}

#[test]
fn ledger_of_a_parallel_branch_stays_on_that_branch() {
    let root = TempDir::new().unwrap();
    let session = Arc::new(Session::begin(&root.path().join("a.jsonl"), workspace()));
    session.append(&user("go")).unwrap();
    let names = ["s.a.1".to_owned(), "s.b.2".to_owned()];
    let group = session.clone().begin_group("g", &names).unwrap().unwrap();
    for (number, call_id) in ["c1", "c2"].into_iter().enumerate() {
        let branch = group.branch(number);
        branch.append(&calls(&[call_id])).unwrap();
        branch.observe(&names[number].as_str().into(), &call_end(call_id));
        branch.append(&result(call_id)).unwrap();
    }
    group.end(Some(1), ChoiceAccount::default()).unwrap();
    let branch: Vec<_> = Transcript::open(session.path()).unwrap().branch().map(Result::unwrap).collect();
    let ledgers: Vec<&str> = branch
        .iter()
        .filter_map(|entry| match &entry.payload {
            Payload::Record(Record::CallLedger(ledger)) => Some(ledger.call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ledgers, ["c2"]);
}

#[test]
fn sub_agent_session_is_beside_its_parent_and_names_the_call() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.append(&calls(&["7"])).unwrap();
    let call = pinion_protocol::ChildCall { call_id: "7", tool: "task", agent_id: "reader", run_id: "s.c.1" };
    let child = session.child(call).unwrap();
    child.store.append(&user("look")).unwrap();
    let listing = crate::SessionDirectory::new(directory.path()).children(session.path()).unwrap();
    let header = Transcript::open(&listing.sessions[0].path).unwrap().header().unwrap().clone();
    let spawn = header.spawned_by.unwrap();
    assert_eq!(header.agent_id.as_deref(), Some("reader"));
    assert_eq!((header.id.as_str(), spawn.entry), (&*child.id, session.position()));
    assert_eq!((spawn.session.as_str(), spawn.call_id.as_str(), spawn.tool.as_str()), (session.id(), "7", "task"));
}

#[test]
fn messages_are_kept_in_order() {
    let session = MemorySession::new();
    session.append(&user("one")).unwrap();
    session.append(&user("two")).unwrap();
    assert_eq!(session.messages(), [user("one"), user("two")]);
}
