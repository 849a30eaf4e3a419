//! Reviewed screens of the states that users see, in three sizes.

use crate::ui::assert_screen;
use crate::ui::{Ui, agent_start, done};
use crossterm::event::KeyCode;
use pinion_protocol::{Content, ContentDelta, EventKind, RunEnd, RunErrorKind};
use pinion_tui::{Input, Pick, PickChoice, Tone};
use serde_json::json;

const ANSWER: &str = "The test fails because `total` **subtracts**:\n\n1. fix the sign\n2. run the test again\n\n\
    | file | change |\n|---|---|\n| total.sh | `-` becomes `+` |\n| README.md | none |\n\n\
    ```sh\necho $((a + b))\n```\n\nSee [the manual](https://example.org/bash).";

const DIFF: &str = "--- total.sh\n+++ total.sh\n@@ -1,3 +1,3 @@\n #!/bin/sh\n-echo $(($1 - $2))\n+echo $(($1 + $2))\n";

fn check(name: &str, state: impl Fn(&mut Ui)) {
    for (columns, rows) in [(80, 24), (120, 40), (40, 10)] {
        let mut ui = Ui::new(columns, rows);
        state(&mut ui);
        let screen = ui.screen();
        assert_screen(&format!("{name}-{columns}x{rows}"), &screen);
    }
}

fn conversation(ui: &mut Ui) {
    ui.start("why does the test fail?");
    ui.event(EventKind::MessageUpdate {
        index: 0,
        delta: ContentDelta::Thinking { delta: "The sign looks wrong.".into() },
    });
    ui.call("1", "read", json!({ "path": "total.sh" }));
    ui.result("1", "read", false, "#!/bin/sh\necho $(($1 - $2))");
    ui.call("2", "edit", json!({ "path": "total.sh", "edits": [{ "old_text": "-", "new_text": "+" }] }));
    ui.result("2", "edit", false, DIFF);
    ui.call("3", "bash", json!({ "command": "./test.sh --all" }));
    ui.result("3", "bash", true, "FAIL total\nexpected 5\ngot 1\n[exit code 1]");
    ui.reply(vec![Content::text(ANSWER)]);
    ui.end(done());
}

#[test]
fn first_screen() {
    check("first", |ui| {
        ui.input(Input::Note(
            Tone::Plain,
            "asks before calls that write, run or send · session 1a2b3c4d · 9 tools".into(),
        ));
    });
}

#[test]
fn finished_conversation() {
    check("finished", conversation);
}

#[test]
fn unfolded_results() {
    check("unfolded", |ui| {
        conversation(ui);
        ui.ctrl('o');
        ui.ctrl('t');
    });
}

#[test]
fn diffs_side_by_side() {
    check("sides", |ui| {
        conversation(ui);
        ui.ctrl('o');
        ui.press(KeyCode::Char('v'), crossterm::event::KeyModifiers::ALT);
        ui.press(KeyCode::Home, crossterm::event::KeyModifiers::CONTROL);
    });
}

#[test]
fn running_call_with_output() {
    check("running", |ui| {
        ui.start("run the tests");
        ui.call("1", "bash", json!({ "command": "cargo test" }));
        let partial = vec![Content::text("running 3 tests\ntest a ... ok\ntest b ... ok")];
        ui.event(EventKind::ToolExecutionUpdate { call_id: "1".into(), partial });
        ui.later("then commit");
        ui.types("and pu");
        ui.wait(3_200);
    });
}

#[test]
fn streamed_answer() {
    check("streaming", |ui| {
        ui.start("explain");
        ANSWER[..120].split_inclusive(' ').for_each(|piece| ui.text(piece));
        ui.wait(1_500);
    });
}

#[test]
fn message_that_the_agent_reads_next() {
    check("steered", |ui| {
        ui.start("run the tests");
        ui.text("The tests are in");
        ui.send("only those of the parser");
        ui.later("then commit");
        ui.wait(3_200);
    });
}

#[test]
fn question_about_a_command() {
    check("approval", |ui| {
        ui.start("clean up");
        ui.ask("bash", json!({ "command": "rm -rf target\ncargo build", "timeout": 60 }));
        ui.screen();
        ui.wait(400);
    });
}

#[test]
fn question_about_an_edit() {
    check("approval-edit", |ui| {
        ui.start("fix it");
        let edits = json!([{ "old_text": "echo $(($1 - $2))", "new_text": "echo $(($1 + $2))" }]);
        ui.ask("edit", json!({ "path": "total.sh", "edits": edits }));
        ui.screen();
        ui.wait(400);
    });
}

#[test]
fn question_about_a_changed_file() {
    check("approval-write", |ui| {
        ui.start("fix it");
        let mut question =
            ui.question("write", json!({ "path": "total.sh", "content": "set -e\necho $(($1 + $2))\n" }));
        question.change = Some("@@ -1,2 +1,2 @@\n set -e\n-echo $(($1 - $2))\n+echo $(($1 + $2))\n".into());
        ui.input(Input::Question(question));
        ui.screen();
        ui.wait(400);
    });
}

#[test]
fn list_of_models() {
    check("models", |ui| {
        let choice =
            |name: &str, detail: &str| PickChoice { value: name.into(), label: name.into(), detail: detail.into() };
        let choices = vec![
            choice("anthropic/claude-sonnet", "key set · 200 k context · images · thinking · $3 in, $15 out"),
            choice("openai-responses/gpt", "no key · 400 k context · thinking · $1.25 in, $10 out"),
            choice("ollama/qwen", "no key · 32 k context"),
            choice("openrouter/anthropic/claude-fable-5-large", "no key · 200 k context"),
            choice("openrouter/anthropic/claude-fable-5-small", "no key · 200 k context"),
        ];
        ui.input(Input::Choices(Pick::Model, choices));
        ui.types("a");
    });
}

#[test]
fn completion_of_commands() {
    check("completion", |ui| {
        ui.types("/co");
    });
}

#[test]
fn sub_agents() {
    check("agents", |ui| {
        ui.start("compare the two modules");
        ui.call("1", "agent", json!({ "task": "compare" }));
        for (run, file) in [("a", "one.rs"), ("b", "two.rs")] {
            ui.event_of(run, agent_start(&format!("reader-{run}")));
            let arguments = json!({ "path": file });
            ui.event_of(run, EventKind::ToolExecutionStart { call_id: "x".into(), tool: "read".into(), arguments });
        }
        ui.ctrl('o');
    });
}

#[test]
fn failed_run() {
    check("failed", |ui| {
        ui.start("hello");
        ui.event(EventKind::Retry {
            attempt: 1,
            max_attempts: 3,
            delay_ms: 1200,
            cause: "overloaded: HTTP 529".into(),
        });
        ui.end(RunEnd::failed(
            RunErrorKind::Authentication,
            "authentication: the key from ANTHROPIC_API_KEY was rejected (HTTP 401)",
        ));
    });
}

#[test]
fn several_lines_and_a_pasted_block() {
    check("composer", |ui| {
        ui.paste(&"log line\n".repeat(200));
        ui.types(" explain this, in particular the part that wraps around the edge of the screen because it is long");
        ui.press(KeyCode::Enter, crossterm::event::KeyModifiers::ALT);
        ui.types("second line");
    });
}
