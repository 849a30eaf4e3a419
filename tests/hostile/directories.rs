//! Granted directories are opened once, and the narrower grant wins on every path.

use super::steps::{done, refused, run};
use pinion_plugin_runtime::FileAccess;
use pinion_tests::{Pinion, Sandbox, SandboxBuilder};
use serde_json::json;
use std::path::Path;

/// The guest `intruder` with these grants.
fn intruder(grants: &[(&str, FileAccess)]) -> SandboxBuilder {
    let builder = SandboxBuilder::default().guest("intruder").with_file("outside/secret.txt", "the secret");
    grants.iter().fold(builder, |builder, (path, access)| builder.files("intruder", path, *access))
}

/// Returns every operation that enters a directory by its name.
fn ways_in<'a>(file: &'a str, directory: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["read", file],
        vec!["write", file, "x"],
        vec!["walk", directory],
        vec!["search", directory],
        vec!["replace", file, "x"],
        vec!["list", directory],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_directory_replaced_by_a_link_leads_nowhere() {
    let sandbox = intruder(&[(".", FileAccess::Write), ("sub", FileAccess::Write)])
        .with_file("workspace/sub/a.txt", "a")
        .build()
        .await;
    refused(&sandbox, "change", &[&["rename", "sub", "old"], &["symlink", "../outside", "sub"]]).await;
    // A swap from outside of the sandbox does not move the grant either.
    std::fs::rename(sandbox.workspace().join("sub"), sandbox.workspace().join("old")).unwrap();
    std::os::unix::fs::symlink("../outside", sandbox.workspace().join("sub")).unwrap();
    for way in ways_in("sub/secret.txt", "sub") {
        let line = run(&sandbox, "change", &[&way]).await.remove(0);
        assert!(!line.contains("the secret"), "{way:?}: {line}");
    }
    assert_eq!(std::fs::read_to_string(sandbox.outside().join("outside/secret.txt")).unwrap(), "the secret");
    assert_eq!(done(&sandbox, "change", &[&["read", "sub/a.txt"]]).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn relative_grant_of_a_project_link_is_rejected() {
    for (path, target) in [("docs", "../outside"), ("a/docs", "../../outside"), ("docs", "elsewhere")] {
        let builder = intruder(&[(path, FileAccess::Write)])
            .with_file("workspace/elsewhere/secret.txt", "the secret")
            .with_link(&format!("workspace/{path}"), target);
        let sandbox = builder.build().await;
        let file = format!("{path}/secret.txt");
        for way in ways_in(&file, path) {
            let line = run(&sandbox, "change", &[&way]).await.remove(0);
            assert!(line.starts_with("err"), "{way:?}: {line}");
        }
        let said = run(&sandbox, "change", &[&["walk", path]]).await.remove(0);
        assert!(said.contains("symbolic link"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relative_grant_behind_a_project_link_is_rejected() {
    let builder = intruder(&[("a/docs", FileAccess::Write)])
        .with_file("outside/docs/secret.txt", "the secret")
        .with_link("workspace/a", "../outside");
    let sandbox = builder.build().await;
    for way in ways_in("a/docs/secret.txt", "a/docs") {
        let line = run(&sandbox, "change", &[&way]).await.remove(0);
        assert!(line.starts_with("err"), "{way:?}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_created_later_is_opened_then() {
    let sandbox = intruder(&[("later", FileAccess::Write)]).build().await;
    refused(&sandbox, "change", &[&["write", "later/a.txt", "x"], &["replace", "later/a.txt", "x"]]).await;
    sandbox.write("later/a.txt", "a");
    let path = sandbox.workspace().join("later/a.txt");
    assert_eq!(
        done(&sandbox, "change", &[&["read", path.to_str().unwrap()], &["walk", "later"]]).await,
        ["a", "a.txt"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn link_in_place_of_a_missing_grant_is_rejected() {
    let sandbox = intruder(&[("later", FileAccess::Write)]).build().await;
    std::os::unix::fs::symlink("../outside", sandbox.workspace().join("later")).unwrap();
    for way in ways_in("later/secret.txt", "later") {
        let line = run(&sandbox, "change", &[&way]).await.remove(0);
        assert!(line.starts_with("err"), "{way:?}: {line}");
    }
}

/// A directory granted for reading inside one granted for writing.
async fn narrowed() -> Sandbox {
    intruder(&[(".", FileAccess::Write), ("docs", FileAccess::Read)])
        .with_file("workspace/docs/a.txt", "kept")
        .with_file("workspace/docs/deep/b.txt", "kept")
        .with_file("workspace/free.txt", "free")
        .build()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn narrower_grant_wins_over_the_wider_one_around_it() {
    let sandbox = narrowed().await;
    let absolute = sandbox.workspace().join("docs/a.txt");
    let absolute = absolute.to_str().unwrap();
    refused(
        &sandbox,
        "change",
        &[
            &["write", "docs/a.txt", "x"],
            &["write", "./docs/../docs/a.txt", "x"],
            &["write", absolute, "x"],
            &["append", "docs/a.txt", "x"],
            &["truncate", "docs/a.txt"],
            &["create", "docs/new.txt"],
            &["touch", "docs/a.txt"],
            &["mkdir", "docs/new"],
            &["remove", "docs/a.txt"],
            &["rmdir", "docs/deep"],
            &["replace", "docs/a.txt", "x"],
            &["replace", "docs/new/c.txt", "x"],
            &["symlink", "a.txt", "docs/link"],
        ],
    )
    .await;
    assert_eq!((sandbox.read("docs/a.txt"), sandbox.read("docs/deep/b.txt")), ("kept".to_owned(), "kept".to_owned()));
    assert!(!sandbox.workspace().join("docs/new").exists());
    assert_eq!(done(&sandbox, "change", &[&["read", "docs/a.txt"], &["write", "free.txt", "x"]]).await, ["kept", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_across_the_boundary_of_a_narrower_grant() {
    let sandbox = narrowed().await;
    refused(
        &sandbox,
        "change",
        &[
            &["rename", "docs", "other"],
            &["rename", "docs/a.txt", "a.txt"],
            &["rename", "docs/deep", "deep"],
            &["rename", "free.txt", "docs/a.txt"],
            &["rename", "free.txt", "docs/new.txt"],
            &["link", "docs/a.txt", "a.txt"],
            &["link", "free.txt", "docs/new.txt"],
            &["rmdir", "docs"],
        ],
    )
    .await;
    assert!(sandbox.workspace().join("docs/a.txt").is_file() && !sandbox.workspace().join("a.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_into_a_narrower_grant_do_not_widen_it() {
    let sandbox = narrowed().await;
    done(
        &sandbox,
        "change",
        &[&["symlink", "docs", "way"], &["symlink", "docs/a.txt", "file"], &["symlink", "way", "way2"]],
    )
    .await;
    refused(
        &sandbox,
        "change",
        &[
            &["write", "way/a.txt", "x"],
            &["write", "file", "x"],
            &["write", "way2/deep/b.txt", "x"],
            &["write", "way2/../docs/a.txt", "x"],
            &["mkdir", "way/new"],
            &["replace", "file", "x"],
            &["replace", "way/a.txt", "x"],
            &["replace", "way/new.txt", "x"],
            &["remove", "way/a.txt"],
            &["truncate", "file"],
        ],
    )
    .await;
    assert_eq!(sandbox.read("docs/a.txt"), "kept");
    assert_eq!(done(&sandbox, "change", &[&["read", "file"], &["read", "way2/deep/b.txt"]]).await, ["kept", "kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_from_outside_a_narrower_grant_do_not_widen_it() {
    let sandbox = narrowed().await;
    done(&sandbox, "change", &[&["mkdir", "dir"], &["hold-directory", "."], &["at-read", "docs/a.txt"]]).await;
    let lines = run(
        &sandbox,
        "change",
        &[
            &["hold-directory", "."],
            &["at-write", "docs/a.txt", "x"],
            &["at-mkdir", "docs/new"],
            &["at-unlink", "docs/a.txt"],
            &["hold-directory", "docs"],
            &["at-write", "a.txt", "x"],
            &["at-unlink", "a.txt"],
            &["hold-directory", "dir/../docs"],
            &["at-write", "deep/b.txt", "x"],
        ],
    )
    .await;
    let expected = ["ok", "err", "err", "err", "ok", "err", "err", "ok", "err"];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{lines:?}");
    }
    assert_eq!((sandbox.read("docs/a.txt"), sandbox.read("docs/deep/b.txt")), ("kept".to_owned(), "kept".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_cannot_create_a_missing_narrower_grant() {
    let sandbox = intruder(&[(".", FileAccess::Write), ("out/docs", FileAccess::Read)]).build().await;
    done(
        &sandbox,
        "change",
        &[&["mkdir", "out"], &["mkdir", "tmp"], &["mkdir", "tmp/docs"], &["write", "tmp/docs/a.txt", "x"]],
    )
    .await;
    refused(
        &sandbox,
        "change",
        &[
            &["mkdir", "out/docs"],
            &["symlink", "../tmp/docs", "out/docs"],
            &["rename", "tmp/docs", "out/docs"],
            &["rmdir", "out"],
            &["rename", "out", "away"],
            &["rename", "tmp", "out"],
            &["replace", "out/docs/a.txt", "x"],
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wider_grant_inside_a_narrower_one_is_writable() {
    let builder = intruder(&[(".", FileAccess::Read), ("out", FileAccess::Write)]);
    let sandbox = builder.with_file("workspace/out/a.txt", "old").with_file("workspace/b.txt", "kept").build().await;
    refused(
        &sandbox,
        "change",
        &[
            &["write", "b.txt", "x"],
            &["write", "out/../b.txt", "x"],
            &["rename", "out/a.txt", "a.txt"],
            &["rename", "b.txt", "out/b.txt"],
            &["link", "b.txt", "out/b.txt"],
            &["rename", "out", "in"],
        ],
    )
    .await;
    done(&sandbox, "change", &[&["write", "out/a.txt", "new"], &["replace", "out/c/d.txt", "new"]]).await;
    assert_eq!((sandbox.read("out/a.txt"), sandbox.read("b.txt")), ("new".to_owned(), "kept".to_owned()));
    // A hard link would give access to a read-only file.
    done(&sandbox, "change", &[&["symlink", "../b.txt", "out/link"], &["read", "out/a.txt"]]).await;
    refused(&sandbox, "change", &[&["write", "out/link", "x"], &["replace", "out/link", "x"]]).await;
    assert_eq!(sandbox.read("b.txt"), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn root_grant_excludes_proc_sys_and_dev() {
    let sandbox = intruder(&[("/", FileAccess::Write)]).build().await;
    let link = sandbox.workspace().join("link");
    std::os::unix::fs::symlink("/proc/self", sandbox.workspace().join("absolute")).unwrap();
    let up = "../".repeat(sandbox.workspace().components().count() - 1);
    std::os::unix::fs::symlink(format!("{up}proc/self"), &link).unwrap();
    let environment = link.join("environ");
    refused(
        &sandbox,
        "change",
        &[
            &["read", "/proc/self/environ"],
            &["read", "/proc/1/environ"],
            &["read", "/proc/thread-self/status"],
            &["stat", "/proc/self/environ"],
            &["list", "/proc"],
            &["list", "/proc/self"],
            &["walk", "/proc/self"],
            &["search", "/proc/self/environ"],
            &["list", "/sys"],
            &["read", "/sys/kernel/mm/transparent_hugepage/enabled"],
            &["list", "/dev"],
            &["read", "/dev/null"],
            &["write", "/dev/shm/pinion-test", "x"],
            &["read", "/tmp/../proc/self/environ"],
            &["read", environment.to_str().unwrap()],
            &["read", "absolute/environ"],
            &["readlink", "/proc/self/exe"],
            &["hold-directory", "/proc/self"],
            &["replace", "/proc/self/comm", "x"],
        ],
    )
    .await;
    let file = sandbox.workspace().join("a.txt");
    let file = file.to_str().unwrap();
    assert_eq!(done(&sandbox, "change", &[&["write", file, "written"], &["read", file]]).await[1], "written");
    // Listing the root grants no access.
    let entries = done(&sandbox, "change", &[&["hold-directory", "/"]]).await;
    assert_eq!(entries, [""]);
    let lines = run(
        &sandbox,
        "change",
        &[&["hold-directory", "/"], &["at-read", "proc/self/environ"], &["at-read", "proc/1/cmdline"]],
    )
    .await;
    assert!(lines[1].starts_with("err") && lines[2].starts_with("err"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn proc_sys_and_dev_cannot_be_granted_by_name() {
    for path in ["/proc", "/proc/self", "/sys", "/dev"] {
        let sandbox = intruder(&[(path, FileAccess::Read)]).build().await;
        let environment = format!("{path}/environ");
        refused(&sandbox, "change", &[&["list", path], &["walk", path], &["read", &environment], &["stat", path]])
            .await;
    }
}

/// Two instances swap a directory and a link to the narrower grant concurrently, and write through it.
#[tokio::test(flavor = "multi_thread")]
async fn rename_races_write_nothing_in_a_narrower_grant() {
    let sandbox = narrowed().await;
    done(&sandbox, "change", &[&["mkdir", "dir"], &["symlink", "docs", "link"]]).await;
    let mut steps: Vec<&[&str]> = Vec::new();
    for _ in 0..150 {
        steps.extend([
            &["rename", "dir", "door"] as &[&str],
            &["write", "door/a.txt", "x"],
            &["replace", "door/a.txt", "x"],
            &["rename", "door", "dir"],
            &["rename", "link", "door"],
            &["write", "door/a.txt", "x"],
            &["create", "door/new.txt"],
            &["remove", "door/a.txt"],
            &["replace", "door/a.txt", "x"],
            &["rename", "door", "link"],
        ]);
    }
    tokio::join!(run(&sandbox, "change", &steps), run(&sandbox, "change", &steps), run(&sandbox, "change", &steps));
    assert_eq!(sandbox.read("docs/a.txt"), "kept");
    let names: Vec<_> = std::fs::read_dir(sandbox.workspace().join("docs")).unwrap().flatten().collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_every_shape_still_work() {
    let sandbox = intruder(&[(".", FileAccess::Write)]).with_file("workspace/sub/a.txt", "a").build().await;
    std::os::unix::fs::symlink("sub", sandbox.workspace().join("link")).unwrap();
    let absolute = sandbox.workspace().join("sub");
    let absolute = absolute.to_str().unwrap();
    done(
        &sandbox,
        "change",
        &[
            &["read", "./sub/../sub//a.txt"],
            &["read", "link/a.txt"],
            &["list", "link/"],
            &["list", absolute],
            &["mkdir", "new/"],
            &["write", "link/b.txt", "b"],
            &["rename", "link/b.txt", "new/b.txt"],
            &["link", "new/b.txt", "new/c.txt"],
            &["symlink", "b.txt", "new/d"],
            &["append", "new/d", "more"],
            &["readlink", "new/d"],
            &["touch", "new/d"],
            &["replace", "new/e/f.txt", "f"],
            &["remove", "new/c.txt"],
            &["remove", "new/d"],
            &["rename", "new", "newer"],
            &["remove", "newer/e/f.txt"],
            &["rmdir", "newer/e"],
            &["hold-directory", "newer"],
        ],
    )
    .await;
    assert_eq!(sandbox.read("newer/b.txt"), "bmore");
    assert!(Path::new(absolute).join("a.txt").is_file());
}

/// Returns the output of a `bash` command in a run of `pinion` with a key in its environment.
fn bash(pinion: &Pinion, command: &str) -> String {
    let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] });
    let script = pinion.script(&[call, json!({ "text": "done" })]);
    let arguments =
        ["-p", "--replay", script.to_str().unwrap(), "--approve", "all", "--output-format", "stream-json", "go"];
    let output = pinion
        .command(arguments)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("UNRELATED", "sk-of-something-else")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    // The call's arguments contain the searched text too.
    text.lines().filter(|line| line.contains("\"tool_execution_end\"")).collect()
}

const KEY: &str = "sk-ant-0123456789abcdef";

#[test]
fn programs_cannot_read_the_host_environment() {
    let pinion = Pinion::default();
    let seen = bash(
        &pinion,
        "env; cat /proc/$PPID/environ | tr '\\0' '\\n'; cat /proc/$PPID/task/*/environ | tr '\\0' '\\n'; echo \"end\"",
    );
    for secret in [KEY, "sk-of-something-else"] {
        assert!(!seen.contains(secret), "{seen}");
    }
}

/// Recent kernels let root open `environ` and `maps` with its other capabilities; they contain no secrets.
#[test]
#[cfg(target_os = "linux")]
fn programs_cannot_read_the_host_memory() {
    let pinion = Pinion::default();
    let seen = bash(&pinion, "(exec 3< /proc/$PPID/mem) 2>/dev/null && echo opened || echo refused");
    assert!(seen.contains("refused"), "{seen}");
    let seen = bash(&pinion, "readlink /proc/$PPID/fd/1 >/dev/null && echo opened || echo refused");
    assert!(seen.contains("refused"), "{seen}");
    // A denial for a program applies to its children.
    let seen = bash(&pinion, "P=$PPID; sh -c \"exec 3< /proc/$P/mem\" 2>/dev/null && echo opened || echo refused");
    assert!(seen.contains("refused"), "{seen}");
}

#[test]
fn environment_keys_reach_their_provider() {
    let pinion = Pinion::default();
    let output = pinion.command(["doctor"]).env("ANTHROPIC_API_KEY", KEY).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("ANTHROPIC_API_KEY") && !text.contains(KEY), "{text}");
}

#[test]
fn granted_variables_reach_programs() {
    let pinion = Pinion::default();
    pinion.config("[process]\nenvironment = [\"PATH\", \"UNRELATED\"]\n");
    assert!(bash(&pinion, "echo value=$UNRELATED").contains("value=sk-of-something-else"));
}

#[test]
fn workspace_can_be_the_file_system_root() {
    let pinion = Pinion::default();
    let file = pinion.write("a.txt", "inside");
    let read = |path: &str| json!({ "calls": [{ "tool": "read", "arguments": { "path": path } }] });
    let script = pinion.script(&[read(file.to_str().unwrap()), read("/proc/self/environ"), json!({ "text": "done" })]);
    let arguments = ["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "go"];
    let output = pinion.command(arguments).current_dir("/").env("ANTHROPIC_API_KEY", KEY).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("inside") && !text.contains(KEY) && !text.contains("PINION_HOME="), "{text}");
}
