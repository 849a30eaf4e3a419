//! Costs of sessions: appending an entry, opening a session, listing a directory.
//!
//! The conversations are of user, call, result and reply in turn. "Large" is 100,000 entries of 1 KB each, 100 MB.

#![allow(clippy::unwrap_used, reason = "a bench that fails has no result")]

mod shared;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pinion_protocol::SessionStore;
use pinion_session_store::{ListScope, Session, SessionDirectory, Transcript, open_to_continue};
use shared::message;
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const WORKSPACE: &str = "/home/me/project";

fn written(directory: &Path, entries: usize, size: usize) -> PathBuf {
    let path = directory.join(format!("{entries}.jsonl"));
    let session = Session::begin(&path, Path::new(WORKSPACE));
    for number in 0..entries {
        session.append(&message(number, size)).unwrap();
    }
    path
}

fn append(criterion: &mut Criterion) {
    let directory = TempDir::new().unwrap();
    for (name, size) in [("append 1 KB", 1_000), ("append 50 KB", 50_000)] {
        let session = Session::begin(&directory.path().join(format!("{size}.jsonl")), Path::new(WORKSPACE));
        let message = message(2, size);
        criterion.bench_function(name, |bencher| bencher.iter(|| session.append(&message).unwrap()));
    }
}

fn open(criterion: &mut Criterion) {
    let directory = TempDir::new().unwrap();
    let mut group = criterion.benchmark_group("open");
    group.sample_size(20);
    for (name, entries) in [("1,000 entries", 1_000), ("10,000 entries", 10_000), ("large", 100_000)] {
        let path = written(directory.path(), entries, 1_000);
        group.bench_function(format!("{name}, to continue"), |bencher| {
            let open = || open_to_continue(&path, Path::new(WORKSPACE)).unwrap();
            bencher.iter_batched(|| (), |()| open(), BatchSize::PerIteration);
        });
        group.bench_function(format!("{name}, to read"), |bencher| {
            bencher.iter(|| Transcript::open(black_box(&path)).unwrap());
        });
        group.bench_function(format!("{name}, shown"), |bencher| {
            bencher.iter(|| {
                let mut transcript = Transcript::open(black_box(&path)).unwrap();
                pinion_session_store::render(&mut transcript, &mut io::sink()).unwrap();
            });
        });
    }
}

fn list(criterion: &mut Criterion) {
    let root = TempDir::new().unwrap();
    let directory = SessionDirectory::new(root.path());
    for number in 0..1_000 {
        let workspace = format!("{WORKSPACE}-{}", number % 10);
        let session = directory.begin(Path::new(&workspace));
        for number in 0..4 {
            session.append(&message(number, 1_000)).unwrap();
        }
    }
    criterion.bench_function("list 1,000 sessions", |bencher| {
        bencher.iter(|| assert_eq!(directory.list(ListScope::All).unwrap().sessions.len(), 1_000));
    });
    let workspace = format!("{WORKSPACE}-0");
    criterion.bench_function("latest of 100 sessions", |bencher| {
        bencher.iter(|| directory.latest(Path::new(&workspace)).unwrap().unwrap());
    });
}

criterion_group!(benches, append, open, list);
criterion_main!(benches);
