//! Files of the host, and files that decide which code runs, are out of reach.

use super::steps::{done, refused, run};
use pinion_plugin_runtime::FileAccess;
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, guest};
use serde_json::json;
use std::os::unix::fs::symlink;

/// The guest `intruder` with a directory that contains the host's directories.
async fn beside_the_host(grant: &str, access: FileAccess) -> Sandbox {
    SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", grant, access)
        .private("home/config")
        .private("home/data")
        .private("workspace/.cache/pinion")
        .with_file("home/config/auth.toml", "the secret")
        .with_file("home/data/plugins/a.wasm", "the secret")
        .with_file("workspace/.cache/pinion/sealed", "the secret")
        .with_file("workspace/a.txt", "a")
        .build()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn host_directories_are_neither_read_nor_written() {
    let sandbox = beside_the_host("..", FileAccess::Write).await;
    let outside = sandbox.outside().canonicalize().unwrap();
    let path = |path: &str| outside.join(path).to_str().unwrap().to_owned();
    let (key, config, home, plugins) =
        (path("home/config/auth.toml"), path("home/config"), path("home"), path("home/data/plugins"));
    refused(
        &sandbox,
        "change",
        &[
            &["read", &key],
            &["stat", &key],
            &["write", &key, "x"],
            &["create", &path("home/config/new")],
            &["replace", &path("home/config/config.toml"), "x"],
            &["list", &config],
            &["walk", &config],
            &["search", &config],
            &["search", &key],
            &["mkdir", &path("home/config/new")],
            &["rename", &key, &path("workspace/key")],
            &["link", &key, &path("workspace/key")],
            &["rename", &config, &path("workspace/config")],
            &["rename", &home, &path("elsewhere")],
            &["rename", &path("workspace/a.txt"), &path("home/data/plugins/b.wasm")],
            &["replace", &path("home/data/plugins/b.wasm"), "x"],
            &["list", &plugins],
            &["remove", &key],
            &["hold", &key],
            &["hold-directory", &config],
            &["readlink", &key],
        ],
    )
    .await;
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "the secret");
    assert_eq!(done(&sandbox, "change", &[&["read", &path("workspace/a.txt")]]).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn walks_and_searches_skip_host_directories() {
    let sandbox = beside_the_host("..", FileAccess::Read).await;
    let outside = sandbox.outside().canonicalize().unwrap();
    let inside = outside.join("workspace");
    for root in [&outside, &inside] {
        let root = root.to_str().unwrap();
        let lines = sandbox.text("look", json!({ "steps": [["walk", root], ["search", root]] })).await;
        assert!(lines.contains("a.txt") && lines.lines().all(|line| line.starts_with("ok")), "{lines}");
        for hidden in ["the secret", "auth.toml", "sealed", "a.wasm"] {
            assert!(!lines.contains(hidden), "{hidden}: {lines}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_handles_do_not_reach_host_directories() {
    let sandbox = beside_the_host("..", FileAccess::Write).await;
    let outside = sandbox.outside().canonicalize().unwrap();
    symlink("../home/config", sandbox.workspace().join("way")).unwrap();
    symlink("../home", sandbox.workspace().join("home")).unwrap();
    symlink("../home/config/auth.toml", sandbox.workspace().join("key")).unwrap();
    let path = |path: &str| outside.join("workspace").join(path).to_str().unwrap().to_owned();
    refused(
        &sandbox,
        "change",
        &[
            &["read", &path("key")],
            &["read", &path("way/auth.toml")],
            &["read", &path("home/config/auth.toml")],
            &["list", &path("way")],
            &["walk", &path("way")],
            &["search", &path("key")],
            &["replace", &path("key"), "x"],
            &["stat", &path("way/auth.toml")],
        ],
    )
    .await;
    let home = outside.join("home");
    let steps: &[&[&str]] = &[&["hold-directory", home.to_str().unwrap()], &["at-read", "config/auth.toml"]];
    let lines = run(&sandbox, "change", steps).await;
    assert!(lines[0].starts_with("ok") && lines[1].starts_with("err"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_directory_inside_the_workspace_is_hidden() {
    let sandbox = beside_the_host(".", FileAccess::Write).await;
    refused(
        &sandbox,
        "change",
        &[
            &["read", ".cache/pinion/sealed"],
            &["write", ".cache/pinion/new", "x"],
            &["rename", ".cache", "cache"],
            &["rename", ".cache/pinion", "cache"],
            &["walk", ".cache/pinion"],
            &["list", ".cache/pinion"],
        ],
    )
    .await;
    assert_eq!(done(&sandbox, "change", &[&["write", ".cache/other", "x"], &["list", ".cache"]]).await[1], "other");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_directory_cannot_be_granted_by_name() {
    for grant in ["../home/config", "../home/config/.", "../home/data/plugins"] {
        let sandbox = beside_the_host(grant, FileAccess::Write).await;
        let path = sandbox.workspace().join(grant);
        let path = path.to_str().unwrap();
        refused(&sandbox, "change", &[&["list", path], &["walk", path], &["read", &format!("{path}/auth.toml")]]).await;
    }
}

/// A key file elsewhere that the config directory links to is as secret as one inside.
#[tokio::test(flavor = "multi_thread")]
async fn linked_key_file_is_protected() {
    let sandbox = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".", FileAccess::Write)
        .private("home")
        .with_file("workspace/dotfiles/auth.toml", "the secret")
        .with_file("workspace/dotfiles/b.txt", "b")
        .with_link("home/auth.toml", "../workspace/dotfiles/auth.toml")
        .build()
        .await;
    refused(
        &sandbox,
        "change",
        &[&["read", "dotfiles/auth.toml"], &["write", "dotfiles/auth.toml", "x"], &["rename", "dotfiles", "d"]],
    )
    .await;
    let seen = done(&sandbox, "change", &[&["read", "dotfiles/b.txt"], &["search", "."]]).await;
    assert!(seen[0] == "b" && !seen[1].contains("secret"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_host_directory_is_readable_and_never_writable() {
    let sandbox = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".", FileAccess::Write)
        .files("intruder", "../home/output", FileAccess::Write)
        .private("home")
        .handed_out("home/output")
        .with_file("home/output/long.txt", "long")
        .with_file("home/auth.toml", "the secret")
        .build()
        .await;
    let output = sandbox.outside().canonicalize().unwrap().join("home/output");
    let path = |name: &str| output.join(name).to_str().unwrap().to_owned();
    assert_eq!(done(&sandbox, "change", &[&["read", &path("long.txt")]]).await, ["long"]);
    refused(
        &sandbox,
        "change",
        &[
            &["write", &path("long.txt"), "x"],
            &["create", &path("new.txt")],
            &["replace", &path("new.txt"), "x"],
            &["read", &path("../auth.toml")],
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_files_are_readable_and_never_writable() {
    let sandbox = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".", FileAccess::Write)
        .with_file("workspace/.git/config", "git")
        .with_file("workspace/.pinion/config.toml", "config")
        .with_file("workspace/.mcp.json", "{}")
        .with_file("workspace/sub/.git", "gitdir: ../.git/modules/sub")
        .with_file("workspace/vendor/lib/.git/hooks/post-checkout", "hook")
        .with_file("workspace/free/a.txt", "a")
        .build()
        .await;
    symlink(".git", sandbox.workspace().join("way")).unwrap();
    refused(
        &sandbox,
        "change",
        &[
            &["write", ".git/config", "x"],
            &["append", ".git/config", "x"],
            &["create", ".git/hooks"],
            &["mkdir", ".git/hooks"],
            &["write", "way/config", "x"],
            &["replace", ".git/config", "x"],
            &["replace", "way/hooks/post-checkout", "x"],
            &["replace", ".pinion/config.toml", "x"],
            &["replace", ".pinion/plugins/a.wasm", "x"],
            &["write", ".pinion/config.toml", "x"],
            &["write", "free/../.pinion/config.toml", "x"],
            &["replace", ".mcp.json", "x"],
            &["remove", ".mcp.json"],
            &["write", "sub/.git", "gitdir: ../evil"],
            &["remove", "sub/.git"],
            &["rename", "sub/.git", "sub/git"],
            &["rename", ".git", "git"],
            &["rename", ".pinion", "pinion"],
            &["rename", "vendor", "other"],
            &["rename", "vendor/lib", "other"],
            &["write", "vendor/lib/.git/hooks/post-checkout", "x"],
            &["link", ".git/config", "config"],
            &["link", ".mcp.json", "mcp.json"],
            &["touch", ".git/config"],
            &["truncate", ".git/config"],
        ],
    )
    .await;
    let seen = done(
        &sandbox,
        "change",
        &[&["read", ".git/config"], &["read", ".pinion/config.toml"], &["read", "way/config"]],
    )
    .await;
    assert_eq!(seen, ["git", "config", "git"]);
    done(&sandbox, "change", &[&["write", ".gitignore", "x"], &["mkdir", ".github"], &["rename", "free", "freed"]])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_protected_files_cannot_be_created() {
    let sandbox = SandboxBuilder::default().guest("intruder").files("intruder", ".", FileAccess::Write).build().await;
    done(&sandbox, "change", &[&["mkdir", "made"], &["write", "made/config", "x"], &["write", "file", "x"]]).await;
    let mut steps: Vec<Vec<&str>> = Vec::new();
    for name in [".git", ".GIT", ".Pinion", ".pinion", ".mcp.json", ".MCP.json", "deep/.git"] {
        steps.extend([
            vec!["mkdir", name],
            vec!["write", name, "x"],
            vec!["create", name],
            vec!["replace", name, "x"],
            vec!["rename", "made", name],
            vec!["rename", "file", name],
            vec!["link", "file", name],
            vec!["symlink", "made", name],
        ]);
    }
    steps.push(vec!["replace", ".pinion/plugins/a.wasm", "x"]);
    let steps: Vec<&[&str]> = steps.iter().map(Vec::as_slice).collect();
    refused(&sandbox, "change", &steps).await;
    let names = done(&sandbox, "change", &[&["list", "."]]).await;
    assert_eq!(names, ["file made"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn narrow_grants_do_not_lift_the_protection() {
    let builder = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".git", FileAccess::Write)
        .files("intruder", ".pinion/plugins", FileAccess::Write)
        .with_file("workspace/.git/config", "git")
        .with_file("workspace/.pinion/plugins/a.wasm", "x");
    let sandbox = builder.build().await;
    // Relative paths lead nowhere where the workspace itself is not granted.
    let at = |path: &str| sandbox.workspace().join(path).to_str().unwrap().to_owned();
    refused(
        &sandbox,
        "change",
        &[
            &["write", &at(".git/config"), "x"],
            &["replace", &at(".git/hooks/post-checkout"), "x"],
            &["create", &at(".pinion/plugins/b.wasm")],
            &["replace", &at(".pinion/plugins/a.wasm"), "x"],
        ],
    )
    .await;
    assert_eq!(done(&sandbox, "change", &[&["read", &at(".git/config")]]).await, ["git"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_named_by_the_git_file_is_protected() {
    let sandbox = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".", FileAccess::Write)
        .with_file("workspace/.git", "gitdir: ./.bare\n")
        .with_file("workspace/.bare/config", "git")
        .build()
        .await;
    refused(
        &sandbox,
        "change",
        &[
            &["write", ".bare/config", "x"],
            &["replace", ".bare/hooks/post-checkout", "x"],
            &["rename", ".bare", "bare"],
            &["write", ".git", "x"],
        ],
    )
    .await;
    assert_eq!(done(&sandbox, "change", &[&["read", ".bare/config"]]).await, ["git"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_loaded_plugins_are_never_writable() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().canonicalize().unwrap().join("echo.wasm");
    std::fs::copy(guest("echo"), &plugin).unwrap();
    std::fs::hard_link(&plugin, directory.path().join("alias")).unwrap();
    let builder = SandboxBuilder::default().file(plugin.clone()).guest("intruder");
    let sandbox = builder.files("intruder", directory.path().to_str().unwrap(), FileAccess::Write).build().await;
    let before = std::fs::read(&plugin).unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, alias, new) = (path("echo.wasm"), path("alias"), path("new"));
    done(&sandbox, "change", &[&["write", &new, "x"]]).await;
    refused(
        &sandbox,
        "change",
        &[
            &["write", &file, "x"],
            &["write", &alias, "x"],
            &["append", &alias, "x"],
            &["truncate", &alias],
            &["rename", &alias, &path("other")],
            &["link", &alias, &path("other")],
            &["replace", &file, "x"],
            &["rename", &new, &file],
            &["remove", &file],
            &["link", &file, &path("other")],
            &["symlink", "new", &file],
        ],
    )
    .await;
    assert!(std::fs::read(&plugin).unwrap() == before);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_can_be_inside_a_host_directory() {
    let sandbox = SandboxBuilder::default()
        .guest("intruder")
        .files("intruder", ".", FileAccess::Write)
        .files("intruder", "..", FileAccess::Write)
        .private("")
        .with_file("auth.toml", "the secret")
        .build()
        .await;
    let key = sandbox.outside().canonicalize().unwrap().join("auth.toml");
    done(&sandbox, "change", &[&["write", "a.txt", "a"], &["read", "a.txt"]]).await;
    refused(
        &sandbox,
        "change",
        &[&["read", key.to_str().unwrap()], &["list", key.parent().unwrap().to_str().unwrap()]],
    )
    .await;
}

/// Runs the command in `$HOME`, with its own files in their default locations below it.
fn in_home(pinion: &Pinion, calls: &[serde_json::Value]) -> String {
    let mut replies: Vec<_> = calls.iter().map(|call| json!({ "calls": [call] })).collect();
    replies.push(json!({ "text": "done" }));
    let script = pinion.script(&replies);
    let arguments =
        ["-p", "--replay", script.to_str().unwrap(), "--approve", "all", "--output-format", "stream-json", "go"];
    let mut command = pinion.command(arguments);
    let output =
        command.env_remove("PINION_HOME").env("HOME", pinion.home()).current_dir(pinion.home()).output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn built_in_tools_cannot_reach_host_files_in_home() {
    let pinion = Pinion::default();
    let config = pinion.home().join(".config/pinion");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("auth.toml"), "[anthropic]\nkey = \"the secret\"\n").unwrap();
    std::fs::write(pinion.home().join("note.txt"), "a note").unwrap();
    let call = |tool: &str, arguments: serde_json::Value| json!({ "tool": tool, "arguments": arguments });
    let seen = in_home(
        &pinion,
        &[
            call("read", json!({ "path": ".config/pinion/auth.toml" })),
            call("search", json!({ "pattern": "the secret", "path": ".", "hidden": true })),
            call("list", json!({ "path": ".config/pinion" })),
            call("write", json!({ "path": ".config/pinion/config.toml", "content": "x" })),
            call("write", json!({ "path": ".local/share/pinion/plugins/x.wasm", "content": "x" })),
            call("read", json!({ "path": "note.txt" })),
        ],
    );
    assert!(seen.contains("a note"), "{seen}");
    assert!(!seen.contains("key = ") && !seen.contains("[anthropic]"), "{seen}");
    assert!(!config.join("config.toml").exists() && !pinion.home().join(".local/share/pinion/plugins/x.wasm").exists());
}

#[test]
fn built_in_tools_do_not_write_protected_files() {
    let pinion = Pinion::default();
    pinion.write(".git/config", "git");
    let write = |path: &str| json!({ "calls": [{ "tool": "write", "arguments": { "path": path, "content": "x" } }] });
    let script = pinion.script(&[
        write(".pinion/config.toml"),
        write(".git/config"),
        write(".git/hooks/post-checkout"),
        write(".mcp.json"),
        write("a.txt"),
        json!({ "text": "done" }),
    ]);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--approve", "all", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let workspace = pinion.workspace();
    assert_eq!(std::fs::read_to_string(workspace.join(".git/config")).unwrap(), "git");
    for path in [".pinion", ".git/hooks", ".mcp.json"] {
        assert!(!workspace.join(path).exists(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap().trim(), "x");
}
