//! Sending, queueing, steering, interrupting, answering.

use crate::ui::{Ui, agent_below, agent_start, done, end_of, ended};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, ContentDelta, Display, EventKind, Message, RunEnd, ToolCall, TurnTrigger};
use pinion_tui::{Facts, Input, Pick, PickChoice, StatusSegment, Theme, Tone, UiRequest, UiSettings};
use ratatui_core::buffer::Cell;
use ratatui_core::style::Modifier;
use serde_json::json;
use std::sync::Arc;

fn submits(requests: &[UiRequest]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let UiRequest::Submit(text) = r { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn command_is_named_until_the_model_is_asked() {
    let mut ui = Ui::new(80, 24);
    ui.send("/review all");
    assert!(ui.screen().contains("running /review · "), "{}", ui.screen());
    ui.event(agent_start("agent"));
    ui.event(EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User });
    assert!(ui.screen().contains("waiting for the model"), "{}", ui.screen());
}

#[test]
fn call_that_is_being_written_says_what_it_is_about() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let mut delta = |delta| {
        ui.event(EventKind::MessageUpdate { index: 0, delta });
        ui.screen()
    };
    let shown = delta(ContentDelta::ToolCallStart { call_id: "1".into(), tool: "write".into() });
    assert!(shown.contains("preparing write · "), "{shown}");
    let shown = delta(ContentDelta::ToolCallArguments { delta: r#"{"path":"src/ma"#.into() });
    assert!(shown.contains("preparing write src/ma · "), "{shown}");
    let shown = delta(ContentDelta::ToolCallArguments { delta: format!(r#"in.rs","content":"{}"#, "x".repeat(5000)) });
    assert!(shown.contains("preparing write src/main.rs · "), "{shown}");
    let long = format!(r#"{{"path":"{}"#, "long/".repeat(100));
    delta(ContentDelta::ToolCallStart { call_id: "2".into(), tool: "read".into() });
    let shown = delta(ContentDelta::ToolCallArguments { delta: long });
    assert!(shown.contains("long/… · "), "{shown}");
}

#[test]
fn call_that_was_cut_off_shows_its_arguments() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let cut = r#"{"path":"src/main.rs","content":"fn ma"#;
    ui.reply(vec![Content::ToolCall(ToolCall::from_stream("1".into(), "write".into(), cut.into()))]);
    ui.result("1", "write", true, "the arguments are cut off");
    assert!(ui.screen().contains("✗ write src/main.rs fn ma"), "{}", ui.screen());
    let cut = "{path: src}";
    ui.reply(vec![Content::ToolCall(ToolCall::from_stream("2".into(), "read".into(), cut.into()))]);
    assert!(ui.screen().contains("read {path: src}"), "{}", ui.screen());
}

#[test]
fn ctrl_c_clears_then_interrupts_then_exits() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.types("draft");
    assert_eq!(ui.ctrl('c'), []);
    assert_eq!(ui.ctrl('c'), [UiRequest::Interrupt]);
    ui.end(RunEnd::Aborted);
    assert_eq!(ui.ctrl('c'), []);
    assert_eq!(ui.ctrl('c').last(), Some(&UiRequest::Quit));
    ui.ctrl('y');
    assert!(ui.screen().contains("› draft"));
}

#[test]
fn neither_time_nor_focus_nor_enter_nor_paste_answers() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.ask("bash", json!({ "command": "ls" }));
    ui.screen();
    ui.wait(500);
    ui.input(Input::Terminal(crossterm::event::Event::FocusGained));
    ui.key(KeyCode::Enter);
    ui.paste("y");
    assert!(!ui.wait(100_000).iter().any(|request| matches!(request, UiRequest::Answer(..))));
    assert!(ui.screen().contains("? allow this call?"));
    ui.input(Input::Withdrawn(7));
    assert!(!ui.screen().contains("? allow this call?"));
}

#[test]
fn commands_and_files_are_completed() {
    let mut ui = Ui::new(80, 24);
    ui.types("/mdl");
    assert!(ui.screen().contains("❯ /model [MODEL]"));
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("› /model"));
    let requests = ui.types("so");
    let Some(UiRequest::Complete { id, command, argument }) = requests.last() else { panic!("{requests:?}") };
    assert_eq!((command.as_str(), argument.as_str()), ("model", "so"));
    let choice = PickChoice { value: "sonnet".into(), label: "sonnet".into(), detail: String::new() };
    ui.input(Input::Completions(*id, vec![choice]));
    ui.key(KeyCode::Tab);
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["/model sonnet"]);
    ui.end(done());
    assert_eq!(ui.types("see @"), [UiRequest::ListFiles]);
    ui.input(Input::Files { paths: Arc::new(vec!["src/main.rs".into(), "src/lib.rs".into()]), is_cut: false });
    ui.types("lib");
    ui.key(KeyCode::Tab);
    assert!(ui.screen().contains("› see @src/lib.rs"));
}

#[test]
fn theme_is_chosen_and_takes_effect_at_once() {
    let mut ui = Ui::new(60, 16);
    assert_eq!(requested(&mut ui, "/theme"), [UiRequest::List(Pick::Theme)]);
    let choice = |name: &str| PickChoice { value: name.into(), label: name.into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Theme, vec![choice("dark"), choice("light")]));
    ui.types("li");
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Theme("light".into())]);
    ui.input(Input::Page("# Title".into()));
    let before = ui.buffer().0;
    ui.input(Input::Theme(Theme::named("light").unwrap()));
    assert_ne!(before[(2, 0)].fg, ui.buffer().0[(2, 0)].fg);
    assert_eq!(requested(&mut ui, "/theme dark"), [UiRequest::Theme("dark".into())]);
}

#[test]
fn path_of_a_picture_is_pasted_as_an_attachment() {
    let mut ui = Ui::new(60, 16);
    assert_eq!(ui.ctrl('v'), [UiRequest::PastePicture]);
    ui.input(Input::Paste("/tmp/a.png".into()));
    ui.paste("'/home/me/my shot.PNG'");
    ui.paste("/home/me/other\\ one.jpg\n");
    ui.paste("/etc/passwd");
    let requests = ui.key(KeyCode::Enter);
    let expected = "@/tmp/a.png @\"/home/me/my shot.PNG\" @\"/home/me/other one.jpg\" /etc/passwd";
    assert_eq!(submits(&requests), [expected]);
}

#[test]
fn notification_is_sent_only_while_the_user_looks_elsewhere() {
    let mut ui = Ui::new(80, 24);
    let long = |ui: &mut Ui| {
        ui.start("go");
        ui.wait(11_000);
        ui.end(done())
    };
    ui.input(Input::Terminal(crossterm::event::Event::FocusGained));
    assert_eq!(long(&mut ui), []);
    ui.input(Input::Terminal(crossterm::event::Event::FocusLost));
    assert_eq!(long(&mut ui), [UiRequest::Notify("finished after 11 s".into())]);
}

#[test]
fn command_of_the_user_shows_its_output_unfolded() {
    let mut ui = Ui::new(60, 16);
    ui.types("!ls");
    assert!(ui.screen().contains("\n$ !ls"), "{}", ui.screen());
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["!ls"]);
    ui.own("1", "ls", "a.rs\nb.rs");
    ui.input(Input::Finished);
    assert!(ui.screen().starts_with("✓ ! ls\n    a.rs\n    b.rs\n"), "{}", ui.screen());
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    ui.key(KeyCode::Enter);
    assert!(ui.screen().starts_with("✓ ! ls  2 lines\n\n"), "{}", ui.screen());
}

#[test]
fn status_line_shows_the_network_unless_it_is_off() {
    let mut ui = Ui::new(80, 24);
    assert!(ui.screen().contains("$0.42 · main"), "{}", ui.screen());
    let facts = Facts { network: Some("2 hosts".into()), ..ui.app.facts().clone() };
    ui.input(Input::Facts(facts));
    assert!(ui.screen().contains("$0.42 · 2 hosts · main"), "{}", ui.screen());
}

#[test]
fn status_line_shows_the_configured_parts() {
    let mut ui = Ui::new(80, 24);
    let facts = ui.app.facts().clone();
    let facts = Facts { thinking: Some("high".into()), ..facts };
    let status = vec![
        StatusSegment::Session,
        StatusSegment::Thinking,
        StatusSegment::Cache,
        StatusSegment::Agents,
        StatusSegment::Model,
    ];
    ui.app = pinion_tui::App::new(UiSettings { status, ..UiSettings::default() });
    ui.input(Input::Facts(facts));
    assert!(ui.screen().ends_with("\n1a2b3c4d · thinking high · 80 % cached · anthropic/claude"), "{}", ui.screen());
    ui.start("go");
    ui.event_of("a", agent_start("reader"));
    assert!(ui.screen().contains("1 sub-agent"), "{}", ui.screen());
}

#[test]
fn last_answer_is_copied_as_it_was_written() {
    let mut ui = Ui::new(20, 24);
    ui.start("go");
    let answer = "A **long** paragraph that wraps.\n\n```rust\nlet x = 1;\n```\n";
    ui.reply(vec![Content::text(answer)]);
    let requests = ui.press(KeyCode::Char('c'), KeyModifiers::ALT);
    assert_eq!(requests, [UiRequest::Copy(answer.into())]);
}

/// Returns the requests of a message or a command, without the note for the history.
fn requested(ui: &mut Ui, text: &str) -> Vec<UiRequest> {
    let mut requests = ui.send(text);
    requests.retain(|request| !matches!(request, UiRequest::Remember(_) | UiRequest::Complete { .. }));
    requests
}

#[test]
fn earlier_answer_is_copied_while_the_agent_works() {
    let mut ui = Ui::new(80, 24);
    for answer in ["first **answer**", "second"] {
        ui.start("go");
        ui.reply(vec![Content::text(answer)]);
        ui.end(done());
    }
    ui.start("go on");
    assert_eq!(requested(&mut ui, "/copy 2"), [UiRequest::Copy("first **answer**".into())]);
    assert_eq!(requested(&mut ui, "/copy"), [UiRequest::Copy("second".into())]);
    assert_eq!(requested(&mut ui, "/copy 3"), []);
    assert!(ui.screen().contains("no such answer"));
    assert_eq!(requested(&mut ui, "/copy x"), []);
    assert!(ui.screen().contains("takes the number of an answer"));
}

#[test]
fn answer_is_copied_whole_with_notes_between_its_parts() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.reply(vec![Content::text("before")]);
    let parts = ["One **begins**", " here.\n\nTwo ends", " there.\n\nThree.\n"];
    ui.text(parts[0]);
    ui.input(Input::SideAnswer("Beside it.".into()));
    ui.text(parts[1]);
    ui.input(Input::Note(Tone::Plain, "reloaded a plugin".into()));
    ui.text(parts[2]);
    let whole = [UiRequest::Copy(parts.concat())];
    assert_eq!(requested(&mut ui, "/copy"), whole);
    ui.reply(vec![Content::text(parts.concat())]);
    assert_eq!(ui.press(KeyCode::Char('c'), KeyModifiers::ALT), whole);
    assert_eq!(requested(&mut ui, "/copy 2"), [UiRequest::Copy("before".into())]);
    let shown =
        "  before\n\n  One begins here.\n\n  Beside it.\n\n  Two ends there.\n\n· reloaded a plugin\n\n  Three.\n";
    assert!(ui.screen().contains(shown), "{}", ui.screen());
}

#[test]
fn answers_of_an_interrupted_and_a_resumed_run_are_two() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.text("half");
    ui.input(Input::Note(Tone::Plain, "reloaded a plugin".into()));
    ui.text(" an answer");
    ui.end(RunEnd::Aborted);
    ui.event(agent_start("agent"));
    ui.text("all of it");
    assert_eq!(requested(&mut ui, "/copy"), [UiRequest::Copy("all of it".into())]);
    assert_eq!(requested(&mut ui, "/copy 2"), [UiRequest::Copy("half an answer".into())]);
}

#[test]
fn result_of_the_selected_call_is_copied() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.call("1", "read", json!({ "path": "a" }));
    ui.result("1", "read", false, "line one\nline two");
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    let requests = ui.press(KeyCode::Char('c'), KeyModifiers::ALT);
    assert_eq!(requests, [UiRequest::Copy("line one\nline two".into())]);
}

#[test]
fn window_stays_where_the_user_scrolled_while_the_answer_grows() {
    let mut ui = Ui::new(40, 12);
    ui.start("go");
    (0..60).for_each(|n| ui.text(&format!("line {n}\n\n")));
    ui.screen();
    ui.key(KeyCode::PageUp);
    let first = |screen: String| screen.lines().next().unwrap().to_owned();
    let before = first(ui.screen());
    (60..90).for_each(|n| ui.text(&format!("line {n}\n\n")));
    assert_eq!(first(ui.screen()), before);
    ui.press(KeyCode::End, KeyModifiers::CONTROL);
    assert!(ui.screen().contains("line 89"));
}

#[test]
fn transcript_is_searched_and_prompts_are_jumped_to() {
    let mut ui = Ui::new(60, 12);
    ui.start("first question");
    ui.reply(vec![Content::text("needle\n\n".to_owned() + &"hay\n\n".repeat(50))]);
    ui.end(done());
    ui.ctrl('s');
    ui.types("NEEDLE");
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("needle"));
    ui.key(KeyCode::Esc);
    ui.press(KeyCode::Up, KeyModifiers::ALT);
    assert!(ui.screen().starts_with("› first question"), "{}", ui.screen());
}

#[test]
fn matches_are_shown_and_marked_also_in_what_is_folded() {
    let mut ui = Ui::new(60, 12);
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "seq" }));
    let lines: String =
        (0..60).map(|n| if n % 20 == 5 { format!("the needle {n}\n") } else { format!("{n}\n") }).collect();
    ui.result("1", "bash", false, &lines);
    ui.reply(vec![Content::text("hay\n\n".repeat(50))]);
    ui.end(done());
    ui.ctrl('s');
    ui.types("needle");
    for (key, line) in [
        (KeyCode::Enter, "the needle 45"),
        (KeyCode::Enter, "the needle 25"),
        (KeyCode::Enter, "the needle 5"),
        (KeyCode::Enter, "no match above"),
        (KeyCode::Down, "the needle 25"),
    ] {
        ui.key(key);
        assert!(ui.screen().contains(line), "{line}: {}", ui.screen());
    }
    let (buffer, _) = ui.buffer();
    let is_marked = |cell: &&Cell| cell.modifier.contains(Modifier::REVERSED);
    let marked: String = buffer.content().iter().filter(is_marked).map(Cell::symbol).collect();
    assert_eq!(marked, "needle");
    ui.key(KeyCode::Esc);
    assert!(!ui.buffer().0.content().iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
}

#[test]
fn lists_of_models_and_sessions_open_without_a_name() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(requested(&mut ui, "/model"), [UiRequest::List(Pick::Model)]);
    assert_eq!(requested(&mut ui, "/resume"), [UiRequest::List(Pick::Session)]);
    assert_eq!(requested(&mut ui, "/model gpt"), [UiRequest::Submit("/model gpt".into())]);
}

#[test]
fn long_message_is_cut_off_until_it_is_unfolded() {
    let mut ui = Ui::new(60, 30);
    let text: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    ui.paste(&text);
    ui.key(KeyCode::Enter);
    ui.event(end_of(Message::user(text)));
    let screen = ui.screen();
    assert!(screen.contains("› line 0") && screen.contains("  line 11\n  … 1000 lines in all"), "{screen}");
    assert!(!screen.contains("line 12"), "{screen}");
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    ui.key(KeyCode::Enter);
    ui.press(KeyCode::End, KeyModifiers::CONTROL);
    assert!(ui.screen().contains("line 999") && !ui.screen().contains("in all"), "{}", ui.screen());
    // One long line is as long.
    let mut ui = Ui::new(60, 30);
    ui.event(end_of(Message::user("word ".repeat(2_000))));
    assert!(ui.screen().contains("… 10 kB in all"), "{}", ui.screen());
}

#[test]
fn all_results_unfold_also_after_one_was_folded_alone() {
    let mut ui = Ui::new(60, 30);
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "seq 3" }));
    ui.result("1", "bash", false, "all of\nthe result");
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("the result"));
    ui.key(KeyCode::Enter);
    assert!(!ui.screen().contains("the result"));
    ui.ctrl('o');
    assert!(ui.screen().contains("the result"), "{}", ui.screen());
}

#[test]
fn sub_agents_stand_below_the_one_that_started_them() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.event_of("a", agent_start("first"));
    ui.event_of("b", agent_start("second"));
    ui.event_of("c", agent_below("child", Some("a")));
    ui.event_of("d", agent_below("grandchild", Some("c")));
    ui.event_of("e", agent_below("sibling", Some("a")));
    let arguments = json!({ "path": "file" });
    ui.event_of("b", EventKind::ToolExecutionStart { call_id: "x".into(), tool: "read".into(), arguments });
    let screen = ui.screen();
    let names: Vec<&str> = screen.lines().filter(|line| line.contains('◇')).map(str::trim_end).collect();
    let expected = [
        "  ◇ first · starting",
        "  └ ◇ child · starting",
        "    └ ◇ grandchild · starting",
        "  └ ◇ sibling · starting",
        "  ◇ second · read file",
    ];
    assert_eq!(names, expected, "{screen}");
}

#[test]
fn ledger_of_a_call_says_what_its_plugin_may_do() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.call("1", "read", json!({ "path": "x" }));
    ui.event(ended("1", "fs", Display::Plain, vec!["read files: read /work".into(), "run programs".into()]));
    ui.press(KeyCode::Char('l'), KeyModifiers::ALT);
    assert!(ui.screen().contains("    may read files: read /work; run programs"), "{}", ui.screen());
}

#[test]
fn old_results_keep_their_beginning_when_all_together_are_long() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    for number in 0..3 {
        let id = number.to_string();
        ui.call(&id, "read", json!({ "path": "x" }));
        ui.event(ended(&id, &format!("first {number}\n{}", "x".repeat(30 << 20)), Display::Plain, Vec::new()));
    }
    let copied = |ui: &mut Ui| match &ui.press(KeyCode::Char('c'), KeyModifiers::ALT)[..] {
        [UiRequest::Copy(text)] => text.len(),
        other => panic!("{other:?}"),
    };
    let mut lengths = Vec::new();
    for _ in 0..3 {
        ui.press(KeyCode::Up, KeyModifiers::SHIFT);
        lengths.push(copied(&mut ui));
    }
    assert!(lengths[0] > 30 << 20 && lengths[1] > 30 << 20 && lengths[2] < 3_000, "{lengths:?}");
}

#[test]
fn model_that_is_not_listed_is_chosen_by_its_name() {
    let mut ui = Ui::new(60, 16);
    let choice = PickChoice { value: "a/b".into(), label: "a/b".into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Model, vec![choice]));
    ui.types("mock/new");
    assert!(ui.screen().contains("enter uses this name"), "{}", ui.screen());
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["/model mock/new"]);
}
