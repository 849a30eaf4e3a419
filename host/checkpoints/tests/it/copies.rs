//! Work in a copy of the directory, which is taken over and applied.

use crate::random::{run, script};
use crate::world::{World, set_mode, state};
use pinion_checkpoints::{
    CheckpointStore, GapReason, ImportedChanges, Plan, SnapshotLimits, Tree, TreeSnapshot, remove_tree,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const PROGRAMS: u64 = 100;

/// A copy of a world, with a separate store.
struct Copy {
    root: PathBuf,
    store: CheckpointStore,
    before: TreeSnapshot,
}

impl Copy {
    fn new(world: &World, number: u64) -> Self {
        let root = world.directory.path().join(format!("copy{number}"));
        fs::create_dir(&root).unwrap();
        assert_eq!(world.store.check_out(&world.snapshot().tree, &root).unwrap(), []);
        let directory = world.directory.path().join(format!("copy{number}.store"));
        let store = CheckpointStore::new(&directory, &root, [root.join(".vscode")], SnapshotLimits::default());
        let before = store.snapshot().unwrap();
        Self { root, store, before }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn import(&self, world: &World) -> ImportedChanges {
        world.store.import(&self.store, &self.before.tree, &self.store.snapshot().unwrap().tree).unwrap()
    }
}

fn plan(world: &World, changes: &ImportedChanges) -> Plan {
    let tree = |id| world.store.tree(id).unwrap();
    Plan::applying(&tree(changes.before), &tree(changes.after), &world.snapshot().tree)
}

fn apply(world: &World, changes: &ImportedChanges) {
    let mut plan = plan(world, changes);
    world.store.check(&mut plan);
    assert!(plan.conflicts.is_empty() && plan.lost.is_empty(), "{plan:?}");
    let report = world.store.restore(&plan, "").unwrap();
    assert!(report.failed.is_empty() && report.kept.is_empty(), "{report:?}");
}

#[test]
fn changes_of_a_copy_are_applied_after_the_copy_is_gone() {
    let world = World::new();
    world.write("same", "1");
    world.write("changed", "1");
    world.write("removed/a", "1");
    let copy = Copy::new(&world, 0);
    copy.write("changed", "2");
    copy.write("new/b", "3");
    fs::remove_dir_all(copy.root.join("removed")).unwrap();
    let expected = state(&copy.root);
    let changes = copy.import(&world);
    fs::remove_dir_all(&copy.root).unwrap();
    fs::remove_dir_all(world.directory.path().join("copy0.store")).unwrap();
    assert_eq!((changes.changed, changes.missing.len()), (5, 0));
    let tree = |id| world.store.tree(id).unwrap();
    let mut patch = Vec::new();
    world.store.write_patch(&tree(changes.before), &tree(changes.after), Path::new(""), &mut patch).unwrap();
    let patch = String::from_utf8(patch).unwrap();
    assert!(patch.contains("-1\n") && patch.contains("+2\n") && patch.contains("+++ b/new/b"), "{patch}");
    apply(&world, &changes);
    assert_eq!(world.state(), expected);
}

#[test]
fn files_changed_in_both_are_conflicts() {
    let world = World::new();
    world.write("both", "1");
    world.write("other", "1");
    let copy = Copy::new(&world, 0);
    copy.write("both", "2");
    copy.write("other", "2");
    copy.write("new", "2");
    world.write("both", "mine");
    world.write("new", "mine");
    let plan = plan(&world, &copy.import(&world));
    let conflicts: Vec<String> = plan.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts, ["both", "new"]);
}

#[test]
fn same_change_in_both_is_no_conflict() {
    let world = World::new();
    world.write("both", "1");
    let copy = Copy::new(&world, 0);
    copy.write("both", "2");
    world.write("both", "2");
    let plan = plan(&world, &copy.import(&world));
    assert!(plan.conflicts.is_empty() && plan.is_empty(), "{plan:?}");
}

#[test]
fn directory_with_other_files_is_not_removed() {
    let world = World::new();
    world.write("d/a", "1");
    let copy = Copy::new(&world, 0);
    fs::remove_dir_all(copy.root.join("d")).unwrap();
    world.write("d/mine", "1");
    let conflicts = plan(&world, &copy.import(&world)).conflicts;
    assert_eq!(conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["d"]);
}

#[test]
fn protected_and_ignored_paths_are_left_out() {
    let world = World::new();
    fs::create_dir_all(world.root.join(".git/info")).unwrap();
    fs::write(world.root.join(".git/info/exclude"), "target\n").unwrap();
    world.write("a", "1");
    let copy = Copy::new(&world, 0);
    // Of another store without the exclusion of this path, and without the repository's rules.
    let store = CheckpointStore::new(
        &world.directory.path().join("open"),
        &copy.root,
        std::iter::empty(),
        SnapshotLimits::default(),
    );
    let before = store.snapshot().unwrap();
    copy.write("target/debug", "x");
    copy.write(".vscode/settings.json", "{}");
    copy.write(".git/hooks/pre-commit", "x");
    copy.write("a", "2");
    let changes = world.store.import(&store, &before.tree, &store.snapshot().unwrap().tree).unwrap();
    let (before, after) = (world.store.tree(changes.before).unwrap(), world.store.tree(changes.after).unwrap());
    let changed: Vec<String> = before.changes(&after).map(|change| change.path.to_string()).collect();
    assert_eq!((changed, changes.changed), (vec!["a".to_owned()], 1));
}

#[test]
fn changes_without_copies_are_named() {
    let world = World::new();
    world.write("a", "1");
    world.write("hidden", "1");
    let copy = Copy::new(&world, 0);
    let limits = SnapshotLimits { file_bytes: 10, ..SnapshotLimits::default() };
    let store = CheckpointStore::new(&world.directory.path().join("few"), &copy.root, std::iter::empty(), limits);
    let before = store.snapshot().unwrap();
    copy.write("a", &"x".repeat(11));
    let changes = world.store.import(&store, &before.tree, &store.snapshot().unwrap().tree).unwrap();
    let missing: Vec<_> = changes.missing.iter().map(|(path, reason)| (path.to_string(), *reason)).collect();
    assert_eq!((missing, changes.changed), (vec![("a".to_owned(), GapReason::LargeFile)], 0));
}

#[test]
fn damaged_content_is_not_taken_over() {
    let world = World::new();
    world.write("a", "1");
    let copy = Copy::new(&world, 0);
    copy.write("a", "a new text");
    let after = copy.store.snapshot().unwrap();
    let objects = world.directory.path().join("copy0.store/objects");
    for part in fs::read_dir(objects).unwrap() {
        for object in fs::read_dir(part.unwrap().path()).unwrap().map(|object| object.unwrap().path()) {
            if fs::read_to_string(&object).unwrap() == "a new text" {
                set_mode(&object, 0o600);
                fs::write(object, "an old text").unwrap();
            }
        }
    }
    assert!(world.store.import(&copy.store, &copy.before.tree, &after.tree).is_err());
    assert_eq!(world.read("a"), "1");
}

#[test]
fn copy_with_closed_directories_is_removed_and_links_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (copy, other) = (place.path().join("copy"), place.path().join("other"));
    fs::create_dir_all(copy.join("a/b/c")).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "1").unwrap();
    fs::write(copy.join("a/b/file"), "1").unwrap();
    std::os::unix::fs::symlink(&other, copy.join("a/b/link")).unwrap();
    set_mode(&other, 0o500);
    set_mode(&copy.join("a/b"), 0o000);
    remove_tree(&copy).unwrap();
    assert!(!copy.exists() && other.join("kept").exists());
    assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o500);
    set_mode(&other, 0o700);
    remove_tree(&copy).unwrap();
}

#[test]
fn random_work_in_a_copy_is_applied_byte_by_byte() {
    let world = World::new();
    world.snapshot();
    let mut random = fastrand::Rng::with_seed(23);
    for number in 0..PROGRAMS {
        // Modes that close files to their owner are opened in a copy, and would differ.
        let script = |random: &mut fastrand::Rng, commands| script(random, commands).replace("chmod", "true");
        run(&world.root, &script(&mut random, 6), None);
        let copy = Copy::new(&world, number);
        run(&copy.root, &script(&mut random, 20), None);
        let expected = state(&copy.root);
        let changes = copy.import(&world);
        let is_same = |tree: Tree| tree.changes(&copy.before.tree).next().is_none();
        assert!(is_same(world.store.tree(changes.before).unwrap()), "{number}");
        apply(&world, &changes);
        assert_eq!(world.state(), expected, "{number}");
        fs::remove_dir_all(&copy.root).unwrap();
    }
}
