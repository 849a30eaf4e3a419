//! Contents of snapshots, and changes that restoring them makes.

use crate::world::{World, set_mode, state};
use pinion_checkpoints::{PathAction, Plan, RelPath, Retention, StepKind, TreeEntry, UndoStep, WorkChanges};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::time::Duration;

fn path(text: &str) -> RelPath {
    RelPath::try_from(Path::new(text)).unwrap()
}

#[test]
fn everything_that_programs_change_is_undone() {
    let world = World::new();
    world.write("kept", "kept");
    world.write("src/a.rs", "fn a() {}");
    world.write("binary", [0, 159, 146, 150]);
    world.write("deleted/deep/file", "1");
    world.write("mode", "1");
    fs::create_dir(world.root.join("empty")).unwrap();
    symlink("kept", world.root.join("link")).unwrap();
    symlink("/nowhere", world.root.join("dangling")).unwrap();
    set_mode(&world.root.join("src"), 0o750);
    let state = world.state();
    let before = world.snapshot();

    world.write("src/a.rs", "fn b() {}");
    world.write("binary", [1, 159]);
    world.write("new/file", "new");
    fs::remove_dir_all(world.root.join("deleted")).unwrap();
    fs::remove_dir(world.root.join("empty")).unwrap();
    set_mode(&world.root.join("mode"), 0o755);
    set_mode(&world.root.join("src"), 0o700);
    for link in ["link", "dangling"] {
        fs::remove_file(world.root.join(link)).unwrap();
    }
    symlink("src", world.root.join("link")).unwrap();
    world.write("dangling/is/a/directory", "now");
    fs::rename(world.root.join("kept"), world.root.join("renamed")).unwrap();
    world.write("kept/now/a", "directory");

    let report = world.undo(&before);
    assert!(report.failed.is_empty() && report.kept.is_empty(), "{report:?}");
    assert_eq!(world.state(), state);
}

#[test]
fn change_of_the_mode_alone_keeps_the_file() {
    let world = World::new();
    world.write("script", "x");
    let inode = || fs::metadata(world.root.join("script")).unwrap().ino();
    let (before, file) = (world.snapshot(), inode());
    set_mode(&world.root.join("script"), 0o700);
    world.undo(&before);
    assert_eq!((inode(), fs::metadata(world.root.join("script")).unwrap().mode() & 0o777), (file, 0o644));
}

#[test]
fn change_within_one_step_of_the_clock_is_seen() {
    let world = World::new();
    for round in 0..50 {
        world.write("a", format!("{:03}", round));
        let before = world.snapshot();
        world.write("a", format!("{:03}", round + 500));
        let after = world.snapshot();
        assert_ne!(before.id, after.id, "round {round}");
    }
}

#[test]
fn unchanged_directory_gives_the_same_snapshot() {
    let world = World::new();
    world.write("a", "1");
    let (first, second) = (world.snapshot(), world.snapshot());
    assert_eq!((first.id, &first.tree), (second.id, &second.tree));
    assert_eq!(world.store.tree(first.id).unwrap(), first.tree);
}

#[test]
fn repositories_protected_paths_and_ignored_ones_are_left_alone() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main");
    world.write(".git/info/exclude", "excluded\n");
    world.write("nested/.git/HEAD", "ref");
    world.write(".vscode/tasks.json", "{}");
    world.write(".gitignore", "target/\n*.log\n!kept.log\n");
    world.write("target/a", "1");
    world.write("sub/.gitignore", "/local\n");
    world.write("sub/local", "1");
    for file in ["a.log", "kept.log", "excluded", "src/main.rs"] {
        world.write(file, "1");
    }
    let tree = world.snapshot().tree;
    for gap in [".git", "nested/.git", ".vscode", "target", "a.log", "excluded", "sub/local", "target/a", ".git/HEAD"] {
        assert_eq!(tree.lookup(&path(gap)), None, "{gap}");
    }
    for covered in ["kept.log", "src/main.rs", ".gitignore", "nested"] {
        assert!(matches!(tree.lookup(&path(covered)), Some(Some(_))), "{covered}");
    }
    assert_eq!(tree.lookup(&path("src/other.rs")), Some(None));
}

#[test]
fn new_ignore_rule_hides_no_change() {
    let world = World::new();
    world.write("notes/a", "1");
    world.write("b", "1");
    let state = world.state();
    let before = world.snapshot();
    world.write(".gitignore", "*\n");
    world.write("notes/a", "2");
    fs::remove_file(world.root.join("b")).unwrap();
    let report = world.undo(&before);
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(world.state(), state);
}

#[test]
fn removed_ignore_rule_deletes_nothing() {
    let world = World::new();
    world.write(".gitignore", ".env\nbuild/\n");
    world.write(".env", "KEY=1");
    world.write("build/out", "1");
    let state = world.state();
    let before = world.snapshot();
    fs::remove_file(world.root.join(".gitignore")).unwrap();
    world.undo(&before);
    assert_eq!(world.state(), state);
}

#[test]
fn links_lead_nothing_out_of_the_directory() {
    let world = World::new();
    let outside = world.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    world.write("d/file", "1");
    let before = world.snapshot();
    fs::remove_dir_all(world.root.join("d")).unwrap();
    symlink(&outside, world.root.join("d")).unwrap();
    let after = world.snapshot();
    assert_eq!(after.tree.lookup(&path("d/file")), Some(None));
    // The link comes between the plan and its execution.
    let plan = Plan::new(
        &[UndoStep { before: after.tree.clone(), after: Some(before.tree.clone()), kind: StepKind::Whole }],
        &before.tree,
        false,
    );
    let report = world.store.restore(&plan, "").unwrap();
    assert!(report.failed.is_empty() && fs::read_dir(&outside).unwrap().count() == 1, "{report:?}");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
    world.undo(&before);
    assert_eq!(world.read("d/file"), "1");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
}

#[test]
fn edits_after_the_plan_are_kept() {
    let world = World::new();
    world.write("a", "1");
    world.write("b", "1");
    let before = world.snapshot();
    world.write("a", "2");
    world.write("b", "2");
    let current = world.snapshot();
    let steps = [UndoStep { before: before.tree.clone(), after: Some(current.tree.clone()), kind: StepKind::Whole }];
    let plan = Plan::new(&steps, &current.tree, false);
    world.write("a", "mine");
    let report = world.store.restore(&plan, "").unwrap();
    assert_eq!((report.kept, report.restored), (vec![path("a")], vec![path("b")]));
    assert_eq!((world.read("a"), world.read("b")), ("mine".to_owned(), "1".to_owned()));
}

#[test]
fn missing_and_damaged_copies_are_named() {
    let world = World::new();
    world.write("a", "before");
    let before = world.snapshot();
    world.write("a", "after");
    let current = world.snapshot();
    let steps = [UndoStep { before: before.tree.clone(), after: Some(current.tree.clone()), kind: StepKind::Whole }];
    let Some(TreeEntry::File { content, .. }) = before.tree.lookup(&path("a")).unwrap() else { panic!() };
    let name = content.to_string();
    let object = world.directory.path().join("store/objects").join(&name[..2]).join(&name[2..]);
    fs::write(&object, "beforX").unwrap();
    let plan = Plan::new(&steps, &current.tree, false);
    let report = world.store.restore(&plan, "").unwrap();
    assert!(report.failed[0].1.contains("damaged"), "{report:?}");
    assert_eq!(world.read("a"), "after");
    fs::remove_file(&object).unwrap();
    let mut plan = Plan::new(&steps, &current.tree, false);
    world.store.check(&mut plan);
    assert_eq!((plan.is_empty(), plan.lost.len()), (true, 1));
}

#[test]
fn damaged_index_costs_only_time() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    let index = world.directory.path().join("store/index");
    let mut bytes = fs::read(&index).unwrap();
    for at in 0..bytes.len() {
        bytes[at] ^= 0x55;
        fs::write(&index, &bytes).unwrap();
        assert_eq!(world.snapshot().id, before.id, "byte {at}");
        bytes = fs::read(&index).unwrap();
    }
}

#[test]
fn store_is_private() {
    let world = World::new();
    world.write("a", "1");
    world.snapshot();
    for (name, entry) in state(&world.directory.path().join("store")) {
        assert!(entry.starts_with("700 ") || entry.starts_with("600 "), "{:?} {entry}", String::from_utf8_lossy(&name));
    }
    assert_eq!(fs::metadata(world.directory.path().join("store")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn old_snapshots_make_room_and_the_last_stays() {
    let world = World::new();
    let mut ids = Vec::new();
    for round in 0..4 {
        world.write("a", vec![round; 1000]);
        ids.push(world.snapshot().id);
        let tree = world.directory.path().join("store/trees").join(ids[usize::from(round)].to_string());
        let time = std::time::SystemTime::now() - Duration::from_secs(1000 - u64::from(round));
        fs::File::options().append(true).open(tree).unwrap().set_modified(time).unwrap();
    }
    let is_there = |at: usize| world.store.tree(ids[at]).is_ok();
    world.store.collect(Retention { bytes: 2500, age: Duration::from_secs(5000) }, &[]).unwrap();
    assert_eq!([0, 1, 2, 3].map(is_there), [false, false, true, true]);
    let objects =
        || state(&world.directory.path().join("store/objects")).values().filter(|e| !e.contains("directory")).count();
    assert_eq!(objects(), 2);
    world.store.collect(Retention { bytes: 2000, age: Duration::from_secs(1) }, &[]).unwrap();
    assert_eq!([2, 3].map(is_there), [false, true]);
    assert_eq!(objects(), 1);
    assert_eq!(world.snapshot().id, ids[3]);
}

#[test]
fn differences_are_shown_and_bounded() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\nthree\n");
    world.write("bin", [0, 1]);
    let before = world.snapshot();
    world.write("a.txt", "one\n2\nthree\n");
    world.write("bin", [0, 1, 2]);
    set_mode(&world.root.join("bin"), 0o755);
    world.write("new/file", "x\n");
    let after = world.snapshot();
    let mut changes = WorkChanges::default();
    changes.add(&before.tree, &after.tree);
    let diff = world.store.diff(&changes, 10_000);
    for part in [
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        "mode of bin: 644 → 755",
        "file of 2 bytes → file of 3 bytes",
        "new directory new",
        "--- /dev/null\n+++ b/new/file\n@@ -0,0 +1 @@\n+x\n",
    ] {
        assert!(diff.text.contains(part), "{part}\n{}", diff.text);
    }
    assert_eq!((diff.changes, diff.omitted), (4, 0));
    let short = world.store.diff(&changes, 80);
    assert!(short.omitted > 0 && short.text.len() <= 80);
}

#[test]
fn undo_can_be_undone() {
    let world = World::new();
    world.write("a", "1");
    let before = world.snapshot();
    world.write("a", "2");
    world.write("b/c", "new");
    let (state, after) = (world.state(), world.snapshot());
    world.undo(&before);
    let current = world.snapshot();
    let plan = Plan::new(
        &[UndoStep { before: after.tree, after: Some(before.tree), kind: StepKind::Whole }],
        &current.tree,
        false,
    );
    assert!(plan.actions().any(|(_, action)| action == PathAction::Create));
    world.store.restore(&plan, "").unwrap();
    assert_eq!(world.state(), state);
}

#[test]
fn changes_of_others_between_two_pieces_of_work_are_not_shown() {
    let world = World::new();
    world.write("a", "1\n");
    world.write("mine", "1\n");
    let trees: Vec<_> = ["2\n", "3\n"]
        .iter()
        .map(|text| {
            let before = world.snapshot().tree;
            world.write("a", text);
            let after = world.snapshot().tree;
            world.write("mine", text);
            (before, after)
        })
        .collect();
    let mut changes = WorkChanges::default();
    trees.iter().for_each(|(before, after)| changes.add(before, after));
    assert_eq!(changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>(), ["a"]);
    let diff = world.store.diff(&changes, 1_000).text;
    assert!(diff.contains("-1\n+3\n") && !diff.contains("mine"), "{diff}");
}
