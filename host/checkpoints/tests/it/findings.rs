//! Changes that undoing must not lose, and rights that it must not give.

use crate::world::{World, set_mode};
use pinion_checkpoints::{
    CheckpointStore, GapReason, Owner, Plan, RelPath, Retention, SnapshotLimits, StepKind, Tree, TreeEntry, UndoStep,
    remove_unused,
};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn path(text: &str) -> RelPath {
    RelPath::try_from(Path::new(text)).unwrap()
}

fn plan(before: &Tree, after: &Tree) -> Plan {
    let step = UndoStep { before: before.clone(), after: Some(after.clone()), kind: StepKind::Whole };
    Plan::new(&[step], after, false)
}

fn is_root(world: &World) -> bool {
    chown(&world.root, Some(1234), Some(1234)).is_ok()
}

#[test]
fn files_get_their_owner_back_and_no_rights_without_it() {
    let world = World::new();
    if !is_root(&world) {
        return;
    }
    world.write("d/tool", "theirs");
    chown(world.root.join("d/tool"), Some(1234), Some(1235)).unwrap();
    chown(world.root.join("d"), Some(1234), Some(1235)).unwrap();
    set_mode(&world.root.join("d/tool"), 0o6755);
    let before = world.snapshot();
    fs::remove_dir_all(world.root.join("d")).unwrap();
    world.undo(&before);
    let facts = |name: &str| {
        let found = fs::metadata(world.root.join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!((facts("d/tool"), facts("d").0), ((1234, 1235, 0o6755), 1234));

    // A snapshot that does not say whose file it was.
    let forget = |entry: &TreeEntry| match entry.clone() {
        TreeEntry::File { mode, size, content, .. } => TreeEntry::File { mode, size, content, owner: None },
        entry => entry,
    };
    let forgotten: Tree = before.tree.iter().map(|(path, entry)| (path.clone(), forget(entry))).collect();
    fs::remove_file(world.root.join("d/tool")).unwrap();
    let current = world.snapshot();
    let report = world.store.restore(&plan(&forgotten, &current.tree), "").unwrap();
    assert_eq!((facts("d/tool"), report.unowned), ((0, 0, 0o755), vec![path("d/tool")]));
}

#[test]
fn owner_is_recorded_where_it_matters() {
    let world = World::new();
    world.write("plain", "1");
    world.write("tool", "1");
    set_mode(&world.root.join("tool"), 0o4755);
    let tree = world.snapshot().tree;
    let owner = |name: &str| match tree.lookup(&path(name)) {
        Some(Some(TreeEntry::File { owner, .. })) => *owner,
        other => panic!("{other:?}"),
    };
    let found = fs::metadata(world.root.join("tool")).unwrap();
    assert_eq!((owner("plain"), owner("tool")), (None, Some(Owner { user: found.uid(), group: found.gid() })));
}

#[test]
fn repository_of_any_name_is_left_alone() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    for file in [".repo/HEAD", ".repo/objects/aa/1", ".repo/refs/heads/main"] {
        world.write(file, "1");
    }
    // Named by a call.
    let after = world.store.snapshot_covering(&[path(".repo/HEAD")].into()).unwrap();
    assert_eq!(after.tree.lookup(&path(".repo/HEAD")), None);
    let plan = plan(&before.tree, &after.tree);
    assert_eq!((plan.is_empty(), plan.ignored), (true, vec![path(".repo")]));
    // A workspace that is one itself.
    for file in ["HEAD", "objects/1", "refs/1"] {
        world.write(file, "1");
    }
    assert_eq!(world.snapshot().tree.lookup(&path("a")), None);
}

#[test]
fn lost_repository_is_named() {
    let world = World::new();
    world.write("sub/.git/HEAD", "1");
    world.write("sub/a", "1");
    let before = world.snapshot();
    fs::remove_dir_all(world.root.join("sub")).unwrap();
    let plan = plan(&before.tree, &world.snapshot().tree);
    assert_eq!(plan.lost, [(path("sub/.git"), GapReason::Excluded)]);
}

#[test]
fn ignored_files_that_changed_are_named() {
    let world = World::new();
    world.write(".gitignore", ".env\nlocal\nbuild/\n");
    for file in [".env", "local", "build/out"] {
        world.write(file, "1");
    }
    let before = world.snapshot();
    world.write(".env", "22");
    fs::remove_dir_all(world.root.join("build")).unwrap();
    let plan = plan(&before.tree, &world.snapshot().tree);
    assert_eq!(plan.lost, [(path(".env"), GapReason::Excluded), (path("build"), GapReason::Excluded)]);
}

#[test]
fn excluded_paths_are_known_by_whatever_name() {
    let world = World::new();
    let (root, data) = (&world.root, world.root.join("dotfiles/data"));
    fs::create_dir_all(&data).unwrap();
    symlink("dotfiles", root.join(".local")).unwrap();
    fs::write(data.join("sessions"), "1").unwrap();
    fs::hard_link(data.join("sessions"), root.join("other-name")).unwrap();
    let excluded = [root.join(".local/data/later"), root.join(".local/data/sessions")];
    let store = CheckpointStore::new(&root.join(".local/data/store"), root, excluded, SnapshotLimits::default());
    store.snapshot().unwrap();
    fs::write(data.join("later"), "1").unwrap();
    let tree = store.snapshot().unwrap().tree;
    for name in ["dotfiles/data/store", "dotfiles/data/later", "dotfiles/data/sessions", "other-name"] {
        assert_eq!(tree.lookup(&path(name)), None, "{name}");
    }
    assert!(matches!(tree.lookup(&path("dotfiles/data")), Some(Some(TreeEntry::Directory { .. }))));
}

#[test]
fn what_has_a_copy_comes_back_although_the_later_state_has_none() {
    let world = World::with(SnapshotLimits { file_bytes: 10, ..SnapshotLimits::default() });
    for name in ["grows", "socket"] {
        world.write(name, "1");
    }
    let before = world.snapshot();
    world.write("grows", "12345678901");
    fs::remove_file(world.root.join("socket")).unwrap();
    let _socket = UnixListener::bind(world.root.join("socket")).unwrap();
    let report = world.undo(&before);
    assert_eq!((world.read("grows"), world.read("socket")), ("1".to_owned(), "1".to_owned()));
    let aside: Vec<_> =
        report.aside.iter().map(|(path, aside)| (path.to_string(), world.root.join(aside.as_path()))).collect();
    assert_eq!(aside.len(), 2, "{report:?}");
    let grown = aside.iter().find(|(path, _)| path == "grows").unwrap();
    assert_eq!(fs::read_to_string(&grown.1).unwrap(), "12345678901");
}

#[test]
fn new_large_file_takes_no_copy_from_others() {
    let world = World::with(SnapshotLimits { bytes: 15, ..SnapshotLimits::default() });
    world.write("kept", "1234567890");
    world.write("main", "12345");
    world.snapshot();
    world.write("early", "123456789012345");
    world.write("main", "54321");
    let uncovered: Vec<_> = world.snapshot().tree.uncovered().map(|(path, _)| path.to_string()).collect();
    assert_eq!(uncovered, ["early"]);
}

#[test]
fn ignore_files_of_search_tools_and_of_a_home_directory_hide_nothing() {
    let world = World::new();
    world.write(".ignore", "*\n");
    world.write("a", "1");
    let home = world.directory.path();
    fs::create_dir(home.join(".git")).unwrap();
    fs::write(home.join(".gitignore"), "*\n!kept\n").unwrap();
    let is_covered = || matches!(world.snapshot().tree.lookup(&path("a")), Some(Some(_)));
    assert!(is_covered());
    // Rules for paths below apply as long as the directory itself is not ignored.
    fs::write(home.join(".gitignore"), "a\n").unwrap();
    let other = World::new();
    other.write("a", "1");
    fs::create_dir(other.directory.path().join(".git")).unwrap();
    fs::write(other.directory.path().join(".gitignore"), "a\n").unwrap();
    assert!(other.snapshot().tree.covers_nothing());
}

fn make_old(path: &Path) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(10 * 24 * 60 * 60)).unwrap();
}

#[test]
fn stores_in_use_are_not_removed() {
    let world = World::new();
    let stores = world.directory.path().join("stores");
    let store = |name: &str| CheckpointStore::new(&stores.join(name), &world.root, [], SnapshotLimits::default());
    let day = Duration::from_secs(24 * 60 * 60);
    let names = ["unused", "locked", "touched", "new"];
    for name in names {
        store(name).snapshot().unwrap();
        if name != "new" {
            ["index", "lock"].iter().for_each(|file| make_old(&stores.join(name).join(file)));
        }
    }
    // Reading or taking a snapshot uses the store, even if that leaves the index as it is.
    store("touched").snapshot().unwrap();
    make_old(&stores.join("touched/index"));
    let lock = fs::File::options().append(true).open(stores.join("locked/lock")).unwrap();
    lock.lock().unwrap();
    remove_unused(&stores, day * 5);
    remove_unused(&stores, Duration::ZERO);
    assert_eq!(names.map(|name| stores.join(name).exists()), [false, true, true, true]);
}

#[test]
fn snapshots_of_the_turn_stay_whatever_the_limits_are() {
    let world = World::new();
    world.write("a", vec![1; 1000]);
    let before = world.snapshot();
    world.write("a", vec![2; 1000]);
    let after = world.snapshot();
    let none = Retention { bytes: 1500, age: Duration::ZERO };
    world.store.collect(none, &[before.id, after.id]).unwrap();
    assert!(world.store.tree(before.id).is_ok());
    world.undo(&before);
    assert_eq!(fs::read(world.root.join("a")).unwrap(), vec![1; 1000]);
}

#[test]
fn plan_that_was_not_begun_is_discarded() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    world.write("a", "2");
    let current = world.snapshot();
    let plan = plan(&before.tree, &current.tree);
    drop(world.store.prepare(&plan, "note").unwrap());
    assert!(world.store.snapshot().is_err());
    assert!(world.store.recover(|note| note != "note").unwrap().is_none());
    assert_eq!((world.read("a").as_str(), world.snapshot().id), ("2", current.id));
    drop(world.store.prepare(&plan, "note").unwrap());
    assert_eq!(world.store.recover(|note| note == "note").unwrap().unwrap().1, "note");
    assert_eq!(world.read("a"), "1");
    world.write("a", "2");
    world.store.prepare(&plan, "").unwrap().discard().unwrap();
    assert_eq!(world.snapshot().tree, current.tree);
}

#[test]
fn interrupted_restoration_of_a_replaced_directory_changes_nothing() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    fs::remove_file(world.root.join("a")).unwrap();
    let current = world.snapshot();
    drop(world.store.prepare(&plan(&before.tree, &current.tree), "").unwrap());
    fs::rename(&world.root, world.directory.path().join("elsewhere")).unwrap();
    fs::create_dir(&world.root).unwrap();
    let (report, _) = world.store.recover(|_| true).unwrap().unwrap();
    assert_eq!((report.failed.len(), world.root.join("a").exists()), (1, false));
    world.snapshot();
}

#[test]
fn what_is_in_another_directory_is_not_deleted() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    let (moved, other) = (world.directory.path().join("moved"), world.directory.path().join("home"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "1").unwrap();
    fs::rename(&world.root, &moved).unwrap();
    symlink(&other, &world.root).unwrap();
    let after = world.snapshot();
    let plan = plan(&before.tree, &after.tree);
    assert!(plan.is_elsewhere && plan.is_empty(), "{plan:?}");
    assert_eq!(plan.conflicts, [path("a"), path("precious")]);
    fs::remove_file(&world.root).unwrap();
    fs::rename(&moved, &world.root).unwrap();
    assert_eq!(world.snapshot().id, before.id);
}

#[test]
fn damaged_copy_is_lost_and_made_again() {
    let world = World::new();
    world.write("a", "before");
    world.write("kept", "kept");
    let before = world.snapshot();
    world.write("a", "after");
    let current = world.snapshot();
    let object = |name: &str| {
        let Some(Some(TreeEntry::File { content, .. })) = before.tree.lookup(&path(name)) else { panic!() };
        let digest = content.to_string();
        world.directory.path().join("store/objects").join(&digest[..2]).join(&digest[2..])
    };
    for (name, damaged) in [("a", "beforX"), ("kept", "kepX")] {
        fs::write(object(name), damaged).unwrap();
    }
    let mut undo = plan(&before.tree, &current.tree);
    world.store.check(&mut undo);
    assert_eq!((undo.is_empty(), undo.lost), (true, vec![(path("a"), GapReason::Missing)]));
    assert!(!object("a").exists());
    world.write("a", "before");
    let again = world.snapshot();
    world.write("a", "after");
    world.undo(&again);
    assert_eq!(world.read("a"), "before");
}

#[test]
fn undo_is_not_limited_by_the_number_of_files() {
    let world = World::with(SnapshotLimits { files: 3, ..SnapshotLimits::default() });
    world.write("a", "1");
    world.snapshot();
    (0..9).for_each(|number| world.write(&format!("{number}"), ""));
    assert!(world.store.snapshot().is_err());
    assert_eq!(world.store.patient().snapshot().unwrap().tree.iter().count(), 10);
}
