//! Components that use all of the contract, as they were built when 0.1.0 was released.

use pinion_agent::ToolExecutor as _;
use pinion_agent::hook::HookPoint;
use pinion_plugin_runtime::HostAction;
use pinion_tests::{Pinion, SandboxBuilder, say, until};
use serde_json::json;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

fn released(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/contract-0.1.0/whole");
    directory.join(name).with_extension("wasm")
}

/// The interfaces of the contract, those aside that only contain types.
fn interfaces() -> Vec<String> {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/contract-0.1.0/wit");
    let texts = std::fs::read_dir(wit).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let names = texts.flat_map(|text| {
        let names = text.lines().filter_map(|line| line.strip_prefix("interface "));
        names.map(|name| name.trim_end_matches([' ', '{']).to_owned()).collect::<Vec<_>>()
    });
    names.collect()
}

/// The components together use each interface, so that a change of any of them is noticed here.
#[test]
fn released_components_use_the_whole_contract() {
    let components =
        ["guide", "guide_session", "typist", "commands"].map(|name| std::fs::read(released(name)).unwrap());
    let uses = |interface: &String| {
        let name = format!("pinion:plugin/{interface}@0.1.0");
        components.iter().any(|bytes| bytes.windows(name.len()).any(|window| window == name.as_bytes()))
    };
    let unused: Vec<String> = interfaces().into_iter().filter(|interface| !uses(interface)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[tokio::test]
async fn imports_of_released_components_answer() {
    let storage = tempfile::tempdir().unwrap();
    let builder = SandboxBuilder::default().file(released("guide")).trust("guide");
    let sandbox = builder.storage("guide", storage.path(), 1 << 20).grant("guide", |grants| grants.ui = true);
    let sandbox = sandbox.build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    sandbox.write("a.csv", "name,size\nada,1\nbob,2\n");
    let counted = sandbox.call("count_lines", json!({ "path": "a.csv", "text": "b" })).await.unwrap();
    assert_eq!(counted.details, Some(json!({ "lines": 1 })));
    assert!(sandbox.error("first_cell", json!({ "path": "a.csv", "column": 9 })).await.contains("no column 9"));
    assert_eq!(sandbox.text("sorted", json!({ "text": "b\na\nc\n" })).await, "a\nb\nc\n");
    assert_eq!(sandbox.text("remember", json!({ "text": "one" })).await, "1 facts");
    assert_eq!(sandbox.text("remember", json!({ "text": "two" })).await, "2 facts");
    // Each refusal names the access that the released plugin lacks.
    assert!(sandbox.error("run_tests", json!({})).await.contains("secret"));
    assert!(sandbox.error("latest_release", json!({})).await.contains("https://api.github.com"));
    assert!(sandbox.error("introduce", json!({})).await.contains("nobody can answer"));
    let classified = sandbox.error("classify", json!({ "text": "x" })).await;
    assert!(classified.contains("denied") || classified.contains("may not"), "{classified}");
    let ran = sandbox.runtime.run_command("count", "a.csv", "s", None, CancellationToken::new()).await.unwrap();
    assert!(matches!(&ran[..], [HostAction::Submit(text)] if text == "Count the lines of a.csv with count_lines."));
}

#[tokio::test]
async fn changing_tools_state_and_events_of_released_components_work() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("board.wasm");
    std::fs::copy(released("guide_session"), &file).unwrap();
    let sandbox = SandboxBuilder::default().file(file.clone()).hooks("guide-session").build().await;
    assert_eq!(sandbox.text("new_list", json!({ "name": "risks" })).await, "created risks");
    let is_offered = || sandbox.runtime.definitions().iter().any(|tool| tool.name == "list_risks");
    until("the new list is a tool", is_offered).await;
    let hooks = &sandbox.runtime.plugins()[0].hooks;
    assert!(hooks.iter().any(|hook| hook.point == HookPoint::SessionEvents && hook.not_called.is_none()), "{hooks:?}");
    // The next generation has the lists of this one.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend([0, 3, 1, b'x', b'y']);
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(sandbox.text("list_risks", json!({})).await, "the list risks is empty");
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
}

#[test]
fn hooks_of_released_components_are_called() {
    let pinion = Pinion::default();
    pinion.config("[plugins.guide.grants]\nhooks = true\n");
    let bash = |command: &str| json!({ "tool": "bash", "arguments": { "command": command } });
    let calls = json!([bash("echo ran > production"), bash("echo db.internal.example")]);
    let script = pinion.script(&[json!({ "calls": calls }), say("done")]);
    let plugin = released("guide");
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(base.iter().chain(&["--approve", "all", "--output-format", "stream-json", "deploy it"]));
    assert!(ended.code == Some(4) && !pinion.workspace().join("production").exists(), "{ended:?}");
    for text in ["this command names the production system", "db.[internal]", "Deployments are frozen until Monday."] {
        assert!(ended.stdout.contains(text), "{text}: {ended:?}");
    }
}

#[tokio::test]
async fn released_components_reach_servers_and_the_catalog() {
    let builder = SandboxBuilder::default().file(released("typist")).file(released("commands")).catalog("commands");
    let sandbox = builder.build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    let attempts = sandbox.completed("type", "forge").await;
    assert!(attempts.iter().any(|attempt| attempt.value.starts_with("call-tool: Err(")), "{attempts:?}");
    let ran = sandbox.runtime.run_command("help", "", "s", None, CancellationToken::new()).await.unwrap();
    assert!(matches!(&ran[..], [HostAction::Print(text)] if text.contains("/type")), "{ran:?}");
}
