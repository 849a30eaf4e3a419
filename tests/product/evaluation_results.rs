//! Stored results of `pinion eval`: their comparison and their audit trail.

use crate::product::command::assert_error;
use pinion_tests::{Pinion, call, say};
use serde_json::{Value, json};

/// Runs a case with a scripted model, and returns the id of the result.
fn run(pinion: &Pinion, replies: &[Value]) -> String {
    let script = pinion.script(replies);
    let cases = format!(
        "id: s\ngate: {{pass-rate: 0}}\ncases: [{{id: a, prompt: go, replay: '{}', expect: {{answer: {{exact: right}}}}}}]\n",
        script.display()
    );
    let file = pinion.write("cases.yaml", cases);
    let ended = pinion.run(["eval", "run", "--format", "json", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    result["id"].as_str().unwrap().to_owned()
}

fn reply(text: &str, input: u64) -> Value {
    json!({ "text": text, "usage": { "input": input, "output": 1 } })
}

#[test]
fn results_are_compared() {
    let pinion = Pinion::default();
    let right = run(&pinion, &[reply("right", 100)]);
    let wrong = run(&pinion, &[reply("wrong", 300)]);
    let worse = pinion.run(["eval", "compare", &right, &wrong]);
    assert_eq!(worse.code, Some(0), "{worse:?}");
    assert!(worse.stdout.contains("worse") && worse.stdout.contains("dearer"), "{worse:?}");
    assert_error(&pinion.run(["eval", "compare", "--check", &right, &wrong]), 1, &["1 case worse, 1 dearer"]);
    let better = pinion.run(["eval", "compare", "--check", "--json", &wrong, &right]);
    let row: Value = serde_json::from_str(&better.stdout).unwrap();
    assert_eq!(
        (better.code, row["change"].as_str(), row["is_cheaper"].as_bool()),
        (Some(0), Some("better"), Some(true))
    );
}

#[test]
fn changed_result_does_not_verify_and_equal_runs_have_equal_trails() {
    let pinion = Pinion::default();
    let replies = [call("bash", json!({ "command": "echo hi" })), say("right")];
    let (one, other) = (run(&pinion, &replies), run(&pinion, &replies));
    let digest = |id: &str| {
        let ended = pinion.run(["eval", "verify", id]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(digest(&one), digest(&other));
    let path = pinion.home().join(format!("evaluations/s/{one}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("echo hi", "echo ho")).unwrap();
    assert_error(&pinion.run(["eval", "verify", &one]), 1, &["case `a`, trial 1: turn 1 was changed"]);
}
