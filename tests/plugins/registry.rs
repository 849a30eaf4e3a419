//! The generation of a plugin that answers after changes.

use pinion_plugin_runtime::{FileOrigin, Notice, NoticeEvent, PluginDirectory, PluginSource};
use pinion_tests::{Sandbox, SandboxBuilder, guest, until};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// Copies a replaceable plugin file into a directory.
fn greet(directory: &Path) -> std::path::PathBuf {
    let file = directory.join("greet.wasm");
    std::fs::copy(guest("greet_one"), &file).unwrap();
    file
}

async fn greeting(sandbox: &Sandbox) -> String {
    sandbox.text("greet", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn call_after_a_change_uses_the_new_generation() {
    let directory = TempDir::new().unwrap();
    let file = greet(directory.path());
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    assert_eq!(greeting(&sandbox).await, "hello from version one");
    std::fs::copy(guest("greet_two"), &file).unwrap();
    assert_eq!(greeting(&sandbox).await, "hello from version two");
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_file_keeps_the_old_generation_and_is_reported() {
    let directory = TempDir::new().unwrap();
    let file = greet(directory.path());
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    for broken in [b"not wasm".to_vec(), std::fs::read(guest("broken")).unwrap(), truncated()] {
        std::fs::write(&file, broken).unwrap();
        assert_eq!(greeting(&sandbox).await, "hello from version one");
        assert!(matches!(sandbox.notices().last().unwrap().event, NoticeEvent::Refused(_)));
        assert_eq!(sandbox.runtime.problems().len(), 1);
    }
    std::fs::copy(guest("greet_two"), &file).unwrap();
    assert_eq!(greeting(&sandbox).await, "hello from version two");
    assert!(sandbox.runtime.problems().is_empty());
}

fn truncated() -> Vec<u8> {
    let mut bytes = std::fs::read(guest("greet_two")).unwrap();
    bytes.truncate(bytes.len() / 2);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_self_test_reports_the_plugins_message() {
    let sandbox = Sandbox::with(&["broken"]).await;
    let (_, problem) = sandbox.runtime.problems()[0].clone();
    assert!(problem.contains("its self-test failed: the sky is green"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_tool_of_a_name_is_left_out_and_reported() {
    let sandbox = Sandbox::with(&["echo", "collides"]).await;
    assert_eq!(sandbox.text("echo", json!({ "message": "mine" })).await, "mine");
    assert_eq!(sandbox.text("spare", json!({})).await, "mine", "the rest of the plugin works");
    assert_eq!(sandbox.runtime.problems(), []);
    let plugin = &sandbox.runtime.plugins()[1];
    assert_eq!((&plugin.tools[..], &plugin.commands[..]), (&["spare".to_owned()][..], &["shout".to_owned()][..]));
    assert_eq!(plugin.left_out, [LEFT_OUT]);
    let notices = left_out(&sandbox);
    let text = format!("{LEFT_OUT}\nhint: rename them, or load only one of the plugins");
    assert_eq!(notices, [("collides".to_owned(), text)]);
}

const LEFT_OUT: &str = "tool `echo`, whose name plugin `echo` uses, or one like it";

/// The notices about names that loads lost.
fn left_out(sandbox: &Sandbox) -> Vec<(String, String)> {
    let of = |notice: pinion_plugin_runtime::Notice| match notice.event {
        NoticeEvent::LeftOut(text) => Some((notice.plugin, text)),
        _ => None,
    };
    sandbox.notices().into_iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn second_plugin_of_a_name_is_rejected_and_reported() {
    let directory = TempDir::new().unwrap();
    let sandbox = SandboxBuilder::default().guest("greet_one").file(greet(directory.path())).build().await;
    let (_, problem) = sandbox.runtime.problems()[0].clone();
    assert!(problem.contains("a plugin `greet` is already there"), "{problem}");
    assert_eq!(sandbox.runtime.plugins().len(), 1);
}

/// Rewrites a file with the same code but other bytes: an additional empty custom section.
fn rewrite(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    std::fs::write(file, bytes).unwrap();
}

fn tools(sandbox: &Sandbox) -> Vec<String> {
    sandbox.runtime.plugins().into_iter().flat_map(|plugin| plugin.tools).collect()
}

/// A plugin `echo` and a later one that wants its name, both in files.
async fn colliding(directory: &Path) -> (Sandbox, std::path::PathBuf, std::path::PathBuf) {
    let files = ["echo", "collides"].map(|name| {
        let file = directory.join(format!("{name}.wasm"));
        std::fs::copy(guest(name), &file).unwrap();
        file
    });
    let [first, second] = files.clone();
    (SandboxBuilder::default().file(first.clone()).trust("echo").file(second.clone()).build().await, first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn free_name_goes_to_the_next_load_that_wants_it() {
    let directory = TempDir::new().unwrap();
    let (sandbox, first, second) = colliding(directory.path()).await;
    std::fs::remove_file(&first).unwrap();
    sandbox.runtime.refresh().await;
    assert_eq!(tools(&sandbox), ["spare"], "a name that is free is nobody's");
    rewrite(&second);
    sandbox.runtime.refresh().await;
    assert_eq!(sandbox.text("echo", json!({})).await, "stolen");
    assert!(sandbox.runtime.plugins()[0].left_out.is_empty());
    // Registered again, the plugin is the later one.
    sandbox.runtime.add(vec![PluginSource::file(guest("echo"))]).await;
    assert_eq!(sandbox.text("echo", json!({})).await, "stolen");
    assert_eq!(sandbox.runtime.plugins()[1].left_out.len(), 1);
    assert_eq!(left_out(&sandbox).last().unwrap().0, "echo");
}

/// A plugin could otherwise wait for a mistake in another one to get its name.
#[tokio::test(flavor = "multi_thread")]
async fn failed_reload_of_a_plugin_gives_its_names_to_nobody() {
    let directory = TempDir::new().unwrap();
    let (sandbox, first, second) = colliding(directory.path()).await;
    std::fs::write(&first, "not wasm").unwrap();
    rewrite(&second);
    sandbox.runtime.refresh().await;
    assert_eq!(sandbox.runtime.plugins()[1].generation, 2);
    assert_eq!(sandbox.runtime.plugins()[1].tools, ["spare"]);
    assert_eq!(sandbox.text("echo", json!({ "message": "mine" })).await, "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_file_unloads_the_plugin_at_the_next_refresh() {
    let directory = TempDir::new().unwrap();
    let file = greet(directory.path());
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    std::fs::remove_file(file).unwrap();
    greeting(&sandbox).await;
    sandbox.runtime.refresh().await;
    let error = sandbox.error("greet", json!({})).await;
    assert!(error.contains("no tool `greet`"), "{error}");
    assert!(matches!(sandbox.notices().last().unwrap().event, NoticeEvent::Removed));
}

/// Builds remove the old file before they write the new one.
#[tokio::test(flavor = "multi_thread")]
async fn file_that_is_missing_for_a_while_keeps_its_plugin_and_is_reloaded() {
    let directory = TempDir::new().unwrap();
    let file = greet(directory.path());
    let content = std::fs::read(&file).unwrap();
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    let first = greeting(&sandbox).await;
    for generation in 2..4 {
        std::fs::remove_file(&file).unwrap();
        assert_eq!(greeting(&sandbox).await, first);
        if generation == 3 {
            // Removed for good, it comes back all the same.
            sandbox.runtime.refresh().await;
            assert!(sandbox.runtime.plugins().is_empty());
        }
        std::fs::write(&file, &content[..content.len() / 2]).unwrap();
        let loading = sandbox.runtime.begin_refresh();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        std::fs::write(&file, &content).unwrap();
        loading.settled().await;
        sandbox.runtime.refresh().await;
        assert_eq!(sandbox.runtime.plugins()[0].generation, generation);
        assert_eq!(greeting(&sandbox).await, first);
    }
    let refused = |notice: &Notice| matches!(notice.event, NoticeEvent::Refused(_));
    assert!(!sandbox.notices().iter().any(refused), "{:?}", sandbox.notices());
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_directory_loads_plugins_and_generations() {
    let directory = TempDir::new().unwrap();
    let sandbox = SandboxBuilder::default().build().await;
    let _watch = sandbox
        .runtime
        .watch(vec![PluginDirectory { path: directory.path().to_owned(), origin: FileOrigin::User }])
        .unwrap();
    let file = greet(directory.path());
    until("the plugin is loaded", || generation(&sandbox) == Some(1)).await;
    std::fs::copy(guest("greet_two"), &file).unwrap();
    until("the plugin is reloaded", || generation(&sandbox) == Some(2)).await;
    assert_eq!(greeting(&sandbox).await, "hello from version two");
}

fn generation(sandbox: &Sandbox) -> Option<u32> {
    sandbox.runtime.plugins().first().map(|plugin| plugin.generation)
}

#[tokio::test(flavor = "multi_thread")]
async fn session_plugin_keeps_its_instance_until_a_trap() {
    let sandbox = Sandbox::with(&["counter"]).await;
    for expected in ["1", "2", "3"] {
        assert_eq!(sandbox.text("count", json!({})).await, expected);
    }
    let error = sandbox.error("count", json!({ "trap": true })).await;
    assert!(error.contains("told to"), "{error}");
    assert_eq!(sandbox.text("count", json!({})).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_survives_a_reload() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("counter.wasm");
    std::fs::copy(guest("counter"), &file).unwrap();
    let sandbox = SandboxBuilder::default().file(file.clone()).build().await;
    assert_eq!(sandbox.text("count", json!({})).await, "1");
    let mut changed = std::fs::read(&file).unwrap();
    // An empty custom section makes another file with the same code.
    changed.extend([0, 2, 1, b'x']);
    std::fs::write(&file, changed).unwrap();
    assert_eq!(sandbox.text("count", json!({})).await, "2");
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_reads_its_own_config() {
    let builder = SandboxBuilder::default().guest("configured").config("configured", json!({ "greeting": "moin" }));
    assert_eq!(builder.build().await.text("greeting", json!({})).await, "moin");
    let unset = SandboxBuilder::default().guest("configured").build().await;
    assert_eq!(unset.text("greeting", json!({})).await, "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_that_rejects_its_config_is_not_loaded() {
    let builder = SandboxBuilder::default().guest("configured").config("configured", json!({ "refuse": true }));
    let (_, problem) = builder.build().await.runtime.problems()[0].clone();
    assert!(problem.contains("told to refuse") && problem.contains("[plugins.configured.config]"), "{problem}");
}
