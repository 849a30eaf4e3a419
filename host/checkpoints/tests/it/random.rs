//! Random work, killed at random moments, is undone byte by byte.

use crate::world::{World, set_mode};
use pinion_checkpoints::{CheckpointStore, Plan, SnapshotLimits, StepKind, UndoStep};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAMS: u64 = 200;

fn name(random: &mut fastrand::Rng) -> String {
    let depth = random.usize(1..=3);
    let part = |random: &mut fastrand::Rng| ["a", "b", "c.txt", "d e", "f"][random.usize(..5)];
    (0..depth).map(|_| part(random)).collect::<Vec<_>>().join("/")
}

/// Writes a shell script of random commands; most of them succeed. It prints a line before each one.
pub fn script(random: &mut fastrand::Rng, commands: usize) -> String {
    let mut script = "set +e; exec 2>/dev/null; umask 022\n".to_owned();
    for _ in 0..commands {
        script.push_str("echo .\n");
        let (one, other, number) = (name(random), name(random), random.u32(..));
        let _ = match random.u8(..12) {
            0..=3 => writeln!(script, "mkdir -p \"$(dirname '{one}')\"; echo {number} > '{one}'"),
            4 => writeln!(script, "echo {number} >> '{one}'"),
            5 => writeln!(script, "rm -rf '{one}'"),
            6 => writeln!(script, "mv '{one}' '{other}'"),
            7 => writeln!(script, "chmod {} '{one}'", ["600", "644", "755", "700", "444", "000"][random.usize(..6)]),
            8 => writeln!(script, "ln -s '{one}' '{other}'"),
            9 => writeln!(script, "ln '{one}' '{other}'"),
            10 => writeln!(script, "mkdir -p '{one}'"),
            _ => writeln!(script, "cp -r '{one}' '{other}'"),
        };
    }
    script
}

/// Runs a script, and kills it and its programs while its `kill_in`th command runs: how far that gets is left to chance.
pub fn run(root: &Path, script: &str, kill_in: Option<usize>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = shell.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    if let Some(commands) = kill_in {
        for _ in 0..commands {
            output.read_line(&mut String::new()).unwrap();
        }
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    }
    // The pipe closes when the last program of the group has ended.
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    child.wait().unwrap();
}

fn assert_same(world: &World, expected: &BTreeMap<Vec<u8>, String>, number: u64) {
    let now = world.state();
    let names = now.keys().chain(expected.keys()).filter(|name| now.get(*name) != expected.get(*name));
    let different: Vec<_> =
        names.map(|name| (String::from_utf8_lossy(name), now.get(name), expected.get(name))).collect();
    assert!(different.is_empty(), "round {number}: {different:?}");
}

#[test]
fn random_programs_killed_at_random_moments_are_undone() {
    let world = World::new();
    // Directories that modes close before the first snapshot are left alone.
    world.snapshot();
    let mut random = fastrand::Rng::with_seed(14);
    for number in 0..PROGRAMS {
        run(&world.root, &script(&mut random, 6), None);
        let expected = world.state();
        let before = world.snapshot();
        let kill_in = (number % 2 == 0).then(|| random.usize(..=20));
        run(&world.root, &script(&mut random, 20), kill_in);
        let report = world.undo(&before);
        assert!(report.failed.is_empty() && report.kept.is_empty(), "{number}: {report:?}");
        assert_same(&world, &expected, number);
    }
}

/// The same for a user whom modes keep from files and directories, which they never do for the superuser.
#[test]
fn random_programs_of_an_ordinary_user_are_undone() {
    if !rustix::process::geteuid().is_root() {
        // The test above needs an ordinary user.
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let test = place.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    set_mode(place.path(), 0o777);
    let mut nobody = Command::new(test);
    nobody.args(["--exact", "random::random_programs_killed_at_random_moments_are_undone"]);
    nobody.env("TMPDIR", place.path()).current_dir(place.path()).gid(65_534).uid(65_534);
    let output = nobody.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Restores, in a process that the test below starts and kills. Nothing happens without its variable.
#[test]
fn restore_as_a_child() {
    let Ok(place) = std::env::var("CHECKPOINT_TEST") else { return };
    let place = std::path::Path::new(&place);
    let store = CheckpointStore::new(&place.join("store"), &place.join("work"), [], SnapshotLimits::default());
    let id = fs::read_to_string(place.join("before")).unwrap();
    let before = store.tree(crate::world::id(&id)).unwrap();
    let current = store.snapshot().unwrap();
    let plan = Plan::new(&[UndoStep { before, after: None, kind: StepKind::Whole }], &current.tree, false);
    println!("go");
    store.restore(&plan, "note").unwrap();
}

#[test]
fn restoration_that_is_killed_at_any_moment_is_completed() {
    let world = World::new();
    let mut random = fastrand::Rng::with_seed(41);
    let mut interrupted = 0;
    for number in 0..40 {
        run(&world.root, &script(&mut random, 30), None);
        for more in 0..200 {
            world.write(&format!("many/{more}"), format!("{number}"));
        }
        let expected = world.state();
        let before = world.snapshot();
        fs::write(world.directory.path().join("before"), before.id.to_string()).unwrap();
        run(&world.root, "rm -rf many", None);
        run(&world.root, &script(&mut random, 20), None);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "random::restore_as_a_child", "--nocapture"]);
        child.env("CHECKPOINT_TEST", world.directory.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("go")));
        // Stopped by its progress rather than by the clock, which a busy machine makes meaningless.
        let wanted = random.usize(..120);
        let restored = || fs::read_dir(world.root.join("many")).map_or(0, |files| files.count());
        while restored() < wanted && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        if world.directory.path().join("store/restoration").exists() {
            interrupted += 1;
            assert!(world.store.snapshot().is_err());
            let (report, note) = world.store.recover(|_| true).unwrap().unwrap();
            assert!(report.failed.is_empty() && report.kept.is_empty(), "{number}: {report:?}");
            assert_eq!(note, "note");
        } else if world.state() != expected {
            // Killed before it began.
            world.undo(&before);
        }
        assert_same(&world, &expected, number);
    }
    assert!(interrupted > 5, "{interrupted} of 40 were interrupted");
}
