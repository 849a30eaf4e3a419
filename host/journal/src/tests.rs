//! A journal that is written and read again.

use crate::event::{CallOutcome, CallRecord, ImportRecord, InstanceStart, JournalEvent, JournalValue};
use crate::reader::{journal_files, read_journal};
use crate::writer::{JournalMode, JournalSink as _, JournalWriter};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn start() -> JournalEvent {
    JournalEvent::Instance(InstanceStart {
        instance: 1,
        plugin: "fs".to_owned(),
        component: "00".repeat(32),
        generation: 1,
        settings: "{\"key\":\"open sesame\"}".to_owned(),
        memory_limit: 1 << 20,
    })
}

fn call(content: &[u8]) -> JournalEvent {
    JournalEvent::Call(CallRecord {
        instance: 1,
        session: "s".to_owned(),
        export: "pinion:plugin/tools#call-tool".to_owned(),
        grants: Vec::new(),
        arguments: JournalValue::Bytes(b"a".to_vec()),
        imports: vec![ImportRecord {
            name: "pinion:plugin/workspace#read-text".to_owned(),
            arguments: JournalValue::Bytes(b"path".to_vec()),
            outcome: CallOutcome::Returned(JournalValue::Bytes(content.to_vec())),
        }],
        outcome: CallOutcome::Returned(JournalValue::Bytes(content.to_vec())),
        fuel_limit: 10,
        fuel: 3,
        unrecorded: None,
    })
}

fn write(directory: &Path, mode: JournalMode, events: &[JournalEvent]) {
    let mask = |bytes: &mut [u8]| {
        let secret = b"open sesame";
        if let Some(at) = bytes.windows(secret.len()).position(|window| window == secret) {
            bytes[at..at + secret.len()].fill(b'*');
        }
    };
    let writer = JournalWriter::start(mode, Box::new(mask)).unwrap();
    writer.begin(Some(directory));
    events.iter().for_each(|event| writer.record(event.clone()));
    writer.flush();
}

#[test]
fn entries_are_read_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let large = vec![7; 5000];
    let events = [start(), call(b"small"), call(&large), call(&large)];
    write(directory.path(), JournalMode::On, &events[1..]);
    let files = journal_files(directory.path()).unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(read_journal(&files[0]).unwrap(), events[1..]);
}

#[test]
fn journal_without_references_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0001.calls");
    let mut encoder = DeflateEncoder::new(fs::File::create(&path).unwrap(), Compression::default());
    for event in [call(b"one"), call(b"two")] {
        let encoded = postcard::to_stdvec(&event).unwrap();
        encoder.write_all(&u32::try_from(encoded.len()).unwrap().to_le_bytes()).unwrap();
        encoder.write_all(&encoded).unwrap();
    }
    encoder.finish().unwrap();
    assert_eq!(read_journal(&path).unwrap(), [call(b"one"), call(b"two")]);
}

#[test]
fn files_that_are_read_again_take_little_space() {
    let directory = tempfile::tempdir().unwrap();
    // Parts of a file that each begin differently, and are longer than the window of DEFLATE.
    let file: Vec<u8> = (0..20_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let calls: Vec<_> = (0..20).map(|number| call(&file[number * 7..])).collect();
    let writer = JournalWriter::start(JournalMode::On, Box::new(|_: &mut [u8]| ())).unwrap();
    writer.begin(Some(directory.path()));
    calls.iter().for_each(|call| writer.record(call.clone()));
    // While the writer lives, so that only the flush has written.
    writer.flush();
    let path = &journal_files(directory.path()).unwrap()[0];
    let events = read_journal(path).unwrap();
    assert_eq!(events.len(), calls.len());
    let different = events.iter().zip(&calls).position(|(read, written)| read != written);
    assert_eq!(different, None);
    let length = fs::metadata(path).unwrap().len();
    assert!(length < 2 * 80_000, "{length}");
}

/// A text whose lines differ, with line endings of both kinds.
fn text(seed: usize) -> String {
    (0..200)
        .map(|line| format!("{:x}: a line of \"{seed}\"\t{}\r\n\n", (line + seed * 977) * 48_271, line * 31))
        .collect()
}

/// Writes a journal of calls, and the session's file with their results as JSON strings. Returns the journal.
fn write_with_session(directory: &Path, texts: &[String]) -> PathBuf {
    let (session, journal) = (directory.join("s.jsonl"), directory.join("s/journal"));
    let writer = JournalWriter::start(JournalMode::On, Box::new(|_: &mut [u8]| ())).unwrap();
    writer.begin_for_session(&journal, &session);
    for text in texts {
        // The result is in the session after the end of the call.
        writer.record(call(text.as_bytes()));
        let escaped = text.replace('"', "\\\"").replace('\t', "\\t").replace('\r', "\\r").replace('\n', "\\n");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&session).unwrap();
        writeln!(file, "{{\"text\":\"{escaped}\"}}").unwrap();
    }
    writer.finish().unwrap();
    journal_files(&journal).unwrap().remove(0)
}

#[test]
fn texts_of_the_session_are_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..20).map(text).collect();
    let journal = write_with_session(directory.path(), &texts);
    let expected: Vec<_> = texts.iter().map(|text| call(text.as_bytes())).collect();
    assert_eq!(read_journal(&journal).unwrap(), expected);
    let (size, session) =
        (fs::metadata(&journal).unwrap().len(), fs::metadata(directory.path().join("s.jsonl")).unwrap());
    assert!(size * 50 < session.len(), "{size} of {}", session.len());
}

#[test]
fn damaged_line_of_the_session_is_an_error_of_its_call_alone() {
    let directory = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..3).map(text).collect();
    let journal = write_with_session(directory.path(), &texts);
    let session = directory.path().join("s.jsonl");
    let whole = fs::read_to_string(&session).unwrap();
    let returned = |event: &JournalEvent| match event {
        JournalEvent::Call(call) => match &call.outcome {
            CallOutcome::Returned(JournalValue::Bytes(bytes)) => Some(String::from_utf8(bytes.clone()).unwrap()),
            CallOutcome::Returned(JournalValue::Lost(_) | JournalValue::Repeated(_)) => None,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let read = || read_journal(&journal).unwrap().iter().map(returned).collect::<Vec<_>>();
    let [one, two, three] = [0, 1, 2].map(|at| Some(texts[at].clone()));
    assert_eq!(read(), [one.clone(), two.clone(), three.clone()]);
    fs::write(&session, whole.replacen("\"1\\\"", "\"x\\\"", 1)).unwrap();
    assert_eq!(read(), [one.clone(), None, three]);
    let second_end = whole.match_indices('\n').nth(1).unwrap().0;
    fs::write(&session, &whole[..=second_end]).unwrap();
    assert_eq!(read(), [one, two, None]);
    fs::remove_file(&session).unwrap();
    assert_eq!(read(), [None, None, None]);
    let read = read_journal(&journal).unwrap();
    let JournalEvent::Call(first) = &read[0] else { panic!() };
    assert_eq!(first.arguments, JournalValue::Bytes(b"a".to_vec()));
    let CallOutcome::Returned(value) = &first.imports[0].outcome else { panic!() };
    assert!(value.bytes().is_none() && value.is(texts[0].as_bytes()) && !value.is(texts[1].as_bytes()));
}

#[test]
fn journal_of_digests_does_not_refer_to_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let (session, journal) = (directory.path().join("s.jsonl"), directory.path().join("s/journal"));
    fs::write(&session, format!("{}\n", "some text ".repeat(50))).unwrap();
    let writer = JournalWriter::start(JournalMode::Digest, Box::new(|_: &mut [u8]| ())).unwrap();
    writer.begin_for_session(&journal, &session);
    writer.record(call("some text ".repeat(50).as_bytes()));
    writer.finish().unwrap();
    let events = read_journal(&journal_files(&journal).unwrap()[0]).unwrap();
    let [JournalEvent::Call(call)] = events.as_slice() else { panic!("{events:?}") };
    assert!(matches!(call.outcome, CallOutcome::Returned(JournalValue::Digest(..))), "{call:?}");
}

#[test]
fn secrets_do_not_enter() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), JournalMode::On, &[start(), call(b"the key is open sesame, they say")]);
    let events = read_journal(&journal_files(directory.path()).unwrap()[0]).unwrap();
    let text = format!("{events:?}");
    assert!(text.contains("***********"), "{text}");
    assert_eq!(events[1], call(b"the key is ***********, they say"));
}

#[test]
fn torn_journal_is_read_up_to_its_last_complete_entry() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), JournalMode::On, &[call(b"one"), call(b"two")]);
    let path = &journal_files(directory.path()).unwrap()[0];
    let bytes = fs::read(path).unwrap();
    for length in 0..bytes.len() {
        fs::write(path, &bytes[..length]).unwrap();
        let events = read_journal(path).unwrap();
        let expected = [call(b"one"), call(b"two")];
        assert_eq!(events, expected[..events.len()]);
    }
}

#[test]
fn digests_replace_values_and_still_identify_them() {
    let directory = tempfile::tempdir().unwrap();
    let content = vec![9; 4000];
    write(directory.path(), JournalMode::Digest, &[call(&content)]);
    let events = read_journal(&journal_files(directory.path()).unwrap()[0]).unwrap();
    let [JournalEvent::Call(call)] = events.as_slice() else { panic!("{events:?}") };
    let CallOutcome::Returned(value) = &call.outcome else { panic!("{call:?}") };
    assert_eq!(value.bytes(), None);
    assert!(value.is(&content) && !value.is(b"other"));
}

#[test]
fn copied_journal_is_complete_however_slow_the_disk_is() {
    let directory = tempfile::tempdir().unwrap();
    let writer = JournalWriter::start(JournalMode::On, Box::new(|_: &mut [u8]| ())).unwrap();
    writer.begin(Some(directory.path()));
    // More than may wait.
    let calls = (0..80_u8).map(|number| call(&vec![number; 1 << 20]));
    calls.for_each(|call| writer.record_in_full(call));
    writer.flush();
    let events = read_journal(&journal_files(directory.path()).unwrap()[0]).unwrap();
    assert_eq!(events.len(), 80);
    assert_eq!(events[79], call(&vec![79; 1 << 20]));
}

#[test]
fn failed_write_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let in_the_way = directory.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let writer = JournalWriter::start(JournalMode::On, Box::new(|_: &mut [u8]| ())).unwrap();
    writer.begin(Some(&in_the_way.join("journal")));
    writer.record(call(b"lost"));
    assert!(writer.finish().is_err());
    writer.begin(Some(directory.path()));
    writer.record(call(b"kept"));
    assert!(writer.finish().is_ok());
    assert_eq!(read_journal(&journal_files(directory.path()).unwrap()[0]).unwrap(), [call(b"kept")]);
}

#[test]
fn entry_with_more_imports_than_a_call_can_have_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let JournalEvent::Call(mut large) = call(b"") else { panic!() };
    large.imports = vec![large.imports[0].clone(); (1 << 18) + 1];
    write(directory.path(), JournalMode::On, &[call(b"one"), JournalEvent::Call(large)]);
    let events = read_journal(&journal_files(directory.path()).unwrap()[0]).unwrap();
    assert_eq!(events, [call(b"one")]);
}

#[cfg(unix)]
#[test]
fn pipe_in_place_of_a_journal_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0001.calls");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(read_journal(&path).is_err());
}
