//! Sending, queueing, steering, interrupting, answering.

use crate::ui::{Ui, done};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, RunEnd};
use pinion_tui::{Answer, Choice, Input, Pick, Request};
use serde_json::json;
use std::sync::Arc;

fn submits(requests: &[Request]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let Request::Submit(text) = r { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn messages_typed_while_working_wait_and_are_sent_in_order() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(submits(&ui.send("one")), ["one"]);
    assert_eq!(submits(&ui.send("two")), [""; 0]);
    ui.send("three");
    assert!(ui.screen().contains("◷ two") && ui.screen().contains("◷ three"));
    assert_eq!(submits(&ui.end(done())), ["two"]);
    assert_eq!(submits(&ui.end(done())), ["three"]);
}

#[test]
fn enter_on_an_empty_line_steers_with_the_first_queued_message() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.send("look at b.rs instead");
    assert_eq!(ui.key(KeyCode::Enter), [Request::Steer("look at b.rs instead".into())]);
    assert!(!ui.screen().contains('◷'));
    ui.send("/cost");
    assert_eq!(ui.key(KeyCode::Enter), []);
}

#[test]
fn queued_message_returns_to_the_editor() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.send("two");
    ui.key(KeyCode::Up);
    assert!(!ui.screen().contains('◷') && ui.screen().contains("› two"));
}

#[test]
fn escape_interrupts_and_sends_nothing_that_was_queued() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.send("two");
    assert_eq!(ui.key(KeyCode::Esc), [Request::Interrupt]);
    assert_eq!(submits(&ui.end(RunEnd::Aborted)), [""; 0]);
    let screen = ui.screen();
    assert!(screen.contains("! interrupted") && screen.contains("› two"), "{screen}");
    assert_eq!(ui.key(KeyCode::Esc), []);
}

#[test]
fn ctrl_c_clears_then_interrupts_then_exits() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.types("draft");
    assert_eq!(ui.ctrl('c'), []);
    assert_eq!(ui.ctrl('c'), [Request::Interrupt]);
    ui.end(RunEnd::Aborted);
    assert_eq!(ui.ctrl('c'), []);
    assert_eq!(ui.ctrl('c'), [Request::Quit]);
    ui.ctrl('y');
    assert!(ui.screen().contains("› draft"));
}

#[test]
fn text_typed_before_a_question_does_not_answer_it() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.ask("bash", json!({ "command": "rm -rf build" }));
    ui.screen();
    assert_eq!(ui.types("yes"), []);
    assert_eq!(ui.wait(100), []);
    ui.wait(400);
    ui.key(KeyCode::Char('y'));
    assert_eq!(ui.wait(60), [Request::Answer(7, Answer::Yes)]);
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
    assert!(!ui.wait(100_000).iter().any(|request| matches!(request, Request::Answer(..))));
    assert!(ui.screen().contains("? allow this call?"));
    ui.input(Input::Withdrawn(7));
    assert!(!ui.screen().contains("? allow this call?"));
}

#[test]
fn draft_is_kept_after_a_pause() {
    let mut ui = Ui::new(80, 24);
    ui.types("half a thought");
    assert_eq!(ui.wait(500), []);
    assert_eq!(ui.wait(600), [Request::SaveDraft("half a thought".into())]);
    assert_eq!(ui.wait(5_000), []);
    ui.key(KeyCode::Enter);
    assert_eq!(ui.wait(1_000), [Request::SaveDraft(String::new())]);
}

#[test]
fn commands_and_files_are_completed() {
    let mut ui = Ui::new(80, 24);
    ui.types("/mo");
    assert!(ui.screen().contains("❯ /model [MODEL]"));
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("› /model"));
    let requests = ui.types("so");
    let Some(Request::Complete { id, command, argument }) = requests.last() else { panic!("{requests:?}") };
    assert_eq!((command.as_str(), argument.as_str()), ("model", "so"));
    let choice = Choice { value: "sonnet".into(), label: "sonnet".into(), detail: String::new() };
    ui.input(Input::Completions(*id, vec![choice]));
    ui.key(KeyCode::Tab);
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["/model sonnet"]);
    ui.end(done());
    assert_eq!(ui.types("see @"), [Request::ListFiles]);
    ui.input(Input::Files(Arc::new(vec!["src/main.rs".into(), "src/lib.rs".into()])));
    ui.types("lib");
    ui.key(KeyCode::Tab);
    assert!(ui.screen().contains("› see @src/lib.rs"));
}

#[test]
fn picked_model_goes_through_the_command() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(ui.press(KeyCode::Char('m'), KeyModifiers::ALT), [Request::List(Pick::Model)]);
    let choice = |name: &str| Choice { value: name.into(), label: name.into(), detail: "key set".into() };
    ui.input(Input::Choices(Pick::Model, vec![choice("openai/gpt"), choice("anthropic/claude")]));
    ui.types("cla");
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["/model anthropic/claude"]);
}

#[test]
fn picked_session_is_resumed_unless_the_agent_works() {
    let choice = Choice { value: "1a2b".into(), label: "fix".into(), detail: String::new() };
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Choices(Pick::Session, vec![choice.clone()]));
    assert_eq!(ui.key(KeyCode::Enter), [Request::Resume("1a2b".into())]);
    ui.input(Input::Session(vec![Arc::new(pinion_protocol::Message::user("earlier words"))]));
    ui.input(Input::Finished);
    assert!(ui.screen().contains("› earlier words"));
    ui.start("go");
    ui.input(Input::Choices(Pick::Session, vec![choice]));
    assert_eq!(ui.key(KeyCode::Enter), []);
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
    assert_eq!(long(&mut ui), [Request::Notify("ready".into())]);
}

#[test]
fn message_that_steered_too_late_returns_to_the_editor() {
    let mut ui = Ui::new(80, 24);
    ui.types("later");
    ui.input(Input::Returned(vec!["sooner".into()]));
    assert!(ui.screen().contains("› sooner\n  later"), "{}", ui.screen());
}

#[test]
fn last_answer_is_copied_as_it_was_written() {
    let mut ui = Ui::new(20, 24);
    ui.start("go");
    let answer = "A **long** paragraph that wraps.\n\n```rust\nlet x = 1;\n```\n";
    ui.reply(vec![Content::text(answer)]);
    let requests = ui.press(KeyCode::Char('c'), KeyModifiers::ALT);
    assert_eq!(requests, [Request::Copy(answer.into())]);
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
