//! Snapshots that are written to another directory.

use crate::world::{World, set_mode, state};
use pinion_checkpoints::{Error, GapReason, Retention, SnapshotLimits};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

#[test]
fn snapshot_is_written_as_the_directory_was() {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.write("deep/er/b", [0, 255]);
    world.write("run.sh", "true\n");
    fs::create_dir(world.root.join("empty")).unwrap();
    symlink("/etc/passwd", world.root.join("link")).unwrap();
    set_mode(&world.root.join("run.sh"), 0o755);
    let (before, expected) = (world.snapshot(), world.state());
    world.write("a.txt", "two\n");
    fs::remove_dir_all(world.root.join("deep")).unwrap();
    world.snapshot();
    let to = tempfile::tempdir().unwrap();
    assert_eq!(world.store.check_out(&before.tree, to.path()).unwrap(), []);
    assert_eq!(state(to.path()), expected);
    assert_eq!(world.read("a.txt"), "two\n");
}

#[test]
fn closed_directories_are_open_and_owners_rights_are_dropped() {
    let world = World::new();
    world.write("closed/a", "1");
    world.write("tool", "1");
    set_mode(&world.root.join("tool"), 0o4755);
    set_mode(&world.root.join("closed"), 0o500);
    let snapshot = world.snapshot();
    let to = tempfile::tempdir().unwrap();
    world.store.check_out(&snapshot.tree, to.path()).unwrap();
    let found = state(to.path());
    let mode = |name: &str| found[name.as_bytes()].split(' ').next().unwrap().to_owned();
    assert_eq!((mode("closed"), mode("tool"), mode("closed/a").len()), ("700".into(), "755".into(), 3));
}

#[test]
fn files_without_copies_are_named() {
    let world = World::with(SnapshotLimits { file_bytes: 10, ..SnapshotLimits::default() });
    world.write("large", "x".repeat(11));
    world.write("small", "x");
    let to = tempfile::tempdir().unwrap();
    let gaps = world.store.check_out(&world.snapshot().tree, to.path()).unwrap();
    let gaps: Vec<_> = gaps.iter().map(|(path, reason)| (path.to_string(), *reason)).collect();
    assert_eq!(gaps, [("large".to_owned(), GapReason::LargeFile)]);
    assert!(to.path().join("small").exists() && !to.path().join("large").exists());
}

#[test]
fn snapshot_whose_contents_were_removed_is_an_error() {
    let world = World::new();
    world.write("a", "old");
    let before = world.snapshot();
    world.write("a", "new!");
    world.snapshot();
    world.store.collect(Retention { bytes: 0, age: Duration::ZERO }, &[]).unwrap();
    let to = tempfile::tempdir().unwrap();
    let error = world.store.check_out(&before.tree, to.path()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}
