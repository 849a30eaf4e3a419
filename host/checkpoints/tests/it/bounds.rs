//! Limits, and the paths that a snapshot names as not covered.

use crate::world::World;
use pinion_checkpoints::{Error, GapReason, Plan, SnapshotLimits, StepKind, UndoStep};
use std::os::unix::net::UnixListener;
use std::time::Duration;

fn reasons(world: &World) -> Vec<(String, GapReason)> {
    world.snapshot().tree.uncovered().map(|(path, reason)| (path.to_string(), reason)).collect()
}

#[test]
fn what_exceeds_a_limit_is_named() {
    let world = World::with(SnapshotLimits { file_bytes: 10, bytes: 15, ..SnapshotLimits::default() });
    world.write("a", "1234567890");
    world.write("b", "12345678901");
    world.write("c", "123456");
    world.write("d", "12345");
    let _socket = UnixListener::bind(world.root.join("socket")).unwrap();
    let expected = [("b", GapReason::LargeFile), ("c", GapReason::LargeTree), ("socket", GapReason::Special)];
    assert_eq!(reasons(&world), expected.map(|(path, reason)| (path.to_owned(), reason)));
}

#[test]
fn change_of_a_file_without_a_copy_is_named() {
    let world = World::with(SnapshotLimits { file_bytes: 10, ..SnapshotLimits::default() });
    world.write("large", "12345678901");
    let before = world.snapshot();
    world.write("large", "different bytes");
    let after = world.snapshot();
    let plan = Plan::new(
        &[UndoStep { before: before.tree, after: Some(after.tree.clone()), kind: StepKind::Whole }],
        &after.tree,
        false,
    );
    assert!(plan.is_empty(), "{plan:?}");
    let lost: Vec<String> = plan.lost.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(lost, ["large"]);
}

#[test]
fn new_file_without_a_copy_stays_and_is_named() {
    let world = World::with(SnapshotLimits { file_bytes: 10, ..SnapshotLimits::default() });
    let before = world.snapshot();
    world.write("large", "12345678901");
    let after = world.snapshot();
    let step = UndoStep { before: before.tree, after: Some(after.tree.clone()), kind: StepKind::Whole };
    let plan = Plan::new([step], &after.tree, false);
    assert!(plan.is_empty() && plan.lost.is_empty(), "{plan:?}");
    assert_eq!(plan.created.iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>(), ["large"]);
}

#[test]
fn too_many_files_prevent_a_snapshot() {
    let world = World::with(SnapshotLimits { files: 3, ..SnapshotLimits::default() });
    (0..4).for_each(|number| world.write(&format!("{number}"), ""));
    assert!(matches!(world.store.snapshot(), Err(Error::TooManyFiles(3))));
}

#[test]
fn files_that_are_not_copied_in_time_are_named() {
    // Enough to list a few files, and less than the fastest disk needs to copy them.
    let world = World::with(SnapshotLimits { time: Duration::from_millis(100), ..SnapshotLimits::default() });
    (0..12).for_each(|number| world.write(&format!("{number}"), vec![number; 60 << 20]));
    let late = reasons(&world);
    assert!(!late.is_empty() && late.iter().all(|(_, reason)| *reason == GapReason::Time), "{late:?}");
}
