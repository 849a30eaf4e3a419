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
    // Without a second result, the latest other one of the set.
    assert_eq!(pinion.run(["eval", "compare", &right]).stdout, worse.stdout);
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

#[test]
fn results_have_formats_for_other_programs() {
    let pinion = Pinion::default();
    let id = run(&pinion, &[call("bash", json!({ "command": "echo '<hi>'" })), say("wrong & <odd>")]);
    let show = |arguments: &[&str]| {
        let ended = pinion.run(["eval"].iter().chain(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let junit = show(&["show", "--format", "junit"]);
    assert!(junit.contains(r#"tests="1" failures="1""#), "{junit}");
    assert!(junit.contains("answer: it is `wrong &amp; &lt;odd&gt;`"), "{junit}");
    let markdown = show(&["show", "--format", "markdown"]);
    assert!(markdown.contains("| a | default | 0/1 |"), "{markdown}");
    let page = show(&["show", "--format", "html"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg ") && !page.contains("<odd>"), "{page}");
    let atif: Value = serde_json::from_str(show(&["show", "--format", "atif"]).lines().next().unwrap()).unwrap();
    assert_eq!(atif["schema_version"], "ATIF-v1.8");
    let step = atif["steps"].as_array().unwrap().iter().find(|step| step.get("tool_calls").is_some()).unwrap();
    assert_eq!(step["tool_calls"][0]["function_name"], "bash");
    assert_eq!(step["observation"]["results"][0]["source_call_id"], step["tool_calls"][0]["tool_call_id"]);
    let compared = show(&["compare", &id, &id, "--format", "markdown"]);
    assert!(compared.contains("| a | default | same | 0.00 → 0.00 |"), "{compared}");
    let page = show(&["compare", &id, &id, "--format", "html"]);
    assert!(page.contains("<svg ") && page.contains("<td>same"), "{page}");
}
