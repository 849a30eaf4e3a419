//! Homes, limits and umasks that no one would choose.

use super::{assert_failed, run, say, scripted, wrapped};
use pinion_tests::{Ended, Pinion};
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
    let top = pinion.home().parent().unwrap().to_owned();
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
    let id = NOBODY.to_string();
    let drop = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    run(wrapped(&drop, command))
}

/// Returns whether another user can execute the command. Only root can become that user.
fn can_be_nobody(pinion: &Pinion) -> bool {
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
    assert_failed(&ended, 1, &["Permission denied", "--no-session", "PINION_HOME"]);
    let ended = as_nobody(&pinion, &scripted(&pinion, &[say("hi")], &["--no-session"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hi\n"), "{ended:?}");
    fs::set_permissions(pinion.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let ended = as_nobody(&pinion, &scripted(&pinion, &[say("hi")], &["--no-session"]));
    assert_failed(&ended, 2, &["config.toml", "Permission denied", "PINION_HOME"]);
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
        let ended = as_nobody(&pinion, &wrapped(&["prlimit", &format!("--nproc={most}")], &command));
        match ended.code {
            Some(0) => assert_eq!(ended.stdout, "hi\n", "{most}: {ended:?}"),
            _ => assert_failed(&ended, 1, &["error:"]),
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
    let pinion = Pinion::default();
    let limited = |more: &[&str]| run(wrapped(&["prlimit", "--as=2000000000"], &scripted(&pinion, &[say("hi")], more)));
    let ended = limited(&[]);
    assert_failed(&ended, 1, &["Cannot allocate memory"]);
    assert_eq!(ended.stdout, "");
}
