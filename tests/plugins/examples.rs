//! The examples in Rust with the SDK work as their READMEs say: one with HTTP and a secret, one with a hook, one with stored
//! values, and one that draws. `authors.rs` tests those in other languages.

use pinion_tests::{Ended, HttpServer, Pinion, answer, example, guests_directory};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const TOKEN: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";

/// The examples, with the words of their READMEs that grant their needs.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("forge-issues", "http='GET https://api.github.com/repos/'"),
    ("push-guard", "hooks=before-tool-call"),
    ("scratch-notes", "storage"),
    ("test-report", "files=read ui"),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/plugins")
}

/// Runs calls of tools with all output as events. The plugin is loaded along with the built-in ones.
fn converse(pinion: &Pinion, plugin: &str, calls: Value, more: &[&str]) -> Ended {
    let script = pinion.script(&[json!({ "calls": calls }), json!({ "text": "done" })]);
    let file = example(plugin);
    let base = ["-p", "--plugin", file.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    pinion.run(base.iter().chain(&["--approve", "all", "--output-format", "stream-json"]).chain(more).chain(&["go"]))
}

fn events(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{ended:?}"))).collect()
}

#[test]
fn examples_are_those_that_are_tested_and_have_readmes() {
    let manifest = fs::read_to_string(directory().join("Cargo.toml")).unwrap();
    let readme = fs::read_to_string(directory().join("README.md")).unwrap();
    for (name, grants) in EXAMPLES {
        assert!(manifest.contains(&format!("\"{name}\"")) && readme.contains(&format!("[`{name}`]({name}")), "{name}");
        let own = fs::read_to_string(directory().join(name).join("README.md")).unwrap();
        assert!(own.contains(&format!("pinion plugin build examples/plugins/{name} --install\n")), "{name}");
        assert!(own.contains(&format!("pinion plugin grant {name} {grants}\n")), "{name}");
    }
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(members.split(',').count(), EXAMPLES.len());
}

/// In copies next to each other, which share their compiled code.
#[test]
fn examples_with_cases_pass_them() {
    let pinion = Pinion::default();
    let sdk = directory().join("../../plugin-sdk").canonicalize().unwrap();
    let manifest = fs::read_to_string(directory().join("Cargo.toml")).unwrap();
    pinion.write("Cargo.toml", manifest.replace("../../plugin-sdk", sdk.to_str().unwrap()));
    pinion.write("Cargo.lock", fs::read(directory().join("Cargo.lock")).unwrap());
    for (name, _) in EXAMPLES {
        super::authors::copy(&directory().join(name), &pinion.workspace().join(name));
    }
    let mut tested = 0;
    for (name, _) in EXAMPLES.iter().filter(|(name, _)| directory().join(name).join("tests/cases.toml").exists()) {
        let mut command = pinion.command(["plugin", "test", name, "--json"]);
        let output = command.env("CARGO_TARGET_DIR", guests_directory().join("cases")).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert!(report["passed"].as_u64() > Some(1) && report["failed"] == 0, "{report:#}");
        tested += 1;
    }
    assert_eq!(tested, EXAMPLES.len() - 1, "a hook has no cases");
}

#[tokio::test(flavor = "multi_thread")]
async fn issue_is_read_with_a_token_that_only_the_server_sees() {
    let server = HttpServer::start(|request| match request.headers().get("authorization") {
        Some(value) if value.to_str().unwrap().ends_with(TOKEN) => {
            let issue = json!({
                "number": 7, "title": "It breaks", "state": "open", "user": { "login": "ada" }, "comments": 0,
                // A server that returns the token.
                "body": format!("Always, {TOKEN}."),
            });
            answer(200, &[], issue.to_string())
        }
        _ => answer(404, &[], "{}"),
    })
    .await;
    let (pinion, api) = (Pinion::default(), server.url(""));
    let file = example("forge_issues");
    let call = |input: Value| {
        let file = file.to_str().unwrap();
        let mut command = pinion.command(["plugin", "call", file, "issue_read", &input.to_string()]);
        let output = command.env("FORGE_TOKEN", TOKEN).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let input = json!({ "repository": "a/b", "number": 7 });
    let plain = format!(
        "[secrets.forge]\nenv = \"FORGE_TOKEN\"\nhosts = [\"{api}/\"]\n[plugins.forge-issues.config]\napi = \"{api}\"\n"
    );
    let grants = format!("[plugins.forge-issues.grants]\nhttp = [\"GET {api}/repos/\"]\nsecrets = [\"forge\"]\n");
    pinion.config(&plain);
    let (code, text) = tokio::task::block_in_place(|| call(input.clone()));
    assert!(code == Some(1) && text.contains("denied") && server.connections() == 0, "{text}");
    pinion.config(&format!("{plain}{grants}"));
    let (code, text) = tokio::task::block_in_place(|| call(input.clone()));
    assert!(code == Some(1) && text.contains("answered with status 404"), "{text}");
    pinion.config(&format!("{plain}credential = \"forge\"\n{grants}"));
    let (code, text) = tokio::task::block_in_place(|| call(input));
    assert!(code == Some(0) && text.contains("# #7 It breaks\n\nopen, by ada\n\nAlways, [redacted]."), "{text}");
    assert!(!text.contains(TOKEN), "{text}");
    assert_eq!(server.lines(), ["GET /repos/a/b/issues/7", "GET /repos/a/b/issues/7"]);
}

#[test]
fn forced_push_and_secret_in_a_file_are_denied_before_they_run() {
    let pinion = Pinion::default();
    pinion.config("[plugins.push-guard.grants]\nhooks = [\"before-tool-call\"]\n");
    let token = format!("ghp_{}", "aB3".repeat(12));
    let bash = |command: &str| json!({ "tool": "bash", "arguments": { "command": command } });
    let calls = json!([
        bash("echo ran > forced; git push --force"),
        bash("echo ran > leased; git push --force-with-lease"),
        { "tool": "write", "arguments": { "path": "secret.txt", "content": format!("TOKEN={token}") } },
        { "tool": "write", "arguments": { "path": "plain.txt", "content": "TOKEN=$TOKEN" } },
        bash("echo ran > plain"),
    ]);
    let ended = converse(&pinion, "push_guard", calls, &[]);
    let exists = |file: &str| pinion.workspace().join(file).exists();
    assert!(exists("plain.txt") && exists("plain"), "{ended:?}");
    assert!(!exists("forced") && !exists("leased") && !exists("secret.txt"), "{ended:?}");
    assert!(
        ended.stdout.contains("Push without force") && ended.stdout.contains("contains a GitHub token"),
        "{ended:?}"
    );
    // No user is there to be asked.
    assert!(ended.stdout.contains("this push rewrites the remote branch"), "{ended:?}");
}

#[test]
fn push_guard_does_nothing_without_its_grant() {
    let pinion = Pinion::default();
    let call = json!([{ "tool": "bash", "arguments": { "command": "echo ran > forced; true git push --force" } }]);
    let ended = converse(&pinion, "push_guard", call, &[]);
    assert!(pinion.workspace().join("forced").exists(), "{ended:?}");
}

#[test]
fn notes_stay_in_their_workspace_and_are_removed_by_the_user() {
    let pinion = Pinion::default();
    pinion.config("[plugins.scratch-notes.grants]\nstorage = true\n");
    let file = example("scratch_notes");
    let call = |tool: &str, input: Value| {
        let input = input.to_string();
        pinion.run(["plugin", "call", file.to_str().unwrap(), tool, &input])
    };
    assert_eq!(call("note_add", json!({ "text": "the parser is in src/parse.rs" })).stdout, "kept as note 1\n");
    assert_eq!(call("note_add", json!({ "text": "prefer tabs" })).stdout, "kept as note 2\n");
    assert_eq!(call("note_remove", json!({ "number": 2 })).stdout, "removed: prefer tabs\n");
    assert_eq!(call("note_list", json!({})).stdout, "1. the parser is in src/parse.rs\n");
    fs::create_dir(pinion.workspace().join("other")).unwrap();
    let mut elsewhere = pinion.command(["plugin", "call", file.to_str().unwrap(), "note_list"]);
    let elsewhere = elsewhere.current_dir(pinion.workspace().join("other")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&elsewhere.stdout), "no notes\n", "{elsewhere:?}");
    let cleared = pinion.run(["plugin", "storage", "scratch-notes", "--clear", "--yes"]);
    assert_eq!(cleared.code, Some(0), "{cleared:?}");
    assert_eq!(call("note_list", json!({})).stdout, "no notes\n");
}

#[test]
fn report_is_drawn_for_the_user_and_short_for_the_model() {
    let pinion = Pinion::default();
    pinion.config("[plugins.test-report.grants]\nfiles = { \".\" = \"read\" }\nui = true\n");
    pinion.write("junit.xml", fs::read(directory().join("test-report/tests/report.xml")).unwrap());
    let call = json!([{ "tool": "test_report", "arguments": { "path": "junit.xml" } }]);
    let ended = converse(&pinion, "test_report", call, &[]);
    let events = events(&ended);
    let drawing = events.iter().find(|event| event["type"] == "drawing").unwrap_or_else(|| panic!("{ended:?}"));
    let text = drawing.to_string();
    assert!(
        text.contains("failed test") && text.contains("parser::reads_numbers") && text.contains("-41\\n+42"),
        "{text}"
    );
    let result = "2 passed, 1 failed, 1 skipped in 1.8 s\\n\\nFAILED parser::reads_numbers";
    assert!(ended.stdout.contains(result) && !ended.stdout.contains("reads_words"), "{ended:?}");
}
