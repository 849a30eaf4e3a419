use super::bursts::Bursts;
use super::decoder::TerminalDecoder;
use super::sampled_reports_tests::REPORTS;
use crate::theme::Background;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use proptest::prelude::*;
use std::time::Duration;

const NONE: KeyModifiers = KeyModifiers::NONE;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const ALT: KeyModifiers = KeyModifiers::ALT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

/// A terminal whose reads happen at given times.
struct Reading {
    decoder: TerminalDecoder,
    bursts: Option<Bursts>,
    now: Duration,
    events: Vec<Event>,
}

impl Reading {
    fn new() -> Self {
        Self { decoder: TerminalDecoder::new(), bursts: None, now: Duration::ZERO, events: Vec::new() }
    }

    fn with_bursts() -> Self {
        Self { bursts: Some(Bursts::default()), ..Self::new() }
    }

    fn pass(&mut self) {
        let events = self.decoder.take_events();
        match &mut self.bursts {
            Some(bursts) => bursts.take_events(events, self.now, &mut self.events),
            None => self.events.extend(events),
        }
    }

    /// Lets time pass like a reader that waits.
    fn wait(&mut self, milliseconds: u64) {
        let end = self.now + Duration::from_millis(milliseconds);
        loop {
            let due = [self.decoder.deadline(), self.bursts.as_ref().and_then(Bursts::deadline)];
            let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = at;
            self.decoder.expire(at);
            self.pass();
            self.bursts.iter_mut().for_each(|bursts| bursts.expire(at, &mut self.events));
        }
        self.now = end;
    }

    fn read(&mut self, bytes: impl AsRef<[u8]>) {
        self.decoder.feed(bytes.as_ref(), self.now);
        self.pass();
    }

    fn end(mut self) -> Vec<Event> {
        self.wait(5_000);
        self.events
    }
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

fn typed(text: &str) -> Vec<Event> {
    let modifiers = |c: char| if c.is_uppercase() { SHIFT } else { NONE };
    text.chars().map(|c| key(KeyCode::Char(c), modifiers(c))).collect()
}

/// Returns the events of bytes that arrive at once.
fn decoded(bytes: impl AsRef<[u8]>) -> Vec<Event> {
    let mut reading = Reading::new();
    reading.read(bytes);
    reading.end()
}

#[test]
fn no_report_types_anything() {
    for report in REPORTS {
        assert_eq!(decoded(report), [], "{report:?}");
        assert_eq!(decoded(format!("a{report}b")), typed("ab"), "{report:?}");
    }
}

#[test]
fn background_is_learned_from_its_report_only() {
    for report in REPORTS {
        let mut decoder = TerminalDecoder::new();
        decoder.feed(report.as_bytes(), Duration::ZERO);
        let expected = match report.strip_prefix("\x1b]11;") {
            Some(colour) if colour.contains("ffff/ffff/ffff\x1b") => Some(Background::Light),
            Some(_) => Some(Background::Dark),
            None => None,
        };
        assert_eq!(decoder.take_background(), expected, "{report:?}");
    }
}

#[test]
fn report_in_parts_types_nothing() {
    for report in REPORTS {
        for at in 1..report.len() {
            let mut reading = Reading::new();
            reading.read(&report.as_bytes()[..at]);
            reading.wait(40);
            reading.read(&report.as_bytes()[at..]);
            reading.read("x");
            assert_eq!(reading.end(), typed("x"), "{report:?} at {at}");
        }
    }
}

#[test]
fn rest_of_a_report_whose_beginning_was_given_up_types_nothing() {
    // Behind ESC, which has become a key.
    for report in REPORTS {
        let mut reading = Reading::new();
        reading.read("\x1b");
        reading.wait(300);
        reading.read(&report.as_bytes()[1..]);
        assert_eq!(reading.end(), [key(KeyCode::Esc, NONE)], "{report:?}");
    }
    // In the middle.
    for (begin, rest) in [("\x1b]11;rgb:ffff/ff", "ff/ffff\x07"), ("\x1bP>|kit", "ty(0.42.1)\x1b\\")] {
        let mut reading = Reading::new();
        reading.read(begin);
        reading.wait(1_000);
        reading.read([rest, "x"].concat());
        assert_eq!(reading.end(), typed("x"), "{begin:?}");
    }
}

#[test]
fn unfinished_sequence_keeps_no_later_key() {
    for (begin, is_dropped) in [
        ("\x1b[?2026;", true),
        ("\x1b[1;", true),
        ("\x1b[M!", true),
        ("\x1b]11;rgb:", true),
        ("\x1b]52;c;", true),
        ("\x1bP>|xterm", true),
        ("\x1b_Gi=1", true),
        ("\x1b]11", false),
        ("\x1bP1", false),
        ("\x1b[", false),
        ("\x1bO", false),
        ("\u{e9}\x1b", false),
    ] {
        let mut reading = Reading::new();
        reading.read(begin);
        reading.wait(600);
        let before = reading.events.len();
        assert!(!is_dropped || before == 0, "{begin:?}");
        for c in ["h", "i", "\x03", "\x07"] {
            reading.read(c);
            reading.wait(30);
        }
        let expected = [typed("hi"), vec![key(KeyCode::Char('c'), CONTROL), key(KeyCode::Char('g'), CONTROL)]].concat();
        assert_eq!(reading.end()[before..], expected, "{begin:?}");
    }
}

#[test]
fn control_characters_end_an_unfinished_sequence_at_once() {
    for begin in ["\x1b[?2026;", "\x1b]11;rgb:", "\x1bP>|xterm", "\x1b_Gi=1"] {
        let expected = [key(KeyCode::Char('c'), CONTROL), key(KeyCode::Enter, NONE)];
        assert_eq!(decoded(format!("{begin}\x03\r")), expected, "{begin:?}");
        assert_eq!(decoded(format!("{begin}\x1b[A")), [key(KeyCode::Up, NONE)], "{begin:?}");
    }
}

#[test]
fn memory_for_an_endless_report_is_limited() {
    let mut reading = Reading::new();
    reading.read("\x1b]52;c;");
    for _ in 0..2_000 {
        reading.read([b'A'; 4096]);
    }
    assert!(format!("{:?}", reading.decoder).len() < 4096);
    reading.read("\x07x");
    assert_eq!(reading.end(), typed("x"));
    let mut reading = Reading::new();
    reading.read(["\x1b[", &"1;".repeat(100_000), "y", "x"].concat());
    assert_eq!(reading.end(), typed("x"));
}

#[test]
fn keys_of_all_protocols_are_decoded() {
    let character = |c| KeyCode::Char(c);
    for (bytes, code, modifiers) in [
        ("a", character('a'), NONE),
        ("A", character('A'), SHIFT),
        ("é", character('é'), NONE),
        ("É", character('É'), SHIFT),
        ("漢", character('漢'), NONE),
        ("🎉", character('🎉'), NONE),
        ("\r", KeyCode::Enter, NONE),
        ("\n", character('j'), CONTROL),
        ("\t", KeyCode::Tab, NONE),
        ("\x7f", KeyCode::Backspace, NONE),
        ("\x08", character('h'), CONTROL),
        ("\0", character(' '), CONTROL),
        ("\x07", character('g'), CONTROL),
        ("\x1f", character('7'), CONTROL),
        ("\x1b", KeyCode::Esc, NONE),
        ("\x1ba", character('a'), ALT),
        ("\x1bé", character('é'), ALT),
        ("\x1b\r", KeyCode::Enter, ALT),
        ("\x1b\x7f", KeyCode::Backspace, ALT),
        ("\x1b\x01", character('a'), CONTROL.union(ALT)),
        ("\x1b[", character('['), ALT),
        ("\x1b]", character(']'), ALT),
        ("\x1bO", character('O'), SHIFT.union(ALT)),
        ("\x1bP", character('P'), SHIFT.union(ALT)),
        ("\x1b_", character('_'), ALT),
        ("\x1b\\", character('\\'), ALT),
        ("\x1b[A", KeyCode::Up, NONE),
        ("\x1bOB", KeyCode::Down, NONE),
        ("\x1b[1;5C", KeyCode::Right, CONTROL),
        ("\x1b[5D", KeyCode::Left, CONTROL),
        ("\x1bOd", KeyCode::Left, CONTROL),
        ("\x1b[a", KeyCode::Up, SHIFT),
        ("\x1b[H", KeyCode::Home, NONE),
        ("\x1b[1;2F", KeyCode::End, SHIFT),
        ("\x1b[7~", KeyCode::Home, NONE),
        ("\x1b[3;5~", KeyCode::Delete, CONTROL),
        ("\x1b[3^", KeyCode::Delete, CONTROL),
        ("\x1b[3$", KeyCode::Delete, SHIFT),
        ("\x1b[5~", KeyCode::PageUp, NONE),
        ("\x1bOP", KeyCode::F(1), NONE),
        ("\x1b[[C", KeyCode::F(3), NONE),
        ("\x1b[1;2R", KeyCode::F(3), SHIFT),
        ("\x1b[15~", KeyCode::F(5), NONE),
        ("\x1b[24;2~", KeyCode::F(12), SHIFT),
        ("\x1b[Z", KeyCode::BackTab, SHIFT),
        ("\x1b[27;2;13~", KeyCode::Enter, SHIFT),
        ("\x1b[27;5;9~", KeyCode::Tab, CONTROL),
        ("\x1b[27;6;65~", character('A'), CONTROL.union(SHIFT)),
        ("\x1b[13;2u", KeyCode::Enter, SHIFT),
        ("\x1b[27u", KeyCode::Esc, NONE),
        ("\x1b[9;2u", KeyCode::BackTab, SHIFT),
        ("\x1b[127;5u", KeyCode::Backspace, CONTROL),
        ("\x1b[97;5u", character('a'), CONTROL),
        ("\x1b[97;2u", character('A'), SHIFT),
        ("\x1b[49:33;2u", character('!'), NONE),
        ("\x1b[228;3u", character('ä'), ALT),
        ("\x1b[57376u", KeyCode::F(13), NONE),
    ] {
        assert_eq!(decoded(bytes), [key(code, modifiers)], "{bytes:?}");
    }
    let Some(Event::Key(released)) = decoded("\x1b[97;1:3u").pop() else { panic!("no key") };
    assert_eq!(released.kind, KeyEventKind::Release);
    let Some(Event::Key(locked)) = decoded("\x1b[97;193u").pop() else { panic!("no key") };
    assert_eq!((locked.code, locked.modifiers), (character('a'), NONE));
}

#[test]
fn mouse_and_focus_are_decoded() {
    let kinds = |bytes: &[u8]| {
        let events = decoded(bytes);
        let kind = |event: &Event| match event {
            Event::Mouse(mouse) => (mouse.kind, mouse.column, mouse.row),
            other => panic!("{other:?}"),
        };
        events.iter().map(kind).collect::<Vec<_>>()
    };
    let left = MouseButton::Left;
    let drag =
        [(MouseEventKind::Down(left), 0, 0), (MouseEventKind::Drag(left), 299, 9), (MouseEventKind::Up(left), 1, 1)];
    assert_eq!(kinds(b"\x1b[<0;1;1M\x1b[<32;300;10M\x1b[<0;2;2m"), drag);
    let wheel = [(MouseEventKind::ScrollUp, 4, 5), (MouseEventKind::ScrollDown, 4, 5)];
    assert_eq!(kinds(b"\x1b[<64;5;6M\x1b[<65;5;6M"), wheel);
    assert_eq!(kinds(b"\x1b[M !!\x1b[32;1;1M"), [(MouseEventKind::Down(left), 0, 0); 2]);
    assert_eq!(decoded("\x1b[I\x1b[O"), [Event::FocusGained, Event::FocusLost]);
    // Nothing of these is typed.
    assert_eq!(decoded("\x1b[<0;0;0M\x1b[<99999999999;1;1M\x1b[<M\x1b[<1;1M"), []);
}

fn paste(text: &str) -> Event {
    Event::Paste(text.to_owned())
}

#[test]
fn reports_in_a_paste_are_no_part_of_it() {
    for report in REPORTS {
        let bytes = format!("\x1b[200~one\r{report}two\x1b[201~x");
        assert_eq!(decoded(bytes), [vec![paste("one\rtwo")], typed("x")].concat(), "{report:?}");
    }
    // Text that contains sequences stays as it is.
    let coloured = "\x1b[31mred\x1b[0m \x1b[?25l\x1b]8;;https://example.com\x1b \x1b[2K";
    assert_eq!(decoded(format!("\x1b[200~{coloured}\x1b[201~")), [paste(coloured)]);
}

#[test]
fn paste_without_an_end_is_delivered_and_keeps_no_key() {
    for last in ["\x03", "\x1b[99;5u"] {
        let mut reading = Reading::new();
        reading.read("\x1b[200~one\rtwo");
        reading.wait(300);
        reading.read(last);
        assert_eq!(reading.end(), [paste("one\rtwo"), key(KeyCode::Char('c'), CONTROL)], "{last:?}");
    }
    let mut reading = Reading::new();
    reading.read("\x1b[200~one");
    reading.wait(1_500);
    reading.read("x");
    reading.read("\x1b[201~");
    assert_eq!(reading.end(), [vec![paste("one")], typed("x")].concat());
}

/// Returns the events of reads, each with the time before it.
fn bursts(reads: &[(u64, &str)]) -> Vec<Event> {
    let mut reading = Reading::with_bursts();
    for (pause, bytes) in reads {
        reading.wait(*pause);
        reading.read(bytes);
    }
    reading.end()
}

#[test]
fn several_lines_at_once_are_a_paste() {
    let enter = || vec![key(KeyCode::Enter, NONE)];
    assert_eq!(bursts(&[(0, "one\rtwo\rthree")]), [paste("one\ntwo\nthree")]);
    assert_eq!(bursts(&[(0, "one\r\ntwo\r\n")]), [paste("one\ntwo\n")]);
    assert_eq!(bursts(&[(0, "\tone\n\ntwo\n")]), [paste("\tone\n\ntwo\n")]);
    // In parts, wherever they are cut.
    assert_eq!(bursts(&[(0, "one\r"), (5, "two\r"), (20, "three\r")]), [paste("one\ntwo\nthree\n")]);
    assert_eq!(bursts(&[(0, "one\rtwo"), (5, "\r"), (5, "three\r")]), [paste("one\ntwo\nthree\n")]);
    let single = [(0, "a"), (2, "b"), (2, "\r"), (2, "c"), (2, "\r")];
    assert_eq!(bursts(&single), [typed("ab"), vec![paste("\nc\n")]].concat());
    // With a report in its middle.
    assert_eq!(bursts(&[(0, "one\r\x1b]11;rgb:0/0/0\x07two\r")]), [paste("one\ntwo\n")]);
    // A single line is sent, however it arrives.
    assert_eq!(bursts(&[(0, "hello\r")]), [typed("hello"), enter()].concat());
    assert_eq!(bursts(&[(0, "hello\r\r")]), [typed("hello"), enter(), enter()].concat());
    assert_eq!(
        bursts(&[(0, "a"), (60, "b"), (60, "\r"), (60, "c"), (60, "\r")]),
        [typed("ab"), enter(), typed("c"), enter()].concat()
    );
    assert_eq!(bursts(&[(0, "one\r"), (200, "two\r")]), [typed("one"), enter(), typed("two"), enter()].concat());
    // Keys after a paste are keys again.
    assert_eq!(bursts(&[(0, "one\rtwo"), (100, "\r")]), [vec![paste("one\ntwo")], enter()].concat());
}

/// Keys with the bytes that terminals send for them.
fn any_key() -> impl Strategy<Value = (Vec<u8>, Event)> {
    let fixed: &[(&str, KeyCode, KeyModifiers)] = &[
        ("\r", KeyCode::Enter, NONE),
        ("\t", KeyCode::Tab, NONE),
        ("\x7f", KeyCode::Backspace, NONE),
        ("\x03", KeyCode::Char('c'), CONTROL),
        ("\x07", KeyCode::Char('g'), CONTROL),
        ("\x1bb", KeyCode::Char('b'), ALT),
        ("\x1b[A", KeyCode::Up, NONE),
        ("\x1bOD", KeyCode::Left, NONE),
        ("\x1b[1;5C", KeyCode::Right, CONTROL),
        ("\x1b[3~", KeyCode::Delete, NONE),
        ("\x1b[Z", KeyCode::BackTab, SHIFT),
        ("\x1b[27u", KeyCode::Esc, NONE),
        ("\x1b[99;5u", KeyCode::Char('c'), CONTROL),
        ("\x1b[13;2u", KeyCode::Enter, SHIFT),
        ("\x1b[27;2;13~", KeyCode::Enter, SHIFT),
        ("\x1bOP", KeyCode::F(1), NONE),
    ];
    let fixed = fixed.iter().map(|(bytes, code, modifiers)| (bytes.as_bytes().to_vec(), key(*code, *modifiers)));
    // Not filtered: a long run would reject too many.
    let character = any::<char>().prop_map(|c| if c.is_control() { 'é' } else { c }).prop_map(|c| {
        let event = key(KeyCode::Char(c), if c.is_uppercase() { SHIFT } else { NONE });
        (c.to_string().into_bytes(), event)
    });
    let letter = proptest::char::range(' ', '~').prop_map(|c| (vec![c as u8], typed(&c.to_string()).remove(0)));
    prop_oneof![character, letter, prop::sample::select(fixed.collect::<Vec<_>>())]
}

/// Bytes with the events that they cause: keys, or a report without any.
fn any_part() -> impl Strategy<Value = (Vec<u8>, Option<Event>)> {
    prop_oneof![
        3 => any_key().prop_map(|(bytes, event)| (bytes, Some(event))),
        2 => prop::sample::select(REPORTS).prop_map(|report| (report.as_bytes().to_vec(), None)),
    ]
}

/// A sample, or ten minutes of input with `PINION_LONG=1`.
fn cases() -> u32 {
    if std::env::var_os("PINION_LONG").is_some() { 1_000_000 } else { 512 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_key_between_reports_arrives(
        parts in prop::collection::vec(any_part(), 0..40),
        cuts in prop::collection::vec((1..60_usize, 0..45_u64), 1..60),
    ) {
        let bytes: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        let expected: Vec<Event> = parts.into_iter().filter_map(|(_, event)| event).collect();
        let (mut reading, mut rest) = (Reading::new(), bytes.as_slice());
        for (length, pause) in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*length).min(rest.len()));
            reading.read(now);
            reading.wait(*pause);
            rest = later;
        }
        prop_assert_eq!(reading.end(), expected);
    }

    #[test]
    fn any_bytes_are_decoded_and_keep_no_later_key(
        reads in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..30), 0..700_u64), 0..20),
    ) {
        let mut reading = Reading::with_bursts();
        for (bytes, pause) in &reads {
            reading.read(bytes);
            reading.wait(*pause);
        }
        reading.wait(3_000);
        let before = reading.events.len();
        for c in ["h", "i", "\x03"] {
            reading.wait(60);
            reading.read(c);
        }
        let expected = [typed("hi"), vec![key(KeyCode::Char('c'), CONTROL)]].concat();
        prop_assert_eq!(&reading.end()[before..], expected);
    }
}
