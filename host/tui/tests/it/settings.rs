//! The list of settings.

use crate::ui::Ui;
use crossterm::event::KeyCode;
use pinion_tui::{Pick, UiRequest};

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
