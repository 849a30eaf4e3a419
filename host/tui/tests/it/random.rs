//! Random inputs: nothing panics, the cursor stays on the screen, and only text and our own sequences are written.

use crate::ui::{Ui, agent_below, agent_start, assistant, done, end_of, ended, of_past, tool_result};
use crossterm::event::{
    Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_protocol::{
    Authority, Block, CompactionReason, Content, Delta, Display, DrawnPart, EventKind, Message, RunEnd, Severity, Span,
    SpanStyle, Spend, Thinking, ToolCall, TurnTrigger,
};
use pinion_tui::{Choice, Facts, Inline, Input, Pick, Request, Screen, SlashCommand, Tone};
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Key(KeyCode, KeyModifiers),
    Paste(String),
    Mouse(MouseEventKind, u16),
    Event(&'static str, u8, String),
    Input(u8, String),
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
        6 => (prop::sample::select(vec!["run", "run", "run", "a", "b"]), 0_u8..22, hostile()).prop_map(|(r, k, t)| Step::Event(r, k, t)),
        3 => (0_u8..20, hostile()).prop_map(|(kind, text)| Step::Input(kind, text)),
        1 => (0_u64..2_000).prop_map(Step::Wait),
        1 => (1_u16..100, 1_u16..40).prop_map(|(columns, rows)| Step::Size(columns, rows)),
    ];
    prop::collection::vec(step, 1..60)
}

fn kind(kind: u8, text: &str) -> EventKind {
    let id = text.len().to_string();
    let call =
        ToolCall::new(id.clone(), text, json!({ text: text, "edits": [{ "old_text": text, "new_text": text }] }));
    match kind {
        0 => agent_start(text),
        1 => EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
        2 => EventKind::MessageUpdate { index: 0, delta: Delta::Text { delta: text.into() } },
        3 => EventKind::MessageUpdate { index: 0, delta: Delta::Thinking { delta: text.into() } },
        4 => end_of(assistant(vec![
            Content::Thinking(Thinking { text: text.into(), ..Thinking::default() }),
            Content::text(text),
            Content::ToolCall(call),
        ])),
        5 => EventKind::ToolExecutionStart { call_id: id, tool: text.into(), arguments: json!({ "path": text }) },
        6 => EventKind::ToolExecutionUpdate { call_id: id, partial: vec![Content::text(text)] },
        7 => end_of(tool_result(&id, "bash", text)),
        8 => EventKind::Retry { attempt: 1, max_attempts: 2, delay_ms: 100, cause: text.into() },
        9 => EventKind::ApprovalRequested { call_id: id, tool: text.into(), authority: Authority::ALL },
        10 => end_of(Message::user(text)),
        11 => EventKind::Progress { call_id: id, text: text.into() },
        12 => agent_below(text, Some("a")),
        13 => EventKind::PluginNotice { plugin: text.into(), severity: Severity::Info, text: text.into() },
        14 => EventKind::Drawing { call_id: id, plugin: text.into(), part: DrawnPart::Result, blocks: blocks(text) },
        15 => ended(&id, text, Display::Code("rs".into()), vec![text.into()]),
        16 => ended(&id, text, Display::Markdown, vec![text.into()]),
        17 => ended(&id, text, Display::Diff, vec![text.into()]),
        18 => ended(&id, text, Display::Plain, vec![text.into()]),
        19 => end_of(Message::labelled(text, text)),
        20 => EventKind::Compaction {
            reason: CompactionReason::Asked,
            dropped: 2,
            summary: text.into(),
            before: 2,
            after: 1,
            spend: Spend::default(),
        },
        _ => EventKind::InputRejected { reason: text.into() },
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let text = || text.to_owned();
    vec![
        Block::Lines { lines: vec![vec![Span::new(text(), SpanStyle::Plain)]] },
        Block::Table { header: vec![text()], rows: vec![vec![text(); 2]] },
        Block::Diff { text: text() },
        Block::Markdown { text: text() },
        Block::Bar { label: text(), done: 1, total: None },
    ]
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
                let is_sound = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
                assert!(!matches!(&request, Request::Copy(text) if !is_sound(text)), "{request:?}");
            }
        }
        Step::Event(run, number, text) => drop(ui.event_of(run, kind(number, &text))),
        Step::Input(0, text) => drop(ui.input(Input::Note(Tone::Warning, text))),
        Step::Input(1, text) => drop(ui.input(Input::Page(text))),
        Step::Input(2, text) => {
            drop(ui.ask(&text, json!({ text.clone(): text, "edits": [{ "old_text": text, "new_text": "" }] })))
        }
        Step::Input(3, text) => drop(ui.input(Input::Insert(text))),
        Step::Input(4, text) => {
            let choice = Choice { value: text.clone(), label: text.clone(), detail: text };
            ui.input(Input::Choices(Pick::Session, vec![choice; 3]));
        }
        Step::Input(5, _) => drop(ui.end(done())),
        Step::Input(6, text) => drop(ui.end(RunEnd::Rejected { reason: text })),
        Step::Input(7, text) => drop(ui.input(Input::Files { paths: vec![text].into(), is_cut: true })),
        Step::Input(8, text) => dialog(ui, &text, DialogKind::Confirm),
        Step::Input(9, text) => dialog(ui, &text, DialogKind::Select(vec![text.clone(); 3])),
        Step::Input(10, text) => dialog(ui, &text, DialogKind::Input(text.clone())),
        Step::Input(11, text) => drop(ui.input(Input::Segment { plugin: text.clone(), text: Some(text) })),
        Step::Input(12, text) => {
            let [model, approval, directory, session] = [(); 4].map(|()| text.clone());
            let (network, branch) = (Some(text.clone()), Some(text));
            ui.input(Input::Facts(Facts { model, approval, directory, session, network, branch, ..Facts::default() }));
        }
        Step::Input(13, text) => drop(ui.input(Input::Plan { file: text.clone(), text })),
        Step::Input(14, text) => drop(ui.input(Input::History(vec![text]))),
        Step::Input(15, text) => {
            let command =
                SlashCommand { name: text.clone(), hint: text.clone(), description: text, is_immediate: true };
            ui.input(Input::Commands(vec![command]));
        }
        Step::Input(16, text) => drop(ui.input(Input::Preview { id: text.clone(), text })),
        Step::Input(17, text) => drop(ui.input(Input::Session(vec![of_past(Message::labelled(text.clone(), text))]))),
        Step::Input(18, text) => {
            let mut question = ui.question(&text, json!({ "path": text, "content": text }));
            [question.label, question.plugin, question.can] = [(); 3].map(|()| text.clone());
            (question.change, question.reason, question.rule) = (Some(text.clone()), Some(text.clone()), Some(text));
            ui.input(Input::Question(question));
        }
        Step::Input(_, text) => drop(
            ui.input(Input::Completions(1, vec![Choice { value: text.clone(), label: text, detail: String::new() }])),
        ),
        Step::Wait(time) => drop(ui.wait(time)),
        Step::Size(columns, rows) => ui.size = (columns, rows),
    }
}

fn dialog(ui: &mut Ui, text: &str, kind: DialogKind) {
    ui.input(Input::Dialog(7, Dialog { plugin: text.into(), question: text.into(), kind }));
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

/// Returns what is left of a frame without the sequences that this crate writes.
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
