//! Each limit has its own error, which names the plugin, and affects neither the host nor other plugins.

use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{EngineLimits, FileAccess, PartialLimits};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, Seen};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NONE: PartialLimits = PartialLimits {
    fuel: None,
    deadline_ms: None,
    grace_ms: None,
    memory_bytes: None,
    table_elements: None,
    instances: None,
    output_bytes: None,
    host_calls: None,
    handles: None,
    bytes_written: None,
    file_bytes: None,
    programs: None,
    requests: None,
};

/// The `hostile` guest under these limits, along with a harmless plugin.
async fn limited(limits: PartialLimits) -> Sandbox {
    let builder = SandboxBuilder::default().guest("hostile").guest("echo").trust("hostile").trust("echo");
    builder.limits("hostile", limits).build().await
}

/// Asserts that the error names the plugin, the limit and a remedy, and that both plugins answer the next call.
async fn assert_limit_error(sandbox: &Sandbox, error: &str, parts: &[&str]) {
    for part in parts.iter().chain(&["plugin `hostile`", "hint: "]) {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(sandbox.text("echo", json!({ "message": "still here" })).await, "still here");
    assert_eq!(sandbox.text("talk", json!({ "amount": 2 })).await, "xx");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_computation_runs_out_of_fuel() {
    let sandbox = limited(PartialLimits { fuel: Some(50_000_000), ..NONE }).await;
    let error = sandbox.error("spin", json!({})).await;
    assert_limit_error(&sandbox, &error, &["out of fuel (limit 50 M)", "raise `fuel`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn computation_is_stopped_at_its_deadline() {
    let sandbox = limited(PartialLimits { fuel: Some(u64::MAX), deadline_ms: Some(50), ..NONE }).await;
    let error = sandbox.error("spin", json!({})).await;
    assert_limit_error(&sandbox, &error, &["deadline of 50 ms", "raise `deadline-ms`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_call_is_stopped_at_its_deadline() {
    let sandbox = limited(PartialLimits { deadline_ms: Some(50), ..NONE }).await;
    let error = sandbox.error("sleep", json!({ "amount": 3_600_000 })).await;
    assert_limit_error(&sandbox, &error, &["deadline of 50 ms"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded() {
    let sandbox = limited(PartialLimits { memory_bytes: Some(8 << 20), ..NONE }).await;
    let error = sandbox.error("eat_memory", json!({ "amount": 64 << 20 })).await;
    assert_limit_error(&sandbox, &error, &["out of memory (limit 8 MiB): it wanted ", "raise `memory-bytes`"]).await;
}

/// Interpreters turn a refused growth into an error of their language, which names no limit.
#[tokio::test(flavor = "multi_thread")]
async fn error_after_refused_memory_names_the_limit() {
    let sandbox = limited(PartialLimits { memory_bytes: Some(8 << 20), ..NONE }).await;
    let error = sandbox.error("want_memory", json!({ "amount": 64 << 20 })).await;
    let parts = ["no room\n", "out of memory (limit 8 MiB): it wanted ", "[plugins.hostile.limits] memory-bytes = "];
    assert_limit_error(&sandbox, &error, &parts).await;
    // The next call has its own account.
    assert_eq!(sandbox.text("want_memory", json!({ "amount": 1000 })).await, "1000");
    let other = sandbox.error("open", json!({ "path": "missing" })).await;
    assert!(!other.contains("memory"), "{other}");
}

/// The same for a command, and for an instance that later calls get, which must not repeat the reason.
#[tokio::test(flavor = "multi_thread")]
async fn error_of_a_command_after_refused_memory_names_the_limit() {
    let limits = PartialLimits { memory_bytes: Some(8 << 20), ..NONE };
    let builder = SandboxBuilder::default().guest("reused").limits("reused", limits);
    let sandbox = builder.files("reused", ".", FileAccess::Read).build().await;
    let named = |error: &str| error.contains("no room\n") && error.contains("[plugins.reused.limits] memory-bytes = ");
    let error = sandbox.error("visit", json!({ "want": 64 << 20 })).await;
    assert!(named(&error), "{error}");
    let error = sandbox.error("visit", json!({ "fail": true })).await;
    assert!(error.contains("visit 2") && !error.contains("memory"), "{error}");
    let run = |typed: &'static str| sandbox.runtime.run_command("visits", typed, "s", None, CancellationToken::new());
    let error = run("67108864").await.unwrap_err().to_string();
    assert!(named(&error), "{error}");
    assert!(run("0").await.is_ok());
}

/// The memory of another call of the plugin uses up the limit.
#[tokio::test(flavor = "multi_thread")]
async fn error_after_memory_that_others_have_names_the_limit_of_all() {
    let limits = PartialLimits { memory_bytes: Some(8 << 20), ..NONE };
    let engine = EngineLimits { plugin_memory_bytes: 8 << 20, ..EngineLimits::default() };
    let builder = SandboxBuilder::default().guest("reused").limits("reused", limits).engine(engine);
    let sandbox = builder.files("reused", ".", FileAccess::Write).build().await;
    let progress = Progress::default();
    let holds = json!({ "bytes": 5 << 20, "wait": "go" });
    let holding = sandbox.call_with("visit", holds, &progress, CancellationToken::new());
    let (held, error) = tokio::join!(holding, async {
        progress.first().await;
        let error = sandbox.error("visit", json!({ "want": 5 << 20 })).await;
        sandbox.write("go", "");
        error
    });
    assert!(held.0.is_ok(), "{held:?}");
    assert!(error.contains("no room\n") && error.contains("[engine.limits] plugin-memory-bytes = "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stack_is_bounded_and_its_overflow_shows_functions() {
    let sandbox = limited(NONE).await;
    let error = sandbox.error("recurse", json!({ "amount": 1_000_000 })).await;
    let parts = ["overflowed its stack (limit 1 MiB)\n", "\n  and at least ", "[engine.limits] stack-bytes = 2097152"];
    assert_limit_error(&sandbox, &error, &parts).await;
    let functions: Vec<&str> = error.lines().filter(|line| line.starts_with("  in ")).collect();
    assert!(functions.len() == 10 && functions[9].contains("recurse"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_result_is_rejected() {
    let sandbox = limited(PartialLimits { output_bytes: Some(100_000), ..NONE }).await;
    let error = sandbox.error("talk", json!({ "amount": 1_000_000 })).await;
    assert_limit_error(&sandbox, &error, &["(limit 100000 bytes)", "output-bytes = 33554432"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_beyond_the_output_limit_is_dropped() {
    let sandbox = limited(PartialLimits { output_bytes: Some(100_000), ..NONE }).await;
    let progress = Progress::default();
    let arguments = json!({ "amount": 1_000_000 });
    let (result, _) = sandbox.call_with("report", arguments, &progress, CancellationToken::new()).await;
    assert!(matches!(result, Err(ToolError::Fault { .. })), "the result came on top of it: {result:?}");
    assert!(progress.seen().len() <= 100, "{}", progress.seen().len());
}

/// A list of strings that share memory is free for the guest but would cost the host a copy of each.
#[tokio::test(flavor = "multi_thread")]
async fn size_of_one_host_call_is_bounded() {
    let sandbox = limited(NONE).await;
    let error = sandbox.error("alias", json!({ "amount": 10_000 })).await;
    assert_limit_error(&sandbox, &error, &["to the host in one call", "raise `output-bytes`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_host_calls_is_bounded() {
    let sandbox = limited(PartialLimits { host_calls: Some(1000), ..NONE }).await;
    let error = sandbox.error("knock", json!({ "amount": 100_000 })).await;
    assert_limit_error(&sandbox, &error, &["more than 1000 times", "raise `host-calls`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_handles_are_bounded() {
    let sandbox = limited(PartialLimits { handles: Some(100), ..NONE }).await;
    sandbox.write("held.txt", "x");
    let error = sandbox.error("hold", json!({ "amount": 10_000 })).await;
    assert_limit_error(&sandbox, &error, &["more than 100 open handles", "raise `handles`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_is_reported_with_message_location_and_functions() {
    let sandbox = limited(NONE).await;
    let error = sandbox.error("panic", json!({})).await;
    assert!(error.contains("plugin `hostile` trapped") && error.contains("as planned"), "{error}");
    // From the source, without the functions of the panic itself.
    let first = error.lines().find(|line| line.starts_with("  in ")).unwrap_or_else(|| panic!("{error}"));
    assert!(first.contains("hostile::"), "{error}");
    assert!(error.lines().filter(|line| line.starts_with("  in ")).count() <= 10, "{error}");
    assert_eq!(sandbox.text("talk", json!({ "amount": 1 })).await, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_and_trap_end_only_their_call() {
    let sandbox = limited(NONE).await;
    for tool in ["exit", "divide"] {
        let error = sandbox.error(tool, json!({})).await;
        assert!(error.contains("plugin `hostile` trapped"), "{error}");
    }
    assert_eq!(sandbox.text("echo", json!({ "message": "fine" })).await, "fine");
}

/// Opening a pipe without a writer blocks forever, and no epoch interrupts it.
#[tokio::test(flavor = "multi_thread")]
async fn pipe_in_the_workspace_does_not_block() {
    let sandbox = limited(NONE).await;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        sandbox.workspace().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    sandbox.error("open", json!({ "path": "pipe" })).await;
    assert_eq!(sandbox.text("search_path", json!({ "path": "." })).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_plugin_can_react() {
    let sandbox = limited(PartialLimits { grace_ms: Some(60_000), ..NONE }).await;
    let (progress, token) = (Progress::default(), CancellationToken::new());
    let call = sandbox.call_with("wait_for_cancellation", json!({}), &progress, token.clone());
    let (ended, first) = tokio::join!(call, async {
        let first = progress.first().await;
        token.cancel();
        first
    });
    assert_eq!(first, Seen::Line("waiting".into()));
    assert_eq!(ended.0.unwrap().content[0].as_text(), Some("cancelled, and took note of it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_cancelled_plugin_is_dropped_after_its_grace() {
    let sandbox = limited(PartialLimits { fuel: Some(u64::MAX), grace_ms: Some(10), ..NONE }).await;
    let token = CancellationToken::new();
    token.cancel();
    let (result, _) = sandbox.call_with("spin", json!({}), &Progress::default(), token).await;
    assert!(matches!(result, Err(ToolError::Cancelled { .. })), "{result:?}");
}

/// One plugin spins and one sleeps on every available thread; other plugins still answer.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_plugins_do_not_block_others() {
    let sandbox = limited(PartialLimits { fuel: Some(u64::MAX), ..NONE }).await;
    let token = CancellationToken::new();
    let progress = Progress::default();
    let hang = |tool: &'static str, arguments| sandbox.call_with(tool, arguments, &progress, token.clone());
    let hanging = futures_util::future::join_all((0..8).map(|i| match i % 2 {
        0 => hang("spin", json!({})),
        _ => hang("sleep", json!({ "amount": 3_600_000 })),
    }));
    let others = async {
        for n in 0..20 {
            let message = n.to_string();
            assert_eq!(sandbox.text("echo", json!({ "message": message })).await, message);
        }
        token.cancel();
    };
    let (ended, ()) = tokio::join!(hanging, others);
    assert!(ended.iter().all(|(result, _)| matches!(result, Err(ToolError::Cancelled { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_reports_what_a_call_used() {
    let sandbox = limited(NONE).await;
    sandbox.write("inside.txt", "twelve bytes");
    let arguments = json!({ "path": "inside.txt" });
    let (_, ledger) = sandbox.call_with("read_path", arguments, &Progress::default(), CancellationToken::new()).await;
    assert_eq!((ledger.plugin.as_str(), ledger.generation), ("hostile", 1));
    assert_eq!((ledger.bytes_read, ledger.bytes_written, ledger.files), (12, 0, 1));
    assert_eq!(ledger.output, 12);
    assert!(ledger.fuel > 1000 && ledger.time_us > 0 && ledger.memory >= 65_536 && ledger.host_calls > 3, "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_of_a_failed_call_reports_what_it_used() {
    let sandbox = limited(PartialLimits { fuel: Some(50_000_000), ..NONE }).await;
    let (_, ledger) = sandbox.call_with("spin", json!({}), &Progress::default(), CancellationToken::new()).await;
    assert_eq!(ledger.fuel, 50_000_000);
}
