//! Excluded files stay unread and unchanged by plugins, for every way that they try.

use pinion_plugin_runtime::FileAccess;
use pinion_tests::{Sandbox, SandboxBuilder, builtin};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const SECRET: &str = "TOP-SECRET";

/// A workspace with excluded files under several names.
async fn secrets() -> Sandbox {
    let patterns = [".env", "*.key", "!tests/**/*.key", "private/"];
    let builder = SandboxBuilder::default().guest("hostile").trust("hostile").file(builtin("fs")).trust("fs");
    let sandbox = builder.exclude(&patterns).build().await;
    for path in [".env", "sub/deep/server.key", "private/a/b.txt", "config/real"] {
        sandbox.write(path, SECRET);
    }
    sandbox.write("plain.txt", "plain");
    let at = |path: &str| sandbox.workspace().join(path);
    fs::hard_link(at(".env"), at("notes.txt")).unwrap();
    symlink("../config/real", at("sub/.env")).unwrap();
    symlink("private", at("way")).unwrap();
    sandbox
}

/// Ways to name excluded files.
fn names(sandbox: &Sandbox) -> Vec<String> {
    let absolute = sandbox.workspace().join(".env").to_string_lossy().into_owned();
    let relative = [
        ".env",
        "./.env",
        "sub/../.env",
        "notes.txt",
        "sub/.env",
        "config/real",
        "sub/deep/server.key",
        "private/a/b.txt",
        "way/a/b.txt",
        "private/../private/a/b.txt",
    ];
    relative.map(str::to_owned).into_iter().chain([absolute]).collect()
}

fn steps(steps: &[[&str; 3]]) -> Value {
    let step = |[does, path, other]: &[&str; 3]| json!({ "does": does, "path": path, "other": other });
    json!({ "steps": steps.iter().map(step).collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_of_an_excluded_file_reads_it_and_refusals_name_the_pattern() {
    let sandbox = secrets().await;
    assert_eq!(sandbox.text("read_path", json!({ "path": "plain.txt" })).await, "plain");
    for path in names(&sandbox) {
        for (tool, key) in [("read_path", "path"), ("read", "path"), ("search_path", "path")] {
            let error = sandbox.error(tool, json!({ key: path })).await;
            assert!(
                error.contains("it is excluded by `") && error.contains("of `/config.toml`"),
                "{tool} {path}: {error}"
            );
            assert!(error.contains("only the user can allow it"), "{tool} {path}: {error}");
            assert!(!error.contains(SECRET), "{tool} {path}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn walks_name_excluded_files_and_searches_skip_them() {
    let sandbox = secrets().await;
    let walked = sandbox.text("walk_path", json!({ "path": "." })).await;
    assert!(walked.lines().any(|line| line == ".env") && !walked.contains("b.txt"), "{walked}");
    let found = sandbox.text("search_path", json!({ "path": "." })).await;
    assert!(found.contains("plain") && !found.contains(SECRET), "{found}");
    let listed = sandbox.error("list_path", json!({ "path": "private" })).await;
    assert!(listed.contains("`private/`") && !listed.contains("b.txt"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn excluded_files_are_neither_changed_nor_moved_nor_removed() {
    let sandbox = secrets().await;
    let mut attempts: Vec<[&str; 3]> = Vec::new();
    let names = names(&sandbox);
    for name in &names {
        for does in ["read", "write", "append", "truncate", "replace"] {
            attempts.push([does, name, ""]);
        }
    }
    for does in ["rename", "link"] {
        for name in [".env", "notes.txt", "sub/deep/server.key", "private/a/b.txt"] {
            attempts.push([does, name, "elsewhere"]);
            attempts.push([does, "plain.txt", name]);
        }
    }
    attempts.extend([
        ["remove", ".env", ""],
        ["remove", "notes.txt", ""],
        ["remove_all", "private", ""],
        ["rename", "private", "public"],
        // There, keys are no secret.
        ["mkdirs", "tests", ""],
        ["rename", "sub", "tests/sub"],
        ["rename", "sub/deep", "tests/deep"],
        ["write", "new.key", ""],
        ["write", ".ENV", ""],
        ["mkdir", "private/x", ""],
        ["replace", "private/x/y", ""],
        ["symlink", "link", ".env"],
        ["read", "link", ""],
        ["search", ".", "TOP"],
    ]);
    let reports = sandbox.text("steps_write", steps(&attempts)).await;
    for (attempt, report) in attempts.iter().zip(reports.lines()) {
        let may_succeed = matches!(attempt[0], "mkdirs" | "symlink" | "search");
        assert!(may_succeed || report == "failed", "{attempt:?}: {report}");
    }
    assert!(!reports.contains(SECRET), "{reports}");
    for path in [".env", "notes.txt", "sub/deep/server.key", "private/a/b.txt", "config/real"] {
        assert_eq!(sandbox.read(path), SECRET, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_only_reads_is_refused_as_well() {
    let builder = SandboxBuilder::default().guest("hostile").files("hostile", ".", FileAccess::Read);
    let sandbox = builder.exclude(&[".env"]).build().await;
    sandbox.write("a/.env", SECRET);
    sandbox.write("a/b.txt", "plain");
    let reports = sandbox.text("steps_read", steps(&[["read", "a/.env", ""], ["read", "a/b.txt", ""]])).await;
    assert!(reports.starts_with("failed\nok") && !reports.contains(SECRET), "{reports}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_appear_later_are_excluded_under_each_name() {
    let sandbox = secrets().await;
    sandbox.write("later/.env", SECRET);
    fs::hard_link(sandbox.workspace().join("later/.env"), sandbox.workspace().join("later/copy.txt")).unwrap();
    for path in ["later/copy.txt", "later/.env"] {
        let error = sandbox.error("read_path", json!({ "path": path })).await;
        assert!(error.contains("excluded") && !error.contains(SECRET), "{error}");
    }
}
