//! Out of reach of a plugin: files outside its directories, the host's environment and streams, the network.

use pinion_agent::Authority;
use pinion_plugin_runtime::FileAccess;
use pinion_tests::{Sandbox, SandboxBuilder, builtin};
use serde_json::json;
use std::os::unix::fs::symlink;

/// A workspace next to a file that no plugin was granted.
async fn beside_a_secret() -> Sandbox {
    let sandbox = Sandbox::with(&["hostile"]).await;
    std::fs::write(sandbox.outside().join("secret.txt"), "the secret").unwrap();
    std::fs::write(sandbox.outside().join("only-outside.txt"), "x").unwrap();
    sandbox.write("inside.txt", "inside");
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_files_are_readable_by_relative_and_absolute_path() {
    let sandbox = beside_a_secret().await;
    let absolute = sandbox.workspace().join("inside.txt");
    for path in ["inside.txt", "./inside.txt", absolute.to_str().unwrap()] {
        assert_eq!(sandbox.text("read_path", json!({ "path": path })).await, "inside", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leaves_the_granted_directory() {
    let sandbox = beside_a_secret().await;
    let secret = sandbox.outside().join("secret.txt");
    let detour = sandbox.workspace().join("../secret.txt");
    for path in
        ["../secret.txt", "a/../../secret.txt", secret.to_str().unwrap(), detour.to_str().unwrap(), "/etc/passwd"]
    {
        let error = sandbox.error("read_path", json!({ "path": path })).await;
        assert!(!error.contains("the secret"), "{path}: {error}");
    }
    for path in ["..", "/", sandbox.outside().to_str().unwrap()] {
        for tool in ["walk_path", "search_path"] {
            sandbox.error(tool, json!({ "path": path })).await;
        }
        let listed = sandbox.call("list_path", json!({ "path": path })).await;
        assert!(!format!("{listed:?}").contains("secret.txt"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_do_not_leave_the_granted_directory() {
    let sandbox = beside_a_secret().await;
    symlink(sandbox.outside().join("secret.txt"), sandbox.workspace().join("absolute")).unwrap();
    symlink("../secret.txt", sandbox.workspace().join("relative")).unwrap();
    symlink("..", sandbox.workspace().join("parent")).unwrap();
    for path in ["absolute", "relative", "parent/secret.txt"] {
        sandbox.error("read_path", json!({ "path": path })).await;
    }
    for path in ["parent", "relative", "."] {
        for tool in ["walk_path", "search_path"] {
            let found = sandbox.call(tool, json!({ "path": path })).await;
            let found = format!("{found:?}");
            assert!(!found.contains("the secret") && !found.contains("secret.txt"), "{tool} {path}: {found}");
        }
    }
    for (target, read) in [("..", "made/secret.txt"), ("../secret.txt", "made"), ("/etc", "made/passwd")] {
        let arguments = json!({ "target": target, "path": "made", "read": read });
        sandbox.error("read_by_link", arguments).await;
        let _ = std::fs::remove_file(sandbox.workspace().join("made"));
    }
}

/// Two instances swap a directory and a link concurrently while they read, walk and search through it.
#[tokio::test(flavor = "multi_thread")]
async fn rename_race_reads_nothing_outside() {
    let sandbox = beside_a_secret().await;
    let arguments = json!({ "outside": "..", "tries": 300 });
    let (one, two) =
        tokio::join!(sandbox.text("race_renames", arguments.clone()), sandbox.text("race_renames", arguments));
    for seen in [one, two] {
        assert!(!seen.contains("the secret") && !seen.contains("only-outside"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_grant_is_never_written() {
    let builder = SandboxBuilder::default().guest("hostile").files("hostile", ".", FileAccess::Read);
    let sandbox = builder.build().await;
    sandbox.write("inside.txt", "inside");
    assert_eq!(sandbox.text("read_path", json!({ "path": "inside.txt" })).await, "inside");
    sandbox.error("write_path", json!({ "path": "inside.txt" })).await;
    assert_eq!(sandbox.read("inside.txt"), "inside");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_gets_only_the_effects_it_declares() {
    let sandbox = beside_a_secret().await;
    sandbox.error("write_undeclared", json!({ "path": "inside.txt" })).await;
    sandbox.error("read_unseen", json!({ "path": "inside.txt" })).await;
    let error = sandbox.error("run_undeclared", json!({ "script": "echo hi" })).await;
    assert!(error.contains("does not declare the effect `executes`"), "{error}");
    assert_eq!(sandbox.read("inside.txt"), "inside");
    assert_eq!(sandbox.text("write_path", json!({ "path": "inside.txt" })).await, "written");
}

#[tokio::test(flavor = "multi_thread")]
async fn ungranted_plugin_has_no_files_or_programs_and_error_says_why() {
    let sandbox = SandboxBuilder::default().guest("hostile").build().await;
    sandbox.write("inside.txt", "inside");
    sandbox.error("read_path", json!({ "path": "inside.txt" })).await;
    let walk = sandbox.error("walk_path", json!({ "path": "." })).await;
    assert!(walk.contains("[plugins.hostile.grants] files"), "{walk}");
    let run = sandbox.error("run", json!({ "script": "echo hi" })).await;
    assert!(run.contains("[plugins.hostile.grants] process = true"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_granted_subdirectory_is_visible() {
    let builder = SandboxBuilder::default().guest("hostile").files("hostile", "sub", FileAccess::Read);
    let sandbox = builder.build().await;
    sandbox.write("sub/a.txt", "in sub");
    sandbox.write("b.txt", "beside");
    let path = |relative: &str| json!({ "path": sandbox.workspace().join(relative) });
    assert_eq!(sandbox.text("read_path", path("sub/a.txt")).await, "in sub");
    sandbox.error("read_path", path("b.txt")).await;
    sandbox.error("read_path", path("sub/../b.txt")).await;
    // The guest cannot make the workspace its working directory.
    sandbox.error("read_path", json!({ "path": "sub/a.txt" })).await;
    assert_eq!(sandbox.text("walk_path", json!({ "path": "sub" })).await, "a.txt");
    sandbox.error("walk_path", json!({ "path": "." })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_environment_is_invisible() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    assert_eq!(sandbox.text("environment", json!({})).await, "");
    let seen = sandbox.text("run", json!({ "script": "env" })).await;
    assert!(seen.contains("GRANTED=yes") && !seen.contains("CARGO_MANIFEST_DIR"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_streams_are_unreachable() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    assert_eq!(sandbox.text("stdio", json!({})).await, "stdin: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn network_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = Sandbox::with(&["hostile"]).await;
    sandbox.error("connect", json!({ "path": listener.local_addr().unwrap().to_string() })).await;
}

/// Instances reuse memory pages one after another. A call must never see data that the previous one wrote, whether the
/// host keeps such pages or returns them.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_cleared_between_calls() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    for pages in [1_u64, 8, 64] {
        for _ in 0..8 {
            let left: u64 = sandbox.text("leave_traces", json!({ "pages": pages })).await.parse().unwrap();
            assert!(left > pages * 8_192, "{left} traces of {pages} pages");
            assert_eq!(sandbox.text("find_traces", json!({ "pages": pages + 16 })).await, "0", "{pages} pages");
        }
    }
}

/// Planners, branches and sub-agents restrict calls: the tool was offered with other effects and may have changed
/// since.
#[tokio::test(flavor = "multi_thread")]
async fn call_never_exceeds_the_authority_of_its_caller() {
    let builder = SandboxBuilder::default().file(builtin("fs")).trust("fs").file(builtin("shell")).trust("shell");
    let sandbox = builder.build().await;
    sandbox.write("a.txt", "before");
    let write = json!({ "path": "a.txt", "content": "after" });
    let bash = json!({ "command": "echo after > a.txt" });
    for at_most in [Authority::default(), Authority::READ_ONLY] {
        let written = sandbox.call_at_most(at_most, "write", write.clone()).await;
        let ran = sandbox.call_at_most(at_most, "bash", bash.clone()).await;
        assert!(written.contains("may not") && ran.contains("may not"), "{at_most:?}: {written}\n{ran}");
        assert_eq!(sandbox.read("a.txt"), "before", "{at_most:?}");
    }
    let blind = sandbox.call_at_most(Authority::default(), "read", json!({ "path": "a.txt" })).await;
    assert!(!blind.contains("before"), "{blind}");
    let seen = sandbox.call_at_most(Authority::READ_ONLY, "read", json!({ "path": "a.txt" })).await;
    assert!(seen.contains("before"), "{seen}");
    sandbox.call_at_most(Authority::ALL, "write", write).await;
    assert_eq!(sandbox.read("a.txt"), "after");
}

/// A file that the guest may not see looks missing to it.
#[tokio::test(flavor = "multi_thread")]
async fn tool_that_does_not_declare_reads_is_told_so() {
    let sandbox = Sandbox::with(&["echo"]).await;
    sandbox.write("a.txt", "x");
    let error = sandbox.error("peek", json!({ "message": "a.txt" })).await;
    assert!(error.contains("tool `peek` sees no files") && error.contains("`.reads()`"), "{error}");
    assert!(!error.contains("os error"), "{error}");
}
