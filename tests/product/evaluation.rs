//! `pinion eval` with scripted models: cases, results, exit statuses.

use crate::product::command::assert_error;
use pinion_tests::{Pinion, call, repository, say};
use serde_json::{Value, json};

/// Runs the cases in a text, with options.
fn run(pinion: &Pinion, cases: &str, options: &[&str]) -> pinion_tests::Ended {
    let file = pinion.write("cases.yaml", cases);
    let base = ["eval", "run", file.to_str().unwrap()];
    pinion.run(base.iter().chain(options))
}

#[test]
fn example_set_passes_offline_and_is_listed_and_shown() {
    let pinion = Pinion::default();
    let set = repository().join("examples/eval/smoke.yaml");
    let ended = pinion.run(["eval", "run", set.to_str().unwrap(), "--jobs", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("3 of 3 trials passed, 100 %"), "{ended:?}");
    let listed = pinion.run(["eval", "list"]);
    assert!(listed.stdout.contains(" smoke ") && listed.stdout.contains("3/3"), "{listed:?}");
    let shown = pinion.run(["eval", "show"]);
    assert_eq!(shown.stdout, ended.stdout);
    let result: Value = serde_json::from_str(&pinion.run(["eval", "show", "--format", "json"]).stdout).unwrap();
    let trial = &result["trials"][0];
    assert_eq!(trial["trajectory"]["turns"][1]["calls"][0]["effects"], json!(["reads", "writes"]), "{trial:#}");
    assert_eq!(trial["trajectory"]["usage"]["input"], 520);
    // Equal scripts leave equal turns, wherever the workspace is.
    let calls = |trial: usize| result["trials"][trial]["trajectory"]["turns"][0]["calls"][0]["result"].clone();
    assert!(calls(0).is_string() && calls(0) == calls(1), "{result:#}");
}

#[test]
fn failing_case_names_its_findings_and_the_missed_bound() {
    let pinion = Pinion::default();
    let script = pinion.script(&[call("write", json!({ "path": "b.txt", "content": "x" })), say("I wrote it.")]);
    let cases = format!(
        "id: s\ngate: {{pass-rate: 0.75}}\ncases:\n  - id: a\n    prompt: go\n    replay: {script}\n    workspace: {{files: {{a.txt: one}}}}\n    \
         expect:\n      files: {{equal: {{a.txt: two}}, unchanged-elsewhere: true}}\n      commands: ['test -e b.txt', 'exit 3']\n  \
         - {{id: b, prompt: go, replay: missing.jsonl}}\n",
        script = script.display()
    );
    let ended = run(&pinion, &cases, &[]);
    assert_error(&ended, 1, &["set `s`: pass-rate is 0.000, at least 0.75 expected"]);
    for finding in [
        "`a.txt` has other content",
        "`b.txt` was created",
        "commands: `exit 3` failed",
        "b, trial 1: the agent failed",
    ] {
        assert!(ended.stdout.contains(finding), "`{finding}` is not in: {ended:?}");
    }
    assert!(!ended.stdout.contains("test -e b.txt"), "{ended:?}");
    assert!(!pinion.workspace().join("b.txt").exists());
}

#[test]
fn wrong_file_names_case_and_field() {
    let pinion = Pinion::default();
    let ended = run(&pinion, "id: s\ncases: [{id: a, prompt: go, expect: {tool: []}}]\n", &[]);
    assert_error(&ended, 2, &["case `a`: `expect.tool`: unknown field `tool`"]);
    let ended = run(&pinion, "id: s\ncases: [{id: a, prompt: go}]\n", &["--case", "b"]);
    assert_error(&ended, 2, &["no file has a case `b`"]);
    assert_error(&pinion.run(["eval", "show", "0"]), 2, &["no result `0`", "hint: `pinion eval list`"]);
}

#[test]
fn prompts_are_one_conversation_and_a_session_is_evaluated_without_a_run() {
    let pinion = Pinion::default();
    let scripts =
        [pinion.write("1.jsonl", say("first").to_string()), pinion.write("2.jsonl", say("second").to_string())];
    let kept = pinion.home().join("kept");
    let cases = format!(
        "id: s\ncases:\n  - id: a\n    prompts: [one, two]\n    replay: ['{}', '{}']\n    expect: {{answer: {{exact: second}}, budget: {{turns: 2}}}}\n",
        scripts[0].display(),
        scripts[1].display()
    );
    let ended = run(&pinion, &cases, &["--keep", kept.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let session = kept.join("a-0-1/session.jsonl");
    let cases = format!(
        "id: t\ncases: [{{id: a, session: '{}', expect: {{answer: {{exact: second}}, budget: {{turns: 2}}}}}}]\n",
        session.display()
    );
    let ended = run(&pinion, &cases, &["--format", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let prompts: Vec<&Value> =
        result["trials"][0]["trajectory"]["turns"].as_array().unwrap().iter().map(|turn| &turn["prompts"]).collect();
    assert_eq!(prompts, [&json!(["one"]), &json!(["two"])]);
}

#[test]
fn spent_budget_has_its_exit_status_and_result() {
    let pinion = Pinion::default();
    let script = pinion.script(&[json!({ "text": "done", "usage": { "input": 60, "output": 0 } })]);
    let cases = format!(
        "id: s\nbudget: {{tokens: 100}}\ncases: [{{id: a, prompt: go, trials: 4, replay: '{}'}}]\n",
        script.display()
    );
    let ended = run(&pinion, &cases, &["-q"]);
    assert_error(&ended, 3, &["the budget of the set `s` is spent"]);
    assert!(ended.stdout.contains("2 of 2 trials passed") && ended.stdout.contains("budget spent"), "{ended:?}");
}

#[test]
fn input_and_output_tokens_have_separate_limits_and_columns() {
    let pinion = Pinion::default();
    let used = |mut reply: Value| {
        reply["usage"] = json!({ "input": 60, "output": 5 });
        reply
    };
    let step = || used(call("bash", json!({ "command": "true" })));
    let script = pinion.script(&[step(), step(), used(say("done"))]);
    let case = |id: &str, limits: &str| {
        format!("  - {{id: {id}, prompt: go, replay: '{}', limits: {{{limits}}}}}\n", script.display())
    };
    let cases = format!(
        "id: s\ngate: {{pass-rate: 0, input-tokens: 359, output-tokens: 30, calls: 5}}\ncases:\n{}{}{}",
        case("in", "input-tokens: 60"),
        case("out", "output-tokens: 10"),
        case("free", "input-tokens: 181, output-tokens: 16"),
    );
    let ended = run(&pinion, &cases, &[]);
    assert_error(&ended, 1, &["set `s`: input-tokens are 360, at most 359 expected"]);
    assert!(!ended.stderr.contains("output-tokens are"), "{ended:?}");
    for (case, limit) in [("in", "60 input tokens"), ("out", "10 output tokens")] {
        let finding = format!("{case}, trial 1: completed: the run did not finish: the limit of {limit} was reached");
        assert!(ended.stdout.contains(&finding), "{ended:?}");
    }
    let row = ended.stdout.lines().find(|line| line.starts_with("free ")).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[2..6], ["1/1", "1.00", "180", "15"], "{ended:?}");
    let result: Value = serde_json::from_str(&pinion.run(["eval", "show", "--format", "json"]).stdout).unwrap();
    let sums = &result["sums"];
    assert_eq!((&sums["calls"], &sums["turns"], &sums["usage"]["output"]), (&json!(5), &json!(6), &json!(30)));
    let ended = run(&pinion, &cases.replace("input-tokens: 60", "input-tokens: -60"), &[]);
    assert_error(&ended, 2, &["case `in`: `limits.input-tokens`"]);
}

/// Ctrl+C ends the running trial and leaves a result with the trials that ended before.
#[cfg(unix)]
#[test]
fn interrupted_set_leaves_a_result() {
    let pinion = Pinion::default();
    let scripts =
        [pinion.write("1.jsonl", say("done").to_string()), pinion.write("2.jsonl", r#"{"text":"a","hang":true}"#)];
    let cases = format!(
        "id: s\ncases: [{{id: a, prompt: go, replay: '{}'}}, {{id: b, prompt: go, replay: '{}'}}, {{id: c, prompt: go}}]\n",
        scripts[0].display(),
        scripts[1].display()
    );
    let file = pinion.write("cases.yaml", cases);
    let kept = pinion.home().join("kept");
    let child = pinion.start(["eval", "run", file.to_str().unwrap(), "--keep", kept.to_str().unwrap()]);
    let session = kept.join("b-1-1/session.jsonl");
    pinion_tests::wait_until("the second trial runs", || {
        std::fs::read_to_string(&session).is_ok_and(|text| text.contains("\"user\""))
    });
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let result: Value = serde_json::from_str(&pinion.run(["eval", "show", "--format", "json"]).stdout).unwrap();
    let verdicts: Vec<&str> =
        result["trials"].as_array().unwrap().iter().map(|trial| trial["verdict"].as_str().unwrap()).collect();
    assert_eq!((result["completion"].as_str(), verdicts), (Some("interrupted"), vec!["passed", "skipped", "skipped"]));
}
