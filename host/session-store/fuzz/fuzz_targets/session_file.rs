//! Any bytes as a session file: a file that can be read can be continued, exported and forked, a session that opened
//! once opens again with the same messages, and nothing panics.
//!
//! `cargo +nightly fuzz run session_file -- -max_len=4096`

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinion_session_store::{ExportFormat, SessionDirectory, Transcript, export, open_to_continue, render};
use std::fs;
use std::io;
use std::path::Path;

/// Comes before the input, so that the fuzzer does not have to find a header first.
const HEADER: &str = "{\"type\":\"session\",\"version\":1,\"id\":\"x\",\"workspace\":\"/w\",\"created\":\"2026-01-02T03:04:05Z\"}\n";

fuzz_target!(|input: &[u8]| {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), "bare", input);
    check(directory.path(), "headed", &[HEADER.as_bytes(), input].concat());
});

fn check(directory: &Path, name: &str, bytes: &[u8]) {
    let path = directory.join(format!("{name}.jsonl"));
    fs::write(&path, bytes).unwrap();
    let Ok(mut transcript) = Transcript::open(&path) else { return };
    render(&mut transcript, &mut io::sink()).unwrap();
    export(&mut transcript, ExportFormat::Html, &mut io::sink()).unwrap();
    export(&mut transcript, ExportFormat::Markdown, &mut io::sink()).unwrap();
    transcript.runs().unwrap();
    let sessions = SessionDirectory::new(directory.join("sessions"));
    let tips: Vec<_> = transcript.branches().iter().map(|branch| branch.leaf).collect();
    for tip in tips.into_iter().take(3) {
        sessions.fork(&path, Some(tip), Path::new("/w")).unwrap();
    }
    let first = open_to_continue(&path, Path::new("/w")).unwrap().messages;
    let again = open_to_continue(&path, Path::new("/w")).unwrap();
    assert_eq!(again.messages, first);
    assert!(again.recovery.torn.is_none());
}
