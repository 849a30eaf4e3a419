//! Plan mode: planners are read-only, and steps run one by one in the plan's current state.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, guest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

const PLAN: &str = ".pinion/plans/fix-the-parser.md";

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "calls": [{ "tool": tool, "arguments": arguments }], "usage": { "input": 10, "output": 5 } })
}

fn planned() -> Value {
    let step = |title: &str| json!({ "title": title, "description": "As said.", "files": ["a.txt"], "acceptance": ["`a.txt` says so"] });
    let steps = [step("Find the bug"), step("Fix it"), step("Test it")];
    call("final_answer", json!({ "title": "Fix the parser", "summary": "It reads too far.", "steps": steps }))
}

fn report(done: bool, text: &str) -> Value {
    call("final_answer", json!({ "done": done, "report": text }))
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

fn scripted(pinion: &Pinion, replies: &[Value], arguments: &[&str]) -> Ended {
    let script = pinion.script(replies);
    pinion.run(["--replay", script.to_str().unwrap()].iter().chain(arguments))
}

/// Makes a plan of three steps.
fn plan(pinion: &Pinion) -> PathBuf {
    let ended = scripted(pinion, &[planned()], &["--plan", "fix it"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    pinion.workspace().join(PLAN)
}

fn execute(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    scripted(pinion, replies, &[&["--approve", "all", "--execute", PLAN], more].concat())
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn statuses(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("Status: ")).collect()
}

fn events(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns all files below a directory with their content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn plan_is_printed_and_saved_with_next_command() {
    let pinion = Pinion::default();
    let ended = scripted(&pinion, &[call("list", json!({ "path": "." })), planned()], &["--plan", "fix it"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, read(&pinion.workspace().join(PLAN)));
    assert!(
        ended.stdout.starts_with("# Fix the parser\n\nIt reads too far.\n\n## Step 1: Find the bug\nStatus: open\n")
    );
    assert_eq!(
        ended.stderr,
        format!(
            "wrote the plan to {PLAN}; review and edit it, then run\n  \
             pinion --execute {PLAN}\n"
        )
    );
}

#[test]
fn next_command_keeps_the_model_and_does_not_approve_all() {
    let pinion = Pinion::default();
    let arguments = ["--plan", "-m", "openai-chat/gpt-x", "--base-url", "http://localhost:1/v1", "fix it"];
    let ended = scripted(&pinion, &[planned()], &arguments);
    let command = format!("pinion -m openai-chat/gpt-x --base-url http://localhost:1/v1 --execute {PLAN}\n");
    assert!(ended.stderr.ends_with(&command), "{ended:?}");
}

#[test]
fn plan_overwrites_only_a_named_file() {
    let pinion = Pinion::default();
    let first = plan(&pinion);
    std::fs::write(&first, "mine").unwrap();
    plan(&pinion);
    assert_eq!(read(&first), "mine");
    assert!(read(&pinion.workspace().join(".pinion/plans/fix-the-parser-2.md")).starts_with("# Fix the parser\n"));
    let ended = scripted(&pinion, &[planned()], &["--plan", "--plan-file", PLAN, "-q", "fix it"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(read(&first), ended.stdout);
    assert_eq!(std::fs::read_dir(first.parent().unwrap()).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn json_output_of_a_plan_has_file_and_usage() {
    let pinion = Pinion::default();
    let said = json!({ "text": "It is the parser.", "usage": { "input": 10, "output": 5 } });
    let arguments = ["--plan", "--output-format", "stream-json", "fix it"];
    let ended = scripted(&pinion, &[said, planned()], &arguments);
    let events = events(&ended);
    let result = events.last().unwrap();
    let file = pinion.workspace().join(PLAN);
    assert_eq!((&result["plan"], &result["result"]), (&json!(file.to_str().unwrap()), &json!(read(&file))));
    // The reminder was a separate run.
    assert_eq!((&result["turns"], &result["usage"]["input"]), (&json!(2), &json!(20)));
    assert_eq!(events.iter().filter(|event| event["type"] == "agent_end").count(), 2);
    let made = &events[events.len() - 2];
    assert_eq!((&made["type"], &made["title"]), (&json!("plan_made"), &json!("Fix the parser")));
    let id = result["session_id"].as_str().unwrap();
    let exported = pinion.run(["session", "export", id, "--format", "markdown"]);
    assert!(exported.stdout.contains("Plan made, with 3 steps: Fix the parser"), "{exported:?}");
}

#[test]
fn planner_is_read_only_whatever_was_approved() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    let replies = [
        call("write", json!({ "path": "a.txt", "content": "changed" })),
        call("edit", json!({ "path": "a.txt", "old": "hello", "new": "changed" })),
        bash("echo changed > a.txt"),
        // The same plugin may write, by its grant.
        call("read", json!({ "path": "a.txt" })),
        planned(),
    ];
    let arguments = ["--plan", "--approve", "all", "--output-format", "stream-json", "fix it"];
    let ended = scripted(&pinion, &replies, &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let results: Vec<String> = events(&ended)
        .iter()
        .filter(|event| event["type"] == "message_end" && event["message"]["role"] == "tool_result")
        .map(|event| event["message"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    for result in &results[..3] {
        assert!(result.starts_with("Denied: in plan mode, only tools that read can be called"), "{result}");
    }
    assert!(results[3].contains("hello"), "{results:?}");
    let changed: Vec<PathBuf> = files(&pinion.workspace()).into_keys().collect();
    assert_eq!(changed, [pinion.workspace().join(PLAN), pinion.workspace().join("a.txt")]);
    assert_eq!(read(&pinion.workspace().join("a.txt")), "hello");
}

#[test]
fn sub_agents_of_a_planner_are_read_only() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    pinion.config("[plugins.delegator.grants]\nagents = true\n");
    let tries = |tool: &str| {
        [
            call(tool, json!({ "prompt": "change it" })),
            call("write", json!({ "path": "a.txt", "content": "changed" })),
            bash("echo changed > a.txt"),
            call("read", json!({ "path": "a.txt" })),
            json!({ "text": format!("{tool} cannot change it.") }),
        ]
    };
    let replies: Vec<Value> = [tries("task"), tries("delegate"), tries("delegate_reading")].concat();
    let replies = [replies, vec![planned()]].concat();
    let plugin = guest("delegator");
    let arguments = ["--plan", "--approve", "all", "--plugin", plugin.to_str().unwrap(), "-v", "fix it"];
    let ended = scripted(&pinion, &replies, &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parts = ["✗ Denied: in plan mode, only tools that read can be called", "● read a.txt"];
    for part in (1..=3).flat_map(|number| parts.map(|part| format!("{number}│ {part}"))) {
        assert!(ended.stderr.contains(&part), "`{part}` is not in {}", ended.stderr);
    }
    for tool in ["task", "delegate", "delegate_reading"] {
        assert!(ended.stderr.contains(&format!("{tool} cannot change it.")), "{}", ended.stderr);
    }
    assert_eq!(read(&pinion.workspace().join("a.txt")), "hello");
}

#[test]
fn naming_tools_does_not_lift_plan_mode() {
    let pinion = Pinion::default();
    let replies = [call("write", json!({ "path": "b.txt", "content": "x" })), planned()];
    let ended = scripted(&pinion, &replies, &["--plan", "--approve", "all", "--tools", "write,bash", "fix it"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!pinion.workspace().join("b.txt").exists());
}

#[test]
fn missing_plan_writes_nothing_and_is_reported() {
    let pinion = Pinion::default();
    let silent = [json!({ "text": "I would rewrite it." }), json!({ "text": "no" }), json!({ "text": "no" })];
    let ended = scripted(&pinion, &silent, &["--plan", "fix it"]);
    assert_error(&ended, 1, &["no valid answer in 3 attempts", "hint: stdout has what it wrote instead"]);
    assert_eq!(ended.stdout, "I would rewrite it.\n", "what the model wrote is kept");
    let endless = [call("list", json!({ "path": "." })), call("list", json!({ "path": "." }))];
    assert_error(&scripted(&pinion, &endless, &["--plan", "--max-turns", "1", "fix it"]), 3, &["limit of 1 turn"]);
    assert!(!pinion.workspace().join(".pinion").exists());
}

#[test]
fn steps_run_in_order_with_progress() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let replies = [
        call("write", json!({ "path": "a.txt", "content": "1" })),
        report(true, "Found."),
        bash("printf 2 >> a.txt"),
        report(true, "Fixed."),
        bash("printf 3 >> a.txt"),
        report(true, "Tested."),
    ];
    let ended = execute(&pinion, &replies, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.stderr,
        "step 1 of 3: Find the bug … done\nstep 2 of 3: Fix it … done\nstep 3 of 3: Test it … done\n"
    );
    assert_eq!(
        ended.stdout,
        "## Step 1: Find the bug\n\nFound.\n\n## Step 2: Fix it\n\nFixed.\n\n## Step 3: Test it\n\nTested.\n"
    );
    assert_eq!(statuses(&read(&file)), ["done", "done", "done"]);
    assert_eq!(read(&pinion.workspace().join("a.txt")), "123");
    let sessions = files(&pinion.home().join("sessions"));
    let kept = |text: &str| sessions.values().map(|bytes| String::from_utf8_lossy(bytes).matches(text).count()).sum();
    assert_eq!((kept(r#""status":"running"}"#), kept(r#""title":"Fix it","status":"done"}"#)), (3_usize, 1_usize));
    let again = execute(&pinion, &[], &[]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
    assert_eq!(again.stderr, format!("nothing to do: all 3 steps of `{PLAN}` are done\n"));
}

#[test]
fn executor_sees_the_plan_but_not_the_planning() {
    let pinion = Pinion::default();
    let said = json!({ "text": "A word of the planner.", "calls": [{ "tool": "list", "arguments": { "path": "." } }] });
    assert_eq!(scripted(&pinion, &[said, planned()], &["--plan", "a secret wish"]).code, Some(0));
    let replies = [report(true, "a"), report(true, "b"), report(true, "c")];
    let ended = execute(&pinion, &replies, &["--output-format", "stream-json"]);
    let events = events(&ended);
    let named: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((named[0], named[1]), ("plan_step", "agent_start"));
    let prompt = events.iter().find(|event| event["message"]["role"] == "user").unwrap()["message"].to_string();
    assert!(prompt.contains("It reads too far.") && prompt.contains("Do step 1 of 3 now: Find the bug"), "{prompt}");
    assert!(!ended.stdout.contains("A word of the planner") && !ended.stdout.contains("a secret wish"), "{ended:?}");
    let progress: Vec<String> = events
        .iter()
        .filter(|event| event["type"] == "plan_step")
        .map(|event| format!("{} of {}: {} {}", event["step"], event["steps"], event["title"], event["status"]))
        .collect();
    assert_eq!(progress[..2], [r#"1 of 3: "Find the bug" "running""#, r#"1 of 3: "Find the bug" "done""#]);
    assert_eq!(progress.len(), 6);
    let result = events.last().unwrap();
    assert_eq!(result["steps"][2], json!({ "step": 3, "title": "Test it", "status": "done", "report": "c" }));
    assert_eq!(result["plan"], json!(pinion.workspace().join(PLAN).to_str().unwrap()));
    assert_eq!(pinion.run(["session", "list"]).stdout.lines().count(), 2, "one for the plan, one for its execution");
}

#[test]
fn failed_step_stops_and_next_execution_resumes_there() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let stopped = execute(&pinion, &[report(true, "Found."), report(false, "The disk is full.")], &[]);
    assert_error(
        &stopped,
        1,
        &["step 2 of 3: Fix it … failed", "step 2 of 3, `Fix it`, is not done: The disk is full."],
    );
    assert!(stopped.stderr.contains(&format!("hint: `pinion --execute {PLAN}` continues")), "{stopped:?}");
    assert_eq!(stopped.stdout, "## Step 1: Find the bug\n\nFound.\n");
    assert_eq!(statuses(&read(&file)), ["done", "failed", "open"]);
    let replies = [report(true, "Fixed."), report(true, "Tested.")];
    let ended = execute(&pinion, &replies, &["--output-format", "stream-json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let prompt = ended.stdout.lines().find(|line| line.contains("Do step 2 of 3 now")).unwrap();
    assert!(prompt.contains("attempted before and failed") && !ended.stdout.contains("Do step 1"), "{prompt}");
    assert_eq!(statuses(&read(&file)), ["done", "done", "done"]);
}

#[test]
fn approval_and_limits_apply_to_each_step() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let replies = [bash("touch made"), report(false, "It was denied.")];
    let denied = scripted(&pinion, &replies, &["--approve", "ask", "--execute", PLAN]);
    assert_error(&denied, 4, &["It was denied.", "or every call with --approve all", "no one could be asked"]);
    assert!(!pinion.workspace().join("made").exists());
    let replies = [bash("true"), report(true, "ok"), bash("true"), bash("true 2"), report(true, "never")];
    let limited = execute(&pinion, &replies, &["--max-turns", "2"]);
    assert_error(&limited, 3, &["step 1 of 3: Find the bug … done", "limit of 2 turns"]);
    assert_eq!(statuses(&read(&file)), ["done", "failed", "open"]);
}

#[test]
fn user_edits_during_a_step_are_kept_byte_for_byte() {
    let pinion = Pinion::default();
    let before =
        "\u{feff}# Mine\r\n\r\nWhy\\: so.  \r\n## First\r\nStatus:   OPEN\r\n\tDo  it.\r\n## Second\r\nNot this.\r\n";
    let file = pinion.write(PLAN, before);
    // Simulates an editor during the first step, which no sandbox keeps from plans: inserts a step before it and replaces the second.
    let after = "\u{feff}# Mine\r\n\r\nWhy\\: so.  \r\n## New\r\nStatus: done\r\n## First\r\nStatus: running\r\n\tDo  it.\r\n\
                 ## Second\r\nBut this.  \r\n\r\n```\nStatus: open\n```";
    pinion.write("after.md", after);
    let replies = [bash(&format!("cp {PLAN} seen.md; cp after.md {PLAN}")), report(true, "1"), report(true, "2")];
    let ended = execute(&pinion, &replies, &["--no-sandbox", "--output-format", "stream-json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(read(&pinion.workspace().join("seen.md")), before.replace("Status:   OPEN", "Status: running"));
    let second = ended.stdout.lines().find(|line| line.contains("Do step 3 of 3 now: Second")).unwrap();
    assert!(second.contains("But this.") && !second.contains("Not this."), "{second}");
    let expected =
        after.replace("Status: running", "Status: done").replace("## Second\r\n", "## Second\r\nStatus: done\r\n");
    assert_eq!(read(&file), expected);
}

#[test]
fn plan_broken_during_a_step_is_reported_and_kept() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let replies = [bash(&format!("printf '## a\\nStatus: perhaps\\n' > {PLAN}")), report(true, "ok")];
    let ended = execute(&pinion, &replies, &["--no-sandbox"]);
    assert_error(&ended, 2, &["step 1, `Find the bug`, is done", "line 2: unknown status `perhaps`"]);
    assert_eq!(read(&file), "## a\nStatus: perhaps\n");
}

#[test]
fn interrupted_step_stays_running_and_next_executor_knows() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    let script = pinion.script(&[bash("sleep 600")]);
    let arguments =
        ["--replay", script.to_str().unwrap(), "--approve", "all", "--output-format", "stream-json", "--execute", PLAN];
    let mut child = pinion.start(arguments);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("tool_execution_start") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    out.read_to_string(&mut line).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    assert!(stderr.starts_with("step 1 of 3: Find the bug … interrupted\nerror: interrupted\nhint:"), "{stderr}");
    assert_eq!(statuses(&read(&file)), ["running", "open", "open"]);
    let ended = execute(&pinion, &[report(false, "no")], &["--output-format", "stream-json"]);
    let prompt = ended.stdout.lines().find(|line| line.contains("Do step 1 of 3 now")).unwrap();
    assert!(prompt.contains("started before and interrupted, so it may be partly done"), "{prompt}");
}

#[test]
fn invalid_plan_files_are_reported() {
    let pinion = Pinion::default();
    let executed = |path: &str| pinion.run(["--execute", path]);
    assert_error(&executed("no.md"), 2, &["could not read the plan `no.md`", "hint: create one with `pinion --plan"]);
    assert_error(&executed("."), 2, &["it is a directory"]);
    pinion.write("a.md", "# Only words\n");
    assert_error(&executed("a.md"), 2, &["invalid plan `a.md`: the plan has no steps", "## Step 1"]);
    pinion.write("a.md", "## a\nStatus: maybe \x1b[2J\n");
    assert_error(&executed("a.md"), 2, &["line 2: unknown status `maybe \\u{1b}[2J`", "write `open`"]);
    pinion.write("a.md", "## a\n```\n## b\n");
    assert_error(&executed("a.md"), 2, &["line 2: unclosed code fence"]);
    pinion.write("a.md", [0xff, 0xfe]);
    assert_error(&executed("a.md"), 2, &["not UTF-8"]);
    pinion.write("a.md", "#".repeat(2_000_000));
    assert_error(&executed("a.md"), 2, &["larger than 1048576 bytes"]);
}

#[test]
fn conflicting_options_are_reported() {
    let pinion = Pinion::default();
    let file = plan(&pinion);
    for options in [&["--plan"][..], &["-c"], &["--resume", "x"], &["--fork", "x"], &["and", "words"]] {
        assert_error(&pinion.run([&["--execute", PLAN], options].concat()), 2, &["cannot be used with"]);
    }
    assert_error(&pinion.run(["--plan-file", "x.md", "words"]), 2, &["--plan"]);
    assert_error(&pinion.run(["--plan"]), 2, &["no prompt"]);
    assert_error(&pinion.run(["--plan", "--plan-file", ".", "x"]), 2, &["it is a directory"]);
    let session = pinion.home().join("s.jsonl");
    let session = ["--session", session.to_str().unwrap()];
    assert_eq!(scripted(&pinion, &[json!({ "text": "hi" })], &[&session[..], &["-p", "hi"]].concat()).code, Some(0));
    assert_error(&execute(&pinion, &[report(true, "x")], &session), 2, &["the session is not empty"]);
    assert_eq!(statuses(&read(&file)), ["open", "open", "open"]);
}
