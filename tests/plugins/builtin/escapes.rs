//! No tool of `fs` leaves the workspace by any path.

use super::with;
use pinion_tests::Sandbox;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

/// A workspace with links to a file and a directory outside.
async fn beside_a_secret() -> Sandbox {
    let sandbox = with(&["fs"]).await;
    std::fs::create_dir(sandbox.outside().join("private")).unwrap();
    std::fs::write(sandbox.outside().join("private/secret.txt"), "the secret\n").unwrap();
    symlink("../private/secret.txt", sandbox.workspace().join("file-link")).unwrap();
    symlink("../private", sandbox.workspace().join("directory-link")).unwrap();
    symlink(sandbox.outside().join("private"), sandbox.workspace().join("absolute-link")).unwrap();
    sandbox
}

fn calls(path: &str) -> [(&'static str, Value); 6] {
    [
        ("read", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "mine" })),
        ("edit", json!({ "path": path, "edits": [{ "old_text": "secret", "new_text": "mine" }] })),
        ("list", json!({ "path": path })),
        ("find", json!({ "path": path, "pattern": "*" })),
        ("search", json!({ "path": path, "pattern": "secret" })),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_rejects_paths_outside_the_workspace() {
    let sandbox = beside_a_secret().await;
    let absolute = sandbox.outside().join("private");
    let absolute = absolute.to_str().unwrap();
    let directories =
        ["../private", absolute, "directory-link", "absolute-link", "directory-link/../../private", "a/../../private"];
    let files = directories.map(|directory| format!("{directory}/secret.txt"));
    for path in files.iter().map(String::as_str).chain(directories).chain([
        "directory-link/secrt.txt",
        "../private/secrt.txt",
        "file-link",
        "..",
        "/",
        "/etc/passwd",
    ]) {
        for (tool, arguments) in calls(path) {
            let error = sandbox.error(tool, arguments).await;
            assert!(
                !error.contains("the secret") && !error.contains("similar names: `secret"),
                "{tool} {path}: {error}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(sandbox.outside().join("private/secret.txt")).unwrap(), "the secret\n");
    assert_eq!(std::fs::read_dir(sandbox.outside().join("private")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_listed_but_not_followed() {
    let sandbox = beside_a_secret().await;
    sandbox.write("inside.txt", "my secret\n");
    symlink("inside.txt", sandbox.workspace().join("inside-link")).unwrap();
    symlink(".", sandbox.workspace().join("loop")).unwrap();
    let found = sandbox.text("find", json!({ "pattern": "*" })).await;
    assert_eq!(found, "absolute-link\ndirectory-link\nfile-link\ninside-link\ninside.txt\nloop");
    assert_eq!(sandbox.text("search", json!({ "pattern": "secret" })).await, "inside.txt\n1: my secret");
    assert!(sandbox.text("read", json!({ "path": "inside-link" })).await.contains("my secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignore_file_outside_is_not_read() {
    let sandbox = with(&["fs"]).await;
    std::fs::write(sandbox.outside().join(".gitignore"), "*.txt\n").unwrap();
    std::fs::write(sandbox.outside().join("rules"), "*.txt\n").unwrap();
    sandbox.write("a.txt", "");
    symlink("../rules", sandbox.workspace().join(".ignore")).unwrap();
    assert_eq!(sandbox.text("find", json!({ "pattern": "*.txt" })).await, "a.txt");
}
