//! Loading a plugin is bounded and delays nothing else.

mod compilation;

use pinion_plugin_runtime::{NoticeEvent, PluginSource};
use pinion_tests::{Ended, Pinion, Progress, Sandbox, SandboxBuilder, guest, until, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// More time than anything unrelated may take, and less than any deadline of a hostile plugin.
const SOON: Duration = Duration::from_secs(8);
/// More time than the limits of loading allow.
const LOADED: Duration = Duration::from_secs(60);
/// Half the default capacity of a pipe on Linux. Only the long line of output exceeds it, and that one blocks.
const HALF_PIPE: u64 = 32_768;

/// Copies the guest `loiter` under another name of six letters.
pub(super) fn loiter(directory: &Path, name: &str) -> PathBuf {
    assert_eq!(name.len(), 6);
    let mut bytes = std::fs::read(guest("loiter")).unwrap();
    let (old, new) = (b"\"name\":\"loiter\"", format!("\"name\":\"{name}\""));
    let places: Vec<usize> =
        bytes.windows(old.len()).enumerate().filter(|(_, window)| window == old).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + old.len()].copy_from_slice(new.as_bytes()));
    let file = directory.join(format!("{name}.wasm"));
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Creates files that are not components; each would block or crash a careless reader.
fn odd_files(directory: &Path) -> Vec<(PathBuf, &'static str)> {
    let file = |name: &str| directory.join(format!("{name}.wasm"));
    rustix::fs::mknodat(rustix::fs::CWD, file("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink(file("pipe"), file("link-to-pipe")).unwrap();
    symlink("/dev/zero", file("zero")).unwrap();
    symlink("/dev/tty", file("terminal")).unwrap();
    symlink(file("loop"), file("loop")).unwrap();
    symlink("/proc/kmsg", file("kernel-log")).unwrap();
    std::fs::create_dir(file("directory")).unwrap();
    std::fs::File::create(file("sparse")).unwrap().set_len(12 << 30).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(file("socket")).unwrap();
    vec![
        (file("pipe"), "not a regular file"),
        (file("link-to-pipe"), "not a regular file"),
        (file("zero"), "not a regular file"),
        (file("terminal"), "not a regular file"),
        (file("loop"), "could not read the file"),
        (file("kernel-log"), ""),
        (file("directory"), "not a regular file"),
        (file("sparse"), "more than the"),
        (file("socket"), "not a regular file"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_files_are_rejected_and_others_load() {
    let directory = TempDir::new().unwrap();
    let odd = odd_files(directory.path());
    let builder = odd.iter().fold(SandboxBuilder::default(), |builder, (file, _)| builder.file(file.clone()));
    let sandbox = tokio::time::timeout(SOON, builder.guest("echo").trust("echo").build()).await.unwrap();
    assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
    let problems = sandbox.runtime.problems();
    for (file, message) in odd {
        let name = file.file_name().unwrap().to_str().unwrap();
        let (_, problem) = problems.iter().find(|(plugin, _)| plugin == name).unwrap();
        assert!(problem.contains(message), "{name}: {problem}");
    }
}

/// Waits for a command that must end within a time limit.
fn end(mut child: Child, within: Duration) -> ExitStatus {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || sender.send(child.wait().unwrap()).unwrap());
    let status = receiver.recv_timeout(within).unwrap_or_else(|_| {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("the command does not end");
    });
    waiting.join().unwrap();
    status
}

/// Sends a signal repeatedly until the command ends, because pending signals of one kind merge.
fn end_by(mut child: Child, signal: Signal) -> ExitStatus {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    wait_until("the command ends", || {
        let has_ended = child.try_wait().unwrap().is_some();
        // Fails only if the command ended in between.
        let _ = kill_process(pid, signal);
        has_ended
    });
    child.wait().unwrap()
}

/// Runs a command under the `timeout` program.
fn run_bounded(pinion: &Pinion, arguments: &[&str]) -> Ended {
    let command = pinion.command(arguments);
    let mut bounded = Command::new("timeout");
    bounded.arg(LOADED.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    bounded.current_dir(pinion.workspace()).env_clear();
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = bounded.stdin(std::process::Stdio::null()).output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn plugin_commands_reject_odd_files() {
    let pinion = Pinion::default();
    for (file, message) in odd_files(&pinion.workspace()) {
        let file = file.to_str().unwrap();
        let commands: [&[&str]; 4] = [
            &["plugin", "check", file],
            &["plugin", "info", file],
            &["plugin", "call", file, "echo", "{}"],
            &["plugin", "pack", file, "--name", "x"],
        ];
        for command in commands {
            let ended = run_bounded(&pinion, command);
            assert!(matches!(ended.code, Some(1 | 2)), "{command:?}: {ended:?}");
            // `info` and `call` treat a loop of links as the name of a plugin.
            let is_name = file.ends_with("loop.wasm") && ended.stderr.contains("no plugin");
            assert!(is_name || ended.stderr.contains(message), "{command:?}: {ended:?}");
        }
    }
}

#[test]
fn odd_files_in_the_plugin_directory_do_not_disturb_a_run() {
    let pinion = Pinion::default();
    std::fs::create_dir_all(pinion.home().join("plugins")).unwrap();
    odd_files(&pinion.home().join("plugins"));
    let script = pinion.script(&[json!({ "text": "fine" })]);
    let ended = run_bounded(&pinion, &["-p", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "fine\n"), "{ended:?}");
    assert!(ended.stderr.contains("`sparse.wasm`") && ended.stderr.contains("`pipe.wasm`"), "{ended:?}");
}

/// Loads copies of `loiter`, each with its own config, and returns the problem of each.
async fn load_all(configs: &[(&str, Value)]) -> (Sandbox, Vec<String>) {
    let directory = TempDir::new().unwrap();
    let mut builder = SandboxBuilder::default();
    for (name, config) in configs {
        builder = builder.file(loiter(directory.path(), name)).config(name, config.clone());
    }
    let sandbox = tokio::time::timeout(LOADED, builder.guest("echo").trust("echo").build()).await.unwrap();
    let problems = sandbox.runtime.problems();
    let problem = |name: &str| {
        let file = format!("{name}.wasm");
        problems.iter().find(|(plugin, _)| *plugin == file).map(|(_, problem)| problem.clone())
    };
    let problems = configs.iter().map(|(name, _)| problem(name).unwrap_or_default()).collect();
    (sandbox, problems)
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_that_sleeps_during_load_is_rejected() {
    let (sandbox, problems) = load_all(&[
        ("sleepa", json!({ "init": "sleep" })),
        ("sleepb", json!({ "self_test": "sleep" })),
        ("sleepc", json!({ "list": "sleep" })),
        ("sleepd", json!({ "commands": "sleep" })),
        ("dozing", json!({ "init": "doze", "self_test": "doze", "list": "doze", "commands": "doze" })),
    ])
    .await;
    for problem in problems {
        assert!(problem.contains("more than 10000 ms") && problem.contains("hint:"), "{problem}");
    }
    assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_with_unbounded_load_is_rejected() {
    let (_sandbox, problems) = load_all(&[
        ("spinsa", json!({ "init": "spin" })),
        ("spinsb", json!({ "list": "spin" })),
        ("eaters", json!({ "self_test": "eat" })),
        ("shouts", json!({ "list": "shout" })),
        ("panics", json!({ "commands": "panic" })),
    ])
    .await;
    for (problem, parts) in
        problems.iter().zip([&["fuel", "ms"][..], &["fuel", "ms"], &["memory"], &["host"], &["planned"]])
    {
        assert!(parts.iter().any(|part| problem.contains(part)), "{parts:?}: {problem}");
        assert!(!problem.contains("[plugins."), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_plugin_delays_no_other() {
    let directory = TempDir::new().unwrap();
    let sandbox = SandboxBuilder::default().trust("echo").config("sleeps", json!({ "list": "sleep" })).build().await;
    let slow = PluginSource::file(loiter(directory.path(), "sleeps"));
    let loading = sandbox.runtime.begin(vec![slow, PluginSource::file(guest("echo"))]);
    tokio::time::timeout(SOON, async {
        until("the other plugin is loaded", || !sandbox.runtime.plugins().is_empty()).await;
        assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
    })
    .await
    .unwrap();
    assert_eq!(sandbox.runtime.being_loaded(), ["sleeps.wasm"]);
    drop(loading);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_runtime_cancels_loads() {
    let directory = TempDir::new().unwrap();
    let sandbox = SandboxBuilder::default().trust("echo").config("sleeps", json!({ "list": "sleep" })).build().await;
    let loading = sandbox.runtime.begin(vec![PluginSource::file(loiter(directory.path(), "sleeps"))]);
    drop(sandbox);
    tokio::time::timeout(Duration::from_secs(5), loading.settled()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn first_source_wins_names_even_if_it_loads_last() {
    let directory = TempDir::new().unwrap();
    let (slow, fast) = (loiter(directory.path(), "slower"), loiter(directory.path(), "faster"));
    let builder = SandboxBuilder::default()
        .config("slower", json!({ "prefix": "x_", "list": "doze" }))
        .config("faster", json!({ "prefix": "x_" }));
    let sandbox = builder.file(slow).file(fast).build().await;
    let plugins: Vec<(String, bool)> =
        sandbox.runtime.plugins().into_iter().map(|plugin| (plugin.name, plugin.tools.is_empty())).collect();
    assert_eq!(plugins, [("slower".into(), false), ("faster".into(), true)]);
    let events: Vec<(String, bool)> = sandbox
        .notices()
        .into_iter()
        .map(|notice| (notice.plugin, matches!(notice.event, NoticeEvent::LeftOut(_))))
        .collect();
    assert_eq!(events, [("faster".into(), false), ("slower".into(), false), ("faster".into(), true)]);
    assert_eq!(sandbox.text("x_nap", json!({ "amount": 0 })).await, "slept");
}

/// A working plugin `greeter` whose file was replaced with one that hangs during load.
async fn replaced_by_a_sleeper() -> (TempDir, Sandbox) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("greet.wasm");
    std::fs::copy(guest("greet_one"), &file).unwrap();
    let builder = SandboxBuilder::default().file(file.clone()).guest("echo").trust("echo");
    let sandbox = builder.config("sleeps", json!({ "list": "sleep" })).build().await;
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
    std::fs::rename(loiter(directory.path(), "sleeps"), file).unwrap();
    (directory, sandbox)
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_keeps_its_names_from_plugins_that_load_meanwhile() {
    let directory = TempDir::new().unwrap();
    let [first, second] = ["echo", "collides"].map(|name| {
        let file = directory.path().join(format!("{name}.wasm"));
        std::fs::copy(guest(name), &file).unwrap();
        file
    });
    let builder = SandboxBuilder::default().file(first.clone()).file(second.clone());
    let sandbox = builder.config("sleeps", json!({ "list": "sleep" })).build().await;
    std::fs::rename(loiter(directory.path(), "sleeps"), first).unwrap();
    let reload = sandbox.runtime.begin_refresh();
    let mut changed = std::fs::read(&second).unwrap();
    changed.extend([0, 2, 1, b'x']);
    std::fs::write(&second, changed).unwrap();
    assert_eq!(sandbox.text("spare", json!({})).await, "mine");
    let plugins = sandbox.runtime.plugins();
    assert_eq!((plugins[0].generation, plugins[1].generation), (1, 2));
    assert_eq!(plugins[0].tools[0], "echo");
    assert_eq!(plugins[1].tools, ["spare"]);
    drop(reload);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_reload_delays_only_its_own_callers() {
    let (_directory, sandbox) = replaced_by_a_sleeper().await;
    let held = async { tokio::time::timeout(LOADED, sandbox.text("greet", json!({}))).await.unwrap() };
    let other = async {
        for _ in 0..50 {
            let echoed = tokio::time::timeout(SOON, sandbox.text("echo", json!({ "message": "here" }))).await;
            assert_eq!(echoed.unwrap(), "here");
        }
    };
    let (held, ()) = tokio::join!(held, other);
    assert_eq!(held, "hello from version one");
    // It was tried once and rejected; later calls do not wait for it again.
    assert_eq!(tokio::time::timeout(SOON, sandbox.text("greet", json!({}))).await.unwrap(), "hello from version one");
    assert!(sandbox.runtime.problems()[0].1.contains("more than 10000 ms"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_does_not_wait_for_a_reload() {
    let (_directory, sandbox) = replaced_by_a_sleeper().await;
    let token = CancellationToken::new();
    let progress = Progress::default();
    let call = sandbox.call_with("greet", json!({}), &progress, token.clone());
    let cancel = async {
        tokio::task::yield_now().await;
        token.cancel();
    };
    let (ended, ()) = tokio::time::timeout(SOON, async { tokio::join!(call, cancel) }).await.unwrap();
    assert!(ended.0.is_err(), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_under_constant_writes_blocks_no_caller() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("greet.wasm");
    std::fs::copy(guest("greet_one"), &file).unwrap();
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let writing = std::thread::spawn(move || {
        let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
        while !stopped.is_cancelled() {
            file.write_all(b"x").unwrap();
            // The pace of the writer; nothing waits for it.
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    for _ in 0..2 {
        let greeting = tokio::time::timeout(SOON, sandbox.text("greet", json!({}))).await.unwrap();
        assert_eq!(greeting, "hello from version one");
    }
    stop.cancel();
    writing.join().unwrap();
}

/// A home whose plugin directory contains a plugin that hangs during load.
fn with_a_sleeper() -> Pinion {
    let pinion = Pinion::default();
    std::fs::create_dir_all(pinion.home().join("plugins")).unwrap();
    loiter(&pinion.home().join("plugins"), "sleeps");
    pinion.config("[plugins.sleeps.config]\nlist = \"sleep\"\n");
    pinion
}

#[test]
fn run_starts_without_an_unloadable_plugin() {
    let pinion = with_a_sleeper();
    let script = pinion.script(&[json!({ "text": "fine" })]);
    let begun = Instant::now();
    let ended = run_bounded(&pinion, &["-p", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "fine\n"), "{ended:?}");
    let is_named = ["is still loading", "was not loaded"].map(|end| ended.stderr.contains(end)).contains(&true);
    assert!(begun.elapsed() < LOADED && is_named && ended.stderr.contains("`sleeps.wasm`"), "{ended:?}");
}

#[test]
fn unloadable_plugin_does_not_block_list_and_doctor() {
    let pinion = with_a_sleeper();
    for command in [&["plugin", "list"][..], &["doctor"], &["plugin", "info", "sleeps"]] {
        let ended = run_bounded(&pinion, command);
        assert!(matches!(ended.code, Some(0..=2)), "{ended:?}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains("more than 10000 ms"), "{command:?}: {ended:?}");
    }
}

/// Starts a command and sends it a signal as soon as it handles signals.
fn interrupted(pinion: &Pinion, arguments: &[&str], signal: Signal) -> ExitStatus {
    interrupted_when(pinion, arguments, signal, |_| true)
}

/// Starts a command and sends it a signal as soon as it handles signals and `is_ready` accepts its process id.
fn interrupted_when(pinion: &Pinion, arguments: &[&str], signal: Signal, is_ready: impl Fn(u32) -> bool) -> ExitStatus {
    let child = pinion.start(arguments);
    wait_until("the command is ready", || handles_signals(child.id()) && is_ready(child.id()));
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    end(child, Duration::from_secs(3))
}

/// Returns whether a process has handlers for SIGINT, SIGTERM and SIGHUP.
fn handles_signals(process: u32) -> bool {
    has_signals(process, "SigCgt:", &[Signal::INT, Signal::TERM, Signal::HUP])
}

/// Returns whether a mask in the status of a process contains all these signals.
fn has_signals(process: u32, mask: &str, signals: &[Signal]) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(mask));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.iter().all(|signal| mask & (1 << (signal.as_raw() - 1)) != 0)
}

/// Returns whether a process has started another one.
fn has_child(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children"));
    threads.map(children).any(|children| children.is_ok_and(|children| !children.trim().is_empty()))
}

#[test]
fn signal_during_load_ends_the_program_at_once() {
    let pinion = with_a_sleeper();
    let plugin = loiter(&pinion.workspace(), "sleeps");
    let (plugin, script) = (plugin.to_str().unwrap(), pinion.script(&[json!({ "text": "never" })]));
    let run = ["-p", "--replay", script.to_str().unwrap(), "--plugin", plugin, "go"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        assert_eq!(interrupted(&pinion, &run, signal).code(), Some(code));
    }
    for command in [&["plugin", "list"][..], &["doctor"]] {
        assert_eq!(interrupted(&pinion, command, Signal::INT).code(), Some(130), "{command:?}");
    }
}

/// Starts a run with one call that does not end when it is cancelled. Returns it with its output.
fn staying(pinion: &Pinion) -> (Child, BufReader<ChildStdout>) {
    std::fs::create_dir_all(pinion.home().join("plugins")).unwrap();
    loiter(&pinion.home().join("plugins"), "stayer");
    pinion.config("[plugins.stayer.limits]\ngrace-ms = 600000\n");
    let script = pinion.script(&[json!({ "calls": [{ "tool": "stay", "arguments": {} }] })]);
    let script = script.to_str().unwrap().to_owned();
    let arguments =
        ["-p", "--replay", &script, "--approve", "all", "--tools", "stay", "--output-format", "stream-json", "go"];
    let mut child = pinion.start(arguments);
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn read_until(out: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before `{words}`");
    }
}

#[test]
fn second_signal_ends_the_program_during_a_call() {
    let pinion = Pinion::default();
    let (mut child, mut out) = staying(&pinion);
    read_until(&mut out, "\"waiting\"");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The call has a grace of ten minutes, so the first signal alone ends nothing.
    read_until(&mut out, "\"staying\"");
    assert!(child.try_wait().unwrap().is_none());
    // Read on, so that the command never fails to write.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    assert_eq!(end_by(child, Signal::INT).code(), Some(130));
}

#[test]
fn second_signal_ends_the_program_with_blocked_stdout() {
    let pinion = Pinion::default();
    let replies: Vec<Value> = vec![json!({ "text": "x".repeat(4 << 20) })];
    let script = pinion.script(&replies);
    // Its stdout is a pipe that is never read.
    let child = pinion.start(["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "go"]);
    let stdout = child.stdout.as_ref().unwrap();
    wait_until("the pipe is full", || rustix::io::ioctl_fionread(stdout).unwrap() >= HALF_PIPE);
    let status = end_by(child, Signal::INT);
    assert!(!status.success(), "{status:?}");
}

#[test]
fn ignored_signals_stay_ignored() {
    let pinion = Pinion::default();
    let script = pinion.script(&[json!({ "hang": true, "text": "…" })]);
    let mut command = pinion.command(["-p", "--replay", script.to_str().unwrap(), "wait"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    shell.current_dir(pinion.workspace()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command = shell;
    let child = command.stdin(std::process::Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    wait_until("it handles SIGTERM", || has_signals(child.id(), "SigCgt:", &[Signal::TERM]));
    // The kernel discards these as they arrive.
    assert!(has_signals(child.id(), "SigIgn:", &[Signal::HUP, Signal::INT]));
    for signal in [Signal::HUP, Signal::INT, Signal::HUP, Signal::INT] {
        kill_process(pid, signal).unwrap();
    }
    assert_eq!(end_by(child, Signal::TERM).code(), Some(143));
}
