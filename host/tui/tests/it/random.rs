//! Random inputs: nothing panics, the cursor stays on the screen, and only text and our own sequences are written.

use crate::places::{events, inputs};
use crate::ui::Ui;
use crossterm::event::{
    Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use pinion_tui::{Inline, Input, Screen, UiRequest};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Key(KeyCode, KeyModifiers),
    Paste(String),
    Mouse(MouseEventKind, u16),
    /// An event of a run, by its place in [`events`].
    Event(&'static str, usize, String),
    /// An input, by its place in [`inputs`].
    Input(usize, String),
    Wait(u64),
    Size(u16, u16),
}

/// Text with everything that a terminal could interpret.
pub(crate) fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z]{1,8} ",
        2 => "[\\x00-\\x1f\\x7f-\\x9f]",
        1 => prop::sample::select(vec![
            "\x1b[2J", "\x1b]52;c;aGk=\x07", "\x1b]0;x\x1b\\", "\x1bP0;1|17/ab\x1b\\", "\u{9b}31m", "\u{202e}abc", "\u{200b}",
            "👨\u{200d}👩", "世界", "مرحبا", "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}", "\n\n", "```\n", "| a | b |\n|---|---|\n", "- ",
            "? allow this call? It ", "\u{fffe}", "\u{e0041}", "1. ", "# ", "> ", "[a](b)", "\u{f0000}",
            "[a](https://b.example/x) ", "\x1b[31m", "\x1b[1;38;5;300;48;2;1;2m", "\x1b[K", "\x1b[0;", "\x1b[8m\x1b[?25l", "https://c.example/\x1b]8;;x\x07 ", "<mailto:a@b.example>",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let code = prop_oneof![
        5 => prop::char::range(' ', '~').prop_map(KeyCode::Char),
        2 => any::<char>().prop_map(KeyCode::Char),
        5 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Backspace, KeyCode::Delete, KeyCode::Up, KeyCode::Down,
            KeyCode::Left, KeyCode::Right, KeyCode::Home, KeyCode::End, KeyCode::PageUp, KeyCode::PageDown, KeyCode::F(1),
        ]),
    ];
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
        KeyModifiers::SHIFT,
    ]);
    let mouse = prop::sample::select(vec![
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
        MouseEventKind::Down(MouseButton::Left),
        MouseEventKind::Drag(MouseButton::Left),
        MouseEventKind::Drag(MouseButton::Left),
        MouseEventKind::Up(MouseButton::Left),
        MouseEventKind::Moved,
    ]);
    let step = prop_oneof![
        6 => (code, modifiers).prop_map(|(code, modifiers)| Step::Key(code, modifiers)),
        1 => hostile().prop_map(Step::Paste),
        1 => (mouse, 0_u16..50).prop_map(|(kind, row)| Step::Mouse(kind, row)),
        6 => (prop::sample::select(vec!["run", "run", "run", "a", "b"]), 0_usize..1_000, hostile()).prop_map(|(r, k, t)| Step::Event(r, k, t)),
        3 => (0_usize..1_000, hostile()).prop_map(|(number, text)| Step::Input(number, text)),
        1 => (0_u64..2_000).prop_map(Step::Wait),
        1 => (1_u16..100, 1_u16..40).prop_map(|(columns, rows)| Step::Size(columns, rows)),
    ];
    prop::collection::vec(step, 1..60)
}

pub(crate) fn apply(ui: &mut Ui, step: Step) {
    match step {
        Step::Key(code, modifiers) => {
            drop(ui.input(Input::Terminal(TerminalEvent::Key(KeyEvent::new(code, modifiers)))))
        }
        Step::Paste(text) => drop(ui.paste(&text)),
        Step::Mouse(kind, row) => {
            let event = MouseEvent { kind, column: row, row, modifiers: KeyModifiers::NONE };
            for request in ui.input(Input::Terminal(TerminalEvent::Mouse(event))) {
                let is_sound = |text: &str| text.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control());
                assert!(!matches!(&request, UiRequest::Copy(text) if !is_sound(text)), "{request:?}");
            }
        }
        Step::Event(run, number, text) => {
            let events = events(&text);
            ui.event_of(run, events[number % events.len()].clone());
        }
        Step::Input(number, text) => {
            let inputs = inputs(&text);
            ui.input(inputs[number % inputs.len()].clone());
        }
        Step::Wait(time) => drop(ui.wait(time)),
        Step::Size(columns, rows) => ui.size = (columns, rows),
    }
}

/// Returns whether a character changes the order of others, or is not seen.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c), 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xad | 0xe0000..=0xe0fff)
}

/// Returns a frame without its links, whose targets are plain addresses.
fn without_links(frame: &str) -> String {
    let mut rest = String::new();
    let mut parts = frame.split("\x1b]8;");
    rest.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (link, text) = part.split_once("\x1b\\").expect("the end of a link");
        let (id, target) = link.split_once(';').expect("a target");
        let is_end = id.is_empty() && target.is_empty();
        let is_address = ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
        assert!(
            is_end || id.starts_with("id=") && is_address && target.bytes().all(|b| b.is_ascii_graphic()),
            "{link:?}"
        );
        rest.push_str(text);
    }
    rest
}

/// Returns the text of a frame without the sequences that this crate writes.
pub(crate) fn without_own_sequences(frame: &str) -> String {
    let frame = without_links(frame);
    let mut rest = String::new();
    let mut parts = frame.split("\x1b[");
    rest.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !matches!(c, '0'..='9' | ';' | '?')).unwrap_or(part.len());
        let last = part[end..].chars().next().unwrap_or('\0');
        let parameters = &part[..end];
        let is_own = match last {
            'h' | 'l' => matches!(parameters, "?2026" | "?25"),
            'm' | 'H' | 'G' | 'K' | 'J' | 'S' | 'r' | 'A' | 'B' | 'L' | 'M' => !parameters.contains('?'),
            _ => false,
        };
        if !is_own {
            rest.push('\x1b');
        }
        rest.push_str(&part[(end + last.len_utf8()).min(part.len())..]);
    }
    rest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_input_draws_a_sound_frame(steps in steps()) {
        let mut ui = Ui::new(80, 24);
        let mut screen = Screen::new(80, 24);
        for step in steps {
            apply(&mut ui, step);
            let (buffer, cursor) = ui.buffer();
            if let Some((x, y)) = cursor {
                prop_assert!(x < ui.size.0 && y < ui.size.1, "cursor {x},{y} on {:?}", ui.size);
            }
            let frame = String::from_utf8(screen.draw(&buffer, ui.app.links(), cursor).to_vec()).unwrap();
            let text = without_own_sequences(&frame);
            prop_assert!(!text.contains(is_hidden), "{text:?}");
            prop_assert!(screen.draw(&buffer, ui.app.links(), cursor).is_empty());
        }
    }

    #[test]
    fn any_input_draws_a_sound_inline_frame(steps in steps()) {
        let mut ui = Ui::inline(80, 24);
        let mut inline = Inline::new(true);
        for step in steps {
            apply(&mut ui, step);
            let (columns, rows) = ui.size;
            let frame = ui.app.draw_inline(columns, rows, ui.now);
            let bytes = String::from_utf8(inline.draw(&frame, ui.app.links(), rows).to_vec()).unwrap();
            let text = without_own_sequences(&bytes).replace(['\r', '\n'], "");
            prop_assert!(!text.contains(is_hidden), "{text:?}");
            prop_assert!(frame.live.area().height <= rows, "{} rows of {rows}", frame.live.area().height);
            if let Some((x, y)) = frame.cursor {
                prop_assert!(x < columns && y < frame.live.area().height, "cursor {x},{y} on {:?}", frame.live.area());
            }
        }
    }
}
