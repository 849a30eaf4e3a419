//! Denials without a question are reported, steps with denials are not done, and results survive a kill.

#[cfg(target_os = "linux")]
use pinion_tests::Terminal;
use pinion_tests::{Ended, Pinion, say};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

const PLAN: &str = "plan.md";

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "calls": [{ "tool": tool, "arguments": arguments }], "usage": { "input": 10, "output": 5 } })
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

fn report(done: bool, text: &str) -> Value {
    call("final_answer", json!({ "done": done, "report": text }))
}

fn run(pinion: &Pinion, replies: &[Value], arguments: &[&str]) -> Ended {
    let script = pinion.script(replies);
    let mode: &[&str] = if arguments.contains(&"--approve") { &[] } else { &["--approve", "edits"] };
    pinion.run(["--replay", script.to_str().unwrap()].iter().chain(mode).chain(arguments))
}

fn last(ended: &Ended) -> Value {
    serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap()
}

fn tools(result: &Value) -> Vec<&str> {
    result["denied"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap()).collect()
}

#[test]
fn denial_is_reported_once_per_tool_and_exits_4() {
    let pinion = Pinion::default();
    let write = call("write", json!({ "path": "a.txt", "content": "x" }));
    let ended = run(
        &pinion,
        &[bash("touch made"), bash("touch too"), write, say("I may not.")],
        &["-p", "--approve", "ask", "go"],
    );
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "I may not.\n"), "{}", ended.stderr);
    let hint = "or every call with --approve all";
    for part in ["! denied `bash`: ", "! denied `write`: ", "error: 3 calls were denied", hint] {
        assert!(ended.stderr.contains(part), "no {part:?} in {}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("! denied `bash`").count(), 1, "{}", ended.stderr);
    assert!(!pinion.workspace().join("made").exists());
}

#[test]
fn denial_of_a_reading_call_first_offers_the_mode_that_allows_it() {
    let read = call("read", json!({ "path": "a.txt" }));
    let ended = run(&Pinion::default(), &[read, say("no")], &["-p", "--approve", "ask", "go"]);
    let hint = ended.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    let at = |mode: &str| hint.find(mode).unwrap();
    assert!(ended.code == Some(4) && at("--approve smart") < at("--approve all"), "{ended:?}");
}

#[test]
fn quiet_run_still_reports_denials() {
    let ended = run(&Pinion::default(), &[bash("touch a"), say("no")], &["-p", "-q", "go"]);
    assert_eq!(ended.code, Some(4));
    assert!(
        ended.stderr.starts_with("error: 1 call was denied") && ended.stderr.contains("`bash`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn denials_appear_in_json_and_stream_json() {
    for format in ["json", "stream-json"] {
        let arguments = ["-p", "--output-format", format, "go"];
        let ended = run(&Pinion::default(), &[bash("touch a"), bash("touch b"), say("no")], &arguments);
        let result = last(&ended);
        assert_eq!((ended.code, tools(&result)), (Some(4), vec!["bash", "bash"]), "{format}");
        assert_eq!((&result["stop_reason"], &result["error"]), (&json!("stop"), &Value::Null), "{format}");
        assert!(result["denied"][0]["reason"].as_str().unwrap().contains("--approve all"), "{result}");
        if format == "stream-json" {
            let is_resolved = |line: &&str| line.contains("\"approval_resolved\"");
            let resolved: Value = serde_json::from_str(ended.stdout.lines().find(is_resolved).unwrap()).unwrap();
            assert_eq!(resolved["allowed"], json!(false));
            assert!(resolved["unanswered"].is_string(), "{resolved}");
        }
    }
}

#[test]
fn run_without_denials_exits_0() {
    let arguments = ["-p", "--output-format", "json", "--approve", "all", "go"];
    let ended = run(&Pinion::default(), &[bash("touch a"), say("done")], &arguments);
    assert_eq!((ended.code, &last(&ended)["denied"]), (Some(0), &json!([])), "{}", ended.stderr);
    // The model's mistakes and a plugin's own errors are not denials.
    let wrong = [call("no_such_tool", json!({})), call("read", json!({ "path": "/etc/passwd" })), say("done")];
    let ended = run(&Pinion::default(), &wrong, &["-p", "--approve", "smart", "--output-format", "json", "go"]);
    assert_eq!((ended.code, &last(&ended)["denied"]), (Some(0), &json!([])), "{}", ended.stderr);
}

#[test]
fn failed_run_keeps_its_exit_status_and_reports_denials() {
    let arguments = ["-p", "--output-format", "json", "--max-turns", "2", "go"];
    let limited = run(&Pinion::default(), &[bash("touch a"), bash("touch c"), say("no")], &arguments);
    assert_eq!((limited.code, tools(&last(&limited))), (Some(3), vec!["bash", "bash"]));
    // The script is over: an error of the provider.
    let failed = run(&Pinion::default(), &[bash("touch a")], &["-p", "--output-format", "json", "go"]);
    assert_eq!((failed.code, tools(&last(&failed))), (Some(1), vec!["bash"]), "{}", failed.stderr);
}

#[test]
fn approve_ask_denies_reads_in_headless_runs() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    let replies = [call("read", json!({ "path": "a.txt" })), say("no")];
    let ended = run(&pinion, &replies, &["-p", "--approve", "ask", "go"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("! denied `read`"), "{}", ended.stderr);
}

#[test]
fn denials_of_a_sub_agent_are_reported() {
    let replies = [call("task", json!({ "prompt": "do it" })), bash("touch a"), say("I may not."), say("It may not.")];
    let ended = run(&Pinion::default(), &replies, &["-p", "--output-format", "json", "go"]);
    assert_eq!((ended.code, tools(&last(&ended))), (Some(4), vec!["bash"]), "{}", ended.stderr);
}

#[test]
fn denials_of_a_branch_are_reported() {
    let pinion = Pinion::default();
    pinion.config("[branches]\nattempts = 2\nchoose = \"first\"\nwrite = true\n");
    let ended = run(&pinion, &[bash("touch a"), bash("touch a"), say("a"), say("b")], &["-p", "go"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
}

fn plan(pinion: &Pinion) -> std::path::PathBuf {
    pinion.write(PLAN, "# Fix\n\n## First\nStatus: open\n\n## Second\nStatus: open\n")
}

fn statuses(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("Status: ")).map(str::to_owned).collect()
}

#[test]
fn step_with_denied_calls_is_not_done() {
    for claim in [true, false] {
        let pinion = Pinion::default();
        let file = plan(&pinion);
        let replies = [bash("touch made"), report(claim, "All is well."), report(true, "never")];
        let ended = run(&pinion, &replies, &["--execute", PLAN, "--output-format", "json"]);
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert_eq!(statuses(&file), ["failed", "open"], "claim {claim}");
        let result = last(&ended);
        assert_eq!((tools(&result), &result["steps"][0]["status"]), (vec!["bash"], &json!("failed")));
        assert_eq!(result["steps"].as_array().unwrap().len(), 1);
        for part in ["step 1 of 2, `First`, is not done", "no one could be asked", "`bash`", "hint: "] {
            assert!(ended.stderr.contains(part), "no {part:?} in {}", ended.stderr);
        }
        assert!(!pinion.workspace().join("made").exists());
    }
}

#[test]
fn step_with_denied_sub_agent_calls_is_not_done() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let replies =
        [call("task", json!({ "prompt": "do it" })), bash("touch a"), say("Done."), report(true, "The agent did it.")];
    let ended = run(&pinion, &replies, &["--execute", PLAN]);
    assert_eq!((ended.code, statuses(&file)), (Some(4), vec!["failed".into(), "open".into()]), "{}", ended.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn executing_a_plan_on_a_terminal_asks() {
    for (key, code, expected, is_made) in [("y", 0, ["done", "done"], true), ("n", 1, ["failed", "open"], false)] {
        let pinion = Pinion::default();
        let file = plan(&pinion);
        let script = pinion.script(&[bash("touch made"), report(true, "Done."), report(true, "Done.")]);
        let command = pinion.command(["--approve", "ask", "--replay", script.to_str().unwrap(), "--execute", PLAN]);
        let mut terminal = Terminal::start(&command, (80, 24), "");
        terminal.wait_for("always in this session");
        terminal.keys(key);
        let (status, shown) = terminal.end();
        assert_eq!((status, pinion.workspace().join("made").exists()), (Some(code), is_made), "{shown}");
        assert_eq!(statuses(&file), expected, "{shown}");
    }
}

#[test]
fn kill_during_a_call_keeps_earlier_results() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "what the first call read");
    let calls = json!({ "calls": [
        { "tool": "read", "arguments": { "path": "a.txt" } },
        { "tool": "bash", "arguments": { "command": "sleep 600" } },
    ] });
    let script = pinion.script(&[calls]);
    let file = pinion.home().join("s.jsonl");
    let session = ["--session", file.to_str().unwrap()];
    let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", script.to_str().unwrap()];
    let mut child = pinion.start(arguments.iter().chain(&session).chain(&["go"]));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"tool_execution_end\"") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("what the first call read"), "{kept}");
    let next = pinion.script(&[say("going on")]);
    let next = ["-p", "--replay", next.to_str().unwrap()];
    let ended = pinion.run(next.iter().chain(&session).chain(&["go on"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "going on\n"), "{}", ended.stderr);
    let results = |text: &str| text.matches("\"role\":\"tool_result\"").count();
    assert_eq!(results(&std::fs::read_to_string(&file).unwrap()), 2);
}
