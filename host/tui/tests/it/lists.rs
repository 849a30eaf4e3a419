//! Lists from which the user picks.

use crate::ui::Ui;
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_tui::{Choice, Input, Pick, Request};
use std::sync::Arc;

fn submits(requests: &[Request]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let Request::Submit(text) = r { Some(text.as_str()) } else { None }).collect()
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
fn session_in_the_list_is_previewed_renamed_forked_and_deleted() {
    let choice = |id: &str| Choice { value: id.into(), label: format!("session {id}"), detail: "1 h ago".into() };
    let mut ui = Ui::new(80, 24);
    let choices = Input::Choices(Pick::Session, vec![choice("1a"), choice("2b")]);
    assert_eq!(ui.input(choices.clone()), [Request::Preview("1a".into())]);
    assert_eq!(ui.input(Input::Preview { id: "1a".into(), text: "› the last request".into() }), []);
    assert!(ui.screen().contains("  › the last request\n  enter resumes"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Down), [Request::Preview("2b".into())]);
    ui.ctrl('r');
    ui.ctrl('u');
    ui.types("parser");
    let rename = Request::RenameSession { id: "2b".into(), name: "parser".into() };
    assert_eq!(ui.key(KeyCode::Enter), [rename]);
    assert_eq!(ui.ctrl('x'), []);
    assert!(ui.screen().contains("ctrl+x again deletes"), "{}", ui.screen());
    assert_eq!(ui.ctrl('x'), [Request::DeleteSession("2b".into())]);
    assert_eq!(ui.ctrl('f'), [Request::Fork("2b".into())]);
    ui.input(Input::Finished);
    ui.input(choices);
    ui.ctrl('x');
    ui.key(KeyCode::Up);
    assert_eq!(ui.ctrl('x'), []);
}

/// Keys that turn `one two` into `two X`.
fn edits(ui: &mut Ui) {
    ui.ctrl('a');
    ui.press(KeyCode::Char('d'), KeyModifiers::ALT);
    ui.key(KeyCode::Delete);
    ui.key(KeyCode::End);
    ui.types(" X");
    // No letter is typed with Alt.
    ui.press(KeyCode::Char('z'), KeyModifiers::ALT);
}

#[test]
fn filters_names_and_searches_are_edited_like_messages() {
    let mut ui = Ui::new(80, 24);
    let choice = Choice { value: "1a".into(), label: "one two".into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Model, vec![choice.clone()]));
    ui.types("one two");
    edits(&mut ui);
    assert!(ui.screen().contains("› two X  models 0 of 1"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    ui.input(Input::Choices(Pick::Session, vec![choice]));
    ui.ctrl('r');
    edits(&mut ui);
    let renamed = Request::RenameSession { id: "1a".into(), name: "two X".into() };
    assert_eq!(ui.key(KeyCode::Enter), [renamed]);
    ui.key(KeyCode::Esc);
    ui.ctrl('s');
    ui.types("one two");
    edits(&mut ui);
    assert!(ui.screen().contains("search: two X"), "{}", ui.screen());
}
