//! The sandbox of the command: on by default, configurable, and closed where a layer is missing.

use super::BOTH;
use pinion_sandbox::{Enforcement, Launcher, Policy, Program};
use pinion_tests::{Ended, Pinion, binary, call, has_namespaces, say};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Lets a scripted model run one command with `bash`, and returns the result that the next request carries.
pub(super) fn bash(pinion: &Pinion, script: &str, options: &[&str]) -> String {
    let replies = [call("bash", json!({ "command": script })), say("done")];
    let replay = pinion.script(&replies);
    let replay = replay.to_str().unwrap();
    let mut arguments = vec!["-p", "--approve", "all", "--replay", replay, "--output-format", "stream-json"];
    arguments.extend(options);
    arguments.push("go");
    let ended = pinion.run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<String> =
        events.filter(|event| event["type"] == "tool_execution_end").map(|event| event.to_string()).collect();
    assert_eq!(results.len(), 1, "{ended:?}");
    results.concat()
}

#[test]
fn programs_of_the_agent_are_confined_by_default() {
    let pinion = Pinion::default();
    let outside = pinion.write("../outside", "before");
    // In a `/tmp` of its own, the program may create a file of this name.
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
    let policy = Policy { writable: vec![directory.path().to_owned()], ..Policy::default() };
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
    let refused = launcher.support(&Policy::default()).unwrap_err().to_string();
    assert!(refused.contains("no Landlock"), "{refused}");
    let policy = Policy { enforcement: Enforcement::BestEffort, ..Policy::default() };
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
fn rule_that_denies_closes_what_the_config_opens() {
    let pinion = Pinion::default();
    let secret = pinion.write("../credentials/file", "TOP-SECRET");
    let directory = secret.parent().unwrap().display();
    let opened = format!("[sandbox]\nreadable = [\"{directory}\"]\nwritable = [\"{directory}\"]\n");
    let read = format!("cat {}", secret.display());
    pinion.config(&opened);
    assert!(pinion.run(["sandbox", "--", "sh", "-c", &read]).stdout.contains("TOP-SECRET"));
    pinion.config(&format!("{opened}[permissions]\ndeny = [\"read:{directory}\"]\n"));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &read]);
    assert!(ran.code == Some(1) && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn own_files_that_are_kept_in_the_workspace_are_closed() {
    let pinion = Pinion::default();
    let kept = pinion.write("dotfiles/config.toml", "# TOP-SECRET\n");
    pinion.write("../home/x", "");
    std::os::unix::fs::symlink(&kept, pinion.home().join("config.toml")).unwrap();
    let ran =
        pinion.run(["sandbox", "--", "sh", "-c", "cat dotfiles/config.toml; echo x > dotfiles/config.toml; echo end"]);
    assert!(ran.stdout.contains("end") && !ran.stdout.contains("TOP-SECRET"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "# TOP-SECRET\n");
}

/// Settings of git that a program, or a repository, leaves for the next program.
#[test]
fn settings_that_one_program_leaves_open_nothing_to_the_next() {
    let pinion = Pinion::default();
    let secret = pinion.write("../user/.ssh/id", "TOP-SECRET");
    for name in [".git/HEAD", ".git/config", ".git/hooks/pre-commit"] {
        pinion.write(name, "");
    }
    let user = secret.ancestors().nth(2).unwrap();
    let run = |script: &str| {
        let mut command = pinion.command(["sandbox", "--", "sh", "-c", script]);
        let output = command.env("HOME", user).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let config = "[core]\n hooksPath = ../..\n hookspath = /\n";
    run(&format!("mkdir -p sub/.git; printf '{config}' > sub/.git/config"));
    assert!(!pinion.workspace().join("sub/.git/config").exists());
    // As if it had been there before.
    pinion.write("sub/.git/config", config);
    let seen = run("mv .git moved; cat ~/.ssh/id /..$HOME/.ssh/id; echo end");
    assert!(seen.contains("end") && !seen.contains("TOP-SECRET"), "{seen}");
    assert!(pinion.workspace().join(".git/hooks/pre-commit").exists());
}

/// Files outside `.git` that git reads or runs because a setting names them.
#[test]
fn files_that_settings_of_git_name_stay_as_they_are() {
    let pinion = Pinion::default();
    let config = "[include]\n\tpath = ../tools/included\n[filter \"x\"]\n\tclean = tools/clean.sh %f\n";
    pinion.write(".git/HEAD", "ref: refs/heads/main\n");
    pinion.write(".git/config", config);
    let kept = ["tools/included", "tools/clean.sh", "tools/check.sh"].map(|path| pinion.write(path, "mine"));
    std::fs::create_dir_all(pinion.workspace().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink("../../tools/check.sh", pinion.workspace().join(".git/hooks/pre-commit")).unwrap();
    let users = pinion.write("../user/.gitconfig", "[core]\n\thooksPath = .hooks\n");
    let script =
        "for file in tools/*; do echo x > $file; mv $file $file.moved; done; mkdir .hooks; echo x > .hooks/x; echo end";
    let mut command = pinion.command(["sandbox", "--", "sh", "-c", script]);
    let output = command.env("HOME", users.parent().unwrap()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("end"), "{output:?}");
    for path in kept {
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine", "{output:?}");
    }
    assert!(!pinion.workspace().join(".hooks").exists(), "{output:?}");
}

#[test]
fn bare_repository_stays_protected_after_its_head_was_renamed() {
    let pinion = Pinion::default();
    for path in ["HEAD", "objects/x", "hooks/x"] {
        pinion.write(path, "");
    }
    let config = pinion.write("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    let before = std::fs::read(&config).unwrap();
    for script in ["mv HEAD head; mv objects other; echo end", "echo x >> config; echo x > hooks/post-update; echo end"]
    {
        let ran = pinion.run(["sandbox", "--", "sh", "-c", script]);
        assert!(ran.stdout.contains("end"), "{ran:?}");
    }
    assert_eq!(std::fs::read(&config).unwrap(), before);
    assert!(pinion.workspace().join("head").exists() && !pinion.workspace().join("hooks/post-update").exists());
}

#[test]
fn link_at_a_protected_name_shows_nothing_without_namespaces() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let secret = pinion.write("../user/.ssh/id", "TOP-SECRET");
    let hidden = secret.parent().unwrap();
    pinion.config(&format!("[sandbox]\nhidden = [\"{}\"]\n", hidden.display()));
    std::os::unix::fs::symlink(hidden, pinion.workspace().join(".claude")).unwrap();
    let ran = without_namespaces(&pinion, "sandbox -- sh -c 'cat .claude/id; echo end'");
    assert!(ran.stdout.contains("end") && !ran.stdout.contains("TOP-SECRET"), "{ran:?}");
}

#[test]
fn directories_around_what_is_writable_keep_their_places() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    pinion.write("../outer/inner/state/file", "");
    let outer = pinion.workspace().parent().unwrap().canonicalize().unwrap();
    let inner = outer.join("outer/inner/state");
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\", \"{}\"]\n", outer.display(), inner.display()));
    let script =
        "cd ..; touch new; mv work moved; mv outer moved; mv outer/inner outer/moved; echo x > outer/inner/new";
    pinion.run(["sandbox", "--", "sh", "-c", script]);
    assert!(pinion.workspace().exists() && inner.join("file").exists() && !outer.join("moved").exists());
    assert!(outer.join("new").exists() && outer.join("outer/inner/new").exists());
}

#[test]
fn writable_root_leaves_protected_paths_read_only() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let protected = pinion.write(".vscode/tasks.json", "mine");
    pinion.config("[sandbox]\nwritable = [\"/\"]\n");
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "echo x > new; echo x >> .vscode/tasks.json"]);
    assert_eq!(std::fs::read_to_string(protected).unwrap(), "mine", "{ran:?}");
    assert!(pinion.workspace().join("new").exists(), "{ran:?}");
}

#[test]
fn workspace_in_a_hidden_directory_is_used_and_its_secrets_are_not() {
    let pinion = Pinion::default();
    pinion.write(".env", "TOP-SECRET");
    pinion.write("file", "mine");
    let around = pinion.workspace().parent().unwrap().canonicalize().unwrap();
    let beside = pinion.write("../beside", "TOP-SECRET");
    let script = format!("cat file .env {}; echo x > new; ls", beside.display());
    let hidden = format!("[sandbox]\nhidden = [\"{}\"]\n", around.display());
    pinion.config(&hidden);
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &script]);
    assert!(ran.stdout.contains("mine") && ran.stdout.contains("new"), "{ran:?}");
    assert!(!ran.stdout.contains("TOP-SECRET"), "{ran:?}");
    let workspace = pinion.workspace().canonicalize().unwrap();
    pinion.config(&format!("{hidden}[permissions]\ndeny = [\"write:{}\"]\n", workspace.display()));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "cat file; echo x > other"]);
    assert!(ran.stdout.contains("mine") && !workspace.join("other").exists(), "{ran:?}");
}

#[test]
fn server_that_may_not_write_changes_no_project_and_no_repository() {
    let pinion = Pinion::default();
    let work = pinion.workspace().canonicalize().unwrap();
    let repository = work.parent().unwrap().join("main/.git");
    for part in ["objects/x", "refs/x", "hooks/x", "worktrees/w/x"] {
        pinion.write(&format!("../main/.git/{part}"), "");
    }
    pinion.write("../main/.git/HEAD", "ref: refs/heads/main\n");
    pinion.write("../main/.git/worktrees/w/commondir", "../..\n");
    pinion.write("../main/.git/worktrees/w/gitdir", format!("{}\n", work.join(".git").display()));
    pinion.write(".git", format!("gitdir: {}\n", repository.join("worktrees/w").display()));
    let open = pinion.write("../open/.vscode/tasks.json", "mine");
    let open = open.ancestors().nth(2).unwrap().canonicalize().unwrap();
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\"]\n", open.display()));
    let script = format!(
        "cat file > {open}/seen; echo x > new; echo x > {repository}/refs/new; echo x > {repository}/hooks/new; \
         echo x > {open}/.vscode/tasks.json",
        open = open.display(),
        repository = repository.display()
    );
    pinion.write("file", "read");
    let server = json!({ "command": "sh", "args": ["-c", script], "write": false });
    std::fs::write(pinion.home().join("mcp.json"), json!({ "mcpServers": { "x": server } }).to_string()).unwrap();
    let ended = pinion.run(["mcp", "test", "x"]);
    for (path, text) in [("file", Some("read")), ("new", None)] {
        assert_eq!(std::fs::read_to_string(work.join(path)).ok().as_deref(), text, "{ended:?}");
    }
    assert!(!repository.join("refs/new").exists() && !repository.join("hooks/new").exists(), "{ended:?}");
    assert_eq!(std::fs::read_to_string(open.join(".vscode/tasks.json")).unwrap(), "mine");
    if has_namespaces() {
        assert_eq!(std::fs::read_to_string(open.join("seen")).unwrap(), "read", "{ended:?}");
    }
}

/// The parents of a workspace below `/tmp` lie in the private directory that the programs of a session share.
#[test]
fn what_a_program_leaves_in_the_way_is_moved_aside() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let work = pinion.workspace().canonicalize().unwrap();
    let around = work.parent().unwrap();
    if !around.starts_with("/tmp") {
        return;
    }
    let victim = pinion.write("../victim/file", "mine");
    let victim = victim.parent().unwrap().canonicalize().unwrap();
    let (around, victim_path, place) = (around.display(), victim.display(), work.display());
    let calls = [
        format!("cd / && mv {around} /tmp/away && mkdir {around} && ln -s {victim_path} {place}"),
        "echo one > one".to_owned(),
        format!("cd / && mv {around} /tmp/other; rm -rf {around}; echo file > {around}"),
        "echo two > two".to_owned(),
    ];
    let mut replies: Vec<Value> = calls.iter().map(|script| call("bash", json!({ "command": script }))).collect();
    replies.push(say("done"));
    let replay = pinion.script(&replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", replay.to_str().unwrap(), "go"]);
    assert!(work.join("one").exists() && work.join("two").exists(), "{ended:?}");
    assert!(!victim.join("one").exists() && !victim.join("two").exists(), "{ended:?}");
}

/// Repositories with more settings than can be looked at, which a program leaves for the next one.
#[test]
fn repositories_of_one_program_do_not_keep_the_next_from_starting() {
    let pinion = Pinion::default();
    let leave = "for s in a b c; do git init -q $s; { echo '[init]'; seq 1 19000 | sed 's#^#templateDir = t/#'; } > $s/.git/config; \
                 chmod 444 $s/.git/config; mkdir \"$s/$(printf '\\377')\"; git init -q $s/*; done; echo end";
    assert!(pinion.run(["sandbox", "--", "bash", "-c", leave]).stdout.contains("end"));
    // As if they had been there before.
    for name in ["a", "b"] {
        let config = (0..19_000).fold("[init]\n".to_owned(), |config, at| config + &format!("templateDir = t/{at}\n"));
        assert!(!pinion.workspace().join(name).join(".git/config").exists());
        pinion.write(&format!("{name}/.git/config"), config);
    }
    let ran = pinion.run([
        "sandbox",
        "--",
        "sh",
        "-c",
        "echo next > a/file && cat a/file; echo x >> a/.git/HEAD && echo ESCAPED",
    ]);
    assert!(ran.stdout.contains("next") && !ran.stdout.contains("ESCAPED"), "{ran:?}");
}

#[test]
fn credentials_that_appear_during_a_session_are_hidden() {
    let pinion = Pinion::default();
    let user = pinion.write("../user/x", "").parent().unwrap().canonicalize().unwrap();
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\"]\n", user.display()));
    let calls = [
        "mkdir ~/.aws; echo TOP-SECRET > ~/.aws/credentials; echo TOP-SECRET > ~/.netrc",
        "cat ~/.aws/credentials ~/.netrc; echo end",
    ];
    let mut replies: Vec<Value> = calls.iter().map(|script| call("bash", json!({ "command": script }))).collect();
    replies.push(say("done"));
    let replay = pinion.script(&replies);
    let mut command = pinion.command([
        "-p",
        "--approve",
        "all",
        "--output-format",
        "stream-json",
        "--replay",
        replay.to_str().unwrap(),
        "go",
    ]);
    let output = command.env("HOME", &user).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Vec<&str> = text.lines().filter(|line| line.contains("\"tool_execution_end\"")).collect();
    assert!(results.len() == 2 && results[1].contains("end") && !results[1].contains("TOP-SECRET"), "{results:?}");
    assert!(user.join(".netrc").exists());
}

#[test]
fn programs_of_servers_are_closed_and_part_of_the_trust() {
    let pinion = Pinion::default();
    let server = pinion.write("tools/server.sh", "exit 0\n");
    let entry = json!({ "command": "sh", "args": ["${workspaceFolder}/tools/server.sh"] });
    pinion.write(".mcp.json", json!({ "mcpServers": { "x": entry } }).to_string());
    let added = pinion.run(["trust", "add", "--yes"]);
    assert!(added.code == Some(0) && added.stdout.contains("tools/server.sh"), "{added:?}");
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "echo evil > tools/server.sh; mv tools t; echo end"]);
    assert!(ran.stdout.contains("end"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&server).unwrap(), "exit 0\n");
    let state = || pinion.run(["trust", "list"]).stdout;
    assert!(state().contains("trusted") && !state().contains("changed"), "{}", state());
    std::fs::write(&server, "evil\n").unwrap();
    assert!(state().contains("changed, not used"), "{}", state());
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
