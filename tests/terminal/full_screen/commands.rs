//! Slash commands, shell commands of the user, plans and side questions.

use crate::terminal::full_screen::{SIZE, bash, conversation, last_session, main_screen};
use pinion_tests::{Pinion, Terminal, guest, say};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn commands_of_plugins_work() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/help\r");
    terminal.wait_for("/compact [focus");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn command_of_the_user_runs_and_reaches_the_model_with_the_next_message() {
    let pinion = Pinion::default();
    std::fs::write(pinion.workspace().join("found-by-ls"), "").unwrap();
    let mut terminal = conversation(&pinion, &[say("finished"), say("understood")], "");
    terminal.wait_for("finished");
    terminal.keys("!ls\r");
    terminal.wait_for("found-by-ls");
    terminal.keys("!!echo private-$((1 + 1))\r");
    terminal.wait_for("private-2");
    terminal.keys("what is there?\r");
    terminal.wait_for("understood");
    assert_eq!(terminal.exit().0, Some(0));
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = pinion.run(["session", "show", &id]).stdout;
    assert!(session.contains("I ran this command") && session.contains("found-by-ls"), "{session}");
    assert!(!session.contains("private-2"), "{session}");
}

fn answer(arguments: &Value) -> Value {
    json!({ "calls": [{ "tool": "final_answer", "arguments": arguments }] })
}

/// Returns the answer of a planner: two steps.
fn plan() -> Value {
    let step =
        |title: &str| json!({ "title": title, "description": "As said.", "files": [], "acceptance": ["It works."] });
    answer(&json!({ "title": "Fix it", "summary": "Short.", "steps": [step("Look"), step("Change")] }))
}

#[test]
fn plan_is_made_and_executed_in_the_conversation() {
    let report = |text: &str| answer(&json!({ "done": true, "report": text }));
    let pinion = Pinion::default();
    let replies = [say("finished"), plan(), report("looked"), report("changed")];
    let mut terminal = conversation(&pinion, &replies, "");
    terminal.wait_for("finished");
    // Only the part of a hint that differs from the previous one is drawn.
    for mode in ["smart", "edits", "plan mode"] {
        terminal.keys("\x1b[Z");
        terminal.wait_for(mode);
    }
    terminal.keys("fix it\r");
    // Keys count once the list says how many choices there are.
    terminal.wait_for_then("execute the plan", "4 of 4");
    terminal.keys("\r");
    terminal.wait_for("all steps of");
    let plan = std::fs::read_to_string(pinion.workspace().join(".pinion/plans/fix-it.md")).unwrap();
    assert_eq!(plan.matches("Status: done").count(), 2, "{plan}");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("step 2 of 2: Change: done"), "{seen}");
    assert!(pinion.run(["session", "list"]).stdout.contains("plan: Fix it"));
}

#[test]
fn invalid_edit_of_a_plan_is_continued() {
    let pinion = Pinion::default();
    // The first edit breaks the plan, and the second one finds that text.
    let editor = "#!/bin/sh\nif grep -q broken \"$1\"; then echo '## Fixed' > \"$1\"; else echo broken > \"$1\"; fi\n";
    let editor = pinion.write("../editor", editor);
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).unwrap();
    let script = pinion.script(&[say("finished"), plan()]);
    let mut command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    command.env("EDITOR", editor);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("finished");
    terminal.keys("/plan fix it\r");
    terminal.wait_for_then("execute the plan", "4 of 4");
    terminal.keys("\x1b[B\r");
    terminal.wait_for_then("the plan has no steps", "4 of 4");
    terminal.keys("\r");
    terminal.wait_for_then("Fixed", "4 of 4");
    assert_eq!(std::fs::read_to_string(pinion.workspace().join(".pinion/plans/fix-it.md")).unwrap(), "## Fixed\n");
    terminal.keys("\x1b");
    terminal.wait_for("executes the plan");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn context_and_copies_are_shown() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/context\r");
    terminal.wait_for("your messages");
    terminal.keys("/copy\r");
    // The base64 form of the answer.
    terminal.wait_for("\x1b]52;c;ZmluaXNoZWQ=\x07");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn side_question_is_answered_while_the_agent_works_and_leaves_no_trace() {
    let pinion = Pinion::default();
    pinion.config("approve = \"all\"\n");
    let calls = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "touch used" } }] });
    let replies = [
        bash("until [ -e go ]; do sleep 0.05; done"),
        json!({ "text": "because it is green", "usage": { "input": 4_000, "output": 321 } }),
        calls,
        say("finished"),
        say("later"),
    ];
    let script = pinion.script(&replies);
    let command = pinion.default_command(["--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/btw why is it so?\r");
    terminal.wait_for("because it is green");
    // A model that still calls a tool gets no tool.
    terminal.keys("/btw use a tool\r");
    terminal.wait_for("no answer without tools");
    pinion.write("go", "");
    terminal.wait_for("finished");
    // Its cost counts.
    terminal.wait_for("4.3 k tokens");
    terminal.keys("and now?\r");
    terminal.wait_for("later");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("because it is green"), "{seen}");
    let session = last_session(&pinion);
    assert!(session.contains("finished") && session.contains("later"), "{session}");
    assert!(
        !session.contains("green") && !session.contains("why is it") && !session.contains("touch used"),
        "{session}"
    );
    assert!(!pinion.workspace().join("used").exists());
}

#[test]
fn escape_cancels_a_command_of_a_plugin() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let loiter = guest("loiter");
    let arguments = ["--ui", "full", "--plugin", loiter.to_str().unwrap(), "--replay", script.to_str().unwrap(), "go"];
    let mut terminal = Terminal::start(&pinion.command(arguments), SIZE, "");
    terminal.wait_for("finished");
    terminal.keys("/linger\r");
    terminal.wait_for("running /linger");
    terminal.keys("\x1b");
    terminal.wait_for("cancelled");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn conversation_is_exported_in_the_format_of_the_extension() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("the answer")]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("lists commands");
    terminal.keys("/export\r");
    terminal.wait_for("there is no saved session to export");
    terminal.keys("the question\r");
    terminal.wait_for("the answer");
    for (argument, said) in [
        ("talk.txt", "no format is known for the extension of `talk.txt`"),
        ("talk.html", "wrote talk.html"),
        ("", "wrote pinion-"),
    ] {
        terminal.keys(&format!("/export {argument}\r"));
        terminal.wait_for(said);
    }
    assert_eq!(terminal.exit().0, Some(0));
    let files = std::fs::read_dir(pinion.workspace()).unwrap().map(|file| file.unwrap().path());
    let of = |ending: &str, files: Vec<std::path::PathBuf>| {
        let file = files.into_iter().find(|file| file.to_str().is_some_and(|name| name.ends_with(ending))).unwrap();
        std::fs::read_to_string(file).unwrap()
    };
    let files: Vec<_> = files.collect();
    let (page, text) = (of("talk.html", files.clone()), of(".md", files));
    assert!(page.starts_with("<!") && !text.starts_with('<'));
    assert!([page, text].iter().all(|document| document.contains("the question") && document.contains("the answer")));
}

#[test]
fn init_asks_the_agent_for_instructions_of_the_project() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished"), say("written")], "");
    terminal.wait_for("finished");
    terminal.keys("/init mention the simulator\r");
    terminal.wait_for("written");
    let (status, seen) = terminal.exit();
    let shown = main_screen(&seen);
    assert!(status == Some(0) && shown.contains("AGENTS.md") && shown.contains("mention the simulator"), "{shown}");
}
