use super::*;
use crate::log::testing::DiskFile;
use crate::record::{Retry, RunStarted};
use crate::recovery::open_to_continue;
use crate::testing::{assistant, calls, conversation, prompts_of, result, time, user, workspace};
use pinion_protocol::{COMPACTION_MESSAGE, Content, ExtensionMessage, SessionStore as _, view};
use std::fs;
use std::io;
use tempfile::TempDir;

#[test]
fn session_without_messages_leaves_no_file() {
    let directory = TempDir::new().unwrap();
    let session = Session::begin(&directory.path().join("project/a.jsonl"), workspace());
    session.sync().unwrap();
    drop(session);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn message_is_in_the_file_when_append_returns() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    for (index, message) in conversation().iter().enumerate() {
        session.append(message).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with('\n'));
        assert_eq!(text.lines().count(), index + 2);
    }
    session.sync().unwrap();
}

#[test]
fn entries_follow_each_other_across_openings() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    Session::begin(&path, workspace()).append(&user("1")).unwrap();
    for text in ["2", "3"] {
        open_to_continue(&path, workspace()).unwrap().session.append(&user(text)).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let links: Vec<&str> = text.lines().skip(1).map(|line| &line[..line.find(",\"time\"").unwrap()]).collect();
    assert_eq!(links, [r#"{"id":"1","parent":null"#, r#"{"id":"2","parent":"1""#, r#"{"id":"3","parent":"2""#]);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_session() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions/project/a.jsonl");
    Session::begin(&path, workspace()).append(&user("secret")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn existing_file_is_not_overwritten() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    fs::write(&path, "mine").unwrap();
    let error = Session::begin(&path, workspace()).append(&user("1")).unwrap_err();
    assert_eq!(error.to_string(), format!("could not write the session: could not create `{}`", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn session_continues_after_a_failed_append() {
    let file = DiskFile::default();
    file.0.lock().unwrap().space = 600;
    let session = Session::begin(Path::new("/s.jsonl"), workspace());
    session.lock().log = Some(Log::new(file.clone(), 0));

    session.append(&user("one")).unwrap();
    let before = file.0.lock().unwrap().bytes.clone();
    let error = session.append(&user(&"long ".repeat(100))).unwrap_err();
    assert_eq!(error.to_string(), "could not write the session: could not append to `/s.jsonl`");
    assert_eq!(error.source.unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.0.lock().unwrap().bytes, before);

    session.append(&user("two")).unwrap();
    let text = String::from_utf8(file.0.lock().unwrap().bytes.clone()).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.lines().last().unwrap().starts_with(r#"{"id":"2","parent":"1","#));
}

#[cfg(unix)]
#[test]
fn session_taken_away_while_in_use_is_reported() {
    let taken = |how: &str, take: fn(&Path)| {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("project/a.jsonl");
        let session = Session::begin(&path, workspace());
        session.append(&user("one")).unwrap();
        assert_eq!(session.failure(), None);
        take(&path);
        assert!(session.sync().unwrap_err().to_string().ends_with(how));
        assert!(session.append(&user("two")).unwrap_err().to_string().ends_with(how));
        assert!(session.failure().unwrap().ends_with(how));
    };
    taken("was deleted while it was in use", |path| fs::remove_file(path).unwrap());
    taken("was deleted while it was in use", |path| fs::remove_dir_all(path.parent().unwrap()).unwrap());
    taken("was replaced while it was in use", |path| {
        fs::copy(path, path.with_extension("new")).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    });
    taken("was truncated while it was in use", |path| {
        fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap()
    });
}

/// Each thread writes complete lines with distinct ids.
#[test]
fn messages_may_come_from_many_threads() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let session = &session;
            scope.spawn(move || {
                for number in 0..50 {
                    session.append(&user(&format!("{thread}.{number}"))).unwrap();
                }
            });
        }
    });
    drop(session);
    let opened = open_to_continue(&path, workspace()).unwrap();
    assert_eq!((opened.messages.len(), opened.recovery.bad_lines.count()), (200, 0));
}

/// Creates a session with these prompts.
fn prompts(directory: &TempDir, texts: &[&str]) -> Session {
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    for text in texts {
        session.append(&user(text)).unwrap();
    }
    session
}

fn id(text: &str) -> Option<EntryId> {
    Some(text.parse().unwrap())
}

#[test]
fn going_back_starts_a_branch_and_keeps_the_other() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["one", "two", "three"]);
    assert_eq!(session.go_back(id("1")).unwrap(), [user("one")]);
    session.append(&user("another two")).unwrap();
    let mut transcript = Transcript::open(session.path()).unwrap();
    assert_eq!(prompts_of(transcript.branch()), ["one", "another two"]);
    let branches = transcript.branches();
    assert_eq!((branches.len(), branches[1].from, branches[1].entries), (2, id("1"), 2));
    assert_eq!(prompts_of(transcript.branch_to(branches[1].leaf).unwrap()), ["one", "two", "three"]);
    let prompt = transcript.prompt_of(&branches[1]).unwrap();
    assert_eq!(prompt.content[0].as_text(), Some("two"));
}

#[test]
fn position_survives_reopening_without_new_messages() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["one", "two"]);
    session.go_back(id("1")).unwrap();
    drop(session);
    let path = directory.path().join("a.jsonl");
    let opened = open_to_continue(&path, workspace()).unwrap();
    assert_eq!((opened.messages, opened.session.position()), (vec![user("one")], id("1")));
    assert_eq!(opened.session.go_back(None).unwrap(), []);
    drop(opened.session);
    let opened = open_to_continue(&path, workspace()).unwrap();
    assert_eq!((opened.messages.len(), opened.session.position()), (0, None));
    opened.session.append(&user("again")).unwrap();
    assert_eq!(prompts_of(Transcript::open(&path).unwrap().branch()), ["again"]);
}

#[test]
fn going_back_to_the_position_writes_nothing() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["one"]);
    let before = fs::read(session.path()).unwrap();
    assert_eq!(session.go_back(id("1")).unwrap(), [user("one")]);
    assert_eq!(fs::read(session.path()).unwrap(), before);
}

#[test]
fn going_back_to_an_unknown_entry_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["one"]);
    let error = session.go_back(id("9")).unwrap_err();
    assert_eq!(error.to_string(), format!("session `{}` has no entry `9`", session.path().display()));
    assert_eq!(session.position(), id("1"));
    let unsaid = Session::begin(&directory.path().join("b.jsonl"), workspace());
    assert!(matches!(unsaid.go_back(id("1")).unwrap_err().kind, SessionErrorKind::UnknownEntry { .. }));
}

#[test]
fn going_back_into_a_turn_answers_its_open_calls() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["go"]);
    for message in [calls(&["1", "2"]), result("1"), result("2"), Arc::new(assistant(vec![Content::text("done")]))] {
        session.append(&message).unwrap();
    }
    let messages = session.go_back(id("3")).unwrap();
    let Message::ToolResult(added) = &*messages[3] else { panic!() };
    assert_eq!((messages.len(), added.call_id.as_str(), added.is_error), (4, "2", true));
    assert_eq!(added.content[0].as_text(), Some(LEFT_BEHIND));
    drop(session);
    let opened = open_to_continue(&directory.path().join("a.jsonl"), workspace()).unwrap();
    assert_eq!((opened.messages, opened.recovery), (messages, crate::Recovery::default()));
}

#[test]
fn records_stay_in_place_and_out_of_the_messages() {
    let directory = TempDir::new().unwrap();
    let session = prompts(&directory, &["one"]);
    let start = RunStarted { run_id: "s.c.1".into(), model: Some("m".into()), ..RunStarted::default() };
    let retry = Retry { run_id: "s.c.1".into(), attempt: 1, max_attempts: 3, delay_ms: 10, cause: "busy".into() };
    session.record(&Record::RunStarted(start.clone())).unwrap();
    session.record(&Record::Retry(retry.clone())).unwrap();
    session.append(&user("two")).unwrap();
    drop(session);
    let path = directory.path().join("a.jsonl");
    let mut transcript = Transcript::open(&path).unwrap();
    let records: Vec<_> = transcript
        .branch()
        .filter_map(|entry| match entry.unwrap().payload {
            crate::Payload::Record(record) => Some(record),
            _ => None,
        })
        .collect();
    assert_eq!(records, [Record::RunStarted(start.clone()), Record::Retry(retry)]);
    let opened = open_to_continue(&path, workspace()).unwrap();
    assert_eq!(opened.messages, [user("one"), user("two")]);
    assert_eq!((opened.runs.total(), opened.last_run), (1, Some(start)));
}

#[test]
fn view_ignores_compactions_on_other_branches() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    session.append(&user("one")).unwrap();
    session.append(&user("two")).unwrap();
    let before = session.position();
    let compaction = ExtensionMessage {
        kind: COMPACTION_MESSAGE.into(),
        data: serde_json::json!({ "summary": "in short", "kept": 1 }),
        timestamp: time(),
    };
    session.append(&Arc::new(Message::Extension(compaction))).unwrap();
    session.append(&user("three")).unwrap();
    let after = session.position();
    let text = |message: &Arc<Message>| match &**message {
        Message::User(message) => message.content[0].as_text().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let seen = |messages| view(messages).iter().map(text).collect::<Vec<_>>();
    let whole = session.go_back(before).unwrap();
    session.append(&user("another three")).unwrap();
    assert_eq!(seen(whole), ["one", "two"]);
    let shorter = session.go_back(after).unwrap();
    let shown = seen(shorter);
    assert!(shown[0].ends_with("in short"), "{shown:?}");
    assert_eq!(shown[1..], ["two", "three"]);
    drop(session);
    assert_eq!(seen(open_to_continue(&path, workspace()).unwrap().messages), shown);
}
