//! Sessions across several runs of the command, and the parts of the config that select the content that a run sees.

use crate::product::command::assert_error;
use crate::product::providers::{Vendor, reply};
use pinion_tests::{Ended, Pinion, Terminal};
use serde_json::{Value, json};

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    pinion.run(["-p", "--replay", script.to_str().unwrap()].iter().chain(more))
}

#[test]
fn unfinished_run_is_continued_without_a_prompt() {
    let pinion = Pinion::default();
    let list = json!({ "calls": [{ "tool": "list", "arguments": { "path": "." } }] });
    let limited = run(&pinion, &[list], &["--max-turns", "1", "go"]);
    assert_eq!(limited.code, Some(3), "{limited:?}");
    // The reply fails in the middle; the model repeats it.
    let broken = json!({ "text": "half of", "error": { "kind": "auth", "message": "rejected" } });
    let failed = run(&pinion, &[broken], &["-c"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let continued = run(&pinion, &[json!({ "text": "all of it" })], &["-c", "--output-format", "json"]);
    assert_eq!(continued.code, Some(0), "{continued:?}");
    let result: Value = serde_json::from_str(&continued.stdout).unwrap();
    assert_eq!((&result["result"], &result["turns"]), (&json!("all of it"), &json!(1)));
    let again = run(&pinion, &[], &["-c"]);
    assert_error(&again, 2, &["no unfinished run to continue", "pinion -p -c"]);
    assert_error(&run(&pinion, &[], &[]), 2, &["no prompt"]);
}

#[test]
fn config_selects_tools_and_reports_names_that_none_has() {
    let pinion = Pinion::default();
    pinion.config("exclude-tools = [\"list\", \"lisst\"]\n");
    let list = json!({ "calls": [{ "tool": "list", "arguments": { "path": "." } }] });
    let replies = [list, json!({ "text": "done" })];
    let excluded = run(&pinion, &replies, &["--output-format", "stream-json", "go"]);
    assert!(excluded.stderr.contains("`exclude-tools` in the config: no tool `lisst`"), "{excluded:?}");
    assert!(!excluded.stdout.contains("tool_execution_start"), "{excluded:?}");
    let named = run(&pinion, &replies, &["--output-format", "stream-json", "--tools", "list", "go"]);
    assert!(named.stdout.contains("tool_execution_start"), "{named:?}");
}

#[test]
fn conversation_shows_where_it_was_left_and_continues_an_unfinished_run() {
    let pinion = Pinion::default();
    let broken = json!({ "text": "half of", "error": { "kind": "auth", "message": "rejected" } });
    run(&pinion, &[broken], &["find the bug"]);
    let script = pinion.script(&[json!({ "text": "It is in line 7." })]);
    let resumed = pinion.command(["-c", "--replay", script.to_str().unwrap()]);
    let terminal = Terminal::start(&resumed, (80, 24), "");
    let seen = terminal.wait_for("It is in line 7.");
    let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no `{text}` in:\n{seen}"));
    assert!(at("> find the bug") < at("half of") && at("half of") < at("Continuing the unfinished run"));
    assert_eq!(terminal.exit().0, Some(0));
    // Now nothing is unfinished, and the conversation waits for a prompt.
    let (code, seen) = Terminal::start(&pinion.command(["-c", "--replay", "../script.jsonl"]), (80, 24), "").exit();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("It is in line 7.") && !seen.contains("Continuing"), "{seen}");
}

#[test]
fn runs_of_a_session_are_numbered_across_processes() {
    let pinion = Pinion::default();
    let stream = |replies: &[Value], more: &[&str]| {
        let all = run(&pinion, replies, &[&["--output-format", "stream-json"][..], more].concat());
        all.stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|event| event["type"] == "agent_start")
            .unwrap_or_else(|| panic!("{all:?}"))
    };
    let broken = json!({ "text": "half of", "error": { "kind": "auth", "message": "rejected" } });
    let first = stream(&[broken], &["go"]);
    let resumed = stream(&[json!({ "text": "all of it" })], &["-c"]);
    let next = stream(&[json!({ "text": "more" })], &["-c", "on"]);
    let id = |event: &Value| event["run_id"].as_str().unwrap().to_owned();
    let (start, number) =
        id(&first).rsplit_once('.').map(|(start, number)| (start.to_owned(), number.to_owned())).unwrap();
    assert_eq!(number, "1");
    assert_eq!((id(&resumed), id(&next)), (format!("{start}.2"), format!("{start}.3")));
    assert_eq!(resumed["parent_run_id"], first["run_id"]);
}

#[test]
fn configured_model_writes_the_summaries() {
    let pinion = Pinion::default();
    let talker = Vendor::answering(vec![reply(&json!({ "content": "word ".repeat(2_000) }), "stop")]);
    let writer = Vendor::answering(vec![reply(&json!({ "content": "what was said so far" }), "stop")]);
    pinion.config(&format!(
        "model = 'openai-chat/m'\n[compaction]\nmodel = 'mistral/short'\nassumed-window = 4000\nkeep-recent = 1\n\
         [providers.openai-chat]\nbase-url = '{}'\n[providers.mistral]\nbase-url = '{}'\n",
        talker.url, writer.url
    ));
    assert_eq!(pinion.run(["-p", "tell me a story"]).code, Some(0));
    assert_eq!(writer.bodies.lock().unwrap().len(), 0);
    let second = pinion.run(["-p", "-c", "and then?"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let asked = writer.bodies.lock().unwrap();
    assert_eq!(asked.len(), 1, "the other model wrote one summary");
    assert!(asked[0].contains("\"short\"") && asked[0].contains("tell me a story"), "{}", asked[0]);
    let bodies = talker.bodies.lock().unwrap();
    let last = bodies.last().unwrap();
    assert!(last.contains("what was said so far") && !last.contains("word word"), "{last}");
}

#[test]
fn resumed_session_calibrates_its_estimates_by_the_reports_in_its_history() {
    let pinion = Pinion::default();
    // Requests are compacted above 20,475 tokens.
    pinion.config("[compaction]\nassumed-window = 27300\nby-model = false\nkeep-recent = 1\n");
    let plain = ["--no-tools", "--no-context-files", "--system-prompt", "A test.", "--output-format", "stream-json"];
    // About 2,000 tokens by the estimate and 7,000 by the report, which raises the ratio to 1.7.
    let reply = json!({ "text": "noted", "usage": { "input": 7_000, "output": 1 } });
    let first = run(&pinion, std::slice::from_ref(&reply), &[&plain[..], &[&"word ".repeat(1_600)]].concat());
    assert!(first.code == Some(0) && !first.stdout.contains("\"compaction\""), "{first:?}");
    // About 10,000 tokens by the estimate: 17,000 with the report and 24,000 with the ratio.
    let second = run(&pinion, &[reply], &[&plain[..], &["-c", &"more ".repeat(8_000)]].concat());
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(second.stdout.contains("\"type\":\"compaction\""), "{}", second.stderr);
}
