//! Messages and commands that wait for the end of the work, and the draft that keeps them.

use crate::ui::{Ui, agent_start, done, end_of};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, Message, RunEnd};
use pinion_tui::{Input, UiRequest};
use serde_json::json;

fn submits(requests: &[UiRequest]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let UiRequest::Submit(text) = r { Some(text.as_str()) } else { None }).collect()
}

fn steers(requests: &[UiRequest]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let UiRequest::Steer(text) = r { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn messages_for_later_wait_and_are_sent_in_order() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(submits(&ui.send("one")), ["one"]);
    assert_eq!(ui.later("two"), []);
    ui.types("three");
    assert_eq!(ui.press(KeyCode::Enter, KeyModifiers::CONTROL), [UiRequest::Remember("three".into())]);
    assert!(ui.screen().contains("◷ two") && ui.screen().contains("◷ three"));
    assert_eq!(submits(&ui.end(done())), ["two"]);
    assert_eq!(submits(&ui.end(done())), ["three"]);
}

#[test]
fn message_typed_while_a_call_runs_goes_to_the_agent() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.call("1", "bash", json!({ "command": "sleep 9" }));
    assert_eq!(steers(&ui.send("look at b.rs")), ["look at b.rs"]);
    let hint = "→ look at b.rs  (next; esc interrupts bash and sends, ↑ edits)";
    assert!(ui.screen().contains(hint), "{}", ui.screen());
    // No number of Enters interrupts anything.
    for _ in 0..3 {
        assert_eq!(ui.key(KeyCode::Enter), []);
    }
    assert!(ui.screen().contains("esc interrupts bash and sends"), "{}", ui.screen());
}

#[test]
fn escape_interrupts_the_call_for_the_message_and_then_the_agent() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.call("1", "bash", json!({ "command": "sleep 9" }));
    ui.send("two");
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::InterruptCalls]);
    assert!(ui.screen().contains("→ two  (sent, the agent reads it next)"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::Interrupt]);
    ui.input(Input::Returned(vec!["two".into()]));
    assert_eq!(submits(&ui.end(RunEnd::Aborted)), [""; 0]);
    assert!(ui.screen().contains("› two") && !ui.screen().contains('→'), "{}", ui.screen());
}

#[test]
fn escape_interrupts_a_reply_and_sends_the_messages_as_the_next_prompt() {
    let mut ui = steered(&["two", "three"]);
    assert!(ui.screen().contains("esc interrupts the reply and sends"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::Interrupt]);
    ui.input(Input::Returned(vec!["two".into(), "three".into()]));
    assert_eq!(submits(&ui.end(RunEnd::Aborted)), ["two\n\nthree"]);
}

#[test]
fn enter_on_an_empty_line_sends_the_first_message_for_later_sooner() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.later("look at b.rs instead");
    assert!(ui.screen().contains("◷ look at b.rs instead  (enter sends it sooner, ↑ edits)"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Steer("look at b.rs instead".into())]);
    let screen = ui.screen();
    assert!(!screen.contains('◷') && screen.contains("→ look at b.rs instead  (next; esc"), "{screen}");
}

#[test]
fn message_that_was_not_read_is_the_next_prompt() {
    let mut ui = steered(&["two"]);
    ui.later("three");
    ui.input(Input::Returned(vec!["two".into()]));
    assert_eq!(submits(&ui.end(done())), ["two"]);
    assert_eq!(submits(&ui.end(done())), ["three"]);
}

#[test]
fn message_that_was_not_read_is_taken_back_to_edit_it() {
    let mut ui = steered(&["two", "three"]);
    assert_eq!(ui.key(KeyCode::Up), [UiRequest::Recall]);
    ui.input(Input::Returned(vec!["two".into(), "three".into()]));
    assert!(ui.screen().contains("› two\n\n  three") && !ui.screen().contains('→'), "{}", ui.screen());
    // The next one goes its usual way.
    ui.ctrl('c');
    ui.send("four");
    ui.input(Input::Returned(vec!["four".into()]));
    assert_eq!(submits(&ui.end(done())), ["four"]);
}

#[test]
fn no_message_overtakes_a_command() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.send("/compact");
    assert_eq!(steers(&ui.send("two")), [""; 0]);
    assert_eq!(rest(&mut ui), ["/compact", "two"]);
}

/// Starts a run that replies, and sends these texts to it.
fn steered(texts: &[&str]) -> Ui {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.text("a long reply");
    for text in texts {
        assert_eq!(steers(&ui.send(text)), [*text]);
    }
    ui
}

fn user(content: Vec<Content>) -> Message {
    let Message::User(message) = Message::user("") else { unreachable!() };
    Message::User(pinion_protocol::UserMessage { content, ..message })
}

#[test]
fn sent_message_is_shown_until_the_run_has_read_it() {
    let mut ui = steered(&["two", "three"]);
    ui.later("later");
    let rows = "→ two  (next; esc interrupts the reply and sends)\n→ three\n◷ later  (";
    assert!(ui.screen().contains(rows), "{}", ui.screen());
    // A message of a program is another one, and plugins add to the user's message.
    ui.event(end_of(Message::labelled("two", "output")));
    assert!(ui.screen().contains(rows), "{}", ui.screen());
    ui.event(end_of(user(vec![Content::text("two"), Content::text("a plugin's words")])));
    assert!(ui.screen().contains("› two") && ui.screen().contains("→ three  (next"), "{}", ui.screen());
    // Secrets are removed from the messages that the run reads.
    ui.event(end_of(Message::user("[redacted]")));
    assert!(!ui.screen().contains('→') && ui.screen().contains("◷ later"), "{}", ui.screen());
    assert_eq!(submits(&ui.end(done())), ["later"]);
}

#[test]
fn prompt_of_the_run_leaves_a_message_that_was_sent_before() {
    let mut ui = Ui::new(80, 24);
    ui.send("one");
    ui.send("two");
    ui.event(agent_start("agent"));
    ui.event(end_of(Message::user("one")));
    assert!(ui.screen().contains("→ two  (next"), "{}", ui.screen());
    ui.event(end_of(Message::user("two")));
    assert!(!ui.screen().contains('→'), "{}", ui.screen());
}

#[test]
fn sent_messages_fill_the_rows_of_the_queue_first() {
    let mut ui = steered(&["two", "three", "four"]);
    ["five", "six", "seven"].into_iter().for_each(|text| drop(ui.later(text)));
    let rows = "\n→ three\n→ four\n◷ five  (enter sends it sooner, alt+q lists all)\nand 2 more\n";
    assert!(ui.screen().contains(rows), "{}", ui.screen());
}

#[test]
fn sent_message_that_was_not_read_returns_to_the_editor_once() {
    for returned in [vec![], vec!["two".to_owned()], vec!["two".to_owned(), "three".to_owned()]] {
        let mut ui = steered(&["two", "three"]);
        assert_eq!(ui.ctrl('c'), [UiRequest::Interrupt]);
        assert!(ui.screen().contains("→ two"), "{}", ui.screen());
        ui.input(Input::Returned(returned));
        ui.end(RunEnd::Aborted);
        let screen = ui.screen();
        assert!(!screen.contains('→') && screen.matches("two").count() == 1, "{screen}");
        assert_eq!(screen.matches("three").count(), 1, "{screen}");
    }
}

#[test]
fn commands_never_reach_the_model_as_messages() {
    for command in ["/cost", "!!cat ~/.secret", "!ls"] {
        let mut ui = Ui::new(80, 24);
        ui.start("one");
        ui.send(command);
        assert!(ui.screen().contains(&format!("◷ {command}  (↑ edits)")), "{}", ui.screen());
        assert_eq!(ui.key(KeyCode::Enter), []);
        assert!(ui.screen().contains("commands wait for the end"), "{}", ui.screen());
        ui.press(KeyCode::Char('q'), KeyModifiers::ALT);
        assert_eq!(ui.ctrl('s'), []);
        assert!(ui.screen().contains("commands wait for the end"), "{}", ui.screen());
        ui.key(KeyCode::Esc);
        assert_eq!(submits(&ui.end(done())), [command]);
    }
    // A path at the beginning makes no command.
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    assert_eq!(steers(&ui.send("/etc/hosts is empty")), ["/etc/hosts is empty"]);
}

#[test]
fn queued_message_returns_to_the_editor() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.later("two");
    ui.key(KeyCode::Up);
    assert!(!ui.screen().contains('◷') && ui.screen().contains("› two"));
}

#[test]
fn escape_interrupts_and_sends_nothing_that_was_for_later() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.later("two");
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::Interrupt]);
    assert_eq!(submits(&ui.end(RunEnd::Aborted)), [""; 0]);
    let screen = ui.screen();
    assert!(screen.contains("! interrupted") && screen.contains("› two"), "{screen}");
    assert_eq!(ui.key(KeyCode::Esc), []);
}

#[test]
fn interrupted_commands_are_named_and_do_not_join_messages() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ["!echo own", "see @README.md", "/compact", "and this"].into_iter().for_each(|text| drop(ui.send(text)));
    ui.key(KeyCode::Esc);
    ui.end(RunEnd::Aborted);
    let screen = ui.screen();
    assert!(screen.contains("! not run: !echo own") && screen.contains("! not run: /compact"), "{screen}");
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["see @README.md\n\nand this"]);
    // Nor does a message join a command that is being written.
    ui.later("later");
    ui.types("!rm");
    ui.key(KeyCode::Esc);
    ui.end(RunEnd::Aborted);
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["later"]);
    ui.ctrl('y');
    assert!(ui.screen().contains("$ !rm"), "{}", ui.screen());
}

#[test]
fn message_that_steered_too_late_returns_to_the_editor() {
    let mut ui = Ui::new(80, 24);
    ui.types("later");
    ui.input(Input::Returned(vec!["sooner".into()]));
    assert!(ui.screen().contains("› sooner\n\n  later"), "{}", ui.screen());
}

fn draft(text: &str, queue: &[&str]) -> UiRequest {
    UiRequest::SaveDraft { text: text.into(), queue: queue.iter().map(ToString::to_string).collect() }
}

#[test]
fn draft_is_kept_within_a_second_also_while_it_is_written() {
    let mut ui = Ui::new(80, 24);
    ui.types("half a ");
    assert_eq!(ui.wait(500), []);
    ui.types("thought");
    assert_eq!(ui.wait(600), [draft("half a thought", &[])]);
    assert_eq!(ui.wait(5_000), []);
    ui.key(KeyCode::Enter);
    assert_eq!(ui.wait(1_000), [draft("", &[])]);
}

#[test]
fn draft_has_what_waits() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.wait(1_000);
    ui.later("two");
    ui.send("!ls");
    assert_eq!(ui.wait(1_000), [draft("", &["two", "!ls"])]);
    ui.end(done());
    assert_eq!(ui.wait(1_000), [draft("", &["!ls"])]);
}

#[test]
fn draft_has_what_was_sent_until_the_run_has_read_it() {
    let mut ui = steered(&["two"]);
    ui.later("three");
    assert_eq!(ui.wait(1_000), [draft("", &["two", "three"])]);
    ui.event(end_of(Message::user("two")));
    assert_eq!(ui.wait(1_000), [draft("", &["three"])]);
    ui.key(KeyCode::Enter);
    assert_eq!(ui.wait(1_000), [draft("", &["three"])]);
    ui.ctrl('c');
    ui.input(Input::Returned(vec!["three".into()]));
    ui.end(RunEnd::Aborted);
    assert_eq!(ui.wait(1_000), [draft("three", &[])]);
}

#[test]
fn last_draft_is_kept_before_the_end() {
    let mut ui = Ui::new(80, 24);
    ui.types("x");
    ui.key(KeyCode::Backspace);
    assert_eq!(ui.ctrl('d'), [draft("", &[]), UiRequest::Quit]);
}

/// Starts a run, lets these texts wait, and lists them.
fn listed(texts: &[&str]) -> Ui {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    texts.iter().for_each(|text| drop(ui.later(text)));
    ui.key(KeyCode::Up);
    assert!(ui.screen().contains(&format!("queue {0} of {0}", texts.len())), "{}", ui.screen());
    ui
}

/// Returns the messages that the rest of the work submits.
fn rest(ui: &mut Ui) -> Vec<String> {
    let mut sent = Vec::new();
    while let [text] = submits(&ui.end(done()))[..] {
        sent.push(text.to_owned());
    }
    sent
}

#[test]
fn text_in_the_middle_of_the_queue_is_edited() {
    let mut ui = listed(&["one", "two", "three"]);
    ui.key(KeyCode::Down);
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("› two"), "{}", ui.screen());
    ui.later(", better");
    assert_eq!(rest(&mut ui), ["one", "three", "two, better"]);
}

#[test]
fn queued_text_is_removed_and_can_be_brought_back() {
    let mut ui = listed(&["one", "two"]);
    ui.ctrl('x');
    assert!(ui.screen().contains("removed; ctrl+y in the editor brings it back"), "{}", ui.screen());
    ui.ctrl('x');
    assert!(!ui.screen().contains("queue"), "an empty list closes: {}", ui.screen());
    ui.ctrl('y');
    assert!(ui.screen().contains("› two"), "{}", ui.screen());
    assert_eq!(rest(&mut ui), [""; 0]);
}

#[test]
fn queued_texts_change_places_and_one_is_sent_at_once() {
    let mut ui = listed(&["one", "two", "three"]);
    ui.press(KeyCode::Down, KeyModifiers::CONTROL);
    ui.press(KeyCode::Down, KeyModifiers::CONTROL);
    ui.press(KeyCode::Down, KeyModifiers::CONTROL);
    ui.key(KeyCode::Up);
    assert_eq!(ui.ctrl('s'), [UiRequest::Steer("three".into())]);
    ui.press(KeyCode::Up, KeyModifiers::CONTROL);
    ui.key(KeyCode::Esc);
    ui.event(end_of(Message::user("three")));
    assert_eq!(rest(&mut ui), ["one", "two"]);
}

#[test]
fn list_of_the_queue_follows_what_is_sent() {
    let mut ui = listed(&["one", "two"]);
    ui.key(KeyCode::Down);
    assert_eq!(submits(&ui.end(done())), ["one"]);
    assert!(ui.screen().contains("queue 1 of 1") && ui.screen().contains("❯ two"), "{}", ui.screen());
    assert_eq!(submits(&ui.end(done())), ["two"]);
    assert!(!ui.screen().contains("queue"), "{}", ui.screen());
}
