//! Dialogs of plugins on low screens.

use crate::ui::Ui;
use crossterm::event::KeyCode;
use pinion_protocol::dialog::{Dialog, DialogAnswer, DialogKind};
use pinion_tui::{Input, UiRequest};

/// Shows a dialog and waits until its keys count.
fn asked(size: (u16, u16), plugin: &str, kind: DialogKind) -> Ui {
    let mut ui = Ui::new(size.0, size.1);
    ui.start("go");
    ui.input(Input::Dialog(7, Dialog { plugin: plugin.into(), question: "which one?".into(), kind }));
    ui.screen();
    ui.wait(400);
    ui
}

fn options(count: usize) -> DialogKind {
    DialogKind::Select((1..=count).map(|n| format!("option {n}")).collect())
}

#[test]
fn selected_option_and_keys_are_on_a_low_screen() {
    for (size, shown) in [((40, 10), 3), ((80, 12), 6), ((80, 24), 8)] {
        let mut ui = asked(size, "talker", options(8));
        for n in 1..=8 {
            let screen = ui.screen();
            assert!(screen.contains("│ which one?") && screen.contains(&format!("❯ option {n}")), "{size:?}: {screen}");
            assert_eq!(screen.matches("option").count(), shown, "{size:?}: {screen}");
            let place = if shown == 8 { "↑↓ enter".to_owned() } else { format!("↑↓ {n} of 8, enter") };
            assert!(screen.lines().last().unwrap().starts_with(&place), "{size:?}: {screen}");
            ui.key(KeyCode::Down);
            ui.wait(100);
        }
        ui.key(KeyCode::Up);
        ui.wait(100);
        ui.key(KeyCode::Enter);
        assert_eq!(ui.wait(100), [UiRequest::Reply(7, Ok(DialogAnswer::Selected(6)))]);
    }
}

#[test]
fn long_head_leaves_room_for_the_answer_and_the_keys() {
    let kinds = [
        (options(3), ["❯ option 1", "↑↓ 1 of 3"]),
        (DialogKind::Confirm, ["│ which one?", "[y] yes"]),
        (DialogKind::Input("words".into()), ["› words", "enter sends"]),
    ];
    for (kind, parts) in kinds {
        let screen = asked((40, 10), &"talker ".repeat(20), kind).screen();
        assert!(screen.contains("? the plugin") && screen.contains("│ which one?"), "{screen}");
        assert!(parts.iter().all(|part| screen.contains(part)), "{screen}");
    }
}
