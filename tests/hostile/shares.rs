//! No plugin can starve another one.

use super::loading::loiter;
use pinion_plugin_runtime::EngineLimits;
use pinion_tests::{Progress, Sandbox, SandboxBuilder};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// More time than anything unrelated may take.
const SOON: Duration = Duration::from_secs(20);

/// Copies of `loiter` with tools prefixed by their names, and the guest `echo`.
async fn crowd(names: &[&str], engine: EngineLimits) -> (TempDir, Sandbox) {
    let directory = TempDir::new().unwrap();
    let mut builder = SandboxBuilder::default().engine(engine);
    for name in names {
        builder = builder.file(loiter(directory.path(), name)).config(name, json!({ "prefix": format!("{name}_") }));
    }
    let sandbox = builder.guest("echo").trust("echo").build().await;
    assert!(sandbox.runtime.problems().is_empty(), "{:?}", sandbox.runtime.problems());
    (directory, sandbox)
}

type Calls<'a> = Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>;

/// Starts calls that run until they are cancelled, and waits until all have started.
fn occupy<'a>(
    sandbox: &'a Sandbox,
    calls: &[(String, Value)],
    progress: &'a Progress,
    token: &CancellationToken,
) -> Calls<'a> {
    let call = |(tool, arguments): &(String, Value)| -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let (tool, arguments, token) = (tool.clone(), arguments.clone(), token.clone());
        Box::pin(async move { drop(sandbox.call_with(&tool, arguments, progress, token).await) })
    };
    calls.iter().map(call).collect()
}

/// Runs `victim` while the calls are running, and ends them afterwards.
async fn beside(sandbox: &Sandbox, calls: Vec<(String, Value)>, victim: impl Future<Output = ()>) {
    let (progress, token) = (Progress::default(), CancellationToken::new());
    let occupied = futures_util::future::join_all(occupy(sandbox, &calls, &progress, &token));
    let victim = async {
        progress.first().await;
        tokio::time::timeout(SOON, victim).await.unwrap();
        token.cancel();
    };
    tokio::time::timeout(SOON * 3, async { tokio::join!(occupied, victim) }).await.unwrap();
}

async fn echoes(sandbox: &Sandbox) {
    for _ in 0..5 {
        assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
    }
}

fn naps(name: &str, count: usize) -> Vec<(String, Value)> {
    (0..count).map(|_| (format!("{name}_nap"), json!({ "amount": 3_600_000 }))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_calls_of_one_plugin_do_not_delay_another() {
    let (_directory, sandbox) = crowd(&["greedy"], EngineLimits::default()).await;
    beside(&sandbox, naps("greedy", 300), echoes(&sandbox)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_calls_of_many_plugins_do_not_delay_another() {
    let names = ["greeda", "greedb", "greedc", "greedd", "greede", "greedf", "greedg", "greedh"];
    let engine = EngineLimits { concurrent_calls: 4, ..EngineLimits::default() };
    let (_directory, sandbox) = crowd(&names, engine).await;
    let calls = names.iter().flat_map(|name| naps(name, 10)).collect();
    beside(&sandbox, calls, echoes(&sandbox)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_runs_with_a_single_slot() {
    let engine = EngineLimits { concurrent_calls: 1, ..EngineLimits::default() };
    let (_directory, sandbox) = crowd(&["greedy", "modest"], engine).await;
    beside(&sandbox, naps("greedy", 10), async {
        assert_eq!(sandbox.text("modest_nap", json!({ "amount": 1 })).await, "slept");
        echoes(&sandbox).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_call_can_be_cancelled() {
    let engine = EngineLimits { concurrent_calls: 1, ..EngineLimits::default() };
    let (_directory, sandbox) = crowd(&["greedy"], engine).await;
    beside(&sandbox, naps("greedy", 5), async {
        let token = CancellationToken::new();
        let progress = Progress::default();
        let waiting = sandbox.call_with("greedy_nap", json!({ "amount": 1 }), &progress, token.clone());
        let cancel = async {
            tokio::task::yield_now().await;
            token.cancel();
        };
        let (ended, ()) = tokio::join!(waiting, cancel);
        assert!(ended.0.unwrap_err().to_string().contains("cancel"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loading_a_plugin_needs_no_call_slot() {
    let engine = EngineLimits { concurrent_calls: 1, ..EngineLimits::default() };
    let (directory, sandbox) = crowd(&["greedy"], engine).await;
    let late = loiter(directory.path(), "latest");
    beside(&sandbox, naps("greedy", 10), async {
        sandbox.runtime.add(vec![pinion_plugin_runtime::PluginSource::file(late)]).await;
        assert_eq!(sandbox.text("nap", json!({ "amount": 1 })).await, "slept");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn total_memory_of_a_plugin_is_bounded() {
    let engine = EngineLimits { plugin_memory_bytes: 64 << 20, ..EngineLimits::default() };
    let directory = TempDir::new().unwrap();
    let limits = pinion_plugin_runtime::PartialLimits { memory_bytes: Some(48 << 20), ..Default::default() };
    let builder = SandboxBuilder::default().engine(engine).file(loiter(directory.path(), "hoards"));
    let builder = builder.limits("hoards", limits).guest("echo").trust("echo");
    let sandbox = builder.build().await;
    let hoard = vec![("hoard".to_owned(), json!({ "amount": 40 << 20 }))];
    beside(&sandbox, hoard, async {
        let error = sandbox.error("hoard", json!({ "amount": 40 << 20 })).await;
        assert!(error.contains("its calls together may have 64 MiB") && error.contains("hint:"), "{error}");
        echoes(&sandbox).await;
    })
    .await;
    // Their memory was released.
    let again = vec![("hoard".to_owned(), json!({ "amount": 40 << 20 }))];
    beside(&sandbox, again, echoes(&sandbox)).await;
}
