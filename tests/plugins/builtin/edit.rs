//! The tools `write` and `edit`.

use super::{called, with};
use pinion_agent::tool::Display;
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

/// Otherwise a person's changes between the read and the write are lost.
#[tokio::test(flavor = "multi_thread")]
async fn write_refuses_a_file_that_changed_since_it_was_read() {
    let sandbox = with(&["fs"]).await;
    let (read, write) = (json!({ "path": "a.txt" }), json!({ "path": "a.txt", "content": "one\ntwo\nthree\n" }));
    let edit = json!({ "path": "a.txt", "edits": [{ "old_text": "one", "new_text": "1" }] });
    sandbox.write("a.txt", "one\ntwo\n");
    called(&sandbox, "read", read.clone()).await;
    // Writes of the session itself are no changes.
    called(&sandbox, "edit", edit.clone()).await;
    called(&sandbox, "write", write.clone()).await;
    called(&sandbox, "write", write.clone()).await;

    sandbox.write("a.txt", "one\ntwo\nof a person\n");
    let error = sandbox.error("write", write.clone()).await;
    assert!(error.contains("`a.txt` changed since you last read it") && error.contains("read it again"), "{error}");
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\nof a person\n");
    // An edit keeps the change, which the session still has not seen.
    called(&sandbox, "edit", edit).await;
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\nof a person\n");
    assert!(sandbox.error("write", write.clone()).await.contains("changed since"));
    called(&sandbox, "read", read).await;
    called(&sandbox, "write", write.clone()).await;
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\nthree\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_was_not_read_or_is_gone_is_written() {
    let sandbox = with(&["fs"]).await;
    let write = json!({ "path": "a.txt", "content": "new" });
    sandbox.write("a.txt", "old");
    called(&sandbox, "write", write.clone()).await;
    std::fs::remove_file(sandbox.workspace().join("a.txt")).unwrap();
    called(&sandbox, "write", write).await;
    assert_eq!(sandbox.read("a.txt"), "new");
}

/// Branches and sub-agents edit concurrently; they must not undo each other's changes.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_edits_of_one_file_lose_nothing() {
    let sandbox = with(&["fs"]).await;
    for round in 0..20 {
        sandbox.write("a.txt", "one two three four");
        let edit =
            |old: &str| json!({ "path": "a.txt", "edits": [{ "old_text": old, "new_text": old.to_uppercase() }] });
        let names = ["one", "two", "three", "four"];
        let results = futures_util::future::join_all(names.map(|name| sandbox.call("edit", edit(name)))).await;
        let text = sandbox.read("a.txt");
        for (name, result) in names.iter().zip(results) {
            assert_eq!(text.contains(&name.to_uppercase()), result.is_ok(), "{round} {name}: {text} {result:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hard_links_survive_write_and_edit() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("a.txt", "one");
    std::fs::hard_link(sandbox.workspace().join("a.txt"), sandbox.workspace().join("b.txt")).unwrap();
    called(&sandbox, "write", json!({ "path": "a.txt", "content": "two" })).await;
    let edits = json!([{ "old_text": "two", "new_text": "three and more" }]);
    called(&sandbox, "edit", json!({ "path": "b.txt", "edits": edits })).await;
    assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("three and more".into(), "three and more".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn home_directory_is_not_created_in_the_workspace() {
    let sandbox = with(&["fs"]).await;
    let error = sandbox.error("write", json!({ "path": "~/x", "content": "" })).await;
    assert!(error.contains("`~` is not expanded"), "{error}");
    assert!(!sandbox.workspace().join("~").exists());
}
