//! The time to read the lock file of 1,000 packages, which each start with packages does once.

#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to report")]

use criterion::{Criterion, criterion_group, criterion_main};
use pinion_packages::{PackageStore, StorePaths};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const PACKAGES: usize = 1_000;

/// Writes a lock file with two kept versions of each package, and seals it.
fn store(root: &Path) -> PackageStore {
    let mut text = "version = 1\nseal = \"\"\n".to_owned();
    for number in 0..PACKAGES {
        let digest = |version: usize| blake3::hash(&(number * 2 + version).to_le_bytes()).to_hex();
        let written = write!(text, "\n[[package]]\nname = \"package{number:04}\"\nactive = \"{}\"\n", digest(0));
        written.expect("a string takes everything");
        for version in 0..2 {
            let digest = digest(version);
            let written = write!(
                text,
                "\n[[package.release]]\nversion = \"1.{version}.0\"\ndigest = \"{digest}\"\nsource = \
                 \"oci://ghcr.io/acme/package{number:04}:1.{version}.0\"\nadded = 1\n\n\
                 [[package.release.component]]\nname = \"package{number:04}\"\npath = \"plugin.wasm\"\n\
                 digest = \"{digest}\"\nasked = [\"files=read\"]\ngranted = [\"files=read\"]\n"
            );
            written.expect("a string takes everything");
        }
    }
    let lock = root.join("plugins.lock");
    fs::write(&lock, text).expect("there is room");
    #[cfg(unix)]
    fs::set_permissions(&lock, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("the file is ours");
    let store =
        PackageStore::new(StorePaths { store: root.join("store"), plugins: root.join("plugins"), lock }, [7; 32]);
    store.accept(&store.read_unsealed().expect("it is sound")).expect("there is room");
    store
}

fn read(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room");
    let store = store(directory.path());
    assert_eq!(store.read().map(|lock| lock.packages.len()).unwrap_or_default(), PACKAGES);
    criterion.bench_function("read the lock file of 1,000 packages", |bencher| bencher.iter(|| store.read()));
}

criterion_group!(benches, read);
criterion_main!(benches);
