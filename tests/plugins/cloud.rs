//! Interfaces of components for Spin and wasmCloud: `wasi:keyvalue`, `wasi:config` and `wasi:logging`.

use pinion_agent::Content;
use pinion_agent::tool::{LogLevel, ToolProgress};
use pinion_plugin_runtime::{EngineLimits, PartialLimits};
use pinion_tests::SandboxBuilder;
use serde_json::json;
use std::path::Path;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

const QUOTA: u64 = 1 << 20;

fn storing(directory: &Path) -> SandboxBuilder {
    SandboxBuilder::default().guest("cloud").storage("cloud", directory, QUOTA)
}

/// Keeps the log lines of calls.
#[derive(Default)]
struct LogLines(Mutex<Vec<(LogLevel, String)>>);

impl ToolProgress for LogLines {
    fn report(&self, _message: String) {}

    fn update(&self, _partial: Vec<Content>) {}

    fn log(&self, level: LogLevel, line: String) {
        self.0.lock().unwrap().push((level, line));
    }
}

#[tokio::test]
async fn components_of_spin_and_wasmcloud_store_values() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = storing(directory.path()).build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    let kept = sandbox.text("cloud_keep", json!({ "key": "first", "value": "one" })).await;
    assert_eq!(kept, r#"["first"]"#);
    let spin = json!({ "key": "second", "value": "two", "delta": -3 });
    assert_eq!(sandbox.text("cloud_keep-in-spin", spin.clone()).await, r#"["first","second","sum"]"#);
    // The numbers outlive the instances, and both versions see the same values.
    assert_eq!(sandbox.text("cloud_count", json!({ "bucket": "workspace", "key": "n" })).await, "1");
    assert_eq!(sandbox.text("cloud_count", json!({ "bucket": "workspace", "key": "n" })).await, "2");
    let negative = sandbox.error("cloud_count", json!({ "bucket": "default", "key": "sum" })).await;
    assert!(negative.contains("out of range"), "{negative}");
    let text = sandbox.error("cloud_count", json!({ "bucket": "", "key": "first" })).await;
    assert!(text.contains("the value of `first` is not a number"), "{text}");
    let unknown = sandbox.error("cloud_count", json!({ "bucket": "other", "key": "n" })).await;
    assert!(unknown.contains("no such store"), "{unknown}");
}

#[tokio::test]
async fn stored_values_of_wasi_keyvalue_need_the_grant_and_keep_the_quota() {
    let denied = SandboxBuilder::default().guest("cloud").build().await;
    let plugin = &denied.runtime.plugins()[0];
    assert!(plugin.offered.asks.spell_asks().contains(&"storage".to_owned()), "{plugin:?}");
    let lines = LogLines::default();
    let arguments = json!({ "key": "a", "value": "b" });
    let (result, _) = denied.call_with("cloud_keep", arguments, &lines, CancellationToken::new()).await;
    assert!(result.unwrap_err().to_string().contains("access denied"));
    let lines = lines.0.into_inner().unwrap();
    assert!(lines.iter().any(|(level, line)| *level == LogLevel::Warn && line.contains("store values")), "{lines:?}");

    let directory = tempfile::tempdir().unwrap();
    let sandbox = storing(directory.path()).build().await;
    let large = json!({ "key": "a", "value": "x".repeat(QUOTA as usize) });
    let full = sandbox.error("cloud_keep", large).await;
    assert!(full.contains("does not fit"), "{full}");
}

#[tokio::test]
async fn values_that_are_read_together_count_as_memory_of_the_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let memory = 32 << 20;
    let limits = PartialLimits { memory_bytes: Some(memory), ..PartialLimits::default() };
    let engine = EngineLimits { plugin_memory_bytes: memory, ..EngineLimits::default() };
    let sandbox = storing(directory.path()).limits("cloud", limits).engine(engine).build().await;
    let value = "x".repeat(QUOTA as usize / 2);
    sandbox.text("cloud_keep", json!({ "key": "a", "value": value })).await;
    assert_eq!(sandbox.text("cloud_read-many", json!({ "key": "a", "times": 3 })).await, "3");
    let refused = sandbox.error("cloud_read-many", json!({ "key": "a", "times": 1_000 })).await;
    assert!(refused.contains("do not fit into the memory"), "{refused}");
}

#[tokio::test]
async fn settings_are_texts_with_dotted_names_and_log_lines_are_neutralised() {
    let config = json!({ "url": "https://a.example", "retry": { "most": 3 } });
    let sandbox = SandboxBuilder::default().guest("cloud").config("cloud", config).build().await;
    assert_eq!(sandbox.text("cloud_settings", json!({})).await, r#"["retry.most","url"]"#);
    let lines = LogLines::default();
    let arguments = json!({ "name": "retry.most" });
    let (found, _) = sandbox.call_with("cloud_setting", arguments, &lines, CancellationToken::new()).await;
    assert_eq!(found.unwrap().content.iter().filter_map(Content::as_text).collect::<String>(), "3");
    assert_eq!(sandbox.text("cloud_setting", json!({ "name": "retry" })).await, "null");
    let lines = lines.0.into_inner().unwrap();
    assert!(lines[0].0 == LogLevel::Info && lines[0].1.starts_with("cloud: looks up retry.most"), "{lines:?}");
}
