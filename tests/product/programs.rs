//! Programs run by plugins: output, limits and cleanup.

use pinion_tests::{Progress, Sandbox, until_gone};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn program_returns_output_and_exit_code() {
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
async fn long_program_output_is_cut_and_spilled_to_a_file() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done";
    let said = sandbox.text("run", json!({ "script": script, "max_output": 1000 })).await;
    assert!(said.contains("line 0\n") && said.ends_with("line 1999\n") && !said.contains("line 1000\n"), "{said}");
    let file = said.lines().next().unwrap().split("spilled=").nth(1).unwrap();
    let all = std::fs::read_to_string(file).unwrap();
    assert_eq!(all.lines().count(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_kills_program_and_children() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let script = "sleep 1000 & echo $!; sleep 1000";
    // The program prints before the timeout, if the machine is not too busy to start it.
    for timeout in [200, 2_000, 20_000] {
        let said = sandbox.text("run", json!({ "script": script, "timeout_ms": timeout })).await;
        assert!(said.starts_with("timed out"), "{said}");
        if said.lines().any(|line| line.trim().parse::<u32>().is_ok()) {
            return assert_gone(&said).await;
        }
    }
    panic!("the program printed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_kills_program_and_children() {
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
async fn processes_left_behind_are_killed() {
    let sandbox = Sandbox::with(&["hostile"]).await;
    let said = sandbox.text("run", json!({ "script": "sleep 1000 & echo $!" })).await;
    assert!(said.starts_with("ended code=Some(0)"), "{said}");
    assert_gone(&said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_call_kills_its_program() {
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
    until_gone(pid).await;
}

/// Asserts that the process whose id is on a line of `said` ends; after a kill this takes a moment.
async fn assert_gone(said: &str) {
    let pid: i32 = said.lines().find_map(|line| line.trim().parse().ok()).expect("a process id");
    until_gone(pid).await;
}
