//! Completion of files and of arguments.

use crate::ui::Ui;
use crossterm::event::KeyCode;
use pinion_tui::{Input, PickChoice, UiRequest, matching};
use std::sync::Arc;

fn files(paths: &[&str], is_cut: bool) -> Input {
    Input::Files { paths: Arc::new(paths.iter().map(ToString::to_string).collect()), is_cut }
}

fn sent(requests: &[UiRequest]) -> Option<&str> {
    requests.iter().find_map(|request| if let UiRequest::Submit(text) = request { Some(text.as_str()) } else { None })
}

#[test]
fn form_of_the_arguments_stands_behind_a_command_without_any() {
    let mut ui = Ui::new(40, 24);
    let (row, cursor) = (|ui: &mut Ui| ui.screen().lines().find(|row| row.starts_with("› ")).unwrap().to_owned(), 9);
    ui.types("/model ");
    assert_eq!(row(&mut ui), "› /model [MODEL]");
    assert_eq!(ui.buffer().1.unwrap().0, cursor);
    ui.types("x");
    assert_eq!(row(&mut ui), "› /model x");
    ui.ctrl('u');
    ui.types("/cost ");
    assert_eq!(row(&mut ui).trim_end(), "› /cost");
    ui.ctrl('u');
    ui.types("/none ");
    assert_eq!(row(&mut ui).trim_end(), "› /none");
}

#[test]
fn name_with_blanks_is_quoted_and_completed_within_quotes() {
    let mut ui = Ui::new(80, 24);
    ui.input(files(&["docs/my shot.png", "docs/other.md"], false));
    ui.types("see @my");
    ui.key(KeyCode::Tab);
    assert!(ui.screen().contains("› see @\"docs/my shot.png\""), "{}", ui.screen());
    ui.ctrl('u');
    ui.types("see @\"my sh");
    assert!(ui.screen().contains("❯ docs/my shot.png"), "{}", ui.screen());
    ui.key(KeyCode::Enter);
    ui.types("now");
    assert_eq!(sent(&ui.key(KeyCode::Enter)), Some("see @\"docs/my shot.png\" now"));
}

#[test]
fn name_that_is_complete_is_sent_by_enter() {
    let mut ui = Ui::new(80, 24);
    ui.input(files(&["a.rs", "src/a.rs"], false));
    ui.types("read @a.r");
    assert_eq!(sent(&ui.key(KeyCode::Enter)), None);
    ui.ctrl('u');
    ui.types("read @a.rs");
    assert!(ui.screen().contains("❯ a.rs"), "{}", ui.screen());
    assert_eq!(sent(&ui.key(KeyCode::Enter)), Some("read @a.rs"));
}

#[test]
fn list_of_files_that_is_cut_says_so() {
    let mut ui = Ui::new(80, 24);
    ui.types("@");
    ui.input(files(&["a.rs", "b.rs"], true));
    let screen = ui.screen();
    assert!(screen.contains("  b.rs\n  … among the first files only, because there are too many\n"), "{screen}");
}

#[test]
fn picture_dropped_behind_a_word_is_a_word_of_its_own() {
    let mut ui = Ui::new(80, 24);
    ui.types("look");
    ui.paste("/tmp/my shot.png");
    assert_eq!(sent(&ui.key(KeyCode::Enter)), Some("look @\"/tmp/my shot.png\" "));
}

#[test]
fn arguments_match_by_their_letters_best_first() {
    let choice =
        |value: &str, label: &str| PickChoice { value: value.into(), label: label.into(), detail: String::new() };
    let found = |typed: &str| {
        let choices = vec![choice("1a2b", "fix the parser"), choice("smart", "smart"), choice("ask", "ask")];
        matching(typed, choices).into_iter().map(|choice| choice.value).collect::<Vec<_>>()
    };
    assert_eq!(found("prs"), ["1a2b"]);
    // Letters that stand together come first, and `smart` has them in another order.
    assert_eq!(found("as"), ["ask", "1a2b"]);
    assert_eq!(found("").len(), 3);
}
