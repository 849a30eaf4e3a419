//! Commands that take effect at once, remarks, and the keys that are left out of messages.

use crate::ui::{Ui, done};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::RunEnd;
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_tui::{ApprovalAnswer, Input, KeyMap, UiRequest, UiSettings};
use serde_json::json;

/// Returns the requests of a message or a command, without the note for the history.
fn requested(ui: &mut Ui, text: &str) -> Vec<UiRequest> {
    let mut requests = ui.send(text);
    requests.retain(|request| !matches!(request, UiRequest::Remember(_) | UiRequest::Complete { .. }));
    requests
}

#[test]
fn own_commands_take_effect_while_the_agent_works() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    for (typed, own) in [
        ("/mode ask", "/mode ask"),
        ("/approve ask", "/approve ask"),
        ("#approve off", "/mode all"),
        ("#approve", "/mode"),
    ] {
        assert_eq!(requested(&mut ui, typed), [UiRequest::Own(own.into())]);
    }
    assert_eq!(requested(&mut ui, "/cost"), []);
    assert!(ui.screen().contains("◷ /cost"), "{}", ui.screen());
    ui.end(done());
    // A heading is not a command.
    ui.end(done());
    assert_eq!(requested(&mut ui, "# approve"), [UiRequest::Submit("# approve".into())]);
}

#[test]
fn leaving_while_the_agent_works_needs_a_second_key() {
    for words in ["exit", "quit", "/quit", "/exit", ""] {
        let mut ui = Ui::new(80, 24);
        ui.start("go");
        ui.wait(2_000);
        match words {
            "" => assert_eq!(ui.ctrl('d'), []),
            words => assert_eq!(requested(&mut ui, words), []),
        }
        assert!(ui.screen().contains("the agent works; ctrl+d again ends that and exits"), "{}", ui.screen());
        ui.wait(3_100);
        assert!(!ui.screen().contains("exits"), "{}", ui.screen());
        assert_eq!(ui.ctrl('d'), []);
        assert_eq!(ui.ctrl('d'), [UiRequest::Quit]);
    }
    let mut ui = Ui::new(80, 24);
    assert_eq!(requested(&mut ui, "exit").last(), Some(&UiRequest::Quit));
}

#[test]
fn key_that_exits_leaves_the_message_for_the_next_conversation() {
    let mut ui = Ui::new(80, 24);
    ui.types("half a thought");
    let draft = UiRequest::SaveDraft { text: "half a thought".into(), queue: Vec::new() };
    assert_eq!(ui.ctrl('q'), [draft, UiRequest::Quit]);
}

#[test]
fn remark_gives_way_to_the_next_action_and_to_what_it_hides() {
    let mut ui = Ui::new(80, 24);
    ui.types("text");
    ui.ctrl('c');
    assert!(ui.screen().ends_with("cleared; ctrl+y brings it back"), "{}", ui.screen());
    ui.send("next");
    assert!(ui.screen().ends_with("· $0.42 · main"), "{}", ui.screen());
    ui.end(RunEnd::Aborted);
    ui.ctrl('c');
    assert!(ui.screen().contains("press ctrl+c again to exit"), "{}", ui.screen());
    ui.types("x");
    assert!(!ui.screen().contains("press ctrl+c again"), "{}", ui.screen());
    // On a wide screen, both have room.
    let mut ui = Ui::new(140, 24);
    ui.ctrl('c');
    let screen = ui.screen();
    let last = screen.lines().last().unwrap();
    assert!(last.starts_with("anthropic/claude · ") && last.ends_with("   press ctrl+c again to exit"), "{last}");
}

#[test]
fn remarks_name_the_keys_in_effect() {
    let mut keys = KeyMap::default();
    for (action, key) in [("yank", "f5"), ("interrupt", "f6"), ("bottom", "f7"), ("send", "f8"), ("up", "f9")] {
        keys.set(action, [key]).unwrap();
    }
    let mut ui = Ui::new(80, 12);
    ui.app = pinion_tui::App::new(UiSettings { keys, ..UiSettings::default() });
    ui.types("text");
    ui.ctrl('c');
    assert!(ui.screen().contains("cleared; f5 brings it back"), "{}", ui.screen());
    ui.types("go");
    ui.key(KeyCode::F(8));
    ui.later("later");
    let screen = ui.screen();
    assert!(screen.contains("· f6 interrupts") && screen.contains("(f8 sends it sooner, f9 edits)"), "{screen}");
    ui.input(Input::Page("line\n\n".repeat(30)));
    ui.key(KeyCode::PageUp);
    assert!(ui.screen().contains("scrolled up; f7 returns to the end"), "{}", ui.screen());
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
    assert_eq!(ui.wait(60), [UiRequest::Answer(7, ApprovalAnswer::Yes)]);
}

#[test]
fn words_typed_when_a_question_appears_stay_in_the_editor() {
    let ask: [fn(&mut Ui); 2] = [
        |ui| drop(ui.ask("bash", json!({ "command": "ls" }))),
        |ui| {
            let dialog = Dialog { plugin: "talker".into(), question: "go on?".into(), kind: DialogKind::Confirm };
            ui.input(Input::Dialog(7, dialog));
        },
    ];
    for ask in ask {
        let mut ui = Ui::new(80, 24);
        ui.start("go");
        ui.types("I am typ");
        ask(&mut ui);
        ui.screen();
        ui.types("ing a messagee");
        ui.key(KeyCode::Backspace);
        assert_eq!(ui.key(KeyCode::Enter), []);
        ui.wait(400);
        // From now on, keys are for the question.
        ui.types("x");
        ui.input(Input::Withdrawn(7));
        assert!(ui.screen().contains("\n› I am typing a message\n"), "{}", ui.screen());
    }
}

#[test]
fn key_without_a_meaning_for_a_question_gets_an_answer() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.ask("bash", json!({ "command": "ls" }));
    ui.screen();
    ui.wait(400);
    ui.types("x");
    assert!(ui.screen().contains("press y, a, n or r"), "{}", ui.screen());
    ui.wait(100);
    ui.types("y");
    assert_eq!(ui.wait(60), [UiRequest::Answer(7, ApprovalAnswer::Yes)]);
}

#[test]
fn side_question_is_cancelled_when_nothing_else_works() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(requested(&mut ui, "/btw why?"), [UiRequest::Aside("why?".into())]);
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::CancelAsides]);
    ui.input(Input::SideAnswer("no answer: aborted".into()));
    assert_eq!(ui.key(KeyCode::Esc), []);
    requested(&mut ui, "/btw why?");
    ui.start("go");
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::Interrupt]);
}

#[test]
fn remark_about_a_side_question_ends_with_its_answer() {
    let mut ui = Ui::new(80, 24);
    requested(&mut ui, "/btw why?");
    assert!(ui.screen().contains("the answer follows"));
    ui.input(Input::SideAnswer("Because.".into()));
    assert!(!ui.screen().contains("the answer follows"));
}

#[test]
fn pasted_block_says_how_it_can_be_seen() {
    let mut ui = Ui::new(80, 24);
    ui.paste(&"line\n".repeat(12));
    assert!(ui.screen().ends_with("tab opens what was pasted"), "{}", ui.screen());
    ui.press(KeyCode::Char('u'), KeyModifiers::CONTROL);
    ui.paste(&"0123456789abcdef\n".repeat(65_536));
    assert!(ui.screen().ends_with("more than 64 kB; ctrl+g edits it"), "{}", ui.screen());
    ui.wait(5_000);
    ui.key(KeyCode::Tab);
    assert!(ui.screen().ends_with("more than 64 kB; ctrl+g edits it"), "{}", ui.screen());
}

#[test]
fn failure_of_the_editor_is_explained_and_the_message_stays() {
    let mut ui = Ui::new(80, 24);
    ui.types("half");
    assert_eq!(ui.ctrl('g'), [UiRequest::Edit("half".into())]);
    ui.input(Input::Edited(Err("could not run the editor `x`: not found".into())));
    let screen = ui.screen();
    assert!(screen.contains("could not run the editor `x`: not found") && screen.contains("› half"), "{screen}");
    ui.ctrl('u');
    assert_eq!(requested(&mut ui, "/editor two words"), [UiRequest::Edit("two words".into())]);
    ui.input(Input::Edited(Ok("two lines\nof text\n".into())));
    assert!(ui.screen().contains("› two lines\n  of text\n"), "{}", ui.screen());
}

#[test]
fn key_switches_the_thinking_level() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(ui.press(KeyCode::Char('t'), KeyModifiers::ALT), [UiRequest::NextThinking]);
    ui.input(Input::Remark("thinking: low, from the next message on".into()));
    assert!(ui.screen().ends_with("thinking: low, from the next message on"), "{}", ui.screen());
}
