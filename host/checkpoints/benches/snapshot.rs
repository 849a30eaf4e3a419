//! The time of snapshots of 50,000 files, and, for comparison, of a walk that only asks for their metadata.

#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to report")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pinion_checkpoints::{CheckpointStore, SnapshotLimits, TreeSnapshot};
use std::fs;
use std::path::Path;

const FILES: usize = 50_000;
const CHANGED: usize = 100;

fn name(number: usize) -> String {
    format!("d{}/e{}/file{number}.rs", number % 40, number % 900)
}

fn write(root: &Path, number: usize, text: &str) -> std::io::Result<()> {
    let path = root.join(name(number));
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

fn walk(directory: &Path) -> u64 {
    fs::read_dir(directory).into_iter().flatten().flatten().fold(0, |sum, entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => sum + walk(&entry.path()),
        Ok(metadata) => sum + metadata.len(),
        Err(_) => sum,
    })
}

fn snapshot(store: &CheckpointStore) -> TreeSnapshot {
    store.snapshot().expect("the directory can be read")
}

fn snapshots(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room");
    let root = directory.path().join("work");
    for number in 0..FILES {
        write(&root, number, &format!("content of {number}\n")).expect("there is room");
    }
    fs::write(root.join(".gitignore"), "target/\n*.o\n").expect("there is room");
    let store = CheckpointStore::new(&directory.path().join("store"), &root, [], SnapshotLimits::default());
    snapshot(&store);

    let mut group = criterion.benchmark_group("snapshot of 50,000 files");
    group.sample_size(10);
    group.bench_function("walk alone, one thread", |bencher| bencher.iter(|| walk(&root)));
    group.bench_function("nothing changed", |bencher| bencher.iter(|| snapshot(&store)));
    let mut round = 0;
    let mut change = || {
        round += 1;
        for number in 0..CHANGED {
            write(&root, number, &format!("{round} {number}")).expect("there is room");
        }
    };
    group.bench_function("100 changed", |bencher| {
        bencher.iter_batched(&mut change, |()| snapshot(&store), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, snapshots);
criterion_main!(benches);
