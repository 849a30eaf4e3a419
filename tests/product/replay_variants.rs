//! Thirty changed versions of a plugin, whose first difference a replay names.

use pinion_tests::{HttpServer, Pinion, answer, call, guest, say};
use serde_json::{Value, json};
use std::fs;

/// The bytes of the guest `variant` that select its behaviour.
const MARK: &[u8] = b"variant = 00";

/// For each changed version: the kind of the first difference, and a part of the import or result that differs.
const CHANGES: [(&str, &str); 30] = [
    ("import", "c.txt"),
    ("import", "b.txt"),
    ("import", "c.txt"),
    ("import", "b.txt"),
    ("import", "a.txt"),
    ("import", "wasi:filesystem/types#"),
    ("import", "other"),
    ("import", "made.md"),
    ("import", "made.txt"),
    ("import", "wasi:clocks/wall-clock#now"),
    ("import", "wasi:clocks/monotonic-clock#now"),
    ("import", "pinion:plugin/storage#get(plugin"),
    ("import", "pinion:plugin/storage#get"),
    ("import", "pinion:plugin/storage#get(workspace, \"other\")"),
    ("import", "pinion:plugin/storage#set(workspace, \"key\", \"other\")"),
    ("import", "HEAD"),
    ("import", "/other"),
    ("import", "x-more"),
    ("import", "pinion:plugin/http#send"),
    ("import", "pinion:plugin/process#run"),
    ("import", "nearly ready"),
    ("import", "and more"),
    ("import", "echo two"),
    ("import", "bash"),
    ("import", "\"in\""),
    ("result", "another answer"),
    ("result", "and more"),
    ("result", "more"),
    ("result", "err("),
    ("import", "(the call ended)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn first_difference_of_thirty_changed_plugins_is_named() {
    let server = HttpServer::start(|_| answer(200, &[], "page")).await;
    let pinion = Pinion::default();
    let grants =
        format!("files = {{ \".\" = \"write\" }}\nstorage = true\nprocess = true\nhttp = [\"{}\"]\n", server.url(""));
    pinion.config(&format!("journal = \"on\"\n[plugins.variant.grants]\n{grants}"));
    ["a.txt", "b.txt", "c.txt"].iter().for_each(|name| drop(pinion.write(name, *name)));
    let script = pinion.script(&[call("vary", json!({ "url": server.url("") })), say("done")]);
    let component = guest("variant");
    let mut arguments = vec!["-p", "--approve", "all", "--output-format", "json"];
    arguments.extend(["--replay", script.to_str().unwrap(), "--plugin", component.to_str().unwrap(), "go"]);
    let ended = pinion.run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let session = result["session_id"].as_str().unwrap();
    drop(server);
    let bytes = fs::read(component).unwrap();
    let marks: Vec<usize> = (0..bytes.len() - MARK.len()).filter(|at| bytes[*at..].starts_with(MARK)).collect();
    let [mark] = marks[..] else { panic!("the component has {} marks", marks.len()) };
    let replay = |way: usize| -> Value {
        let mut changed = bytes.clone();
        changed[mark..mark + MARK.len()].copy_from_slice(format!("variant = {way:02}").as_bytes());
        let changed = pinion.write("../changed.wasm", changed);
        let ended = pinion.run(["plugin", "replay", session, "--json", "--with", changed.to_str().unwrap()]);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{way}: {ended:?}"))
    };
    let same = replay(0);
    assert_eq!((&same["differ"], &same["skipped"]), (&json!(0), &json!(0)), "{same:#}");
    let mut unnamed = Vec::new();
    for (way, (kind, part)) in (1..).zip(CHANGES) {
        let report = replay(way);
        let reason = report["differences"][0]["reason"].as_str().unwrap_or_default();
        if report["differ"] != json!(1) || !reason.starts_with(kind) || !reason.contains(part) {
            unnamed.push(format!("{way}, {part}: {report:#}"));
        }
    }
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}
