//! The tools `write` and `edit`.

use super::{called, with};
use pinion_agent::Display;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn write_creates_directories_and_keeps_the_mode() {
    let sandbox = with(&["fs"]).await;
    let write = |content: &str| json!({ "path": "a/b/run.sh", "content": content });
    let (text, details) = called(&sandbox, "write", write("one\ntwo\n")).await;
    assert_eq!(text, "created a/b/run.sh (2 lines, 8 bytes)");
    assert_eq!(details["created"], true);
    let file = sandbox.workspace().join("a/b/run.sh");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).unwrap();
    let (text, details) = called(&sandbox, "write", write("x")).await;
    assert_eq!(text, "overwrote a/b/run.sh (1 line, 1 byte; previously 8 bytes)");
    assert_eq!((&details["created"], &details["old_bytes"]), (&json!(false), &json!(8)));
    assert_eq!(sandbox.read("a/b/run.sh"), "x");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o751);
    let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let error = sandbox.error("write", json!({ "path": "a/b", "content": "" })).await;
    assert!(error.contains("is a directory"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_edits_return_one_diff() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("a.rs", "fn one() {}\nfn two() {}\nfn three() {}\n");
    let edits = json!([{ "old_text": "one", "new_text": "uno" }, { "old_text": "three()", "new_text": "tres()" }]);
    let output = sandbox.call("edit", json!({ "path": "a.rs", "edits": edits })).await.unwrap();
    assert_eq!(sandbox.read("a.rs"), "fn uno() {}\nfn two() {}\nfn tres() {}\n");
    assert_eq!(output.display, Display::Diff);
    let (text, details) = super::text_and_details(output);
    assert!(text.contains("-fn one() {}\n+fn uno() {}\n fn two() {}\n-fn three() {}\n+fn tres() {}"), "{text}");
    let counts = ["replacements", "added", "removed", "first_changed_line"].map(|name| details[name].as_u64());
    assert_eq!(counts, [Some(2), Some(2), Some(2), Some(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_keeps_line_endings() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("dos.txt", "one\r\ntwo\r\nthree\r\n");
    let edits = json!([{ "old_text": "one\ntwo", "new_text": "1\n2\n2.5" }]);
    called(&sandbox, "edit", json!({ "path": "dos.txt", "edits": edits })).await;
    assert_eq!(sandbox.read("dos.txt"), "1\r\n2\r\n2.5\r\nthree\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_or_missing_edit_changes_nothing() {
    let sandbox = with(&["fs"]).await;
    let before = "let x = 1;\nlet y = 2;\nlet x = 1;\n";
    sandbox.write("a.rs", before);
    let edit = |old: &str| json!({ "path": "a.rs", "edits": [{ "old_text": "y", "new_text": "z" }, { "old_text": old, "new_text": "?" }] });
    let error = sandbox.error("edit", edit("let x = 1;")).await;
    assert!(error.contains("edits[1]: old_text occurs 2 times, at lines 1, 3"), "{error}");
    let error = sandbox.error("edit", edit("let  y = 2;")).await;
    assert!(error.contains("edits[1]: old_text not found; ") && error.contains("     2\tlet y = 2;"), "{error}");
    assert_eq!(sandbox.read("a.rs"), before);
    let all = json!({ "path": "a.rs", "edits": [{ "old_text": "x", "new_text": "z", "replace_all": true }] });
    let (_, details) = called(&sandbox, "edit", all).await;
    assert_eq!((sandbox.read("a.rs"), &details["replacements"]), (before.replace('x', "z"), &json!(2)));
}
