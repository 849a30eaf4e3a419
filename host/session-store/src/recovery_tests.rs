use super::*;
use crate::error::SessionErrorKind;
use crate::testing::{calls, conversation, result, user, workspace, write_session};
use pinion_protocol::{ChoiceAccount, SessionStore as _};
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

fn torn_files(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".torn-"))
        .collect();
    found.sort();
    found
}

fn open(path: &Path) -> ResumableSession {
    open_to_continue(path, workspace()).unwrap()
}

/// Returns the expected messages of a conversation that lost its last lines.
fn paired(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut messages = messages.to_vec();
    repair_pairing(&mut messages, format::now());
    messages
}

/// Returns whether messages are equal, apart from the times of added results.
fn same(left: &[Arc<Message>], right: &[Arc<Message>]) -> bool {
    let timeless = |message: &Arc<Message>| match &**message {
        Message::ToolResult(result) if result.is_error => Message::ToolResult(pinion_protocol::ToolResultMessage {
            timestamp: jiff::Timestamp::UNIX_EPOCH,
            ..result.clone()
        }),
        message => message.clone(),
    };
    left.iter().map(timeless).eq(right.iter().map(timeless))
}

#[test]
fn session_cut_at_any_byte_keeps_every_complete_entry() {
    let directory = TempDir::new().unwrap();
    let said = conversation();
    let path = write_session(directory.path(), &said);
    let bytes = fs::read(&path).unwrap();
    // The end of each line, without its newline: from there on the line is complete.
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();

    for cut in 0..=bytes.len() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(path.file_name().unwrap());
        fs::write(&path, &bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let expected = paired(&said[..whole.saturating_sub(1)]);
        let rest = match whole.checked_sub(1).map(|last| ends[last]) {
            Some(end) => bytes.get(end + 1..cut).unwrap_or_default(),
            None => &bytes[..cut],
        };

        let opened = open(&path);
        assert!(same(&opened.messages, &expected), "cut at {cut}");
        assert_eq!(opened.recovery.bad_lines.count(), 0, "cut at {cut}");
        assert_eq!(opened.recovery.torn.is_some(), !rest.is_empty(), "cut at {cut}");
        let aside = torn_files(directory.path());
        assert_eq!(aside.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>().concat(), rest, "cut at {cut}");

        opened.session.append(&user("and on")).unwrap();
        drop(opened);
        let again = open(&path);
        assert!(same(&again.messages[..expected.len()], &expected), "cut at {cut}");
        assert_eq!(again.messages[expected.len()..], [user("and on")], "cut at {cut}");
        assert_eq!(again.recovery, Recovery::default(), "cut at {cut}");
        assert_eq!(again.session.header().workspace, workspace(), "cut at {cut}");
    }
}

#[test]
fn session_torn_twice_keeps_both_parts() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("one")]);
    for rest in ["{\"id\":\"2\"", "{\"id\":\"2\",\"par"] {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(rest.as_bytes());
        fs::write(&path, bytes).unwrap();
        assert_eq!(open(&path).messages, [user("one")]);
    }
    let rests: Vec<_> = torn_files(directory.path()).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(rests, ["{\"id\":\"2\"", "{\"id\":\"2\",\"par"]);
}

#[test]
fn broken_line_costs_only_its_entry() {
    let said = conversation();
    for broken in 0..said.len() {
        for garbage in ["", "\u{0}\u{0}", "{\"id\":", "[]", "{\"id\":\"!\"}"] {
            let directory = TempDir::new().unwrap();
            let path = write_session(directory.path(), &said);
            let text = fs::read_to_string(&path).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let cut_short = &lines[broken + 1][..lines[broken + 1].len() - 1];
            lines[broken + 1] = if garbage.is_empty() { cut_short } else { garbage };
            fs::write(&path, lines.join("\n") + "\n").unwrap();

            let mut left = said.clone();
            left.remove(broken);
            let opened = open(&path);
            assert!(same(&opened.messages, &paired(&left)), "{broken} {garbage:?}");
            assert_eq!(opened.recovery.bad_lines.count(), 1);
            assert_eq!(opened.recovery.bad_lines.first()[0].line, broken as u64 + 2);
        }
    }
}

#[test]
fn interrupted_calls_are_answered_once() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("go"), calls(&["1", "2"]), result("2")]);
    let opened = open(&path);
    assert_eq!(opened.recovery.pairing.at_end, 1);
    assert_eq!(opened.recovery.notices(), ["interrupted tool calls: 1"]);
    let messages = opened.messages.clone();
    // Results are in the order of the calls.
    let Message::ToolResult(added) = &*messages[2] else { panic!() };
    assert_eq!((added.call_id.as_str(), added.tool_name.as_str(), added.is_error), ("1", "read", true));
    drop(opened);
    let again = open(&path);
    assert_eq!(again.messages, messages);
    assert_eq!(again.recovery, Recovery::default());
}

#[test]
fn second_writer_gets_the_holder_and_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &conversation());
    let first = open(&path);
    let error = open_to_continue(&path, workspace()).unwrap_err();
    assert!(matches!(error.kind, SessionErrorKind::Locked { .. }), "{error}");
    assert_eq!(Transcript::open(&path).unwrap().branch().count(), conversation().len());
    drop(first);
    open(&path);
}

#[test]
fn new_session_is_locked() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    session.append(&user("one")).unwrap();
    assert!(matches!(open_to_continue(&path, workspace()).unwrap_err().kind, SessionErrorKind::Locked { .. }));
}

#[test]
fn file_that_is_not_a_session_is_left_untouched() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("notes.txt");
    fs::write(&path, "my notes,\nunfinished").unwrap();
    assert!(matches!(open_to_continue(&path, workspace()).unwrap_err().kind, SessionErrorKind::Corrupt));
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes,\nunfinished");
    assert!(torn_files(directory.path()).is_empty());
    assert!(matches!(open_to_continue(directory.path(), workspace()).unwrap_err().kind, SessionErrorKind::Corrupt));
}

#[test]
fn session_of_a_newer_version_is_left_untouched() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("new.jsonl");
    let text = "{\"type\":\"session\",\"version\":2}\n{\"torn";
    fs::write(&path, text).unwrap();
    assert!(matches!(
        open_to_continue(&path, workspace()).unwrap_err().kind,
        SessionErrorKind::UnsupportedVersion { found: 2 }
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn entries_of_a_newer_program_are_skipped_and_kept() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("one")]);
    let label = r#"{"id":"2","parent":"1","time":"2026-01-02T03:04:05Z","type":"label","data":{"text":"here"}}"#;
    let text = fs::read_to_string(&path).unwrap() + label + "\n";
    fs::write(&path, &text).unwrap();
    let opened = open(&path);
    opened.session.append(&user("two")).unwrap();
    let now = fs::read_to_string(&path).unwrap();
    assert!(now.starts_with(&text));
    assert!(now[text.len()..].starts_with(r#"{"id":"3","parent":"2","#), "{now}");
    drop(opened);
    assert_eq!(open(&path).messages, [user("one"), user("two")]);
}

/// Messages in short: `u`ser, `a`ssistant with its calls, `r`esult, `!` for an error.
fn short(messages: &[Arc<Message>]) -> String {
    let words = messages.iter().map(|message| match &**message {
        Message::ToolResult(result) => format!("{}{}", if result.is_error { '!' } else { 'r' }, result.call_id),
        Message::Assistant(reply) => format!("a{}", reply.tool_calls().map(|c| c.id.as_str()).collect::<String>()),
        _ => "u".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn kill_during_a_long_call_keeps_the_results_that_arrived() {
    let root = TempDir::new().unwrap();
    let path = write_session(root.path(), &[user("go"), calls(&["1", "2", "3"]), result("3"), result("2")]);
    let opened = open(&path);
    assert_eq!(short(&opened.messages), "u a123 !1 r2 r3");
    assert_eq!(opened.recovery.pairing.at_end, 1);
    opened.session.append(&user("on")).unwrap();
    drop(opened);
    assert_eq!(short(&open(&path).messages), "u a123 !1 r2 r3 u");
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
}

fn any_damage() -> impl Strategy<Value = Vec<Damage>> {
    let damage = prop_oneof![
        4 => (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        1 => (any::<usize>(), any::<Vec<u8>>()).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (any::<usize>(), 0..200_usize).prop_map(|(at, length)| Damage::Remove(at, length)),
    ];
    prop::collection::vec(damage, 1..8)
}

fn apply(bytes: &mut Vec<u8>, damage: &[Damage]) {
    for step in damage {
        let place = |at: &usize, length: usize| if length == 0 { 0 } else { at % length };
        match step {
            Damage::Flip(at, mask) => {
                let at = place(at, bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= mask;
                }
            }
            Damage::Insert(at, inserted) => {
                let at = place(at, bytes.len());
                bytes.splice(at..at, inserted.iter().copied());
            }
            Damage::Remove(at, length) => {
                let at = place(at, bytes.len());
                bytes.drain(at..(at + length).min(bytes.len()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// No damage causes a panic, and a session that opens once opens again with the same messages and accepts more.
    #[test]
    fn damaged_session_reopens_with_the_same_messages(damage in any_damage()) {
        let directory = TempDir::new().unwrap();
        let path = write_session(directory.path(), &conversation());
        let mut bytes = fs::read(&path).unwrap();
        apply(&mut bytes, &damage);
        fs::write(&path, &bytes).unwrap();

        let _ = crate::render(&mut match Transcript::open(&path) {
            Ok(transcript) => transcript,
            Err(_) => return Ok(()),
        }, &mut Vec::new());
        let Ok(opened) = open_to_continue(&path, workspace()) else {
            return Err(TestCaseError::fail("could be read and not continued"));
        };
        opened.session.append(&user("and on")).unwrap();
        let mut expected = opened.messages.clone();
        expected.push(user("and on"));
        drop(opened);
        let again = open_to_continue(&path, workspace()).unwrap();
        prop_assert!(same(&again.messages, &expected));
        prop_assert!(again.recovery.torn.is_none());
        prop_assert_eq!(again.recovery.pairing.at_end, 0);
    }
}

/// Begins a group after a run; two runs answer and a judge decides.
fn judged(directory: &TempDir, chosen: Option<usize>) -> PathBuf {
    let path = directory.path().join("a.jsonl");
    let session = Arc::new(Session::begin(&path, workspace()));
    session.append(&user("first")).unwrap();
    let start = |run_id: &str| {
        let start = RunStarted { run_id: run_id.into(), provider: Some("p".into()), ..RunStarted::default() };
        session.record(&Record::RunStarted(start)).unwrap();
    };
    start("s.m.1");
    let ids = ["s.m.2".to_owned(), "s.m.3".to_owned()];
    let group = session.clone().begin_group("g", &ids).unwrap().unwrap();
    ids.iter().for_each(|id| start(id));
    (0..2).for_each(|side| group.branch(side).append(&user("second")).unwrap());
    if let Some(chosen) = chosen {
        let usage = pinion_protocol::Usage { input: 7, ..Default::default() };
        let spend = pinion_protocol::Spend { usage, cost: Some(Default::default()) };
        let runs = [("m".to_owned(), 4)].into_iter().collect();
        group.end(Some(chosen), ChoiceAccount { runs, turns: 1, spend }).unwrap();
    }
    path
}

#[test]
fn conversation_continues_the_run_that_its_group_chose() {
    let directory = TempDir::new().unwrap();
    let opened = open(&judged(&directory, Some(1)));
    let last = opened.last_run.unwrap();
    assert_eq!((last.run_id.as_str(), last.provider.as_deref()), ("s.m.3", Some("p")));
    // The judge's run counts, and its tokens do.
    assert_eq!(opened.runs.next("m"), 5);
    assert_eq!((opened.totals.requests, opened.totals.spend.usage.input), (1, 7));
    assert!(opened.totals.spend.cost.is_some());
}

#[test]
fn conversation_continues_the_run_before_a_group_that_was_killed() {
    let directory = TempDir::new().unwrap();
    let path = judged(&directory, None);
    let opened = open(&path);
    assert_eq!((opened.last_run.unwrap().run_id.as_str(), opened.runs.next("m")), ("s.m.1", 4));
    // A further run is the last one, although the group never ended.
    let next = RunStarted { run_id: "s.m.4".into(), ..RunStarted::default() };
    opened.session.record(&Record::RunStarted(next)).unwrap();
    drop(opened.session);
    assert_eq!(open(&path).last_run.unwrap().run_id, "s.m.4");
}
