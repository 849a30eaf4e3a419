//! Cases of `pinion eval` that are made of sessions, begin with a session or a plan, or ask a plugin; and canaries.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, call, guest, say};
use serde_json::{Value, json};

fn run(pinion: &Pinion, file: &str, options: &[&str]) -> Ended {
    pinion.run(["eval", "run", file].iter().chain(options))
}

fn cases(pinion: &Pinion, text: &str) -> String {
    pinion.write("../cases.yaml", text).to_str().unwrap().to_owned()
}

/// A recorded case has the files from before the session, and passes when the same replies do the same work again.
#[test]
fn recorded_session_is_a_case_that_runs() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "one\n");
    pinion.write("old.txt", "old\n");
    let replies = [
        call("write", json!({ "path": pinion.workspace().join("b.txt"), "content": "two\n" })),
        call("bash", json!({ "command": "echo three >> a.txt; rm old.txt" })),
        say("Done: b.txt"),
    ];
    let script = pinion.script(&replies);
    let ended = pinion.run([
        "-p",
        "--approve",
        "all",
        "--output-format",
        "json",
        "--replay",
        script.to_str().unwrap(),
        "Add a file.",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let session = result["session_id"].as_str().unwrap();
    // The workspace has changed since the session.
    pinion.write("a.txt", "later\n");
    let directory = pinion.home().join("case");
    let recorded =
        pinion.run(["eval", "record", session, "--id", "add", "--replay", "--out", directory.to_str().unwrap()]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let file = recorded.stdout.trim();
    assert_eq!(std::fs::read_to_string(directory.join("workspace/a.txt")).unwrap(), "one\n", "{recorded:?}");
    assert!(directory.join("workspace/old.txt").exists() && !directory.join("workspace/b.txt").exists());
    let text = std::fs::read_to_string(file).unwrap();
    for part in ["- \"Add a file.\"", r#""b.txt": "two\n""#, r#""a.txt": "one\nthree\n""#, r#"absent: ["old.txt"]"#] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    // The session ran with a mode that the case does not have by itself.
    let text = format!("approve: all\n{text}");
    std::fs::write(file, &text).unwrap();
    let ended = run(&pinion, file, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    std::fs::write(file, text.replace(r#""two\n""#, r#""other\n""#)).unwrap();
    assert!(run(&pinion, file, &[]).stdout.contains("`b.txt` has other content"));
    let again = pinion.run(["eval", "record", session, "--out", directory.to_str().unwrap()]);
    assert_error(&again, 1, &["could not create", "hint: name another directory with --out"]);
}

#[test]
fn canary_reports_the_drift_between_runs_and_models() {
    let pinion = Pinion::default();
    let script = pinion.write("../replies.jsonl", say("right").to_string());
    let file = cases(
        &pinion,
        "id: s\ncases: [{id: a, prompt: go, replay: replies.jsonl, expect: {answer: {exact: right}}}]\n",
    );
    let canary = |more: &[&str]| pinion.run(["eval", "canary", "--check", file.as_str()].iter().chain(more));
    let first = canary(&[]);
    assert!(first.code == Some(0) && first.stderr.contains("is the baseline"), "{first:?}");
    let models = canary(&["--model", "replay/a", "--model", "replay/b", "--format", "json"]);
    assert_eq!(models.code, Some(0), "{models:?}");
    let row: Value = serde_json::from_str(&models.stdout).unwrap();
    assert_eq!((row["change"].as_str(), row["model"].is_null()), (Some("same"), true), "{models:?}");
    std::fs::write(&script, say("wrong").to_string()).unwrap();
    let worse = canary(&[]);
    assert_error(&worse, 1, &["1 case worse, 0 dearer"]);
    assert!(worse.stdout.contains("worse") && worse.stderr.contains("1 case changed against result"), "{worse:?}");
    let version = pinion_tests::binary();
    let versions = canary(&["--program", version.to_str().unwrap(), "--program", version.to_str().unwrap()]);
    assert!(versions.code == Some(0) && versions.stdout.contains("same"), "{versions:?}");
}

#[test]
fn case_begins_with_a_session_or_a_plan_and_has_an_environment() {
    let pinion = Pinion::default();
    let first = pinion.script(&[say("first")]);
    let session = pinion.home().join("first.jsonl");
    let ended =
        pinion.run(["-p", "--session", session.to_str().unwrap(), "--replay", first.to_str().unwrap(), "remember"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let step = |title: &str| json!({ "title": title, "description": "d", "files": [], "acceptance": ["a"] });
    let planned = json!({ "title": "T", "summary": "s", "steps": [step("One"), step("Two")] });
    let script = pinion.script(&[call("final_answer", planned)]);
    let ended = pinion.run(["--replay", script.to_str().unwrap(), "--plan", "--plan-file", "plan.md", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    std::fs::create_dir(pinion.home().join("planned")).unwrap();
    std::fs::rename(pinion.workspace().join("plan.md"), pinion.home().join("planned/plan.md")).unwrap();
    let done = |done: bool| call("final_answer", json!({ "done": done, "report": "r" })).to_string();
    pinion.write("../second.jsonl", say("second").to_string());
    pinion.write("../steps.jsonl", format!("{}\n{}\n", done(true), done(true)));
    pinion.write("../stopped.jsonl", format!("{}\n{}\n", done(true), done(false)));
    pinion.write(
        "../shown.jsonl",
        format!("{}\n{}\n", call("bash", json!({ "command": "echo set-$GREETING" })), say("x")),
    );
    let plan = |id: &str, script: &str| {
        format!(
            "  - {{id: {id}, execute: plan.md, replay: {script}, workspace: {{directory: '{}'}}, expect: {{plan-followed: true}}}}\n",
            pinion.home().join("planned").display()
        )
    };
    let text = format!(
        "id: s\ngate: {{pass-rate: 0}}\ncases:\n  \
         - {{id: resumed, prompt: next, resume: '{}', replay: second.jsonl, expect: {{answer: {{exact: second}}, budget: {{turns: 1}}}}}}\n{}{}  \
         - {{id: environment, prompt: go, replay: shown.jsonl, environment: {{GREETING: hi}}, expect: {{results: {{contain: [set-]}}}}}}\n",
        session.display(),
        plan("planned", "steps.jsonl"),
        plan("stopped", "stopped.jsonl")
    );
    let kept = pinion.home().join("kept");
    let ended = run(&pinion, &cases(&pinion, &text), &["--format", "json", "--keep", kept.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let verdicts: Vec<_> = result["trials"].as_array().unwrap().iter().map(|trial| trial["verdict"].as_str()).collect();
    assert_eq!(verdicts, [Some("passed"), Some("passed"), Some("failed"), Some("passed")], "{result:#}");
    let session = std::fs::read_to_string(kept.join("resumed-0-1/session.jsonl")).unwrap();
    assert!(session.contains("remember") && session.contains("second"), "{session}");
    let metrics = result["trials"][2]["metrics"].as_array().unwrap();
    let plan = metrics.iter().find(|metric| metric["evaluator"] == "plan").unwrap();
    assert_eq!((plan["value"].as_f64(), plan["findings"][0].as_str()), (Some(0.5), Some("step 2 failed: Two")));
}

#[test]
fn tool_of_a_plugin_scores_a_trial() {
    let pinion = Pinion::default();
    pinion.write("../replies.jsonl", say("x").to_string());
    pinion.config("[plugins.echo.grants]\nfiles = { \".\" = \"read\" }\n");
    std::fs::copy(guest("echo"), pinion.home().join("../judge.wasm")).unwrap();
    let case = |id: &str, tool: &str, message: &str| {
        format!(
            "  - {{id: {id}, prompt: go, replay: replies.jsonl, expect: {{functions: \
             [{{plugin: ./judge.wasm, tool: {tool}, threshold: 0.5, arguments: {{message: '{message}'}}}}]}}}}\n"
        )
    };
    let text = format!(
        "id: s\ncases:\n{}{}{}",
        case("good", "echo", "0.5"),
        case("bad", "echo", r#"{"score":0.25,"finding":"thin"}"#),
        case("broken", "fail", "no")
    );
    let ended = run(&pinion, &cases(&pinion, &text), &[]);
    assert_error(&ended, 1, &["pass-rate is 0.333"]);
    for part in
        ["bad, trial 1: functions: `echo` of the plugin", "scored 0.25: thin", "broken, trial 1: functions: `fail`"]
    {
        assert!(ended.stdout.contains(part), "`{part}` is not in {ended:?}");
    }
}

/// Tasks of Harbor come from a set, and the results of its job become a result.
#[test]
fn set_is_exported_to_harbor_and_a_job_is_imported() {
    let pinion = Pinion::default();
    let file = cases(
        &pinion,
        "id: s\ncases:\n  - {id: a, prompt: Fix it., workspace: {files: {x: one}}, expect: {files: {equal: {x: two}}, authority: []}}\n  \
         - {id: b, prompt: Say it., expect: {answer: {exact: x}}}\n",
    );
    let tasks = pinion.home().join("tasks");
    let exported = pinion.run(["eval", "export", "--harbor", tasks.to_str().unwrap(), &file]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    for part in ["wrote 1 task", "case `a` has no authority in Harbor", "case `b` was left out"] {
        assert!(exported.stderr.contains(part), "`{part}` is not in {exported:?}");
    }
    assert_eq!(std::fs::read_to_string(tasks.join("a/environment/workspace/x")).unwrap(), "one");
    let job = pinion.home().join("job");
    std::fs::create_dir_all(job.join("a__1")).unwrap();
    let trial = json!({ "task_name": "a", "verifier_result": { "rewards": { "reward": 0.5 } } });
    std::fs::write(job.join("a__1/result.json"), trial.to_string()).unwrap();
    let imported = pinion.run(["eval", "import", "--set", "s", job.to_str().unwrap()]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(imported.stdout.contains("a, trial 1: reward: the reward is 0.5"), "{imported:?}");
    assert_eq!(pinion.run(["eval", "verify"]).code, Some(0));
    assert_error(&pinion.run(["eval", "import", tasks.to_str().unwrap()]), 2, &["is not a job of Harbor"]);
}

/// Authors learn how often a model calls their tool, for each phrasing of a request.
#[test]
fn model_is_tested_on_phrasings_of_requests_for_a_plugin() {
    let pinion = Pinion::default();
    let build = "[build]\nsteps = [['cp', 'source.wasm', 'build/out.wasm']]\noutput = 'build/out.wasm'\n";
    pinion.write("p/pinion-plugin.toml", format!("name = 'tested'\nversion = '0.1.0'\n{build}"));
    pinion.write("p/source.wasm", std::fs::read(guest("echo")).unwrap());
    pinion.write("p/tests/right.jsonl", format!("{}\n{}\n", call("echo", json!({ "message": "hi" })), say("hi")));
    pinion.write("p/tests/wrong.jsonl", say("hi").to_string());
    let requests = "requests: [{tool: echo, phrasings: [Repeat hi., Say hi.], replay: [right.jsonl, wrong.jsonl], arguments: {message: hi}}]\n";
    pinion.write("p/tests/prompts.yaml", requests);
    let test = |more: &[&str]| pinion.run(["plugin", "test", "p", "--model", "replay/m"].iter().chain(more));
    let ended = test(&[]);
    assert_error(&ended, 1, &["pass-rate is 0.500, at least 1 expected"]);
    assert!(ended.stdout.contains("echo-1-2 with replay/m, trial 1: tools:"), "{ended:?}");
    pinion.write("p/tests/prompts.yaml", format!("pass-rate: 0.5\n{requests}"));
    let ended = test(&["--trials", "2"]);
    assert!(ended.code == Some(0) && ended.stderr.contains("called in 2 of 4 trials"), "{ended:?}");
    std::fs::remove_file(pinion.workspace().join("p/tests/prompts.yaml")).unwrap();
    assert_error(&test(&[]), 2, &["prompts.yaml`", "hint: list requests in it"]);
}

#[test]
fn calls_of_a_session_are_repeated_with_versions_of_a_plugin() {
    let pinion = Pinion::default();
    pinion.config("journal = \"on\"\n");
    let session = pinion.home().join("recorded.jsonl");
    let script = pinion.script(&[call("greet", json!({})), say("done")]);
    let (one, two) = (guest("greet_one"), guest("greet_two"));
    let arguments = ["-p", "--approve", "all", "--plugin", one.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(arguments.iter().chain(&["--session", session.to_str().unwrap(), "go"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expect = format!("expect: {{recorded-calls: {{with: {}}}}}", one.display());
    let text = format!("id: s\ncases: [{{id: a, session: {}, {expect}}}]\n", session.display());
    let file = cases(&pinion, &text);
    let same = run(&pinion, &file, &[]);
    assert_eq!(same.code, Some(0), "{same:?}");
    let changed = run(&pinion, &file, &["--with", two.to_str().unwrap()]);
    assert!(changed.code == Some(1) && changed.stdout.contains("differs: result, - "), "{changed:?}");
    // A directory without a journal.
    std::fs::remove_dir_all(session.with_extension("")).unwrap();
    let broken = run(&pinion, &file, &["--format", "json"]);
    assert!(broken.code == Some(1) && broken.stdout.contains("has no journal"), "{broken:?}");
}

/// The journal does not record sockets. Their calls are not the same, and the result names them even if it passes.
#[test]
fn repeated_calls_that_use_sockets_differ() {
    let pinion = Pinion::default();
    pinion.config("journal = \"on\"\n");
    let session = pinion.home().join("recorded.jsonl");
    let script = pinion.script(&[call("connect", json!({ "path": "127.0.0.1:9" })), say("done")]);
    let plugin = guest("hostile");
    let arguments = ["-p", "--approve", "all", "--plugin", plugin.to_str().unwrap(), "--replay"];
    let more = [script.to_str().unwrap(), "--session", session.to_str().unwrap(), "go"];
    let ended = pinion.run(arguments.iter().chain(&more));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expect = "evaluators: [recorded-calls], expect: {recorded-calls: {threshold: 0}}";
    let text = format!("id: s\ncases: [{{id: a, session: {}, {expect}}}]\n", session.display());
    let ended = run(&pinion, &cases(&pinion, &text), &["--with", plugin.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let differs = ended.stdout.lines().find(|line| line.contains("differs: import")).unwrap_or_default();
    assert!(differs.contains("wasi:sockets/") && ended.stdout.contains(" not replayable"), "{ended:?}");
}
