//! Hostile text in the places besides the screen of a conversation.

use crate::random::{apply, hostile, is_hidden, steps, without_own_sequences};
use crate::ui::Ui;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use pinion_tui::terminal::{Multiplexer, Notification, notification, printed};
use pinion_tui::{
    Activity, Buffer, Links, PickChoice, Prose, Rect, Screen, Setup, TerminalIndicators, Theme, UiRequest, undoing,
};
use proptest::prelude::*;

/// Returns the text of rows without the sequences for styles and marks.
fn without_marks(rows: &str) -> String {
    let rows = rows.replace("\x1b]133;A\x1b\\", "").replace("\x1b]133;C\x1b\\", "");
    without_own_sequences(&rows).replace('\n', "")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_at_the_end_are_text_with_styles_and_marks(steps in steps()) {
        let mut ui = Ui::new(80, 24);
        let mut requests = Vec::new();
        for step in steps {
            apply(&mut ui, step);
            requests.extend(ui.input(pinion_tui::Input::Tick));
        }
        let now = ui.now;
        let rows = ui.app.printed(60, 1_000, now);
        let text = without_marks(&printed(&rows, true, true));
        prop_assert!(!text.contains(is_hidden), "{text:?}");
        let plain = printed(&rows, false, false).replace('\n', "");
        prop_assert!(!plain.contains(is_hidden), "{plain:?}");
        for request in requests {
            if let UiRequest::Notify(text) = request {
                prop_assert_eq!(notification(Notification::Bell, &text, Multiplexer::None), "\x07");
                prop_assert!(!text.contains(is_hidden), "{text:?}");
            }
        }
    }

    #[test]
    fn title_is_one_text(directory in hostile()) {
        let mut around = TerminalIndicators::new(true, true);
        let shown = around.show(Activity::Working, &directory);
        let title = shown.strip_prefix("\x1b[22;2t\x1b]2;").and_then(|rest| rest.strip_suffix("\x1b\\\x1b]9;4;3\x1b\\"));
        prop_assert!(title.is_some_and(|title| !title.contains(is_hidden)), "{shown:?}");
        prop_assert_eq!(around.clear(), undoing((true, true)));
    }

    #[test]
    fn prose_of_a_model_is_text_with_styles(pieces in proptest::collection::vec(hostile(), 0..6), is_linear: bool) {
        let mut prose = Prose::new(40, Theme::colours(), is_linear);
        let mut rows: Vec<_> = pieces.iter().flat_map(|piece| prose.push(piece)).collect();
        rows.extend(prose.end());
        for row in &rows {
            prop_assert!(row.plain().is_empty() || row.plain().starts_with("  "), "{:?}", row.plain());
        }
        let text = without_marks(&printed(&rows, true, false));
        prop_assert!(!text.contains(is_hidden), "{text:?}");
    }

    #[test]
    fn setup_draws_a_sound_frame(texts in proptest::collection::vec(hostile(), 6), keys in proptest::collection::vec(0_usize..6, 0..8)) {
        let choice = |text: &String| PickChoice { value: text.clone(), label: text.clone(), detail: text.clone() };
        let providers = || texts.iter().map(choice).collect::<Vec<_>>();
        let mut setup = Setup::new(Theme::colours(), providers(), &texts[0]).with_login(texts.clone());
        let mut screen = Screen::new(80, 24);
        for (step, key) in keys.into_iter().enumerate() {
            match step % 4 {
                0 => setup.failed(&texts[1]),
                1 => setup.opened(&texts[2]),
                2 => setup.models(providers(), &texts[3]),
                _ => drop(setup.handle(&Event::Paste(texts[4].clone()))),
            }
            let codes = [KeyCode::Enter, KeyCode::Esc, KeyCode::Down, KeyCode::Tab, KeyCode::Char('x'), KeyCode::Backspace];
            setup.handle(&Event::Key(KeyEvent::new(codes[key], KeyModifiers::NONE)));
            let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
            let cursor = setup.draw(&mut buffer);
            let frame = String::from_utf8(screen.draw(&buffer, &Links::default(), cursor).to_vec()).unwrap();
            let text = without_own_sequences(&frame);
            prop_assert!(!text.contains(is_hidden), "{text:?}");
        }
    }
}
