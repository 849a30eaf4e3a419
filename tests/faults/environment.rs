//! Homes, limits and umasks that no one would choose.

use super::{assert_failed, call, run, say, scripted, wrapped};
use pinion_tests::{Ended, Pinion};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs without `PINION_HOME`, in this home.
fn in_home(pinion: &Pinion, home: &str, more: &[&str]) -> Ended {
    let mut command = scripted(pinion, &[say("hi")], more);
    command.env_remove("PINION_HOME").env("HOME", home);
    run(command)
}

#[test]
fn home_that_is_a_file_stops_only_what_needs_it() {
    let pinion = Pinion::default();
    for home in ["/dev/null", pinion.write("file", "x").to_str().unwrap()] {
        assert_failed(&in_home(&pinion, home, &[]), 1, &["Not a directory", "--no-session", "PINION_HOME"]);
        let ended = in_home(&pinion, home, &["--no-session"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hi\n"), "{ended:?}");
    }
}

/// Makes everything that the command needs accessible to everyone, and runs it as a user without any rights.
fn as_nobody(pinion: &Pinion, command: &Command) -> Ended {
    run(by_nobody(pinion, command))
}

/// Wraps the command itself, not a program that starts it: another user may be unable to reach the directory it is in.
pub(crate) fn by_nobody(pinion: &Pinion, command: &Command) -> Command {
    let top = pinion.home().parent().unwrap().to_owned();
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
    let id = NOBODY.to_string();
    let drop = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    wrapped(&drop, command)
}

/// Returns whether another user can execute the command. Only root can become that user.
pub(crate) fn can_be_nobody(pinion: &Pinion) -> bool {
    is_root() && as_nobody(pinion, &pinion.command(["--version"])).code == Some(0)
}

#[test]
fn home_of_another_user_is_explained() {
    let pinion = Pinion::default();
    if !can_be_nobody(&pinion) {
        return;
    }
    // Root ran once in the home of a user: config and cache are readable, nothing is writable.
    fs::set_permissions(pinion.home(), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = as_nobody(&pinion, &scripted(&pinion, &[say("hi")], &[]));
    assert_failed(&ended, 1, &["Permission denied", "--no-session", "PINION_HOME", "belongs to root", "chown"]);
    let ended = as_nobody(&pinion, &scripted(&pinion, &[say("hi")], &["--no-session"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hi\n"), "{ended:?}");
    fs::set_permissions(pinion.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let ended = as_nobody(&pinion, &scripted(&pinion, &[say("hi")], &["--no-session"]));
    assert_failed(&ended, 2, &["config.toml", "Permission denied", "PINION_HOME"]);
}

#[test]
fn files_of_another_user_are_named_with_their_owner() {
    let pinion = Pinion::default();
    if !can_be_nobody(&pinion) {
        return;
    }
    // Root also saved a session there.
    assert_eq!(run(scripted(&pinion, &[say("hi")], &[])).code, Some(0));
    fs::set_permissions(pinion.home(), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = as_nobody(&pinion, &pinion.command(["session", "list"]));
    assert_failed(&ended, 1, &["Permission denied", "belongs to root", "chown"]);
    let doctor = as_nobody(&pinion, &pinion.command(["doctor"])).stdout;
    assert!(doctor.contains("cache.key` cannot be used") && !doctor.contains("was replaced"), "{doctor}");
}

#[test]
fn limit_on_threads_is_an_error_and_never_a_hang() {
    let pinion = Pinion::default();
    if !can_be_nobody(&pinion) {
        return;
    }
    fs::set_permissions(pinion.home(), fs::Permissions::from_mode(0o777)).unwrap();
    for most in 1..8 {
        let command = scripted(&pinion, &[say("hi")], &["--no-session"]);
        let ended = run(wrapped(&["prlimit", &format!("--nproc={most}")], &by_nobody(&pinion, &command)));
        match ended.code {
            Some(0) => assert_eq!(ended.stdout, "hi\n", "{most}: {ended:?}"),
            _ => assert_failed(&ended, 1, &["error:"]),
        }
        // A thread needs memory for its stack, too.
        if ended.stderr.contains("could not start a thread") {
            assert_failed(&ended, 1, &["ulimit -u", "ulimit -v"]);
        }
    }
}

#[test]
fn umask_that_forbids_everything_leaves_usable_directories() {
    let pinion = Pinion::default();
    let command = scripted(&pinion, &[say("hi")], &[]);
    let ended = run(wrapped(&["sh", "-c", "umask 777 && exec \"$@\"", "sh"], &command));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mode = fs::metadata(pinion.home().join("sessions")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn missing_built_in_plugins_end_a_run() {
    let pinion = Pinion::cold();
    let limited = |more: &[&str]| run(wrapped(&["prlimit", "--as=2000000000"], &scripted(&pinion, &[say("hi")], more)));
    let ended = limited(&[]);
    assert_failed(&ended, 1, &["Cannot allocate memory", "hint: raise the limit on address space (ulimit -v)"]);
    assert_eq!(ended.stdout, "");
}

#[test]
fn address_space_that_is_too_small_is_refused_at_the_start() {
    let pinion = Pinion::default();
    let command = scripted(&pinion, &[say("hi")], &["--no-tools"]);
    for (megabytes, code) in [(400, 1), (2_000, 0)] {
        let ended = run(wrapped(&["prlimit", &format!("--as={megabytes}000000")], &command));
        assert_eq!((ended.code, ended.stderr.contains("(ulimit -v)")), (Some(code), false), "{ended:?}");
        assert_eq!(ended.stderr.contains("`ulimit -v unlimited`"), code == 1, "{ended:?}");
    }
}

#[test]
fn built_in_plugin_that_is_lost_during_a_run_ends_it() {
    let pinion = Pinion::default();
    // From now on, the cache describes the plugins, and runs begin without their code.
    assert_eq!(run(scripted(&pinion, &[say("hi")], &[])).code, Some(0));
    let replies = [call("read", json!({ "path": "a" })), say("went on")];
    for format in ["text", "json"] {
        let command = scripted(&pinion, &replies, &["--output-format", format]);
        let ended = run(wrapped(&["prlimit", "--as=2000000000"], &command));
        assert_failed(&ended, 1, &["plugin `fs` was not loaded", "Cannot allocate memory", "--no-builtin-plugins"]);
        assert!(!ended.stdout.contains("went on"), "{ended:?}");
        if format == "json" {
            let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
            assert_eq!(result["stop_reason"], "error", "{result}");
        }
    }
}

#[test]
fn used_up_descriptors_are_named_and_cost_no_answer() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "text");
    let replies = [call("read", json!({ "path": "a.txt" })), say("done")];
    assert_eq!(run(scripted(&pinion, &replies, &[])).code, Some(0));
    for limit in 10..40 {
        let command = scripted(&pinion, &replies, &["--output-format", "stream-json"]);
        let ended = run(wrapped(&["prlimit", &format!("--nofile={limit}")], &command));
        let all = format!("{}{}", ended.stdout, ended.stderr).to_lowercase();
        let has_answer = ended.stdout.contains(r#""result":"done""#);
        let has_failed = ended.code != Some(0) || all.contains(r#""is_error":true"#);
        assert!(!has_failed || all.contains("too many open files"), "{limit}: {ended:?}");
        // The directory of the session cannot be synced, which costs only a notice.
        assert!(!has_answer || ended.code == Some(0), "{limit}: {ended:?}");
    }
}

#[test]
fn plugins_directory_that_is_no_directory_is_reported() {
    let pinion = Pinion::default();
    let plugins = pinion.home().join("plugins");
    assert_eq!(run(scripted(&pinion, &[say("hi")], &[])).stderr, "");
    fs::write(&plugins, "").unwrap();
    let ended = run(scripted(&pinion, &[say("hi")], &[]));
    assert!(ended.code == Some(0) && ended.stderr.contains("Not a directory"), "{ended:?}");
    fs::remove_file(&plugins).unwrap();
    std::os::unix::fs::symlink("nowhere", &plugins).unwrap();
    let ended = run(scripted(&pinion, &[say("hi")], &[]));
    assert!(ended.code == Some(0) && ended.stderr.contains("No such file"), "{ended:?}");
    assert_eq!(run(scripted(&pinion, &[say("hi")], &["--no-plugins"])).stderr, "");
}
