//! Programs that plugins run, and what becomes of them.

use pinion_tests::{Progress, Sandbox};
use serde_json::json;
use std::path::Path;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gives_its_output_and_its_exit_code() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let said = sandbox.text("run", json!({ "script": "pwd; exit 3" })).await;
    let workspace = sandbox.workspace().canonicalize().unwrap();
    assert_eq!(
        said,
        format!(
            "ended code=Some(3) signal=None total={} spilled=\n{}\n",
            workspace.to_str().unwrap().len() + 1,
            workspace.display()
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_long_output_start_and_end_are_kept_and_all_of_it_is_in_a_file() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done";
    let said = sandbox.text("run", json!({ "script": script, "max_output": 1000 })).await;
    assert!(said.contains("line 0\n") && said.ends_with("line 1999\n") && !said.contains("line 1000\n"), "{said}");
    let file = said.lines().next().unwrap().split("spilled=").nth(1).unwrap();
    let all = std::fs::read_to_string(file).unwrap();
    assert_eq!(all.lines().count(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_killed_with_all_its_children_at_its_timeout() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let script = "sleep 1000 & echo $!; sleep 1000";
    let said = sandbox.text("run", json!({ "script": script, "timeout_ms": 200 })).await;
    assert!(said.starts_with("timed out"), "{said}");
    assert_gone(&said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_killed_with_all_its_children_when_the_call_is_cancelled() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let token = CancellationToken::new();
    let progress = Progress::default();
    let script = "sleep 1000 & echo $!; while true; do echo; sleep 0.05; done";
    let call = sandbox.call_with("run", json!({ "script": script }), &progress, token.clone());
    let (ended, ()) = tokio::join!(call, async {
        progress.first().await;
        token.cancel();
    });
    let output = ended.0.unwrap();
    let said = output.content[0].as_text().unwrap();
    assert!(said.starts_with("cancelled"), "{said}");
    assert_gone(said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_leaves_running_is_killed_when_it_ends() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let said = sandbox.text("run", json!({ "script": "sleep 1000 & echo $!" })).await;
    assert!(said.starts_with("ended code=Some(0)"), "{said}");
    assert_gone(&said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_killed_when_nobody_waits_for_the_call_any_more() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let progress = Progress::default();
    {
        let script = "echo $$ > pid; while true; do echo; sleep 0.05; done";
        let call = sandbox.call_with("run", json!({ "script": script }), &progress, CancellationToken::new());
        tokio::select! {
            _ = call => panic!("it never ends"),
            _ = progress.first() => {}
        }
    }
    let pid: i32 = sandbox.read("pid").trim().parse().unwrap();
    wait_until_gone(pid).await;
}

/// The number on the first line of its own that is one. A process that was killed may take a moment to go.
async fn assert_gone(said: &str) {
    let pid: i32 = said.lines().find_map(|line| line.trim().parse().ok()).expect("a process id");
    wait_until_gone(pid).await;
}

fn is_running(pid: i32) -> bool {
    // A process that is dead and not yet reaped by its new parent does not run.
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    status.is_ok_and(|status| !status.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

async fn wait_until_gone(pid: i32) {
    tokio::task::spawn_blocking(move || {
        while is_running(pid) {
            std::thread::yield_now();
        }
    })
    .await
    .unwrap();
}
