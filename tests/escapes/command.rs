//! The sandbox of the command: on by default, configurable, and closed where a layer is missing.

use super::BOTH;
use pinion_sandbox::{Enforcement, Launcher, Program, SandboxPolicy};
use pinion_tests::{Ended, Pinion, binary, call, has_namespaces, say};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Lets a scripted model run one command with `bash`, and returns the result that the next request carries.
pub(super) fn bash(pinion: &Pinion, script: &str, options: &[&str]) -> String {
    let ended = bash_with(pinion, &json!({ "command": script }), options);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<String> =
        events.filter(|event| event["type"] == "tool_execution_end").map(|event| event.to_string()).collect();
    assert_eq!(results.len(), 1, "{ended:?}");
    results.concat()
}

/// Lets a scripted model call `bash` with these arguments.
pub(super) fn bash_with(pinion: &Pinion, arguments: &Value, options: &[&str]) -> Ended {
    let replies = [call("bash", arguments.clone()), say("done")];
    let replay = pinion.script(&replies);
    let replay = replay.to_str().unwrap();
    let mut line = vec!["-p", "--approve", "all", "--replay", replay, "--output-format", "stream-json"];
    line.extend(options);
    line.push("go");
    pinion.run(line)
}

#[test]
fn programs_of_the_agent_are_confined_by_default() {
    let pinion = Pinion::default();
    let outside = pinion.write("../outside", "before");
    // In a private `/tmp`, the program may create a file of this name.
    let script = format!("echo x > made; echo x > {}", outside.display());
    let result = bash(&pinion, &script, &[]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "before");
    assert_eq!(std::fs::read_to_string(pinion.workspace().join("made")).unwrap(), "x\n");
    assert!(result.contains("\"tool\":\"bash\""), "{result}");
}

#[test]
fn hint_names_the_setting_after_a_failed_write() {
    let result = bash(&Pinion::default(), "echo x > /etc/pinion-new", &[]);
    assert!(result.contains("hint: the sandbox is read-only outside the workspace"), "{result}");
    assert!(result.contains("writable"), "{result}");
}

#[test]
fn created_protected_files_are_moved_away_and_reported() {
    let pinion = Pinion::default();
    let result = bash(&pinion, "echo '{}' > .mcp.json", &[]);
    assert!(result.contains("is protected") && !pinion.workspace().join(".mcp.json").exists(), "{result}");
}

#[test]
fn the_hosts_own_files_are_out_of_reach() {
    let pinion = Pinion::default();
    pinion.config("model = \"secret-model\"\n");
    let home = pinion.home();
    let result = bash(&pinion, &format!("cat {0}/config.toml; ls {0}/sessions; true", home.display()), &[]);
    assert!(!result.contains("secret-model"), "{result}");
}

#[test]
fn no_sandbox_runs_programs_as_they_are() {
    let pinion = Pinion::default();
    let outside = pinion.write("../outside", "before");
    bash(&pinion, &format!("echo after > {}", outside.display()), &["--no-sandbox"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "after\n");
}

#[test]
fn writable_directories_of_the_config_can_be_written() {
    let pinion = Pinion::default();
    let cache = pinion.write("../cache/file", "before");
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\"]\n", cache.parent().unwrap().display()));
    bash(&pinion, &format!("echo after > {}", cache.display()), &[]);
    assert_eq!(std::fs::read_to_string(&cache).unwrap(), "after\n");
}

#[test]
fn temporary_files_last_for_the_session_and_no_longer() {
    let pinion = Pinion::default();
    let replies = [
        call("bash", json!({ "command": "echo kept > /tmp/note" })),
        call("bash", json!({ "command": "cp ${TMPDIR:-/tmp}/note ." })),
        say("done"),
    ];
    let replay = pinion.script(&replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", replay.to_str().unwrap(), "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    if has_namespaces() {
        assert_eq!(std::fs::read_to_string(pinion.workspace().join("note")).unwrap(), "kept\n");
    }
    let left = std::fs::read_dir(pinion.home().join("cache/output")).into_iter().flatten().flatten().next();
    assert!(left.is_none_or(|session| !session.path().join("tmp").exists()));
}

#[test]
fn project_cannot_change_the_sandbox() {
    let pinion = Pinion::default();
    pinion.write(".pinion/config.toml", "[sandbox]\nmode = \"off\"\nnetwork = true\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let shown = pinion.run(["config", "show"]).stdout;
    assert!(shown.contains("mode = \"require\"") && shown.contains("network = false"), "{shown}");
}

#[test]
fn command_runs_programs_and_shows_the_layers() {
    let pinion = Pinion::default();
    let status = pinion.run(["sandbox", "--status"]);
    assert!(status.code == Some(0) && status.stdout.contains("seccomp     yes"), "{status:?}");
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "echo inside; echo x > /etc/pinion-new"]);
    assert!(ran.stdout.contains("inside") && ran.code == Some(1), "{ran:?}");
}

/// Runs the command where no user namespace can be created.
pub(super) fn without_namespaces(pinion: &Pinion, arguments: &str) -> Ended {
    let plain = pinion.command(["x"]);
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {} {arguments}", binary().display());
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", &script]).current_dir(pinion.workspace()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn workspace_on_a_read_only_mount_is_read() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    pinion.write("plain.txt", "plain");
    let plain = pinion.command(["sandbox", "--", "sh", "-c", "cat plain.txt; echo x > new; echo end"]);
    let mounts = "mount --bind \"$PWD\" \"$PWD\" && mount -o remount,ro,bind \"$PWD\" && cd \"$PWD\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", mounts, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(pinion.workspace()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("plain") && stdout.contains("end") && !stderr.contains("no sandbox"), "{stdout}{stderr}");
    assert!(!pinion.workspace().join("new").exists());
}

#[test]
fn other_layers_hold_where_namespaces_are_missing() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let status = without_namespaces(&pinion, "sandbox --status");
    assert!(status.stdout.contains("namespaces  no: ") && status.stdout.contains("user namespace"), "{status:?}");
    let ran = without_namespaces(&pinion, "sandbox -- sh -c 'echo x > /etc/pinion-new; cat /etc/hostname; echo end'");
    assert!(ran.stdout.contains("end") && ran.stderr.contains("denied"), "{ran:?}");
    pinion.write(".git/hooks/x", "");
    let strict = without_namespaces(&pinion, "sandbox -- sh -c 'echo x > new'");
    assert!(strict.code == Some(1) && !pinion.workspace().join("new").exists(), "{strict:?}");
    pinion.config("[sandbox]\nmode = \"best-effort\"\n");
    let loose = without_namespaces(&pinion, "sandbox -- sh -c 'echo x > new'");
    assert!(loose.code == Some(0) && pinion.workspace().join("new").exists(), "{loose:?}");
    // Where no one can be asked, the denial says why the sandbox does not confine the command.
    let replay = pinion.script(&[call("bash", json!({ "command": "touch made" })), say("done")]);
    let denied = without_namespaces(&pinion, &format!("-p --replay {} go", replay.display()));
    let said = denied.stderr.contains("cannot be left to the sandbox") && denied.stderr.contains("no namespaces");
    assert!(denied.code == Some(4) && said, "{denied:?}");
}

#[test]
fn missing_layer_is_reported_and_nothing_runs() {
    if !has_namespaces() {
        return;
    }
    let helper = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} run-in-sandbox-for-parent \"$@\"",
        binary().display()
    );
    let arguments = ["-Ur", "sh", "-c", &helper, "sh"].map(Into::into).to_vec();
    let launcher = Launcher::new("/usr/bin/unshare".into(), arguments).with_layers(BOTH);
    let directory = tempfile::tempdir().unwrap();
    let made = directory.path().join("made");
    let arguments = [made.to_str().unwrap().to_owned()];
    let program = Program { program: "/bin/touch", arguments: &arguments, directory: Path::new("/"), environment: &[] };
    let policy = SandboxPolicy { writable: vec![directory.path().to_owned()], ..SandboxPolicy::default() };
    let output = launcher.command(program, &policy).unwrap().output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{error}");
    assert!(
        error.contains("a user namespace is not available") && error.contains("hint: allow user namespaces"),
        "{error}"
    );
    assert!(!made.exists());
}

#[test]
fn best_effort_does_without_landlock_and_require_does_not() {
    // A helper on a kernel without Landlock.
    let helper = format!(
        "case \"$PINION_SANDBOX_REQUEST_0\" in *'\"landlock\":true'*) echo 'no Landlock' >&2; exit 125;; esac; exec {} run-in-sandbox-for-parent \"$@\"",
        binary().display()
    );
    let launcher = Launcher::new("/bin/sh".into(), ["-c", &helper, "sh"].map(Into::into).to_vec());
    let refused = launcher.support(&SandboxPolicy::default()).unwrap_err().to_string();
    assert!(refused.contains("no Landlock"), "{refused}");
    let policy = SandboxPolicy { enforcement: Enforcement::BestEffort, ..SandboxPolicy::default() };
    let support = launcher.support(&policy).unwrap();
    assert!(support.landlock.is_none() && support.seccomp, "{support:?}");
}

#[test]
fn own_directory_is_never_writable() {
    let pinion = Pinion::default();
    let home = pinion.home();
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\"]\n", home.display()));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &format!("echo x >> {}/config.toml", home.display())]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    pinion.write("../home/sessions/x", "");
    for own in [home.to_owned(), home.join("sessions")] {
        let mut command = pinion.command(["sandbox", "--", "true"]);
        let output = command.current_dir(own).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("holds Pinion's own files"), "{error}");
    }
}

#[test]
fn devices_of_the_config_can_be_used() {
    if !has_namespaces() {
        return;
    }
    let Some(device) = ["/dev/fuse", "/dev/kvm", "/dev/loop-control"].into_iter().find(|path| Path::new(path).exists())
    else {
        return;
    };
    let pinion = Pinion::default();
    let test = format!("test -c {device} && echo there; test -e /dev/kmsg && echo more; true");
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &test]);
    assert!(ran.code == Some(0) && ran.stdout.is_empty(), "{ran:?}");
    pinion.config(&format!("[sandbox]\ndevices = [\"{}*\"]\n", &device[..device.len() - 1]));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &test]);
    assert_eq!(ran.stdout, "there\n", "{ran:?}");
}
