//! The tools `find` and `search`.

use super::{called, with};
use pinion_tests::Sandbox;
use serde_json::json;

async fn project() -> Sandbox {
    let sandbox = with(&["fs"]).await;
    sandbox.write(".gitignore", "/target\n*.log\n!keep.log\n");
    sandbox.write(".git/config", "needle\n");
    sandbox.write(".github/ci.yml", "needle\n");
    sandbox.write("src/lib.rs", "fn a() {}\n// needle\nfn b() {}\n");
    sandbox.write("src/deep/mod.rs", "one\ntwo\nNeedle 42\nfour\nfive\nsix\nneedle\n");
    sandbox.write("src/deep/.gitignore", "generated.rs\n");
    sandbox.write("src/deep/generated.rs", "needle\n");
    sandbox.write("target/out.rs", "needle\n");
    sandbox.write("a.log", "needle\n");
    sandbox.write("keep.log", "needle\n");
    sandbox.write("data.bin", b"needle\0\n");
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn find_matches_globs_and_skips_ignored_files() {
    let sandbox = project().await;
    let (text, details) = called(&sandbox, "find", json!({ "pattern": "*.rs" })).await;
    assert_eq!(text, "src/deep/mod.rs\nsrc/lib.rs");
    assert_eq!(details, json!({ "path": ".", "total": 2, "shown": 2, "truncated": false }));
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*.rs", "ignored": true })).await;
    assert_eq!(text, "src/deep/generated.rs\nsrc/deep/mod.rs\nsrc/lib.rs\ntarget/out.rs");
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*", "type": "directory", "path": "src" })).await;
    assert_eq!(text, "src/deep/");
    let (text, details) = called(&sandbox, "find", json!({ "pattern": "**", "limit": 3 })).await;
    assert_eq!(
        text,
        ".github/\n.github/ci.yml\n.gitignore\n[3 of 10 matches; narrow with path, depth or a longer pattern]"
    );
    assert_eq!(details["truncated"], true);
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*.py" })).await;
    assert!(text.starts_with("nothing in the workspace matches `*.py`"), "{text}");
    let error = sandbox.error("find", json!({ "pattern": "a[" })).await;
    assert!(error.contains("glob"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn search_skips_ignored_and_binary_files() {
    let sandbox = project().await;
    let (text, details) = called(&sandbox, "search", json!({ "pattern": "needle" })).await;
    assert_eq!(
        text,
        ".github/ci.yml\n1: needle\n\nkeep.log\n1: needle\n\nsrc/deep/mod.rs\n7: needle\n\nsrc/lib.rs\n2: // needle"
    );
    let counts = ["files", "matches"].map(|name| details[name].as_u64());
    assert_eq!((counts, &details["truncated"]), ([Some(4), Some(4)], &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_filters_by_expression_glob_type_and_path() {
    let sandbox = project().await;
    let arguments = json!({ "pattern": r"^needle \d+$", "ignore_case": true, "context": 1, "type": "rust" });
    let (text, _) = called(&sandbox, "search", arguments).await;
    assert_eq!(text, "src/deep/mod.rs\n2- two\n3: Needle 42\n4- four");
    let (text, _) =
        called(&sandbox, "search", json!({ "pattern": "needle", "glob": "*.log", "output": "files" })).await;
    assert_eq!(text, "keep.log");
    let arguments = json!({ "pattern": "needle", "path": "src", "ignored": true, "output": "count" });
    let (text, _) = called(&sandbox, "search", arguments).await;
    assert_eq!(text, "src/deep/generated.rs: 1\nsrc/deep/mod.rs: 1\nsrc/lib.rs: 1");
    let (text, _) =
        called(&sandbox, "search", json!({ "pattern": "a() {}\n//", "literal": true, "multiline": true })).await;
    assert_eq!(text, "src/lib.rs\n1: fn a() {}\n2: // needle");
    let error = sandbox.error("search", json!({ "pattern": "a(" })).await;
    assert!(error.contains("unclosed group"), "{error}");
}

/// The selection of matches must not depend on thread timing.
#[tokio::test(flavor = "multi_thread")]
async fn truncated_search_is_deterministic() {
    let sandbox = with(&["fs"]).await;
    (0..300).for_each(|n| sandbox.write(&format!("{}/{n:03}.txt", n % 7), "many\n".repeat(n % 5 + 1)));
    let search = json!({ "pattern": "many", "limit": 20 });
    let (first, details) = called(&sandbox, "search", search.clone()).await;
    assert!(first.ends_with("[stopped after 20 matches; narrow with path, glob, type or a longer pattern]"), "{first}");
    assert!(first.starts_with("0/000.txt\n1: many\n\n0/007.txt\n1: many\n2: many\n3: many\n"), "{first}");
    assert_eq!((&details["matches"], &details["truncated"]), (&json!(20), &json!(true)));
    for _ in 0..20 {
        assert_eq!(called(&sandbox, "search", search.clone()).await.0, first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_result_is_bounded() {
    let sandbox = with(&["fs"]).await;
    (0..100).for_each(|n| sandbox.write(&format!("{n:03}.txt"), format!("{}match\n", "x".repeat(100_000)).repeat(3)));
    let (text, details) = called(&sandbox, "search", json!({ "pattern": "match", "limit": 2_000 })).await;
    assert!(text.len() < 51 * 1024 && text.contains("[cut at 50 KB, after "), "{}", text.len());
    assert_eq!((&details["matches"], &details["truncated"]), (&json!(300), &json!(true)));
}

/// Files of a project without ignore files; dependencies and build output outnumber the rest.
async fn unignored() -> Sandbox {
    let sandbox = with(&["fs"]).await;
    sandbox.write(".git/HEAD", "needle\n");
    sandbox.write("Cargo.toml", "needle\n");
    sandbox.write("src/target/lib.rs", "needle\n");
    sandbox.write("target/debug/out.rs", "needle\n");
    sandbox.write("web/node_modules/a.rs", "needle\n");
    sandbox.write("web/app.rs", "needle\n");
    sandbox
}

const LEFT_OUT: &str = "[left out: target/, web/node_modules/; name one in the path to see it]";

#[tokio::test(flavor = "multi_thread")]
async fn list_leaves_out_dependencies_and_build_output() {
    let sandbox = unignored().await;
    let (text, details) = called(&sandbox, "list", json!({})).await;
    assert_eq!(text, "Cargo.toml  7 bytes\nsrc/\nweb/\n[left out: .git/, target/; name one in the path to see it]");
    assert_eq!(details, json!({ "path": ".", "total": 3, "shown": 3, "truncated": false }));
    let (text, _) = called(&sandbox, "list", json!({ "depth": 3 })).await;
    assert_eq!(
        text,
        "Cargo.toml  7 bytes\nsrc/\nsrc/target/\nsrc/target/lib.rs  7 bytes\nweb/\nweb/app.rs  7 bytes\n\
         [left out: .git/, target/, web/node_modules/; name one in the path to see it]"
    );
    let (text, _) = called(&sandbox, "list", json!({ "path": "target", "depth": 2 })).await;
    assert_eq!(text, "debug/\ndebug/out.rs  7 bytes");
    let (text, _) = called(&sandbox, "list", json!({ "path": ".git" })).await;
    assert_eq!(text, "HEAD  7 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_200_entries_and_says_so() {
    let sandbox = with(&["fs"]).await;
    (0..500).for_each(|n| sandbox.write(&format!("{}/{n:03}.txt", n % 5), ""));
    let (text, details) = called(&sandbox, "list", json!({ "depth": 2 })).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.ends_with("\n[200 of 505 entries; list a subdirectory, or use find with a pattern]"), "{text}");
    assert_eq!((&details["shown"], &details["truncated"]), (&json!(200), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_respects_ignore_files_at_every_depth() {
    let sandbox = project().await;
    let (text, _) = called(&sandbox, "list", json!({ "depth": 3, "path": "src" })).await;
    assert_eq!(text, "deep/\ndeep/.gitignore  13 bytes\ndeep/mod.rs  39 bytes\nlib.rs  30 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn find_and_search_leave_out_dependencies_and_build_output() {
    let sandbox = unignored().await;
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*.rs" })).await;
    assert_eq!(text, format!("src/target/lib.rs\nweb/app.rs\n{LEFT_OUT}"));
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "web/node_modules/*" })).await;
    assert_eq!(text, "web/node_modules/a.rs");
    let (text, _) = called(&sandbox, "find", json!({ "pattern": ".git/*" })).await;
    assert_eq!(text, ".git/HEAD");
    let (text, _) = called(&sandbox, "find", json!({ "pattern": "*.rs", "ignored": true })).await;
    assert_eq!(text, "src/target/lib.rs\ntarget/debug/out.rs\nweb/app.rs\nweb/node_modules/a.rs");
    let (text, _) = called(&sandbox, "search", json!({ "pattern": "needle", "output": "files" })).await;
    assert_eq!(text, format!("Cargo.toml\nsrc/target/lib.rs\nweb/app.rs\n{LEFT_OUT}"));
    let (text, _) =
        called(&sandbox, "search", json!({ "pattern": "needle", "output": "files", "path": "target" })).await;
    assert_eq!(text, "target/debug/out.rs");
}
