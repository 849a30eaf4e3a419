//! The cost of turns: the line after each, and the tables of a session.

use pinion_tests::{Ended, Pinion, Terminal};
use serde_json::{Value, json};

fn usage(input: u64, cache_read: u64, cache_write: u64) -> Value {
    json!({ "input": input, "output": 40, "cache_read": cache_read, "cache_write": cache_write })
}

fn replies() -> [Value; 2] {
    let read = json!({ "calls": [{ "tool": "read", "arguments": { "path": "a.rs" } }], "usage": usage(2_000, 0, 0) });
    [read, json!({ "text": "It is empty.", "usage": usage(100, 2_000, 0) })]
}

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    pinion.run(["-p", "--replay", script.to_str().unwrap()].iter().chain(more))
}

#[test]
fn detailed_run_ends_with_a_line_about_its_cost() {
    let pinion = Pinion::default();
    pinion.write("a.rs", "fn main() {}\n");
    let line = "2 requests · 4.1 k in (2.0 k cached) · 80 out · ";
    let detailed = run(&pinion, &replies(), &["-v", "go"]);
    assert!(detailed.stderr.contains(line), "{detailed:?}");
    assert!(!detailed.stdout.contains("requests"), "{detailed:?}");
    let plain = run(&pinion, &replies(), &["go"]);
    assert!(!plain.stderr.contains("requests ·"), "{plain:?}");
    pinion.config("turn-cost = false\n");
    let off = run(&pinion, &replies(), &["-v", "go"]);
    assert!(!off.stderr.contains("requests ·"), "{off:?}");
}

#[test]
fn sub_agents_are_in_the_line_and_in_the_table() {
    let pinion = Pinion::default();
    let task =
        json!({ "calls": [{ "tool": "task", "arguments": { "prompt": "Look." } }], "usage": usage(1_000, 0, 0) });
    let said = |text: &str| json!({ "text": text, "usage": usage(500, 0, 0) });
    let ended = run(&pinion, &[task, said("seen"), said("done")], &["-v", "--approve", "all", "go"]);
    assert!(ended.stderr.contains("3 requests (1 by sub-agents) · 2.0 k in · 120 out"), "{ended:?}");
    let id = session_id(&pinion);
    let table = pinion.run(["session", "cost", &id, "--json"]);
    let turns: Value = serde_json::from_str(&table.stdout).unwrap();
    let turn = &turns[0];
    assert_eq!((&turn["prompt"], &turn["requests"]), (&json!("go"), &json!(3)), "{table:?}");
    assert_eq!((&turn["requests_of_sub_agents"], &turn["usage"]["input"]), (&json!(1), &json!(2_000)), "{table:?}");
}

fn session_id(pinion: &Pinion) -> String {
    pinion.run(["session", "list"]).stdout.chars().take(8).collect()
}

#[test]
fn cost_of_a_session_is_divided_by_tool_server_and_file() {
    let pinion = Pinion::default();
    pinion.write("a.rs", "fn main() {}\n".repeat(100));
    run(&pinion, &replies(), &["go"]);
    let id = session_id(&pinion);
    let by = |part: &str| pinion.run(["session", "cost", &id, "--by", part]).stdout;
    assert!(by("turn").contains("go") && by("turn").contains("4.1 k"), "{}", by("turn"));
    assert!(by("tool").contains("results of read") && by("tool").contains("system prompt and tools"), "{}", by("tool"));
    assert!(by("server").contains("results of other tools"), "{}", by("server"));
    assert!(by("file").contains("a.rs"), "{}", by("file"));
    let json = pinion.run(["session", "cost", &id, "--by", "tool", "--json"]).stdout;
    let owners: Value = serde_json::from_str(&json).unwrap();
    assert!(owners.as_array().unwrap().iter().any(|owner| owner["owner"] == "results of `read`"), "{json}");
    let unknown = pinion.run(["session", "cost", "no-such-session"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

/// Starts a conversation in a form.
fn conversation(pinion: &Pinion, form: &str, size: (u16, u16), replies: &[Value]) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.default_command(["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap()]);
    Terminal::start(&command, size, "")
}

#[test]
fn every_form_of_conversation_shows_the_line() {
    for (form, size) in
        [("line", (80, 24)), ("reader", (80, 24)), ("inline", (80, 24)), ("full", (80, 24)), ("full", (40, 10))]
    {
        let pinion = Pinion::default();
        pinion.write("a.rs", "fn main() {}\n");
        let mut terminal = conversation(&pinion, form, size, &replies());
        terminal.wait_for("›");
        terminal.keys("go\r");
        terminal.wait_for("2 requests");
        terminal.wait_for("2.0 k cached");
        let (status, seen) = terminal.exit();
        assert_eq!(status, Some(0), "{form} {size:?}: {seen}");
    }
}

#[test]
fn reason_for_a_lost_cache_names_the_edited_context_file() {
    let pinion = Pinion::default();
    pinion.write("AGENTS.md", "Be brief.\n");
    let said = |text: &str, usage: Value| json!({ "text": text, "usage": usage });
    let replies = [
        said("first answer", usage(10, 0, 9_000)),
        said("second answer", usage(10, 0, 9_100)),
        said("third", usage(9, 9_100, 90)),
    ];
    let mut terminal = conversation(&pinion, "line", (120, 40), &replies);
    terminal.wait_for("› ");
    terminal.keys("one\r");
    terminal.wait_for_then("first answer", "› ");
    pinion.write("AGENTS.md", "Be long.\n");
    terminal.keys("two\r");
    terminal.wait_for_then("second answer", "› ");
    terminal.keys("/cost why\r");
    // Code has a colour of its own.
    terminal.wait_for("the context file ");
    terminal.wait_for(" changed");
    terminal.wait_for("Next request:");
    terminal.keys("/cost tool\r");
    terminal.wait_for("your messages");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
}

#[test]
fn limit_of_a_day_denies_the_next_turn_of_any_process() {
    let pinion = Pinion::default();
    pinion.config("[limits]\nmax-cost-per-day = 0.01\n");
    let reply = json!({ "text": "done", "usage": usage(10_000, 0, 0) });
    // A cost limit gives the script the prices of the model.
    let priced = ["--model", "anthropic/claude-sonnet-5-5", "--max-cost", "100", "go"];
    let first = run(&pinion, std::slice::from_ref(&reply), &priced);
    assert_eq!(first.code, Some(0), "{first:?}");
    for arguments in [&priced[..], &["go"]] {
        let denied = run(&pinion, std::slice::from_ref(&reply), arguments);
        assert_eq!(denied.code, Some(1), "{denied:?}");
        assert!(denied.stderr.contains("reached the limit of 0.01 US dollars a day"), "{denied:?}");
    }
}
