//! The tool `bash`.

use super::{called, text_and_details, with};
use pinion_tests::{Progress, SandboxBuilder, builtin, until_gone};
use serde_json::json;
use std::path::Path;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn command_returns_both_streams_and_exit_code() {
    let sandbox = with(&["shell"]).await;
    std::fs::create_dir(sandbox.workspace().join("sub")).unwrap();
    let command = "basename $PWD; echo bad >&2; exit 3";
    let (text, details) = called(&sandbox, "bash", json!({ "command": command, "cwd": "sub" })).await;
    assert_eq!(text, "sub\n[stderr]\nbad\n[exit code 3]");
    let ended = ["exit_code", "signal", "success", "timed_out", "cancelled", "stdout_bytes", "truncated"];
    assert_eq!(
        ended.map(|name| details[name].clone()).to_vec(),
        json!([3, null, false, false, false, 4, false]).as_array().unwrap().clone()
    );
    let (text, details) = called(&sandbox, "bash", json!({ "command": "true" })).await;
    assert_eq!((text.as_str(), &details["success"]), ("[no output]", &json!(true)));
    for (command, is_error) in [("true", false), ("exit 3", true), ("kill -9 $$", true), ("no-such-program", true)] {
        let output = sandbox.call("bash", json!({ "command": command })).await.unwrap();
        assert_eq!(output.is_error, is_error, "{command}");
    }
    let (text, _) = called(&sandbox, "bash", json!({ "command": "kill -9 $$" })).await;
    assert_eq!(text, "[killed by signal 9 (SIGKILL)]");
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_kills_command_and_children() {
    let sandbox = with(&["shell"]).await;
    let arguments = json!({ "command": "sleep 1000 & echo $!; sleep 1000", "timeout": 1 });
    let output = sandbox.call("bash", arguments).await.unwrap();
    assert!(output.is_error);
    let (text, details) = text_and_details(output);
    let (pid, ending) = text.split_once('\n').unwrap();
    assert_eq!(ending, "[timed out after 1 s and was killed; a longer timeout may help]");
    assert_eq!((&details["timed_out"], &details["success"]), (&json!(true), &json!(false)));
    until_gone(pid.trim().parse().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_command_is_killed_and_keeps_its_output() {
    let sandbox = with(&["shell"]).await;
    let (token, progress) = (CancellationToken::new(), Progress::default());
    let arguments = json!({ "command": "sleep 1000 & echo $!; while true; do echo on; sleep 0.05; done" });
    let call = sandbox.call_with("bash", arguments, &progress, token.clone());
    let ((result, _), ()) = tokio::join!(call, async {
        progress.first().await;
        token.cancel();
    });
    let (text, details) = text_and_details(result.unwrap());
    assert!(text.ends_with("[cancelled and killed]"), "{text}");
    assert_eq!((&details["cancelled"], &details["success"]), (&json!(true), &json!(false)));
    until_gone(text.lines().next().unwrap().trim().parse().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_command_output_is_cut_and_spilled_to_a_file() {
    let sandbox = with(&["shell"]).await;
    let (text, details) = called(&sandbox, "bash", json!({ "command": "seq 1 500000; seq 1 100000 >&2" })).await;
    assert!(text.len() < 2 * 51 * 1024 && text.starts_with("1\n2\n3\n"), "{} bytes", text.len());
    assert!(
        text.contains(" bytes omitted ...]\n")
            && text.contains("\n500000\n[stderr]\n1\n")
            && text.contains("\n100000\n[full")
    );
    let (file, bytes) = (details["full_output"].as_str().unwrap(), details["stdout_bytes"].as_u64().unwrap());
    assert_eq!((bytes, &details["truncated"]), (3_388_895, &json!(true)));
    assert!(Path::new(file).metadata().unwrap().len() >= bytes);
    assert!(text.ends_with(&format!("[full output: {file}]")));
}

#[tokio::test(flavor = "multi_thread")]
async fn spilled_output_has_a_quota_and_says_so() {
    let sandbox = with(&["shell"]).await;
    let command = "head -c 70000000 /dev/zero | tr '\\0' x";
    let (text, details) = called(&sandbox, "bash", json!({ "command": command })).await;
    let file = details["full_output"].as_str().unwrap();
    assert!(text.ends_with(&format!("[first 64 MiB of the output: {file}]")), "{}", &text[text.len() - 200..]);
    assert_eq!(Path::new(file).metadata().unwrap().len(), 64 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_needs_the_process_grant() {
    let sandbox = SandboxBuilder::default().file(builtin("shell")).build().await;
    let error = sandbox.error("bash", json!({ "command": "echo ran > ran" })).await;
    assert!(error.contains("[plugins.shell.grants] process = true"), "{error}");
}
