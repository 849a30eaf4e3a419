//! Instances of lifetime `reused`: the calls that share one, and the state that a call may leave in it.

use super::grants::{manifest, packed};
use futures_util::future::join_all;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{
    Component, FileAccess, HostAction, LoadError, NoticeEvent, PartialLimits, PluginPolicy, PluginSettings,
};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, guest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

async fn sandbox() -> Sandbox {
    built(SandboxBuilder::default().guest("reused")).await
}

async fn built(builder: SandboxBuilder) -> Sandbox {
    let sandbox = builder.files("reused", ".", FileAccess::Write).build().await;
    sandbox.write("kept", "x");
    sandbox
}

/// Returns the number of the call on its instance.
async fn visit(sandbox: &Sandbox, arguments: Value) -> u32 {
    sandbox.text("visit", arguments).await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn next_call_gets_the_instance_of_a_call_that_ended_well() {
    let sandbox = sandbox().await;
    for expected in 1..=3 {
        assert_eq!(visit(&sandbox, json!({})).await, expected);
    }
    assert!(sandbox.error("visit", json!({ "fail": true })).await.contains("visit 4"));
    assert_eq!(visit(&sandbox, json!({})).await, 5, "an error is a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_time_fuel_and_cancellation_end_an_instance() {
    let limits = PartialLimits {
        fuel: Some(300_000_000),
        deadline_ms: Some(60_000),
        grace_ms: Some(0),
        ..PartialLimits::default()
    };
    let sandbox = built(SandboxBuilder::default().guest("reused").limits("reused", limits)).await;
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    assert!(sandbox.error("visit", json!({ "trap": true })).await.contains("told to"));
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    assert!(sandbox.error("visit", json!({ "spin": true })).await.contains("fuel"));
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    let (progress, token) = (Progress::default(), CancellationToken::new());
    let (call, ()) =
        tokio::join!(sandbox.call_with("visit", json!({ "wait": "never" }), &progress, token.clone()), async {
            progress.first().await;
            token.cancel();
        });
    assert!(matches!(call.0, Err(ToolError::Cancelled { .. })), "{:?}", call.0);
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    let limits = PartialLimits { deadline_ms: Some(300), grace_ms: Some(0), ..PartialLimits::default() };
    let slow = built(SandboxBuilder::default().guest("reused").limits("reused", limits)).await;
    assert!(slow.error("visit", json!({ "wait": "never" })).await.contains("deadline-ms"));
}

#[tokio::test(flavor = "multi_thread")]
async fn four_idle_instances_are_kept_and_a_fifth_is_dropped() {
    let sandbox = sandbox().await;
    for (round, most) in [("first", 1), ("second", 2)] {
        let progress: Vec<Progress> = (0..6).map(|_| Progress::default()).collect();
        let calls = progress.iter().map(|progress| {
            let arguments = json!({ "wait": round });
            sandbox.call_with("visit", arguments, progress, CancellationToken::new())
        });
        let (calls, ()) = tokio::join!(join_all(calls), async {
            // All six run at once, each on a separate instance.
            join_all(progress.iter().map(Progress::first)).await;
            sandbox.write(round, "");
        });
        let counts = calls.into_iter().map(|(result, _)| result.unwrap().content[0].as_text().unwrap().to_owned());
        let mut counts: Vec<u32> = counts.map(|count| count.parse().unwrap()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, most, most, most, most]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sessions_effects_and_commands_get_other_instances() {
    let sandbox = sandbox().await;
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    assert_eq!(sandbox.text("visit_to_write", json!({})).await, "1");
    assert_eq!(sandbox.text_in("another session", "visit", json!({})).await, "1");
    let token = CancellationToken::new();
    let actions = sandbox.runtime.run_command("visits", "", "session-1", None, token).await.unwrap();
    assert_eq!(actions, [HostAction::Print("1".to_owned())]);
    assert_eq!(visit(&sandbox, json!({})).await, 2);
    assert_eq!(sandbox.text_in("another session", "visit", json!({})).await, "2");
    let at_most = pinion_agent::Authority::default();
    assert_eq!(sandbox.call_at_most(at_most, "visit", json!({})).await, "1", "a call with less authority");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_calls_leave_behind_does_not_add_up() {
    let limits = PartialLimits {
        memory_bytes: Some(48 << 20),
        handles: Some(200),
        fuel: Some(2_000_000_000),
        ..PartialLimits::default()
    };
    let sandbox = built(SandboxBuilder::default().guest("reused").limits("reused", limits)).await;
    for _ in 0..10 {
        assert_eq!(visit(&sandbox, json!({ "files": 100 })).await, 1, "it left too many files open");
        assert_eq!(visit(&sandbox, json!({ "bytes": 20 << 20 })).await, 1, "it left too much memory");
    }
    let mut longest = 0;
    for _ in 0..60 {
        longest = longest.max(visit(&sandbox, json!({ "files": 5, "bytes": 300_000 })).await);
    }
    assert!((3..60).contains(&longest), "{longest} calls on one instance");
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_that_used_the_fuel_of_a_call_is_not_kept() {
    let measured = sandbox().await;
    let token = CancellationToken::new();
    let fuel = measured.call_with("visit", json!({}), &Progress::default(), token).await.1.fuel;
    // The first call, which creates the instance, needs the most.
    let limits = PartialLimits { fuel: Some(fuel * 2), ..PartialLimits::default() };
    let sandbox = built(SandboxBuilder::default().guest("reused").limits("reused", limits)).await;
    let mut counts = Vec::new();
    for _ in 0..50 {
        counts.push(visit(&sandbox, json!({})).await);
    }
    let ends = counts.windows(2).filter(|pair| pair[1] == 1).count();
    assert!(ends > 0 && counts.contains(&2), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_ends_all_instances_also_that_of_a_call_that_runs() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("reused.wasm");
    std::fs::copy(guest("reused"), &file).unwrap();
    let sandbox = built(SandboxBuilder::default().file(file.clone())).await;
    assert_eq!(visit(&sandbox, json!({})).await, 1);
    let progress = Progress::default();
    let (call, ()) =
        tokio::join!(sandbox.call_with("visit", json!({ "wait": "go" }), &progress, CancellationToken::new()), async {
            progress.first().await;
            let bytes = std::fs::read(&file).unwrap();
            std::fs::write(&file, [&bytes[..], &[0, 2, 1, b'x']].concat()).unwrap();
            assert_eq!(visit(&sandbox, json!({})).await, 1);
            assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
            sandbox.write("go", "");
        });
    assert_eq!(call.0.unwrap().content[0].as_text(), Some("2"));
    assert_eq!(visit(&sandbox, json!({})).await, 2, "the instance of the old generation is gone");
}

/// A policy that grants the workspace, read-only if its file says so.
struct Policy {
    file: PathBuf,
    workspace: PathBuf,
}

impl PluginPolicy for Policy {
    fn settings(&self, _: &Component<'_>) -> Result<PluginSettings, LoadError> {
        let access = match std::fs::read_to_string(&self.file).unwrap().trim() {
            "read" => FileAccess::Read,
            _ => FileAccess::Write,
        };
        let mut settings = PluginSettings::default();
        settings.grants.files.insert(self.workspace.clone(), access);
        Ok(settings)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_grants_end_all_instances() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("grants");
    std::fs::write(&file, "write").unwrap();
    let policy = Policy { file: file.clone(), workspace: directory.path().to_owned() };
    let sandbox = SandboxBuilder::default().guest("reused").policy(Arc::new(policy)).build().await;
    assert_eq!([visit(&sandbox, json!({})).await, visit(&sandbox, json!({})).await], [1, 2]);
    std::fs::write(&file, "read").unwrap();
    sandbox.runtime.refresh().await;
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
    assert_eq!(visit(&sandbox, json!({})).await, 1);
}

/// Returns the reason why a reload was last held back.
fn held_back(sandbox: &Sandbox) -> Option<String> {
    sandbox.notices().into_iter().rev().find_map(|notice| match notice.event {
        NoticeEvent::HeldBack(why) => Some(why),
        _ => None,
    })
}

/// The guest with another lifetime in its manifest.
fn living(file: &Path, lifetime: &str) {
    let mut manifest = manifest("reused", json!({ "files": "write" }));
    manifest["lifetime"] = json!(lifetime);
    std::fs::write(file, packed("reused", &manifest)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_from_call_to_reused_loses_all_grants() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("reused.wasm");
    living(&file, "call");
    let sandbox = built(SandboxBuilder::default().file(file.clone())).await;
    assert_eq!([visit(&sandbox, json!({})).await, visit(&sandbox, json!({})).await], [1, 1]);
    living(&file, "reused");
    assert!(sandbox.error("visit", json!({})).await.contains("may not read files"));
    assert!(held_back(&sandbox).unwrap().contains("reuse instances for later calls"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_to_a_shorter_lifetime_keeps_its_grants() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("reused.wasm");
    living(&file, "reused");
    let sandbox = built(SandboxBuilder::default().file(file.clone())).await;
    living(&file, "call");
    assert_eq!([visit(&sandbox, json!({})).await, visit(&sandbox, json!({})).await], [1, 1]);
    assert_eq!(held_back(&sandbox), None);
}
