//! Growth of sessions: time and peak memory to append to, open, list, show, fork and export sessions of 1,000, 10,000
//! and 100,000 entries of 1 KB, along with the time to read the same file and to parse its lines into nothing.
//!
//! `cargo bench -p pinion-session-store --bench scale`. Each time is the best of five. Peaks are of the process, above
//! its memory before, and only on Linux.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that fails has no result, and prints the others")]

mod shared;

use pinion_protocol::{SessionStore, view};
use pinion_session_store::record::RunStarted;
use pinion_session_store::{
    ExportFormat, ListScope, Record, Session, SessionDirectory, Transcript, export, open_to_continue,
};
use serde::de::IgnoredAny;
use shared::message;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WORKSPACE: &str = "/home/me/project";
const TRIES: usize = 5;

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    for entries in [1_000, 10_000, 100_000] {
        let root = TempDir::new().unwrap();
        let directory = SessionDirectory::new(root.path());
        let session = directory.begin(Path::new(WORKSPACE));
        let appending = Instant::now();
        write(&session, entries);
        let per_append = appending.elapsed() / u32::try_from(entries).unwrap();
        let path = session.path().to_owned();
        drop(session);
        let megabytes = fs::metadata(&path).unwrap().len() as f64 / 1e6;
        println!("\n{entries} entries, {megabytes:.1} MB; appended in {:.1} µs each", per_append.as_secs_f64() * 1e6);
        measure("limit: read the file", || drop(black_box(fs::read(&path).unwrap())));
        measure("limit: read, parse each line to nothing", || parse_to_nothing(&path));
        measure("open to read", || drop(black_box(Transcript::open(&path).unwrap())));
        measure("open, list the branches", || drop(black_box(Transcript::open(&path).unwrap().branches())));
        measure("open, list the runs", || drop(black_box(Transcript::open(&path).unwrap().runs().unwrap())));
        measure("open to continue, all messages", || drop(open_to_continue(&path, Path::new(WORKSPACE)).unwrap()));
        measure("open to continue, what the model sees", || {
            drop(black_box(view(open_to_continue(&path, Path::new(WORKSPACE)).unwrap().messages)));
        });
        measure("list", || assert_eq!(directory.list(ListScope::All).unwrap().sessions.len(), 1));
        measure("fork", || fs::remove_file(directory.fork(&path, None, Path::new(WORKSPACE)).unwrap()).unwrap());
        measure("export to HTML", || written(&path, ExportFormat::Html));
        measure("export to Markdown", || written(&path, ExportFormat::Markdown));
    }
}

/// Writes a conversation of user, call, result and reply in turn.
fn write(session: &Session, entries: usize) {
    session.record(&Record::RunStarted(RunStarted { run_id: "s.c.1".into(), ..RunStarted::default() })).unwrap();
    for number in 0..entries - 1 {
        session.append(&message(number, 792)).unwrap();
    }
}

fn parse_to_nothing(path: &Path) {
    for line in fs::read(path).unwrap().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let _: IgnoredAny = serde_json::from_slice(black_box(line)).unwrap();
    }
}

fn written(path: &Path, format: ExportFormat) {
    export(&mut Transcript::open(path).unwrap(), format, &mut io::sink()).unwrap();
}

fn measure(what: &str, mut run: impl FnMut()) {
    let before = forget_peak();
    let best = (0..TRIES)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed()
        })
        .min()
        .unwrap_or(Duration::ZERO);
    let above = before.zip(memory("VmHWM:")).map_or(f64::NAN, |(before, peak)| peak - before);
    println!("  {what:<40} {:>9.2} ms  {above:>7.1} MB", best.as_secs_f64() * 1e3);
}

/// Resets the peak. Returns the memory of the process, in MB.
fn forget_peak() -> Option<f64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    memory("VmRSS:")
}

fn memory(what: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(what))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes / 1024.0)
}
