//! Refs of repositories, which undoing names.

use crate::world::World;
use pinion_checkpoints::{Plan, RefChange, StepKind, TreeSnapshot, UndoStep, WorkChanges};
use std::process::Command;

fn git(world: &World, directory: &str, command: &str) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = git.args(command.split(' ')).current_dir(world.root.join(directory)).output().unwrap();
    assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim_end().to_owned()
}

/// A workspace with a repository at its root and one inside.
fn world() -> World {
    let world = World::new();
    std::fs::create_dir(world.root.join("sub dir")).unwrap();
    for directory in [".", "sub dir"] {
        git(&world, directory, "init -q");
        (0..3).for_each(|_| drop(git(&world, directory, "commit -q --allow-empty -m x")));
        git(&world, directory, "branch other");
    }
    world
}

fn step(before: &TreeSnapshot, after: &TreeSnapshot, kind: StepKind) -> UndoStep {
    UndoStep { before: before.tree.clone(), after: Some(after.tree.clone()), kind }
}

fn shown(changes: &[RefChange]) -> Vec<String> {
    changes.iter().map(|change| change.command().unwrap().join(" ")).collect()
}

#[test]
fn refs_that_moved_or_vanished_come_back_with_the_commands() {
    let world = world();
    let before = world.snapshot();
    let old = ["main", "other"].map(|name| git(&world, ".", &format!("rev-parse {name}")));
    git(&world, ".", "reset -q --hard HEAD~2");
    git(&world, ".", "branch -D other");
    git(&world, ".", "branch new");
    git(&world, "sub dir", "checkout -q other");
    let after = world.snapshot();
    let mut changes = WorkChanges::default();
    changes.add(&before.tree, &after.tree);
    assert_eq!(changes.refs().count(), 4);
    let plan = Plan::new(&[step(&before, &after, StepKind::Whole)], &after.tree, false);
    let expected = [
        "git update-ref -d refs/heads/new".to_owned(),
        format!("git update-ref refs/heads/main {}", old[0]),
        format!("git update-ref refs/heads/other {}", old[1]),
        "git -C sub dir symbolic-ref HEAD refs/heads/main".to_owned(),
    ];
    let mut commands = shown(&plan.refs);
    commands.sort_by_key(|command| expected.iter().position(|expected| expected == command));
    assert_eq!(commands, expected);
    for change in &plan.refs {
        let command = change.command().unwrap();
        assert!(Command::new(&command[0]).args(&command[1..]).current_dir(&world.root).status().unwrap().success());
    }
    assert_eq!(world.snapshot().id, before.id);
}

#[test]
fn refs_that_others_moved_are_told_apart() {
    let world = world();
    let before = world.snapshot();
    git(&world, ".", "update-ref refs/heads/other HEAD~1");
    let worked = world.snapshot();
    // The user commits, and so does later work.
    git(&world, ".", "commit -q --allow-empty -m mine");
    let between = world.snapshot();
    git(&world, ".", "update-ref -d refs/heads/other");
    let after = world.snapshot();
    let steps = [
        step(&between, &after, StepKind::Whole),
        step(&worked, &between, StepKind::Others),
        step(&before, &worked, StepKind::Whole),
    ];
    let plan = Plan::new(&steps, &after.tree, false);
    assert_eq!(
        plan.refs.iter().map(|change| (&*change.name, change.is_changed_since)).collect::<Vec<_>>(),
        [("refs/heads/other", false)]
    );
    assert_eq!(plan.refs[0].was, Some(git(&world, ".", "rev-parse HEAD~1")));
    git(&world, ".", "branch other HEAD");
    let plan = Plan::new(&steps, &world.snapshot().tree, false);
    assert!(plan.refs[0].is_changed_since);
    git(&world, ".", "branch -f other HEAD~1");
    assert!(Plan::new(&steps, &world.snapshot().tree, false).refs.is_empty());
}

#[test]
fn refs_are_known_after_a_restart_and_gone_repositories_have_none() {
    let world = world();
    let before = world.snapshot();
    assert_eq!(world.store.tree(before.id).unwrap(), before.tree);
    assert_eq!(world.snapshot().id, before.id);
    std::fs::remove_dir_all(world.root.join("sub dir/.git")).unwrap();
    let after = world.snapshot();
    let plan = Plan::new(&[step(&before, &after, StepKind::Whole)], &after.tree, false);
    assert!(plan.refs.is_empty() && plan.lost.len() == 1, "{plan:?}");
}
