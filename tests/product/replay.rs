//! The calls of a session are recorded, and repeated offline from the journal.

use pinion_tests::{HttpServer, Pinion, answer, builtin, call, guest, say};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const RECORDED: &str = "journal = \"on\"\n";

/// Runs a prompt with scripted replies and returns the id of its session.
fn run(pinion: &Pinion, replies: &[Value], plugins: &[&Path]) -> String {
    let script = pinion.script(replies);
    let mut arguments = vec!["-p", "--approve", "all", "--max-turns", "0", "--output-format", "json"];
    arguments.extend(["--replay", script.to_str().unwrap()]);
    plugins.iter().for_each(|plugin| arguments.extend(["--plugin", plugin.to_str().unwrap()]));
    arguments.push("go");
    let ended = pinion.run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    result["session_id"].as_str().unwrap().to_owned()
}

/// Replays a session from another directory.
fn replay(pinion: &Pinion, session: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let (code, report) = try_replay(pinion, session, arguments);
    (code, report.unwrap_or_else(|output| panic!("{output}")))
}

/// Replays a session; the output where that is no report.
fn try_replay(pinion: &Pinion, session: &str, arguments: &[&str]) -> (Option<i32>, Result<Value, String>) {
    let elsewhere = pinion.workspace().join("../elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let mut command = pinion.command(["plugin", "replay", session, "--json"].iter().chain(arguments));
    let output = command.current_dir(elsewhere).env("TZ", "Asia/Tokyo").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let report: Option<Value> = serde_json::from_str(&stdout).ok().filter(|report: &Value| report["calls"].is_u64());
    (output.status.code(), report.ok_or_else(|| format!("{stdout}{}", String::from_utf8_lossy(&output.stderr))))
}

fn calls(of: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> = of.iter().map(|(tool, with)| json!({ "tool": tool, "arguments": with })).collect();
    json!({ "calls": calls })
}

#[tokio::test(flavor = "multi_thread")]
async fn session_of_many_calls_is_replayed_elsewhere_with_the_same_fuel() {
    let server = HttpServer::start(|request| answer(200, &[], request.uri().path().to_owned())).await;
    let pinion = Pinion::default();
    let grants = format!(
        "[plugins.fetcher.grants]\nhttp = [\"{}\"]\n[plugins.talker.grants]\nui = true\ninvoke = true\nsession = \"write\"\n",
        server.url("")
    );
    pinion.config(&format!("{RECORDED}{grants}"));
    pinion.write("src/lib.rs", "fn one() {}\nfn two() {}\n");
    let mut replies = Vec::new();
    for round in 0..20 {
        let file = format!("out/{round}.txt");
        replies.push(calls(&[
            ("write", json!({ "path": file, "content": format!("line {round}\nsecond\n") })),
            ("read", json!({ "path": "src/lib.rs", "offset": round + 1 })),
        ]));
        replies.push(calls(&[
            ("edit", json!({ "path": file, "edits": [{ "old_text": "second", "new_text": "third" }] })),
            ("search", json!({ "pattern": format!("line {round}") })),
        ]));
        let (missing, found) = (format!("missing-{round}"), format!("{round}*.txt"));
        replies.push(calls(&[("read", json!({ "path": missing })), ("find", json!({ "pattern": found }))]));
        replies.push(call("bash", json!({ "command": format!("echo {round}; date +%N; exit {}", round % 3) })));
        replies.push(call("todo", json!({ "items": [{ "text": format!("step {round}"), "state": "pending" }] })));
        replies.push(call("fetch", json!({ "requests": [{ "url": server.url(&format!("/page/{round}")) }] })));
        let steps = json!({ "steps": [{ "confirm": "Really?" }, "tools", { "append": { "round": round } }] });
        replies.push(call("talk", steps));
    }
    replies.push(call("task", json!({ "prompt": "Look." })));
    replies.push(call("read", json!({ "path": "src/lib.rs" })));
    replies.push(say("It has two functions."));
    replies.push(say("done"));
    let session = run(&pinion, &replies, &[&guest("fetcher"), &guest("talker")]);
    drop(server);
    fs::remove_dir_all(pinion.workspace()).unwrap();
    fs::create_dir_all(pinion.workspace()).unwrap();
    // The guests are no part of the home, so their paths are found by their digests in the user's directory.
    let plugins = pinion.home().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    for name in ["fetcher", "talker"] {
        fs::copy(guest(name), plugins.join(format!("{name}.wasm"))).unwrap();
    }
    let (code, report) = replay(&pinion, &session, &[]);
    assert_eq!((code, &report["differ"], &report["skipped"]), (Some(0), &json!(0), &json!(0)), "{report:#}");
    assert!(report["calls"].as_u64().unwrap() >= 200 && report["same"] == report["calls"], "{report:#}");
}

#[test]
fn changed_plugin_is_told_apart_by_its_first_difference() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    let session = run(&pinion, &[call("greet", json!({})), say("done")], &[&guest("greet_one")]);
    let (code, report) = replay(&pinion, &session, &["--with", guest("greet_one").to_str().unwrap()]);
    assert_eq!((code, &report["differ"]), (Some(0), &json!(0)), "{report:#}");
    let (code, report) = replay(&pinion, &session, &["--with", guest("greet_two").to_str().unwrap()]);
    let reason = report["differences"][0]["reason"].as_str().unwrap();
    assert!(code == Some(1) && reason.starts_with("result\n"), "{report:#}");
    assert!(reason.contains("version one") && reason.contains("version two"), "{reason}");
}

/// Changes letters of a component's texts, one text after the other, and replays the calls with each.
#[test]
fn seeded_changes_are_named() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    pinion.write("a.txt", "alpha\nbeta\n");
    let replies = [
        calls(&[("read", json!({ "path": "a.txt" })), ("write", json!({ "path": "b.txt", "content": "new" }))]),
        calls(&[
            ("read", json!({ "path": "missing" })),
            ("edit", json!({ "path": "a.txt", "edits": [{ "old_text": "no", "new_text": "x" }] })),
        ]),
        calls(&[("find", json!({ "pattern": "*.md" })), ("search", json!({ "pattern": "nothing here" }))]),
        call("todo", json!({ "items": [{ "text": "one", "state": "done" }, { "text": "two", "state": "pending" }] })),
        say("done"),
    ];
    let session = run(&pinion, &replies, &[]);
    let shown = pinion.run(["session", "show", &session]);
    let (mut named, mut outcomes) = (0, Vec::new());
    for plugin in ["fs", "todo"] {
        let bytes = fs::read(builtin(plugin)).unwrap();
        for word in common_words(&shown.stdout, &bytes) {
            if named >= 8 {
                break;
            }
            let changed = changed(&pinion, &bytes, &word);
            let (code, report) = try_replay(&pinion, &session, &["--with", changed.to_str().unwrap()]);
            // A component with a changed name of an import is none.
            let Ok(report) = report.map_err(|output| outcomes.push(format!("{word}: {output}"))) else { continue };
            // A changed name or description of the component is no change of its calls.
            if report["differ"] == json!(0) {
                continue;
            }
            let reason = report["differences"][0]["reason"].as_str().unwrap();
            assert!(code == Some(1) && reason.contains("\n- ") && reason.contains("\n+ "), "{word}: {report:#}");
            named += 1;
        }
    }
    assert!(named >= 5, "only {named} changes had an effect: {outcomes:#?}\n{shown:?}");
}

/// Returns words of a text that a component contains, too.
fn common_words(text: &str, component: &[u8]) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| word.len() >= 5);
    let is_in = |word: &&str| component.windows(word.len()).any(|window| window == word.as_bytes());
    words.filter(is_in).map(str::to_owned).collect()
}

fn swapped(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", if first == "Q" { "Z" } else { "Q" })
}

fn changed(pinion: &Pinion, component: &[u8], word: &str) -> PathBuf {
    let (mut changed, mut at) = (component.to_vec(), 0);
    while let Some(found) = changed[at..].windows(word.len()).position(|window| window == word.as_bytes()) {
        at += found;
        changed[at..at + word.len()].copy_from_slice(swapped(word).as_bytes());
        at += word.len();
    }
    pinion.write("../changed.wasm", changed)
}

#[test]
fn journal_is_off_by_default_private_and_deleted_with_its_session() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "alpha\n");
    let replies = [call("read", json!({ "path": "a.txt" })), say("done")];
    let session = run(&pinion, &replies, &[]);
    let ended = pinion.run(["plugin", "replay", &session]);
    assert!(ended.code == Some(2) && ended.stderr.contains("has no journal"), "{ended:?}");
    pinion.config(RECORDED);
    let session = run(&pinion, &replies, &[]);
    let journals = || journals(&pinion.home());
    assert_eq!(journals().len(), 1);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&journals()[0]).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let text = pinion.run(["plugin", "replay", &session]);
    assert!(text.code == Some(0) && text.stdout.contains("0 differ, 0 skipped"), "{text:?}");
    assert_eq!(pinion.run(["session", "delete", "--yes", &session]).code, Some(0));
    assert_eq!(journals(), Vec::<PathBuf>::new());
}

#[test]
fn journal_of_digests_says_why_it_cannot_be_replayed() {
    let pinion = Pinion::default();
    pinion.config("journal = \"digest\"\n");
    pinion.write("a.txt", "alpha\n".repeat(100));
    let session = run(&pinion, &[call("read", json!({ "path": "a.txt" })), say("done")], &[]);
    let ended = pinion.run(["plugin", "replay", &session]);
    assert!(ended.code == Some(1) && ended.stdout.contains("only digests"), "{ended:?}");
}

fn journals(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "calls") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn report_is_replayed_without_the_session_and_its_plugins() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    pinion.write("a.txt", "alpha\n");
    let replies = [call("read", json!({ "path": "a.txt" })), call("greet", json!({})), say("done")];
    let plugins = pinion.home().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    fs::copy(guest("greet_one"), plugins.join("greet.wasm")).unwrap();
    let session = run(&pinion, &replies, &[&plugins.join("greet.wasm")]);
    let written = pinion.run(["report", &session, "--out", "bundle"]);
    assert_eq!(written.code, Some(0), "{written:?}");
    let elsewhere = Pinion::default();
    fs::rename(pinion.workspace().join("bundle"), elsewhere.workspace().join("bundle")).unwrap();
    let bundle = elsewhere.workspace().join("bundle");
    let (code, report) = replay(&elsewhere, bundle.to_str().unwrap(), &[]);
    assert_eq!((code, &report["same"]), (Some(0), &report["calls"]), "{report:#}");
    assert!(fs::read_to_string(bundle.join("session.jsonl")).unwrap().contains("alpha"));
}
