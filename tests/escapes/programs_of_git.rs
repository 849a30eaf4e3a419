//! Programs that git and MCP servers start because of files of the workspace, through the command.

use pinion_tests::{Pinion, has_namespaces};
use serde_json::json;

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
