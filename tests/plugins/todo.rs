//! The to-do list of the model belongs to its session.

use pinion_tests::{Pinion, SandboxBuilder, builtin, call, say};
use serde_json::{Value, json};
use tempfile::TempDir;

fn items() -> Value {
    json!({ "items": [{ "text": "look", "state": "done" }, { "text": "fix", "state": "in-progress" }] })
}

const LIST: &str = "- [x] look\n- [>] fix\n";

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_its_own_list() {
    let storage = TempDir::new().unwrap();
    let builder = SandboxBuilder::default().file(builtin("todo"));
    let sandbox = builder.storage("todo", storage.path(), 1 << 20).build().await;
    assert_eq!(sandbox.text_in("one", "todo", items()).await, "1 of 2 done, 1 in progress");
    assert_eq!(sandbox.text_in("one", "todo", json!({})).await, LIST);
    assert_eq!(sandbox.text_in("two", "todo", json!({})).await, "There are no steps.");
    let kept = sandbox.text_in("", "todo", items()).await;
    assert_eq!(kept, "1 of 2 done, 1 in progress; not kept, because the session is not");
}

/// Calls the tool in a run. Returns its result and the session.
fn run(pinion: &Pinion, arguments: Value, options: &[&str]) -> (String, String) {
    let script = pinion.script(&[call("todo", arguments), say("done")]);
    let plain = ["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json"];
    let ended = pinion.run(plain.iter().chain(options).chain(&["go"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = events.iter().find(|event| event["type"] == "tool_execution_end").unwrap();
    let session = events.last().unwrap()["session_id"].as_str().unwrap();
    (end["content"][0]["text"].as_str().unwrap().to_owned(), session.to_owned())
}

#[test]
fn list_survives_the_process_and_comes_along_with_copies() {
    let pinion = Pinion::default();
    // Needs no approval, also while planning.
    let (written, session) = run(&pinion, items(), &["--approve", "plan"]);
    assert_eq!(written, "1 of 2 done, 1 in progress");
    assert_eq!(run(&pinion, json!({}), &["-c"]), (LIST.to_owned(), session.clone()));
    let (copied, copy) = run(&pinion, json!({}), &["--fork", &session]);
    assert!(copied == LIST && copy != session, "{copied}");
    assert_eq!(run(&pinion, json!({}), &[]).0, "There are no steps.");
}
