//! Many processes with one home, after each other and at once. By default a sample, with `PINION_LONG=1` thousands.

use pinion_tests::{Pinion, call, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn is_long() -> bool {
    std::env::var_os("PINION_LONG").is_some()
}

fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { [path].into() }).collect()
}

/// Returns the files below the home and the workspace except sessions, their snapshots and the audit log, which begins a second
/// file after 8 MiB, and the number of sessions.
fn left(pinion: &Pinion) -> (BTreeSet<PathBuf>, usize) {
    let (mut others, mut sessions) = (files(&pinion.workspace()), 0);
    let (of_sessions, snapshots) = (pinion.home().join("sessions"), pinion.home().join("checkpoints"));
    for file in files(&pinion.home()) {
        match file.starts_with(&of_sessions) && file.extension().is_some_and(|extension| extension == "jsonl") {
            true => sessions += 1,
            false if file.starts_with(&snapshots) => {}
            false if file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"audit.")) => {}
            false => _ = others.insert(file),
        }
    }
    (others, sessions)
}

/// Returns the number of processes whose environment names this home.
#[cfg(target_os = "linux")]
fn processes(pinion: &Pinion) -> usize {
    let home = format!("PINION_HOME={}", pinion.home().display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.filter(|bytes| bytes.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())).count()
}

#[cfg(not(target_os = "linux"))]
fn processes(_: &Pinion) -> usize {
    0
}

/// Returns a run that reads a file and starts a program, with a separate directory for temporary files.
fn working(pinion: &Pinion, temporary: &Path) -> Command {
    let script = pinion.home().join("../script.jsonl");
    let mut command = pinion.command(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    command.env("TMPDIR", temporary).env("PINION_LOG", "pinion_plugin_runtime=debug");
    command
}

fn prepared() -> (Pinion, PathBuf) {
    let pinion = Pinion::cold();
    pinion.script(&[
        call("read", json!({ "path": "none" })),
        call("bash", json!({ "command": "echo ran" })),
        json!({ "text": "done" }),
    ]);
    let temporary = pinion.home().join("../tmp");
    std::fs::create_dir(&temporary).unwrap();
    (pinion, temporary)
}

#[tokio::test]
async fn many_runs_leave_only_their_sessions_behind() {
    let runs = if is_long() { 5_000 } else { 20 };
    let (pinion, temporary) = prepared();
    let run = || {
        let ended = working(&pinion, &temporary).output().unwrap();
        assert!(ended.status.success() && ended.stdout == b"done\n", "{ended:?}");
    };
    // The second start writes the index of the plugins that the first one described.
    (0..2).for_each(|_| run());
    let (before, _) = left(&pinion);
    (2..runs).for_each(|_| run());
    let (after, sessions) = left(&pinion);
    assert_eq!((after, sessions), (before, runs));
    assert_eq!(files(&temporary), BTreeSet::new());
    until("all processes have ended", || processes(&pinion) == 0).await;
}

#[tokio::test]
async fn concurrent_cold_starts_compile_each_plugin_once() {
    let runs = if is_long() { 50 } else { 8 };
    let (pinion, temporary) = prepared();
    let start = || {
        let mut command = working(&pinion, &temporary);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..runs).map(|_| start()).collect();
    let ended: Vec<_> = started.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
    assert!(ended.iter().all(|run| run.status.success() && run.stdout == b"done\n"), "{ended:?}");
    let compiles: usize =
        ended.iter().map(|run| String::from_utf8_lossy(&run.stderr).matches("compiling a component").count()).sum();
    assert_eq!(compiles, 5);
    let components = files(&pinion.home().join("cache/components"));
    assert_eq!(components.len(), 10, "the code and the description of five plugins: {components:?}");
    assert_eq!(left(&pinion).1, runs);
    assert_eq!(files(&temporary), BTreeSet::new());
    until("all processes have ended", || processes(&pinion) == 0).await;
}
