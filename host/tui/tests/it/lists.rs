//! Lists for the user to pick from.

use crate::ui::{Ui, of_past};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_tui::{Input, Pick, PickChoice, UiRequest};

fn submits(requests: &[UiRequest]) -> Vec<&str> {
    requests.iter().filter_map(|r| if let UiRequest::Submit(text) = r { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn picked_model_goes_through_the_command() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(ui.press(KeyCode::Char('m'), KeyModifiers::ALT), [UiRequest::List(Pick::Model)]);
    let choice = |name: &str| PickChoice { value: name.into(), label: name.into(), detail: "key set".into() };
    ui.input(Input::Choices(Pick::Model, vec![choice("openai/gpt"), choice("anthropic/claude")]));
    ui.types("cla");
    assert_eq!(submits(&ui.key(KeyCode::Enter)), ["/model anthropic/claude"]);
}

#[test]
fn picked_session_is_resumed_unless_the_agent_works() {
    let choice = PickChoice { value: "1a2b".into(), label: "fix".into(), detail: String::new() };
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Choices(Pick::Session, vec![choice.clone()]));
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Resume("1a2b".into())]);
    ui.input(Input::Session(vec![of_past(pinion_protocol::Message::user("earlier words"))]));
    ui.input(Input::Finished);
    assert!(ui.screen().contains("› earlier words"));
    ui.start("go");
    ui.input(Input::Choices(Pick::Session, vec![choice]));
    assert_eq!(ui.key(KeyCode::Enter), []);
}

#[test]
fn session_in_the_list_is_previewed_renamed_forked_and_deleted() {
    let choice = |id: &str| PickChoice { value: id.into(), label: format!("session {id}"), detail: "1 h ago".into() };
    let mut ui = Ui::new(80, 24);
    let choices = Input::Choices(Pick::Session, vec![choice("1a"), choice("2b")]);
    assert_eq!(ui.input(choices.clone()), [UiRequest::Preview("1a".into())]);
    assert_eq!(ui.input(Input::Preview { id: "1a".into(), text: "› the last request".into() }), []);
    assert!(ui.screen().contains("  › the last request\n  enter resumes"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Down), [UiRequest::Preview("2b".into())]);
    ui.ctrl('r');
    ui.ctrl('u');
    ui.types("parser");
    let list = Pick::Session;
    let rename = UiRequest::RenameSession { id: "2b".into(), name: "parser".into(), list };
    assert_eq!(ui.key(KeyCode::Enter), [rename]);
    assert_eq!(ui.ctrl('x'), []);
    assert!(ui.screen().contains("ctrl+x again deletes"), "{}", ui.screen());
    assert_eq!(ui.ctrl('x'), [UiRequest::DeleteSession { id: "2b".into(), list }]);
    assert_eq!(ui.ctrl('f'), [UiRequest::Fork("2b".into())]);
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
    let choice = PickChoice { value: "1a".into(), label: "one two".into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Model, vec![choice.clone()]));
    ui.types("one two");
    edits(&mut ui);
    assert!(ui.screen().contains("› two X  models 0 of 1"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    ui.input(Input::Choices(Pick::Session, vec![choice]));
    ui.ctrl('r');
    edits(&mut ui);
    let renamed = UiRequest::RenameSession { id: "1a".into(), name: "two X".into(), list: Pick::Session };
    assert_eq!(ui.key(KeyCode::Enter), [renamed]);
    ui.key(KeyCode::Esc);
    ui.ctrl('s');
    ui.types("one two");
    edits(&mut ui);
    assert!(ui.screen().contains("search: two X"), "{}", ui.screen());
}

fn sessions(ids: &[&str]) -> Vec<PickChoice> {
    let choice = |id: &&str| PickChoice {
        value: (*id).into(),
        label: format!("session {id}"),
        detail: format!("~/{id} · 1 h ago · {id}"),
    };
    ids.iter().map(choice).collect()
}

#[test]
fn list_keeps_its_filter_and_place_after_a_change() {
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Choices(Pick::Session, sessions(&["a1", "a2", "a3", "b1"])));
    ui.types("session a");
    ui.key(KeyCode::Down);
    ui.ctrl('x');
    ui.ctrl('x');
    ui.input(Input::Relisted(Pick::Session, sessions(&["a1", "a3", "b1"])));
    assert!(
        ui.screen().contains("› session a  sessions 2 of 3") && ui.screen().contains("❯ session a3"),
        "{}",
        ui.screen()
    );
    ui.key(KeyCode::Up);
    ui.input(Input::Relisted(Pick::Session, sessions(&["b1", "a3", "a1"])));
    assert!(ui.screen().contains("❯ session a1"), "{}", ui.screen());
    // The last one that is deleted closes the list, which does not open again by itself.
    ui.input(Input::Relisted(Pick::Session, Vec::new()));
    assert!(ui.screen().contains("no sessions are left"), "{}", ui.screen());
    ui.input(Input::Relisted(Pick::Session, sessions(&["a1"])));
    assert!(!ui.screen().contains("❯"), "{}", ui.screen());
}

#[test]
fn session_of_the_conversation_is_marked_and_cannot_be_deleted() {
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Choices(Pick::Session, sessions(&["a1", "1a2b3c4d"])));
    assert!(ui.screen().contains("❯ session 1a2b3c4d  this conversation · ~/1a2b3c4d"), "{}", ui.screen());
    assert!(ui.ctrl('x').is_empty() && ui.ctrl('x').is_empty());
    assert!(ui.screen().contains("this is the conversation; `/new` begins another one first"), "{}", ui.screen());
    ui.key(KeyCode::Up);
    assert!(!ui.screen().contains("begins another one"), "{}", ui.screen());
    ui.input(Input::Remark("session a1 is in use by process 7".into()));
    assert!(ui.screen().contains("  session a1 is in use by process 7"), "{}", ui.screen());
}

#[test]
fn sessions_of_all_directories_are_listed_and_found_by_their_directory() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(ui.input(Input::Choices(Pick::Session, Vec::new())), [UiRequest::List(Pick::AllSessions)]);
    ui.input(Input::Choices(Pick::Session, sessions(&["a1"])));
    ui.types("b");
    assert_eq!(ui.ctrl('a'), [UiRequest::List(Pick::AllSessions)]);
    ui.input(Input::Choices(Pick::AllSessions, sessions(&["a1", "b1", "b2"])));
    assert!(ui.screen().contains("› b  sessions of all directories 2 of 3"), "{}", ui.screen());
    ui.ctrl('u');
    ui.types("~/b2");
    assert!(ui.screen().contains("› ~/b2  sessions of all directories 1 of 3"), "{}", ui.screen());
    assert_eq!(ui.press(KeyCode::Char('c'), KeyModifiers::ALT), [UiRequest::CopyCommand("b2".into())]);
    ui.ctrl('x');
    assert_eq!(ui.ctrl('x'), [UiRequest::DeleteSession { id: "b2".into(), list: Pick::AllSessions }]);
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Resume("b2".into())]);
}

#[test]
fn model_in_use_is_marked_and_selected() {
    let mut ui = Ui::new(80, 24);
    let choice = |name: &str| PickChoice { value: name.into(), label: name.into(), detail: "key set".into() };
    ui.input(Input::Choices(Pick::Model, vec![choice("openai/gpt"), choice("anthropic/claude")]));
    assert!(ui.screen().contains("❯ anthropic/claude  in use · key set"), "{}", ui.screen());
}

#[test]
fn palette_has_commands_and_actions_and_loses_nothing() {
    let mut ui = Ui::new(80, 24);
    ui.types("keep the plan");
    ui.ctrl('p');
    ui.types("compact");
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("› /compact keep the plan"), "{}", ui.screen());
    ui.ctrl('p');
    ui.types("fold or unfold all");
    assert!(ui.screen().contains("❯ Fold or unfold all results  ctrl+o"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    ui.ctrl('p');
    ui.types("choose a model");
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::List(Pick::Model)]);
}

#[test]
fn keys_are_a_list_that_closes_without_a_trace() {
    let mut ui = Ui::new(80, 24);
    ui.types("keep this");
    let before = ui.screen();
    ui.key(KeyCode::F(1));
    let screen = ui.screen();
    assert!(screen.contains("❯ enter ") && screen.contains("esc closes"), "{screen}");
    assert!(screen.contains("in progress (send)"), "{screen}");
    // By its effect, by its key and by its name.
    for (typed, row) in [("begin a new", "❯ shift+enter, alt+enter, ctrl+j  "), ("ctrl+o", "❯ ctrl+o  ")] {
        ui.types(typed);
        assert!(ui.screen().contains(row), "{}", ui.screen());
        ui.ctrl('u');
    }
    ui.key(KeyCode::Esc);
    assert_eq!(ui.screen(), before);
    ui.key(KeyCode::F(1));
    ui.types("choose a model");
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::List(Pick::Model)]);
}

#[test]
fn question_mark_lists_the_keys_only_in_the_empty_editor() {
    let mut ui = Ui::new(80, 24);
    let before = ui.screen();
    ui.types("?");
    assert!(ui.screen().contains("in progress (send)"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    assert_eq!(ui.screen(), before);
    ui.types("why?");
    assert!(ui.screen().contains("why?"), "{}", ui.screen());
    // A pasted text is a message, whatever it is.
    let mut ui = Ui::new(80, 24);
    ui.paste("?");
    assert!(ui.screen().contains("› ?"), "{}", ui.screen());
}

#[test]
fn every_list_says_how_to_leave_it() {
    use Pick::{AllSessions, History, Keys, Model, Palette, Plan, Queue, Session, Theme};
    let choice = PickChoice { value: "a".into(), label: "a".into(), detail: String::new() };
    for pick in [Model, Session, AllSessions, Palette, History, Plan, Theme, Queue, Keys] {
        for size in [(80, 24), (40, 10)] {
            let mut ui = Ui::new(size.0, size.1);
            ui.input(Input::Choices(pick, vec![choice.clone(); 20]));
            let screen = ui.screen().replace("\n ", "");
            assert!(screen.contains("enter ") && screen.contains("esc "), "{pick:?} {size:?}: {screen}");
            let shown = ui
                .screen()
                .lines()
                .filter(|row| {
                    row.strip_prefix("❯ ").or(row.strip_prefix("  ")).is_some_and(|row| row.trim_end() == "a")
                })
                .count();
            assert!(shown >= 4, "{pick:?} {size:?}: {screen}");
            ui.key(KeyCode::Esc);
            assert!(!ui.screen().contains("❯ a"), "{pick:?}");
        }
    }
}

#[test]
fn description_of_a_key_is_shown_on_a_small_screen() {
    for size in [(40, 10), (49, 11), (40, 24)] {
        let mut ui = Ui::new(size.0, size.1);
        ui.key(KeyCode::F(1));
        ui.types("choose a model");
        let screen = ui.screen();
        assert!(screen.contains("choose a model") && screen.contains("(models)"), "{size:?}\n{screen}");
        assert!(screen.contains("❯ alt+m"), "{size:?}\n{screen}");
    }
}

#[test]
fn search_and_selection_name_their_keys() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.call("1", "bash", serde_json::json!({ "command": "ls" }));
    ui.result("1", "bash", false, "a\nb\n");
    ui.end(crate::ui::done());
    ui.ctrl('s');
    assert!(ui.screen().contains("search:    enter finds above · ↓ below · esc closes"), "{}", ui.screen());
    ui.size = (40, 10);
    assert!(ui.screen().contains("search:    esc closes"), "{}", ui.screen());
    ui.size = (80, 24);
    ui.key(KeyCode::Esc);
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    let said = "a block is selected; esc unselects, f2 unfolds, alt+c copies";
    assert!(ui.screen().contains(said), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    assert!(!ui.screen().contains(said));
}

#[test]
fn plan_that_is_left_says_how_it_is_executed() {
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Plan { file: "plan.md".into(), text: "1. Look".into() });
    ui.wait(1_000);
    ui.key(KeyCode::Esc);
    assert!(ui.screen().contains("`/execute plan.md` executes the plan"), "{}", ui.screen());
}

#[test]
fn setting_is_found_by_its_description_and_changed() {
    let mut ui = Ui::new(100, 24);
    ui.send("/settings");
    let screen = ui.screen();
    assert!(screen.contains("show reasoning") && screen.contains("off · the model's reasoning"), "{screen}");
    ui.types("keys of vi");
    assert!(ui.screen().contains("❯ vi keys"), "{}", ui.screen());
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("on · the editor has the keys of vi (`vi`)"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    ui.key(KeyCode::Esc);
    assert!(ui.screen().contains("\nnormal · "), "{}", ui.screen());
}

#[test]
fn setting_with_a_list_opens_it() {
    let mut ui = Ui::new(100, 24);
    ui.send("/settings");
    ui.types("colours");
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::List(Pick::Theme)]);
}
