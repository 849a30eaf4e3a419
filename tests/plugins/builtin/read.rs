//! The tools `read` and `list`.

use super::{called, with};
use pinion_agent::Content;
use pinion_agent::tool::ToolError;
use pinion_tests::Progress;
use serde_json::json;
use std::fmt::Write as _;
use tokio_util::sync::CancellationToken;

fn lines(count: u32) -> String {
    (1..=count).fold(String::new(), |mut text, n| {
        writeln!(text, "line {n}").unwrap();
        text
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn read_returns_requested_lines_with_numbers() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("long.txt", lines(3_000));
    let (text, details) = called(&sandbox, "read", json!({ "path": "long.txt", "offset": 10, "limit": 2 })).await;
    assert_eq!(
        text,
        "long.txt: lines 10-11 of 3000\n    10\tline 10\n    11\tline 11\n\
         [2989 lines more; continue with offset=12]\n"
    );
    let expected = json!({ "path": "long.txt", "kind": "text", "bytes": 28_893, "first_line": 10, "last_line": 11,
        "total_lines": 3_000, "truncated": true });
    assert_eq!(details, expected);
    let (text, details) = called(&sandbox, "read", json!({ "path": "long.txt" })).await;
    assert!(text.ends_with("[1000 lines more; continue with offset=2001]\n"), "{text}");
    assert_eq!(details["last_line"], 2_000);
    let error = sandbox.error("read", json!({ "path": "long.txt", "offset": 3_001 })).await;
    assert!(error.contains("past the end of `long.txt`, which has 3000 lines"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_cut_and_large_files_read_in_parts() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("wide.txt", "x".repeat(5_000));
    let (text, details) = called(&sandbox, "read", json!({ "path": "wide.txt" })).await;
    assert!(text.ends_with("x [3000 more bytes]\n") && text.len() < 2_100, "{text}");
    assert_eq!(details["truncated"], true);
    sandbox.write("large.txt", lines(200_000));
    let error = sandbox.error("read", json!({ "path": "large.txt" })).await;
    assert!(error.contains("pass offset and limit"), "{error}");
    let (text, _) = called(&sandbox, "read", json!({ "path": "large.txt", "offset": 150_000, "limit": 1 })).await;
    assert!(text.contains("150000\tline 150000\n[more lines follow; continue with offset=150001]"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_files_are_named_and_images_returned() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("data.bin", b"a\0b");
    let error = sandbox.error("read", json!({ "path": "data.bin" })).await;
    assert!(error.contains("`data.bin` is not text"), "{error}");
    let picture = b"\x89PNG\r\n\x1a\nand so on".to_vec();
    sandbox.write("picture.txt", &picture);
    let output = sandbox.call("read", json!({ "path": "picture.txt" })).await.unwrap();
    let shown = output.content.iter().find_map(|content| match content {
        Content::Image(image) => Some((image.media_type.as_str(), &image.data)),
        _ => None,
    });
    assert_eq!(shown, Some(("image/png", &picture)));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_file_suggests_similar_names() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("src/parser.rs", "");
    let error = sandbox.error("read", json!({ "path": "src/parsr.rs" })).await;
    assert!(error.contains("`src/parsr.rs` does not exist") && error.contains("parser.rs`"), "{error}");
    let error = sandbox.error("read", json!({ "path": "src" })).await;
    assert!(error.contains("use list"), "{error}");
    let error = sandbox.error("read", json!({ "file": "src" })).await;
    assert!(error.contains("invalid arguments"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_pipe_does_not_block() {
    let sandbox = with(&["fs"]).await;
    rustix::fs::mkfifoat(rustix::fs::CWD, sandbox.workspace().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let error = sandbox.error("read", json!({ "path": "pipe" })).await;
    assert!(error.contains("neither a file nor a directory"), "{error}");
    let (text, _) = called(&sandbox, "search", json!({ "pattern": "x" })).await;
    assert!(text.starts_with("no match"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_ends() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("a.txt", "x");
    for (tool, arguments) in [
        ("read", json!({ "path": "a.txt" })),
        ("search", json!({ "pattern": "x" })),
        ("write", json!({ "path": "a.txt", "content": "y" })),
    ] {
        let token = CancellationToken::new();
        token.cancel();
        let (result, _) = sandbox.call_with(tool, arguments, &Progress::default(), token).await;
        assert!(matches!(result, Err(ToolError::Cancelled { .. })), "{tool}: {result:?}");
    }
    assert_eq!(sandbox.read("a.txt"), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_skips_ignored_files_beyond_one_level() {
    let sandbox = with(&["fs"]).await;
    sandbox.write(".gitignore", "target\n");
    sandbox.write("src/a.rs", "12345");
    sandbox.write("target/x.o", "");
    let (text, details) = called(&sandbox, "list", json!({})).await;
    assert_eq!(text, ".gitignore  7 bytes\nsrc/\ntarget/");
    assert_eq!(details, json!({ "path": ".", "total": 3, "shown": 3, "truncated": false }));
    let (text, _) = called(&sandbox, "list", json!({ "depth": 2 })).await;
    assert_eq!(text, ".gitignore  7 bytes\nsrc/\nsrc/a.rs  5 bytes");
    (0..250).for_each(|n| sandbox.write(&format!("many/{n:03}"), ""));
    let (text, details) = called(&sandbox, "list", json!({ "path": "many" })).await;
    assert!(
        text.ends_with("199  0 bytes\n[200 of 250 entries; list a subdirectory, or use find with a pattern]"),
        "{text}"
    );
    assert_eq!(details["truncated"], true);
    let error = sandbox.error("list", json!({ "path": "src/a.rs" })).await;
    assert!(error.contains("is a file, not a directory"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_with_a_newline_is_one_entry() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("new\nline", "x");
    let (text, _) = called(&sandbox, "list", json!({})).await;
    assert_eq!(text, "\"new\\nline\"  1 byte");
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*" })).await;
    assert_eq!(text, "\"new\\nline\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_that_was_deleted_is_named_as_the_cause() {
    let sandbox = with(&["fs"]).await;
    sandbox.write("a.txt", "x");
    called(&sandbox, "read", json!({ "path": "a.txt" })).await;
    std::fs::remove_dir_all(sandbox.workspace()).unwrap();
    for (tool, arguments) in [("read", json!({ "path": "a.txt" })), ("list", json!({}))] {
        let error = sandbox.error(tool, arguments).await;
        assert!(!error.contains("no directory `/`"), "{tool}: {error}");
    }
}
