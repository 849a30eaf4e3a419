//! Stored values and the command: forks, deletion, sessions that are not saved, kills, and `pinion plugin storage`.

use crate::product::providers::all_files;
use pinion_tests::{Ended, Pinion, guest, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const GRANT: &str = "[plugins.keeper.grants]\nstorage = true\n";

/// Runs steps of the keeper in a session; another plugin answers afterwards. Returns the run.
fn kept(pinion: &Pinion, session: &[&str], steps: &[&[&str]]) -> Ended {
    let script = pinion.script(&[
        json!({ "calls": [{ "tool": "keep", "arguments": { "steps": steps } }] }),
        another(),
        json!({ "text": "done" }),
    ]);
    let (script, plugin) = (script.to_str().unwrap().to_owned(), guest("keeper"));
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", &script, "--approve", "all"];
    let output = ["--output-format", "stream-json", "go"];
    let run = pinion.run(base.iter().chain(session).chain(&output));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_another_answered(&run);
    run
}

/// A call of another plugin, for [`assert_another_answered`].
pub(crate) fn another() -> Value {
    json!({ "calls": [{ "tool": "list", "arguments": { "path": "." } }] })
}

/// Asserts that the last call of a run, the call of [`another`], succeeded.
pub(crate) fn assert_another_answered(run: &Ended) {
    let last = ends(run).pop().unwrap_or_else(|| panic!("{run:?}"));
    assert_eq!((&last["tool"], &last["is_error"]), (&json!("list"), &json!(false)), "{run:?}");
}

/// Returns the events of a run that ended calls.
fn ends(run: &Ended) -> Vec<Value> {
    let events = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == "tool_execution_end").collect()
}

/// Returns the answer of the keeper.
pub(crate) fn answer(run: &Ended) -> String {
    ends(run).first().and_then(find_text).unwrap_or_else(|| panic!("{run:?}"))
}

/// Returns the lines that the keeper answered.
fn lines(run: &Ended) -> Vec<String> {
    answer(run).lines().map(str::to_owned).collect()
}

/// Returns the first member `text` in a value.
fn find_text(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("text").and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| members.values().find_map(find_text))
        }
        Value::Array(items) => items.iter().find_map(find_text),
        _ => None,
    }
}

fn session_id(run: &Ended) -> String {
    let result: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    result["session_id"].as_str().unwrap().to_owned()
}

fn session_values(pinion: &Pinion) -> Vec<PathBuf> {
    files_below(&pinion.home().join("plugin-storage/sessions"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "values"))
        .collect()
}

/// Returns all files below a directory that may be missing.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    if directory.is_dir() { all_files(directory) } else { Vec::new() }
}

#[test]
fn fork_copies_session_values_and_deletion_removes_them() {
    let pinion = Pinion::default();
    pinion.config(GRANT);
    let first = kept(&pinion, &[], &[&["set", "session", "a", "first"]]);
    let id = session_id(&first);
    let forked = pinion.run(["session", "fork", &id]);
    let fork = forked.stdout.trim().to_owned();
    let changed = kept(&pinion, &["-r", &fork], &[&["get", "session", "a"], &["set", "session", "a", "second"]]);
    assert_eq!(lines(&changed)[0], "ok first", "{forked:?}");
    let read: &[&[&str]] = &[&["get", "session", "a"]];
    assert_eq!(lines(&kept(&pinion, &["-r", &id], read)), ["ok first"]);
    let by_option = kept(&pinion, &["--fork", &fork], read);
    assert_eq!(lines(&by_option), ["ok second"]);
    assert_eq!(session_values(&pinion).len(), 3);
    for id in [&id, &fork, &session_id(&by_option)] {
        assert_eq!(pinion.run(["session", "delete", "--yes", id]).code, Some(0));
    }
    assert!(session_values(&pinion).is_empty());
}

#[test]
fn session_that_is_not_saved_leaves_no_values() {
    let pinion = Pinion::default();
    pinion.config(GRANT);
    for _ in 0..2 {
        let steps: &[&[&str]] =
            &[&["get", "session", "a"], &["set", "session", "a", "x"], &["set", "plugin", "a", "x"]];
        let run = kept(&pinion, &["--no-session"], steps);
        assert!(lines(&run)[0] == "ok none" && lines(&run)[1].starts_with("ok"), "{run:?}");
    }
    assert!(session_values(&pinion).is_empty());
}

#[test]
fn stored_values_are_listed_and_removed_by_name_file_and_key() {
    let pinion = Pinion::default();
    pinion.config(GRANT);
    assert!(pinion.run(["plugin", "storage"]).stderr.contains("no values are stored"));
    let steps: &[&[&str]] =
        &[&["set", "plugin", "a", "x"], &["set", "workspace", "a", "x"], &["set", "session", "a", "x"]];
    let plugin = guest("keeper").canonicalize().unwrap();
    for wanted in ["keeper", plugin.to_str().unwrap(), "KEY"] {
        kept(&pinion, &[], steps);
        let listed = pinion.run(["plugin", "storage"]);
        let workspace = pinion.workspace();
        for part in ["keeper", plugin.to_str().unwrap(), "everywhere: ", workspace.to_str().unwrap(), "session "] {
            assert!(listed.stdout.contains(part), "{part}: {listed:?}");
        }
        let wanted = if wanted == "KEY" { listed.stdout.split(' ').next().unwrap() } else { wanted };
        assert_eq!(pinion.run(["plugin", "storage", wanted, "--clear", "--yes"]).code, Some(0), "{wanted}");
        assert!(pinion.run(["plugin", "storage", wanted]).stderr.contains("no values are stored"), "{wanted}");
        assert_eq!(lines(&kept(&pinion, &[], &[&["get", "plugin", "a"]])), ["ok none"]);
    }
}

#[test]
fn several_plugins_of_one_name_are_not_cleared_together() {
    let pinion = Pinion::default();
    let copy = pinion.workspace().join("copy.wasm");
    fs::copy(guest("keeper"), &copy).unwrap();
    let step = json!({ "steps": [["set", "plugin", "a", "mine"]] }).to_string();
    for file in [guest("keeper"), copy.clone()] {
        let file = file.to_str().unwrap().to_owned();
        let call = pinion.run(["plugin", "call", &file, "keep", &step, "--grant", "storage"]);
        assert_eq!(call.code, Some(0), "{call:?}");
    }
    let refused = pinion.run(["plugin", "storage", "keeper", "--clear", "--yes"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("several plugins"), "{refused:?}");
    assert_eq!(pinion.run(["plugin", "storage", copy.to_str().unwrap(), "--clear", "--yes"]).code, Some(0));
    let left = pinion.run(["plugin", "storage", "keeper"]).stdout;
    assert!(left.contains(guest("keeper").to_str().unwrap()) && !left.contains("copy.wasm"), "{left}");
}

/// Kills processes while they count. Every write that they reported as done is there, and nothing is damaged.
#[test]
fn killed_writers_leave_whole_values() {
    let pinion = Pinion::default();
    let plugin = guest("keeper");
    let plugin = plugin.to_str().unwrap();
    let call = |steps: Value| {
        ["plugin", "call", plugin, "keep", &json!({ "steps": steps }).to_string(), "--grant", "storage"]
            .map(str::to_owned)
    };
    let read = || {
        let read = pinion.run(call(json!([["get", "plugin", "n"]])));
        assert!(read.code == Some(0) && read.stdout.starts_with("ok "), "{read:?}");
        read.stdout[3..].trim().parse::<u32>().unwrap_or(0)
    };
    let values = pinion.home().join("plugin-storage");
    let mut last = 0;
    for round in 0..8_u64 {
        let mut writers: Vec<_> =
            (0..2).map(|_| pinion.start(call(json!([["increment", "plugin", "n", "100000"]])))).collect();
        // Until they have written more than before, by another amount in each round.
        let size = || {
            files_below(&values).iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum::<u64>()
        };
        let enough = size() + 500 + round * 777;
        wait_until("the values grow", || size() >= enough);
        writers.iter_mut().for_each(|writer| writer.kill().unwrap());
        writers.iter_mut().for_each(|writer| {
            writer.wait().unwrap();
        });
        let now = read();
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}
