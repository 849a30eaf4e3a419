//! Keys of vi in the editor.

use crate::ui::{Ui, done};
use crossterm::event::KeyCode;
use pinion_protocol::Content;
use pinion_tui::{App, Input, Theme, UiRequest, UiSettings};
use proptest::prelude::*;
use ratatui_core::style::Modifier;

fn vi() -> Ui {
    let mut ui = Ui::new(60, 16);
    ui.app = App::new(UiSettings { has_vi_keys: true, ..UiSettings::default() });
    ui
}

/// Returns a UI with this message, and keys as commands.
fn with(text: &str) -> Ui {
    let mut ui = vi();
    ui.paste(text);
    ui.key(KeyCode::Esc);
    // Rows come from the last frame.
    ui.screen();
    ui
}

/// Presses keys; `␛` stands for Escape, and `⏎` for Enter.
fn presses(ui: &mut Ui, keys: &str) {
    for key in keys.chars() {
        ui.key(match key {
            '␛' => KeyCode::Esc,
            '⏎' => KeyCode::Enter,
            '⌫' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        });
    }
}

/// Writes a text, presses the keys of commands, and returns the message that is sent.
fn edited(text: &str, commands: &str) -> String {
    let mut ui = with(text);
    presses(&mut ui, commands);
    let sent = ui
        .key(KeyCode::Enter)
        .into_iter()
        .find_map(|r| if let UiRequest::Submit(text) = r { Some(text) } else { None });
    sent.unwrap_or_default()
}

/// Checks the message that each text and each commands make.
fn assert_edits(cases: &[(&str, &str, &str)]) {
    for (text, commands, expected) in cases {
        assert_eq!(edited(text, commands), *expected, "{text:?}, {commands}");
    }
}

#[test]
fn commands_edit_the_message() {
    assert_edits(&[
        ("one two three", "0dw", "two three"),
        ("one two three", "02dw", "three"),
        ("one two three", "0d2w", "three"),
        ("one two three", "0wcwTWO", "one TWO three"),
        ("one two three", "0c2wX", "X three"),
        ("one two", "bD", "one "),
        ("one two", "bCX", "one X"),
        ("ab", "0xp", "ba"),
        ("abc", "03xu", "abc"),
        ("abc", "xX", "b"),
        ("abc", "h⌫rX", "Xbc"),
        ("one", "Izero A four", "zero A fourone"),
        ("one(two)", "0wx", "onetwo)"),
        ("one two", "0ywP", "one one two"),
        ("one two", "0s1␛u", "one two"),
        ("one two\nthree", "ggwdwx", "one\nthree"),
        ("(a.b) c", "0dWx", ""),
        ("a-b c", "0cWX", "X c"),
        ("one two", "0dex", "two"),
        ("one two", "0eax", "onex two"),
        ("  one", "0D", ""),
        ("f(a, (b)) c", "0d%", " c"),
    ]);
}

#[test]
fn cursor_rests_on_characters_as_in_vi() {
    assert_edits(&[
        ("one", "x", "on"),
        ("one", "aX", "oneX"),
        ("one", "iX", "onXe"),
        ("one\ntwo", "0k$x", "on\ntwo"),
        ("one", "0lllx", "on"),
        ("one", "aX␛x", "one"),
    ]);
}

#[test]
fn lines_are_cut_and_pasted_as_lines() {
    assert_edits(&[
        ("one\ntwo\nthree", "ggdd", "two\nthree"),
        ("one\ntwo\nthree", "dd", "one\ntwo"),
        ("one\ntwo\nthree", "gg2dd", "three"),
        ("one\ntwo\nthree", "ggdj", "three"),
        ("one\ntwo\nthree", "dk", "one"),
        ("one\ntwo\nthree", "2GdG", "one"),
        ("one\ntwo\nthree", "2Gdgg", "three"),
        ("one\ntwo", "ggddp", "two\none"),
        ("one\ntwo", "ggyyp", "one\none\ntwo"),
        ("one\ntwo", "ggY2P", "one\none\none\ntwo"),
        ("one\ntwo", "ggccX", "X\ntwo"),
        ("one\ntwo", "SX", "one\nX"),
        ("one\ntwo", "ggoX", "one\nX\ntwo"),
        ("one\ntwo", "OX", "one\nX\ntwo"),
        ("one\n  two\n)\n\nfive", "ggJJJ", "one two)\nfive"),
        ("one\ntwo", "ggyyGo", "one\ntwo\n"),
    ]);
}

#[test]
fn characters_are_found_replaced_and_change_case() {
    assert_edits(&[
        ("a.b.c.d", "0f.x", "ab.c.d"),
        ("a.b.c.d", "0f.;x", "a.bc.d"),
        ("a.b.c.d", "0f.;;,x", "a.bc.d"),
        ("a.b.c.d", "02f.x", "a.bc.d"),
        ("a.b.c.d", "0dt.x", "b.c.d"),
        ("a.b.c.d", "0t.;x", "a..c.d"),
        ("a.b.c.d", "F.x", "a.b.cd"),
        ("a.b.c.d", "T.;ix", "a.b.xc.d"),
        ("a.b.c.d", "0df.", "b.c.d"),
        ("a.b", "0fxx", ".b"),
        ("abc", "0rx", "xbc"),
        ("abc", "02rxx", "xc"),
        ("abc", "09rx", "abc"),
        ("ab cd", "0lr⏎", "a\n cd"),
        ("aBc", "0~~~", "AbC"),
        ("aBc", "03~", "AbC"),
    ]);
}

#[test]
fn text_objects_are_changed() {
    assert_edits(&[
        ("one two three", "0wlciwX", "one X three"),
        ("one two three", "0wdaw", "one three"),
        ("one two", "daw", "one"),
        ("say \"the word\" now", "0ci\"X", "say \"X\" now"),
        ("say \"the word\" now", "0fhda\"", "say now"),
        ("f(a, (b), c)", "0fcci(X", "f(X)"),
        ("f(a, (b), c)", "0fbdab", "f(a, , c)"),
        ("{\na\n}", "kdi{", "{}"),
        ("f()", "0f(ci(X", "f(X)"),
        ("a.b c", "0diWx", "c"),
    ]);
}

#[test]
fn dot_repeats_the_last_change() {
    assert_edits(&[
        ("one two three", "0dw.", "three"),
        ("one two three four", "0dw2.", "four"),
        ("one two three", "0cwX␛w.", "X X three"),
        ("one\ntwo", "ggA!␛j.", "one!\ntwo!"),
        ("abc", "0rxl.", "xxc"),
        ("a.b.c", "0df..", "c"),
        ("abcd", "0x2l.", "bc"),
    ]);
}

#[test]
fn what_is_typed_after_a_command_is_undone_at_once() {
    assert_eq!(edited("one two", "0cwsome words␛u"), "one two");
    assert_eq!(edited("one two", "0cwsome words␛uU"), "some words two");
}

#[test]
fn selections_are_changed() {
    assert_edits(&[
        ("one two", "0vex", " two"),
        ("one two", "0vlly$p", "one twoone"),
        ("one two", "0vecX", "X two"),
        ("one two", "0wvhod", "onewo"),
        ("one two", "0viwU", "ONE two"),
        ("one two", "0v$~", "ONE TWO"),
        ("one two", "0vlr-", "--e two"),
        ("one\ntwo\nthree", "ggVjd", "three"),
        ("one\ntwo\nthree", "ggVyP", "one\none\ntwo\nthree"),
        ("one\ntwo\nthree", "ggvVcX", "X\ntwo\nthree"),
        ("one\ntwo\nthree", "ggVjJ", "one two\nthree"),
        ("one two", "0yiwwviwp", "one one"),
        ("one two", "0v␛x", "ne two"),
        ("one two", "0vvx", "ne two"),
    ]);
}

#[test]
fn selection_is_marked_and_named() {
    let mut ui = vi();
    ui.app = App::new(UiSettings { has_vi_keys: true, theme: Theme::colours(), ..UiSettings::default() });
    ui.paste("one two");
    presses(&mut ui, "␛0ve");
    assert!(ui.screen().contains("\nvisual"), "{}", ui.screen());
    let (buffer, _) = ui.buffer();
    let marked: String = (0..60)
        .filter(|x| buffer[(*x, 14)].modifier.contains(Modifier::REVERSED))
        .map(|x| buffer[(x, 14)].symbol())
        .collect();
    assert_eq!(marked, "one");
    presses(&mut ui, "V");
    assert!(ui.screen().contains("\nvisual line"), "{}", ui.screen());
    presses(&mut ui, "␛2d");
    assert!(ui.screen().contains("\nnormal 2d"), "{}", ui.screen());
}

#[test]
fn unknown_and_unfinished_keys_change_nothing() {
    for keys in ["q", "dq", "d␛", "gq", "2␛", "z", "fz", "dfz", ";", ",", ".", "cq", "di(", "yiz", "viz␛", "%"] {
        assert_eq!(edited("one two", keys), "one two", "{keys}");
    }
    // Enter after the beginning of a command does not send the message.
    let mut ui = with("one");
    ui.types("d");
    assert_eq!(ui.key(KeyCode::Enter), []);
    for keys in ["x", "dd", "p", "~", "J", "v~", "vd", "Vd", "daw", "ciw", "rx", "e", "b", "w", "dG", "yy"] {
        let mut ui = vi();
        presses(&mut ui, &format!("␛{keys}"));
        assert!(!ui.screen().is_empty(), "{keys}");
    }
}

#[test]
fn mode_is_shown_and_escape_interrupts_in_it() {
    let mut ui = vi();
    ui.start("go");
    ui.types("text");
    assert_eq!(ui.key(KeyCode::Esc), []);
    assert!(ui.screen().contains("\n‹ text") && ui.screen().contains("\nnormal"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Esc), [UiRequest::Interrupt]);
    ui.types("i");
    assert!(ui.screen().contains("\n› text") && !ui.screen().contains("normal"), "{}", ui.screen());
}

#[test]
fn colon_begins_a_command_on_the_empty_editor() {
    let mut ui = vi();
    ui.key(KeyCode::Esc);
    assert_eq!(ui.send(":keys"), [UiRequest::Remember("/keys".into())]);
    assert_eq!(edited("text", ":⏎"), "text");
}

/// Returns a conversation of many rows, with keys as commands.
fn reading() -> Ui {
    let mut ui = vi();
    ui.approval("smart");
    for number in 1..=5 {
        ui.start(&format!("prompt {number}"));
        let rows: String = (1..=20).map(|row| format!("- row {number}.{row}\n")).collect();
        ui.reply(vec![Content::text(rows)]);
        ui.end(done());
        ui.input(Input::Finished);
    }
    ui.key(KeyCode::Esc);
    ui.screen();
    ui
}

/// Returns the first row of the conversation on the screen.
fn top(ui: &mut Ui) -> String {
    ui.screen().lines().next().unwrap_or_default().trim().to_owned()
}

#[test]
fn status_always_names_the_mode() {
    let mut ui = vi();
    ui.approval("smart");
    assert!(ui.screen().contains("\ninsert · "), "{}", ui.screen());
    presses(&mut ui, "␛");
    assert!(ui.screen().contains("\nnormal · "), "{}", ui.screen());
    presses(&mut ui, "3");
    assert!(ui.screen().contains("\nnormal 3 · "), "{}", ui.screen());
    presses(&mut ui, "g");
    assert!(ui.screen().contains("\nnormal 3g · "), "{}", ui.screen());
    presses(&mut ui, "␛:");
    assert!(ui.screen().contains("\ncommand · "), "{}", ui.screen());
}

#[test]
fn normal_mode_moves_in_the_conversation_while_the_editor_is_empty() {
    let mut ui = reading();
    let end = top(&mut ui);
    presses(&mut ui, "gg");
    assert_eq!(top(&mut ui), "› prompt 1");
    presses(&mut ui, "4j");
    assert_eq!(top(&mut ui), "• row 1.3");
    presses(&mut ui, "2k");
    assert_eq!(top(&mut ui), "• row 1.1");
    presses(&mut ui, "2}");
    assert_eq!(top(&mut ui), "› prompt 3");
    presses(&mut ui, "{");
    assert_eq!(top(&mut ui), "› prompt 2");
    ui.ctrl('d');
    let half = top(&mut ui);
    assert!(half.starts_with("• row 2."), "{half}");
    ui.ctrl('u');
    assert_eq!(top(&mut ui), "› prompt 2");
    presses(&mut ui, "G");
    assert_eq!(top(&mut ui), end);
    // A text in the editor has the keys.
    presses(&mut ui, "itext␛gg");
    assert_eq!(top(&mut ui), end);
}

#[test]
fn search_of_vi_is_repeated_in_both_directions_around_the_end() {
    let mut ui = reading();
    presses(&mut ui, "gg/prompt⏎");
    assert!(ui.screen().contains("prompt 2"), "{}", ui.screen());
    presses(&mut ui, "n");
    assert!(ui.screen().contains("prompt 3"), "{}", ui.screen());
    presses(&mut ui, "2N");
    assert!(ui.screen().contains("prompt 1"), "{}", ui.screen());
    presses(&mut ui, "N");
    assert!(ui.screen().contains("prompt 5"), "{}", ui.screen());
    presses(&mut ui, "?row 4.7⏎");
    assert!(ui.screen().contains("row 4.7"), "{}", ui.screen());
    presses(&mut ui, "/nowhere⏎");
    assert!(ui.screen().contains("no match for `nowhere`"), "{}", ui.screen());
    presses(&mut ui, "/row␛");
    assert!(ui.screen().contains("\nnormal"), "{}", ui.screen());
}

#[test]
fn answer_is_copied_and_blocks_are_folded() {
    let mut ui = reading();
    let copied = ui.screen();
    presses(&mut ui, "y");
    assert!(ui.screen().contains("\nnormal y"), "{copied}");
    let requests = ui.key(KeyCode::Char('y'));
    assert!(matches!(&requests[..], [UiRequest::Copy(text)] if text.contains("row 5.20")), "{requests:?}");
    presses(&mut ui, "za");
    presses(&mut ui, "zx");
    ui.wait(5_000);
    assert!(ui.screen().contains("\nnormal · "), "{}", ui.screen());
}

#[test]
fn command_line_completes_runs_and_keeps_the_message() {
    let mut ui = with("half a thought");
    ui.know_commands();
    presses(&mut ui, ":mo");
    let screen = ui.screen();
    assert!(screen.contains("\n: mo") && screen.contains(":mode [MODE]"), "{screen}");
    ui.key(KeyCode::Tab);
    assert!(ui.screen().contains("\n: mode"), "{}", ui.screen());
    presses(&mut ui, "ask");
    let requests = ui.key(KeyCode::Enter);
    assert!(requests.contains(&UiRequest::Own("/mode ask".into())), "{requests:?}");
    assert!(ui.screen().contains("\n‹ half a thought"), "{}", ui.screen());
    // An error stays, and Escape leaves.
    presses(&mut ui, ":nonsense⏎");
    let screen = ui.screen();
    assert!(screen.contains("\n: nonsense") && screen.contains("there is no command `:nonsense`"), "{screen}");
    presses(&mut ui, "␛");
    assert!(ui.screen().contains("\n‹ half a thought"), "{}", ui.screen());
    // The last character removes the line, too.
    presses(&mut ui, ":q⌫⌫");
    assert!(ui.screen().contains("\n‹ half a thought"), "{}", ui.screen());
    // A draft is the message, not the command.
    presses(&mut ui, "x:ask");
    let requests = ui.wait(1_500);
    let is_message =
        |request: &UiRequest| matches!(request, UiRequest::SaveDraft { text, .. } if text == "half a though");
    assert!(requests.iter().any(is_message), "{requests:?}");
    presses(&mut ui, "␛:q");
    assert!(ui.key(KeyCode::Enter).contains(&UiRequest::Quit));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_keys_leave_a_sound_editor(text in "([a-c (\"\n]|\\PC|[世👩\u{200d}e\u{301}]){0,40}", keys in "␛?[!-~ ⏎⌫]{0,40}") {
        let mut ui = with(&text);
        for key in keys.chars() {
            presses(&mut ui, key.encode_utf8(&mut [0; 4]));
            let (_, cursor) = ui.buffer();
            prop_assert!(cursor.is_none_or(|(x, y)| x < 60 && y < 16), "{cursor:?}");
        }
    }
}
