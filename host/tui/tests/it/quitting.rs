//! Two Ctrl-C in a row quit, also during a run.

use crate::ui::Ui;
use crossterm::event::KeyCode;
use pinion_protocol::RunEnd;
use pinion_tui::{Input, Pick, PickChoice, UiRequest};
use serde_json::json;

fn quits(ui: &mut Ui) -> bool {
    ui.ctrl('c').contains(&UiRequest::Quit)
}

#[test]
fn second_ctrl_c_quits_and_one_that_closes_something_does_not_count() {
    type Enter<'a> = &'a dyn Fn(&mut Ui);
    let states: [(&str, usize, Enter<'_>); 6] = [
        ("idle", 2, &|_| {}),
        ("during a run", 2, &|ui| ui.start("go")),
        ("at a question", 2, &|ui| drop(ui.ask("bash", json!({ "command": "true" })))),
        ("with a message", 3, &|ui| drop(ui.types("text"))),
        ("in a list", 3, &|ui| {
            let choice = PickChoice { value: "a".into(), label: "a".into(), detail: String::new() };
            ui.input(Input::Choices(Pick::Model, vec![choice]));
        }),
        ("in a search", 3, &|ui| drop(ui.ctrl('s'))),
    ];
    for (state, needed, enter) in states {
        let mut ui = Ui::new(80, 24);
        enter(&mut ui);
        let pressed = (1..).find(|_| quits(&mut ui)).unwrap();
        assert_eq!(pressed, needed, "{state}");
    }
}

#[test]
fn queued_messages_that_return_to_the_editor_do_not_delay_quitting() {
    let mut ui = Ui::new(80, 24);
    ui.start("one");
    ui.send("two");
    assert!(!quits(&mut ui) && quits(&mut ui));
}

#[test]
fn keys_time_and_the_end_of_a_run_between_two_ctrl_c_prevent_quitting() {
    let mut ui = Ui::new(80, 24);
    assert!(!quits(&mut ui));
    ui.types("x");
    ui.key(KeyCode::Backspace);
    assert!(!quits(&mut ui));
    ui.wait(3_001);
    assert!(!quits(&mut ui));
    ui.wait(2_999);
    assert!(quits(&mut ui));

    let mut ui = Ui::new(80, 24);
    ui.start("one");
    assert!(!quits(&mut ui));
    ui.end(RunEnd::Aborted);
    assert!(!quits(&mut ui));
}
