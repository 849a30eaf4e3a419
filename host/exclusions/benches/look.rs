//! The time to look for excluded files among 50,000, the first time and again.

#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to report")]

use criterion::{Criterion, criterion_group, criterion_main};
use pinion_exclusions::{Exclusions, Finder, Pattern};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const FILES: usize = 50_000;

fn finder(root: &Path) -> Arc<Finder> {
    Finder::new(Exclusions::new(root, [Pattern::built_in().collect()]).expect("the patterns are sound"))
}

fn looks(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room");
    let root = directory.path().canonicalize().expect("it is there");
    for number in 0..FILES {
        let path = root.join(format!("d{}/e{}/file{number}.rs", number % 40, number % 900));
        path.parent().map_or(Ok(()), fs::create_dir_all).expect("there is room");
        fs::write(path, "").expect("there is room");
    }
    fs::write(root.join("d1/.env"), "x").expect("there is room");
    let mut group = criterion.benchmark_group("look among 50,000 files");
    group.sample_size(20);
    group.bench_function("first", |bencher| bencher.iter(|| finder(&root).find_excluded().expect("it can be read")));
    let known = finder(&root);
    known.find_excluded().expect("it can be read");
    // A directory that changed just now may change again unnoticed, and is listed again.
    std::thread::sleep(std::time::Duration::from_millis(100));
    known.find_excluded().expect("it can be read");
    group.bench_function("again", |bencher| bencher.iter(|| known.find_excluded().expect("it can be read")));
    group.finish();
}

criterion_group!(benches, looks);
criterion_main!(benches);
