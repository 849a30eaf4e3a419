//! `pinion eval swe-bench` on repositories made for the test, with a scripted model.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, call, say};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(directory);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A clone with a bug at its first commit and the solution at its second one, and a data set with some instances.
struct Bench {
    pinion: Pinion,
    clone: PathBuf,
}

impl Bench {
    fn new(ids: &[&str]) -> Self {
        let pinion = Pinion::default();
        let file = pinion.write("repos/owner__name/value.txt", "wrong\nkept\n");
        let clone = file.parent().unwrap().to_owned();
        git(&clone, &["init", "-q", "--template="]);
        git(&clone, &["add", "-A"]);
        git(&clone, &["commit", "-qm", "bug"]);
        let base = git(&clone, &["rev-parse", "HEAD"]);
        fs::write(&file, "solution\n").unwrap();
        git(&clone, &["commit", "-qam", "solution"]);
        let instance = |id: &&str| {
            let fields = json!({
                "instance_id": id, "repo": "owner/name", "base_commit": base, "problem_statement": "value is wrong",
            });
            format!("{fields}\n")
        };
        pinion.write("data.jsonl", ids.iter().map(instance).collect::<String>());
        Self { pinion, clone }
    }

    /// Writes a script that fixes the bug, after a command.
    fn script(&self, command: &str) -> PathBuf {
        let edit = json!({ "path": "value.txt", "content": "right\nkept\n" });
        self.pinion.script(&[call("bash", json!({ "command": command })), call("write", edit), say("fixed")])
    }

    fn command(&self, script: &Path, more: &[&str]) -> Command {
        let arguments = ["eval", "swe-bench", "data.jsonl", "--repos", "repos", "--out", "out", "--jobs", "2"];
        let mut command = self.pinion.command(arguments.iter().chain(more));
        command.args(["--", "--no-sandbox", "--approve", "all", "--replay"]).arg(script);
        command
    }

    fn run(&self, script: &Path, more: &[&str]) -> Ended {
        let output = self.command(script, more).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn out(&self, path: &str) -> PathBuf {
        self.pinion.workspace().join("out").join(path)
    }

    fn predictions(&self) -> BTreeMap<String, Value> {
        let text = fs::read_to_string(self.out("predictions.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let by_id: BTreeMap<_, _> =
            lines.map(|line| (line["instance_id"].as_str().unwrap().to_owned(), line)).collect();
        assert_eq!(by_id.len(), text.lines().count(), "{text}");
        by_id
    }

    /// Checks that a prediction has the form of the harness, and that its patch fixes the bug.
    fn assert_solves(&self, prediction: &Value) {
        let fields: Vec<&str> = prediction.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["instance_id", "model_name_or_path", "model_patch"]);
        let checkout = self.pinion.workspace().join("judged");
        git(&self.clone, &["worktree", "add", "-q", "--detach", checkout.to_str().unwrap(), "HEAD~1"]);
        let patch = self.pinion.write("judged.patch", prediction["model_patch"].as_str().unwrap());
        git(&checkout, &["apply", patch.to_str().unwrap()]);
        assert_eq!(fs::read_to_string(checkout.join("value.txt")).unwrap(), "right\nkept\n");
        git(&self.clone, &["worktree", "remove", "--force", checkout.to_str().unwrap()]);
    }
}

#[test]
fn instances_become_predictions_of_the_harness() {
    let bench = Bench::new(&["one-1", "two-2", "three-3"]);
    let script = bench.script("git log --all --format=%s; cat value.txt");
    let ended = bench.run(&script, &["--name", "pinion-test"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("3 predictions in ") && ended.stderr.contains("two-2: stop"), "{ended:?}");
    let predictions = bench.predictions();
    for id in ["one-1", "two-2", "three-3"] {
        assert_eq!(predictions[id]["model_name_or_path"], "pinion-test");
        bench.assert_solves(&predictions[id]);
        // The solution is not in the history that the model sees.
        let session = fs::read_to_string(bench.out(id).join("session.jsonl")).unwrap();
        assert!(session.contains("value is wrong") && session.contains("bug") && !session.contains("solution"));
        let result: Value = serde_json::from_slice(&fs::read(bench.out(id).join("result.json")).unwrap()).unwrap();
        assert!(result["turns"] == 3 && result.get("cost").is_some(), "{result}");
        assert!(bench.out(id).join("log.txt").exists() && !bench.out(id).join("checkout").exists());
    }
    let again = bench.run(&script, &[]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""), "{again:?}");
    assert_eq!(bench.predictions(), predictions);
}

#[test]
fn killed_bench_continues_and_repairs_its_predictions() {
    let bench = Bench::new(&["one-1", "two-2"]);
    // The runs wait until the file exists, and outlive the command.
    let gate = bench.pinion.workspace().join("gate");
    fs::create_dir(&gate).unwrap();
    let waits = format!("until [ -e {}/open ]; do sleep 0.05; done", gate.display());
    let script = bench.script(&waits);
    let mut first = bench.command(&script, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = |id: &str| fs::metadata(bench.out(id).join("session.jsonl")).is_ok_and(|session| session.len() > 0);
    while !(begun("one-1") && begun("two-2")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    fs::write(bench.out("predictions.jsonl"), "{\"instance_id\":\"one-1\",\"model_na").unwrap();
    fs::write(gate.join("open"), "").unwrap();
    let ended = bench.run(&script, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let predictions = bench.predictions();
    assert_eq!(predictions.keys().collect::<Vec<_>>(), ["one-1", "two-2"]);
    predictions.values().for_each(|prediction| bench.assert_solves(prediction));
}

#[test]
fn failed_instance_is_tried_again() {
    let bench = Bench::new(&["one-1", "two-2"]);
    let broken = bench.pinion.script(&[call("bash", json!({ "command": "true" }))]);
    let ended = bench.run(&broken, &[]);
    assert_error(&ended, 1, &["2 instances failed"]);
    assert!(ended.stderr.contains("one-1: the run failed") && bench.predictions().is_empty(), "{ended:?}");
    let ended = bench.run(&bench.script("true"), &["--instance", "two-2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    bench.assert_solves(&bench.predictions()["two-2"]);
    let missing = bench.pinion.run(["eval", "swe-bench", "data.jsonl", "--repos", "elsewhere"]);
    assert_error(&missing, 2, &["no clone of `owner/name`", "git clone --bare"]);
}
