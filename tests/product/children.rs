//! Programs that a plugin talks to while they run.

use pinion_agent::Authority;
use pinion_plugin_runtime::PartialLimits;
use pinion_tests::{Progress, Sandbox, SandboxBuilder, until, until_gone};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn sandbox() -> Sandbox {
    SandboxBuilder::default().guest("bridge").trust("bridge").watched().build().await
}

/// Starts a shell script, takes these steps and returns a line for each.
async fn talk(sandbox: &Sandbox, script: &str, steps: Value) -> Vec<String> {
    lines(&sandbox.text("steer", json!({ "child": { "script": script, "steps": steps } })).await)
}

fn lines(said: &str) -> Vec<String> {
    said.lines().map(str::to_owned).collect()
}

/// Returns the process id in a file that a script writes, once it is there.
async fn pid(sandbox: &Sandbox) -> i32 {
    let read = || std::fs::read_to_string(sandbox.workspace().join("pid")).unwrap_or_default();
    until("the script has written its process id", || read().ends_with('\n')).await;
    read().trim().parse().unwrap()
}

const LONG: u32 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn program_answers_what_is_written_to_it() {
    let sandbox = sandbox().await;
    let steps = json!([
        { "write": ["one\n", 1, LONG] }, { "read": [100, LONG] },
        { "write": ["two\n", 1, LONG] }, { "read": [2, LONG] }, { "read": [100, LONG] },
        "close_stdin", { "read": [100, LONG] }, { "wait": LONG },
    ]);
    let said = talk(&sandbox, "cat", steps).await;
    assert_eq!(said, ["wrote 4", "read one", "wrote 4", "read tw", "read o", "closed", "end", "exit Some(0) None"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_input_comes_before_what_is_written() {
    let sandbox = sandbox().await;
    let first = "x".repeat(300_000);
    let steps = json!([{ "write": ["end", 1, LONG] }, "close_stdin", "drain", { "wait": LONG }]);
    let said = sandbox.text("steer", json!({ "child": { "script": "cat", "stdin": first, "steps": steps } })).await;
    assert_eq!(lines(&said)[2..], ["drained 300003", "exit Some(0) None"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_apart_and_exits_are_reported() {
    let sandbox = sandbox().await;
    let steps = json!([{ "read_stderr": [100, LONG] }, { "read": [100, LONG] }, { "wait": LONG }, { "wait": 0 }]);
    let said = talk(&sandbox, "echo out; echo err >&2; exit 3", steps).await;
    assert_eq!(said, ["read err", "read out", "exit Some(3) None", "exit Some(3) None"]);
    let said = talk(&sandbox, "kill -TERM $$", json!([{ "wait": LONG }])).await;
    assert_eq!(said, ["exit None Some(15)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_end_at_their_timeouts() {
    let sandbox = sandbox().await;
    let steps = json!([{ "read": [100, 10] }, { "wait": 10 }, "kill", { "wait": LONG }, { "read": [100, LONG] }]);
    let said = talk(&sandbox, "sleep 1000", steps).await;
    assert_eq!(said, ["nothing", "runs", "killed", "exit None Some(9)", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn write_to_a_program_that_does_not_read_ends_at_its_timeout() {
    let sandbox = sandbox().await;
    let said = talk(&sandbox, "sleep 1000", json!([{ "write": ["x".repeat(60_000), 100, 200] }])).await;
    let written: u64 = said[0].strip_prefix("wrote ").unwrap().parse().unwrap();
    assert!((1..=1_000_000).contains(&written), "{written}");
    let gone =
        talk(&sandbox, "exec 0<&-; echo closed", json!([{ "read": [9, LONG] }, { "write": ["x", 1, LONG] }])).await;
    assert!(gone[1].contains("could not write to the program"), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_output_makes_the_program_wait() {
    let sandbox = sandbox().await;
    let script = "i=0; while [ $i -lt 1000 ]; do head -c 4096 /dev/zero; i=$((i+1)); echo $i > written; done";
    let said = talk(&sandbox, script, json!([{ "wait": 1_500 }])).await;
    assert_eq!(said, ["runs"]);
    let written: u64 = sandbox.read("written").trim().parse().unwrap_or(0) * 4096;
    assert!(written <= (256 + 64 + 8) * 1024, "{written}");
    assert_eq!(talk(&sandbox, "head -c 9000000 /dev/zero", json!(["drain"])).await, ["drained 9000000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ninth_program_of_a_call_is_refused() {
    let sandbox = sandbox().await;
    let child = json!({ "script": "sleep 1000", "times": 9, "steps": ["kill", { "wait": LONG }] });
    let progress = Progress::default();
    let call = sandbox.call_with("steer", json!({ "child": child }), &progress, CancellationToken::new());
    let (output, ledger) = call.await;
    let said = output.unwrap().content[0].as_text().unwrap().to_owned();
    assert!(said.contains("8 programs run already, the most for one call"), "{said}");
    assert_eq!(ledger.processes, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_for_the_next_call() {
    let sandbox = sandbox().await;
    let child =
        json!({ "script": "echo $$ > pid; echo ready; sleep 1000", "keep": true, "steps": [{ "read": [9, LONG] }] });
    assert_eq!(sandbox.text("steer", json!({ "child": child })).await, "read ready");
    let steps = json!([{ "read": [9, 0] }, { "write": ["x", 1, LONG] }, { "wait": 0 }, "kill", "close_stdin"]);
    let said = lines(&sandbox.text("steer", json!({ "child": { "steps": steps } })).await);
    assert!(said[..3].iter().all(|line| line.contains("ended with the call that started it")), "{said:?}");
    assert_eq!(said[3..], ["killed", "closed"]);
    until_gone(pid(&sandbox).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_the_effect_cannot_use_a_program() {
    let sandbox = sandbox().await;
    let child = json!({ "script": "echo no", "steps": [{ "read": [9, LONG] }] });
    let said = sandbox.call_at_most(Authority::READ_ONLY, "steer", json!({ "child": child })).await;
    assert!(said.contains("Denied") && said.contains("may not run programs"), "{said}");
    let ungranted = SandboxBuilder::default().guest("bridge").watched().build().await;
    let said = ungranted.error("steer", json!({ "child": child })).await;
    assert!(said.contains("plugin `bridge` may not"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_and_their_children_end_with_the_call() {
    let script = "sleep 1000 & echo $! > pid; echo ready; wait";
    for trap in [false, true] {
        let sandbox = sandbox().await;
        let child = json!({ "script": script, "keep": true, "steps": [{ "read": [9, LONG] }] });
        let ended = sandbox.call("steer", json!({ "child": child, "trap": trap })).await;
        assert_eq!(ended.is_err(), trap, "{ended:?}");
        until_gone(pid(&sandbox).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_cancellation_and_drop_end_programs() {
    let script = "echo $$ > pid; exec sleep 1000";
    let child = json!({ "script": script, "steps": [{ "read": [9, LONG] }] });
    let limits = PartialLimits { deadline_ms: Some(2_000), ..PartialLimits::default() };
    let limited =
        SandboxBuilder::default().guest("bridge").trust("bridge").limits("bridge", limits).watched().build().await;
    let error = limited.error("steer", json!({ "child": child })).await;
    assert!(error.contains("deadline of 2000 ms"), "{error}");
    until_gone(pid(&limited).await).await;

    let cancelled = sandbox().await;
    let (token, progress) = (CancellationToken::new(), Progress::default());
    let call = cancelled.call_with("steer", json!({ "child": child }), &progress, token.clone());
    let (ended, pid_of) = tokio::join!(call, async {
        let pid = pid(&cancelled).await;
        token.cancel();
        pid
    });
    let said = ended.0.unwrap().content[0].as_text().unwrap().to_owned();
    assert!(said.contains("Cancelled"), "{said}");
    until_gone(pid_of).await;

    let dropped = sandbox().await;
    let call = dropped.call_with("steer", json!({ "child": child }), &progress, CancellationToken::new());
    let pid_of = tokio::select! {
        _ = call => panic!("it never ends"),
        pid = pid(&dropped) => pid,
    };
    until_gone(pid_of).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_is_killed_at_its_own_timeout() {
    let sandbox = sandbox().await;
    let child = json!({ "script": "sleep 1000", "timeout_ms": 50, "steps": [{ "wait": LONG }] });
    assert_eq!(sandbox.text("steer", json!({ "child": child })).await, "exit None Some(9)");
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_program_ends_its_group() {
    let sandbox = sandbox().await;
    let said = talk(&sandbox, "sleep 1000 & echo $! > pid", json!([{ "wait": LONG }, { "read": [9, LONG] }])).await;
    assert_eq!(said, ["exit Some(0) None", "end"]);
    until_gone(pid(&sandbox).await).await;
}
