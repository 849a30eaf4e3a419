//! Settings below the top of the workspace and the scripts behind settings, which no program changes; and the tools that write
//! such names in the course of ordinary work.

use pinion_tests::{Ended, Pinion, has_namespaces};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A repository in the workspace with settings below its top, and with scripts that settings run.
fn project() -> Pinion {
    let pinion = Pinion::default();
    for (path, text) in [
        ("sub/.vscode/tasks.json", "{}"),
        ("packages/a/.claude/settings.json", "{}"),
        ("packages/a/.envrc", "# mine"),
        ("packages/b/src/main.c", "int main(void) { return 0; }"),
        (".husky/pre-commit", "sh scripts/check.sh\n"),
        (".vscode/tasks.json", "{ \"tasks\": [{ \"command\": \"${workspaceFolder}/scripts/task.sh\" }] }"),
        (".envrc", "source scripts/env.sh\n"),
        ("sub/.vscode/launch.json", "{}"),
        ("scripts/check.sh", "# mine\n. scripts/lib.sh\n"),
        ("scripts/lib.sh", "# mine\n"),
        ("scripts/task.sh", "# mine\n"),
        ("scripts/env.sh", "# mine\n"),
        ("scripts/other.sh", "# mine\n"),
        ("node_modules/dep/.vscode/settings.json", "{}"),
    ] {
        pinion.write(path, text);
    }
    pinion
}

/// Runs a script in the sandbox.
fn inside(pinion: &Pinion, script: &str) -> Ended {
    let output = pinion.command(["sandbox", "--", "bash", "-c", script]).output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Scripts that change the programs that an editor, an agent or a shell runs below the top, with the file that stays as
/// it was or absent.
const CHANGES: &[(&str, &str)] = &[
    ("echo evil > sub/.vscode/tasks.json", "sub/.vscode/tasks.json"),
    ("echo evil > sub/.vscode/new.json", "sub/.vscode/new.json"),
    ("mv sub/.vscode x && cp -r x sub/.vscode && echo evil > sub/.vscode/tasks.json", "sub/.vscode/tasks.json"),
    ("mv sub x && mkdir sub && cp -r x/.vscode sub && echo evil > sub/.vscode/tasks.json", "sub/.vscode/tasks.json"),
    ("echo evil > packages/a/.claude/settings.json", "packages/a/.claude/settings.json"),
    ("echo evil > packages/a/.envrc", "packages/a/.envrc"),
    ("mkdir packages/b/.vscode && echo evil > packages/b/.vscode/tasks.json", "packages/b/.vscode/tasks.json"),
    ("mkdir -p packages/b/.claude/hooks && echo evil > packages/b/.claude/hooks/x", "packages/b/.claude/hooks/x"),
    ("mkdir packages/b/.zed && echo evil > packages/b/.zed/tasks.json", "packages/b/.zed/tasks.json"),
    ("mkdir -p packages/b/.github/hooks && echo evil > packages/b/.github/hooks/x", "packages/b/.github/hooks/x"),
    ("echo evil > packages/b/.envrc", "packages/b/.envrc"),
    ("echo evil > packages/b/.mcp.json", "packages/b/.mcp.json"),
    ("echo evil > packages/b/sitecustomize.py", "packages/b/sitecustomize.py"),
    ("echo evil > packages/b/my.code-workspace", "packages/b/my.code-workspace"),
    ("echo evil > my.code-workspace", "my.code-workspace"),
    ("ln -s ../../scripts packages/b/.husky", "packages/b/.husky"),
    (
        "mv packages/b p && mkdir p/.vscode && echo evil > p/.vscode/tasks.json && mv p packages/b",
        "packages/b/.vscode/tasks.json",
    ),
    ("echo evil >> scripts/check.sh", "scripts/check.sh"),
    ("echo evil > x && mv x scripts/check.sh", "scripts/check.sh"),
    ("mv scripts x && cp -r x scripts && echo evil > scripts/check.sh", "scripts/check.sh"),
    ("echo evil > scripts/lib.sh", "scripts/lib.sh"),
    ("echo evil > scripts/task.sh", "scripts/task.sh"),
    ("echo evil > scripts/env.sh", "scripts/env.sh"),
];

#[test]
fn settings_below_the_top_and_scripts_behind_settings_are_held() {
    if !has_namespaces() {
        return;
    }
    let mut failed = Vec::new();
    for (script, path) in CHANGES {
        let pinion = project();
        let path = pinion.workspace().join(path);
        let before = fs::read_to_string(&path).ok();
        let ended = inside(&pinion, script);
        let after = fs::read_to_string(&path).ok();
        // A link would lead to other settings.
        if after != before && after.is_some() || path.is_symlink() {
            failed.push(format!("{script}: {after:?}, {ended:?}"));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn code_beside_settings_and_dependencies_is_written() {
    let pinion = project();
    let script = "echo new > scripts/other.sh && echo new > sub/file && echo new > packages/a/x && mkdir packages/c && \
                  echo new > node_modules/dep/.vscode/settings.json && mkdir node_modules/dep/.idea && rm -r node_modules";
    let ended = inside(&pinion, script);
    assert!(ended.code == Some(0) && ended.stderr.is_empty(), "{ended:?}");
}

/// Runs a command outside of the sandbox.
fn outside(directory: &Path, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", script]).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@b");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A repository next to the workspace's own with all kinds of settings, as `origin`.
const ORIGIN: &str = "git init -qb main origin && cd origin && mkdir -p sub/.vscode .claude/hooks .husky .vscode .cargo src
    echo '{}' | tee sub/.vscode/settings.json .claude/settings.json .vscode/tasks.json > my.code-workspace
    echo 'sh src/x.sh' > .husky/pre-commit; echo echo > src/x.sh; echo '# x' > .envrc; echo '[build]' > .cargo/config.toml
    echo '{ \"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": { \"test\": \"true\" } }' > package.json
    echo 'save-exact=true' > .npmrc; echo 'x = 1' > sitecustomize.py; printf 'all:\\n\\ttrue\\n' > Makefile
    git add -A && git commit -qm one && git checkout -qb plain && git rm -qr sub .claude .husky .vscode .cargo .envrc && git commit -qm two
    git checkout -q main && cd .. && git archive --remote=origin --prefix=unpacked/ -o origin.tar main";

/// Tools that write such names in new places, with files that are there afterwards.
const TOOLS: &[(&str, &str, &[&str])] = &[
    (
        "git",
        "git clone -q origin copy && cd copy && git status --porcelain | diff - /dev/null",
        &["copy/sub/.vscode/settings.json", "copy/.claude/settings.json", "copy/.husky/pre-commit", "copy/.npmrc"],
    ),
    (
        "git",
        "git clone -q origin copy && cd copy && git checkout -q plain && git checkout -q main && echo x >> .envrc && \
         git stash -q && git stash pop -q && git checkout -q .envrc && git worktree add -q ../tree plain && \
         git worktree remove ../tree && git status --porcelain | diff - /dev/null",
        &["copy/sub/.vscode/settings.json", "copy/.envrc"],
    ),
    ("git", "cd origin && git worktree add -q ../tree", &["tree/sub/.vscode/settings.json"]),
    (
        "tar",
        "mkdir out && tar xf origin.tar -C out",
        &["out/unpacked/sub/.vscode/settings.json", "out/unpacked/.envrc"],
    ),
    ("make", "git clone -q origin copy && make -sC copy", &["copy/.vscode/tasks.json"]),
    (
        "npm",
        "echo '{ \"dependencies\": { \"x\": \"file:./origin\" } }' > package.json && \
         npm install --offline --no-audit --no-fund --install-links --silent && npm install --offline --no-audit --silent",
        &["node_modules/x/package.json", "node_modules/x/.vscode/tasks.json"],
    ),
    ("python3", "python3 -m venv --without-pip env && env/bin/python -c 'import site'", &["env/pyvenv.cfg"]),
    (
        "python3",
        "python3 -m venv --without-pip .venv && cd .venv/lib/python3*/site-packages && echo 'x = 1' > sitecustomize.py && \
         echo 'import sys' > x.pth && ../../../bin/python -c 'import sitecustomize'",
        &[".venv/pyvenv.cfg"],
    ),
    (
        "cargo",
        "cargo new -q made --vcs none && cd made && cargo build -q --offline && cargo test -q --offline",
        &["made/target"],
    ),
    ("go", "mkdir m && cd m && go mod init m && echo 'package main; func main() {}' > m.go && go build", &["m/go.mod"]),
];

/// Returns the beginning of a script that finds the toolchain of this user, whose home directory is another one.
fn toolchain() -> String {
    let home = || std::env::home_dir().unwrap_or_default().join(".rustup");
    let rustup = std::env::var_os("RUSTUP_HOME").map_or_else(home, Into::into);
    format!("export RUSTUP_HOME='{}' CARGO_HOME=/tmp/cargo;", rustup.display())
}

#[test]
fn tools_create_settings_in_new_directories() {
    if !has_namespaces() {
        return;
    }
    let mut failed = Vec::new();
    for (tool, script, paths) in TOOLS {
        if !Command::new("bash").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success() {
            continue;
        }
        let pinion = Pinion::default();
        outside(&pinion.workspace(), ORIGIN);
        let ended = inside(&pinion, &format!("{} {script}", toolchain()));
        let missing: Vec<_> = paths.iter().filter(|path| !pinion.workspace().join(path).exists()).collect();
        if ended.code != Some(0) || !missing.is_empty() || ended.stderr.contains("is protected") {
            failed.push(format!("{script}: {ended:?}, missing {missing:?}"));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
