//! Decodes the bytes of a terminal into events.
//!
//! A terminal sends keys, pastes and mouse events, and between them reports: answers to questions that this program or an
//! earlier one asked. Reports arrive late, in parts, and in the middle of a paste. The decoder drops them, except for the
//! background, so that no report types into the editor. An unfinished sequence is limited in length and in time, so that no
//! report keeps later keys.

use super::key_codes::{Csi, key_of_byte};
use super::reports::{ReportHeader, TextKind, header, report_length, without_reports};
use crate::theme::Background;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Time before an ESC without a successor counts as the key Esc. A report may arrive in two parts behind its ESC.
const ESCAPE: Duration = Duration::from_millis(50);
/// Time before the beginning of a sequence, such as `ESC [`, counts as a key with Alt.
const INTRODUCED: Duration = Duration::from_millis(100);
/// Time before an unfinished sequence is dropped.
const UNFINISHED: Duration = Duration::from_millis(500);
/// Time before a paste without an end is delivered.
const PASTED: Duration = Duration::from_secs(1);
/// Maximum time that bytes wait while they are not read.
const WAITED: Duration = Duration::from_secs(1);
/// Time that the rest of a sequence is recognized after its beginning was given up.
const LATE: Duration = Duration::from_secs(2);
/// Bytes that are kept of a control sequence. No key has more.
const MAX_CONTROL: usize = 256;
/// Bytes that are kept of a report with text. No report that is read has more.
const KEPT_TEXT: usize = 128;
/// Most bytes of a report with text, such as the contents of the clipboard.
const MAX_TEXT: usize = 16 << 20;
/// Most bytes of a paste that are delivered at once.
const MAX_PASTE: usize = 16 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderState {
    Ground,
    /// A character of several bytes.
    Character,
    /// Behind ESC.
    Escape,
    /// Behind `ESC O`.
    SingleShift,
    /// Behind `ESC [`.
    Control,
    /// Behind `ESC [ [`, before a function key of the Linux console.
    Console,
    /// Behind `ESC [ M`, in a mouse event of three bytes.
    Mouse,
    /// Behind the introducer of a report with text, whose kind is known once its header is complete.
    Text(Option<TextKind>),
    /// Behind ESC in such a report.
    TextEscape(Option<TextKind>),
    Paste,
}

/// Decodes bytes as they arrive. All times are relative to the same moment.
#[derive(Debug)]
pub(super) struct TerminalDecoder {
    state: DecoderState,
    /// Bytes of the unfinished sequence from its ESC on; for a long one, only the first ones.
    held: Vec<u8>,
    /// Bytes of the unfinished sequence that count towards its limit.
    length: usize,
    /// Time of the last byte.
    last: Duration,
    pasted: Vec<u8>,
    /// Time when an ESC became a key because nothing followed it.
    escaped: Option<Duration>,
    /// Kind of the report that was dropped unfinished, and the time of that.
    cut: Option<(TextKind, Duration)>,
    background: Option<Background>,
    events: Vec<Event>,
}

impl TerminalDecoder {
    pub(super) fn new() -> Self {
        Self {
            state: DecoderState::Ground,
            held: Vec::new(),
            length: 0,
            last: Duration::ZERO,
            pasted: Vec::new(),
            escaped: None,
            cut: None,
            background: None,
            events: Vec::new(),
        }
    }

    /// Returns the events that are complete.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the background that the terminal has reported last.
    pub(super) fn take_background(&mut self) -> Option<Background> {
        self.background.take()
    }

    pub(super) fn has_background(&self) -> bool {
        self.background.is_some()
    }

    /// Returns the time when [`Self::expire`] is due; `None` while no sequence is unfinished.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let patience = match self.state {
            DecoderState::Ground => return None,
            DecoderState::Escape | DecoderState::SingleShift => ESCAPE,
            DecoderState::Control if self.held.len() == 2 => INTRODUCED,
            DecoderState::Character
            | DecoderState::Console
            | DecoderState::Text(None)
            | DecoderState::TextEscape(None) => INTRODUCED,
            DecoderState::Control | DecoderState::Mouse | DecoderState::Text(_) | DecoderState::TextEscape(_) => {
                UNFINISHED
            }
            DecoderState::Paste => PASTED,
        };
        Some(self.last + patience)
    }

    /// Gives the unfinished sequence up if it is due.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        match self.state {
            DecoderState::Escape => self.escaped = Some(now),
            DecoderState::Text(Some(kind)) | DecoderState::TextEscape(Some(kind)) => self.cut = Some((kind, now)),
            _ => {}
        }
        self.give_up();
    }

    /// Decodes the bytes of one read. They continue a sequence whose time is over, because they may have waited to be read.
    pub(super) fn feed(&mut self, bytes: &[u8], now: Duration) {
        if self.deadline().is_some_and(|at| now >= at + WAITED) {
            self.expire(now);
        }
        let mut rest = bytes;
        if self.state == DecoderState::Ground {
            rest = &bytes[self.late_length(bytes, now)..];
        }
        // The end of the paste was lost.
        if self.state == DecoderState::Paste && is_lone_control(bytes) {
            self.give_up();
        }
        self.last = now;
        for byte in rest {
            self.byte(*byte);
        }
    }

    /// Returns the number of bytes that belong to a report whose beginning was given up before.
    fn late_length(&mut self, bytes: &[u8], now: Duration) -> usize {
        let is_late = |at: Duration| now.saturating_sub(at) < LATE;
        if self.escaped.take().is_some_and(is_late) {
            let whole = [b"\x1b", bytes].concat();
            if let Some(length) = report_length(&whole) {
                self.learn(&whole[..length]);
                return length - 1;
            }
        }
        let Some((kind, _)) = self.cut.take().filter(|(_, at)| is_late(*at)) else { return 0 };
        let text = bytes.iter().take_while(|byte| kind.allows(**byte)).count();
        match &bytes[text..] {
            [0x07, ..] if text > 0 => text + 1,
            [0x1b, b'\\', ..] => text + 2,
            _ => 0,
        }
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            DecoderState::Ground => self.ground(byte),
            DecoderState::Character => self.character(byte),
            DecoderState::Escape => self.escape(byte),
            DecoderState::SingleShift => self.single_shift(byte),
            DecoderState::Control => self.control(byte),
            DecoderState::Console => match byte {
                b'A'..=b'E' => self.complete(Some(key(KeyCode::F(byte - b'A' + 1), KeyModifiers::NONE))),
                _ => self.interrupted(byte),
            },
            DecoderState::Mouse => self.mouse(byte),
            DecoderState::Text(kind) => self.text(kind, byte),
            DecoderState::TextEscape(kind) => match byte {
                b'\\' => self.end_text(),
                _ => {
                    self.state = DecoderState::Text(kind);
                    self.give_up();
                    self.byte(0x1b);
                    self.byte(byte);
                }
            },
            DecoderState::Paste => self.paste(byte),
        }
    }

    fn ground(&mut self, byte: u8) {
        match byte {
            0x1b => self.hold(byte, DecoderState::Escape),
            0x00..=0x7f => self.events.push(Event::Key(key_of_byte(byte))),
            0xc2..=0xf4 => self.hold(byte, DecoderState::Character),
            // No character begins like this.
            _ => {}
        }
    }

    fn hold(&mut self, byte: u8, state: DecoderState) {
        self.length = 0;
        self.held.push(byte);
        self.state = state;
    }

    fn character(&mut self, byte: u8) {
        if !matches!(byte, 0x80..=0xbf) {
            return self.interrupted(byte);
        }
        self.held.push(byte);
        let (alt, bytes) = match self.held.strip_prefix(b"\x1b") {
            Some(bytes) => (KeyModifiers::ALT, bytes),
            None => (KeyModifiers::NONE, &self.held[..]),
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let event = text.chars().next().filter(|c| !c.is_control()).map(|c| {
                    let shift = if c.is_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE };
                    key(KeyCode::Char(c), shift | alt)
                });
                self.complete(event);
            }
            // Invalid, not unfinished.
            Err(error) if error.error_len().is_some() => self.complete(None),
            Err(_) => {}
        }
    }

    fn escape(&mut self, byte: u8) {
        match byte {
            b'[' => self.hold(byte, DecoderState::Control),
            b'O' => self.hold(byte, DecoderState::SingleShift),
            b']' | b'P' | b'_' => self.hold(byte, DecoderState::Text(None)),
            0xc2..=0xf4 => self.hold(byte, DecoderState::Character),
            0x1b | 0x80.. => self.interrupted(byte),
            _ => {
                let event = key_of_byte(byte);
                self.complete(Some(key(event.code, event.modifiers | KeyModifiers::ALT)));
            }
        }
    }

    fn single_shift(&mut self, byte: u8) {
        match byte {
            b'0'..=b'9' | b';' if self.held.len() < 8 => self.held.push(byte),
            _ => match Csi::single_shift(&self.held[2..], byte) {
                Some(event) => self.complete(Some(event)),
                None => self.interrupted(byte),
            },
        }
    }

    fn control(&mut self, byte: u8) {
        let is_first = self.held.len() == 2;
        match byte {
            b'[' if is_first => self.hold(byte, DecoderState::Console),
            b'M' if is_first => self.hold(byte, DecoderState::Mouse),
            // rxvt ends keys with Shift like this; all reports with this sign have more before it.
            b'$' if !is_first && self.held[2..].iter().all(u8::is_ascii_digit) => self.end_control(byte),
            0x20..=0x3f if self.held.len() < MAX_CONTROL => self.held.push(byte),
            0x20..=0x3f if self.length < MAX_TEXT => self.length += 1,
            0x40..=0x7e if self.length > 0 => self.complete(None),
            0x40..=0x7e => self.end_control(byte),
            _ => self.interrupted(byte),
        }
    }

    fn end_control(&mut self, last: u8) {
        let body = self.held.split_off(2);
        if (body.as_slice(), last) == (b"200", b'~') {
            self.complete(None);
            self.state = DecoderState::Paste;
            return;
        }
        let event = Csi::new(&body, last).event();
        self.complete(event);
    }

    fn mouse(&mut self, byte: u8) {
        if byte < 0x20 {
            return self.interrupted(byte);
        }
        self.held.push(byte);
        if let [.., button, column, row] = self.held[..]
            && self.held.len() == 6
        {
            self.complete(Csi::mouse_of_bytes(button, column, row));
        }
    }

    fn text(&mut self, kind: Option<TextKind>, byte: u8) {
        match (kind, byte) {
            (_, 0x1b) => self.state = DecoderState::TextEscape(kind),
            (None, 0x07) if self.held.len() == 2 => self.interrupted(byte),
            (_, 0x07) => self.end_text(),
            (None, _) => {
                self.held.push(byte);
                match header(&self.held[1..]) {
                    ReportHeader::Unfinished => {}
                    ReportHeader::Of(kind) => self.state = DecoderState::Text(Some(kind)),
                    ReportHeader::None => {
                        self.held.pop();
                        self.interrupted(byte);
                    }
                }
            }
            (Some(kind), _) if kind.allows(byte) && self.length < MAX_TEXT => {
                self.length += 1;
                if self.held.len() < KEPT_TEXT {
                    self.held.push(byte);
                }
            }
            (Some(_), _) => self.interrupted(byte),
        }
    }

    fn end_text(&mut self) {
        let report = std::mem::take(&mut self.held);
        self.learn(&report);
        self.complete(None);
    }

    /// Notes the background that a report names.
    fn learn(&mut self, report: &[u8]) {
        let answer = report.strip_prefix(b"\x1b]").and_then(|text| std::str::from_utf8(text).ok());
        let answer = answer.map(|text| text.trim_end_matches(['\x07', '\x1b', '\\']));
        self.background = answer.and_then(Background::of_answer).or(self.background);
    }

    fn paste(&mut self, byte: u8) {
        self.pasted.push(byte);
        if byte == b'~' && self.pasted.ends_with(PASTE_END) {
            self.pasted.truncate(self.pasted.len() - PASTE_END.len());
            self.give_up();
        } else if self.pasted.len() >= MAX_PASTE && byte.is_ascii() {
            self.end_paste();
        }
    }

    fn end_paste(&mut self) {
        let pasted = std::mem::take(&mut self.pasted);
        let (text, reports) = without_reports(&pasted);
        reports.iter().for_each(|report| self.learn(report));
        self.events.push(Event::Paste(String::from_utf8_lossy(&text).into_owned()));
    }

    fn complete(&mut self, event: Option<Event>) {
        self.events.extend(event);
        self.held.clear();
        self.state = DecoderState::Ground;
    }

    /// Gives the unfinished sequence up because of a byte that does not belong to it.
    fn interrupted(&mut self, byte: u8) {
        self.give_up();
        self.byte(byte);
    }

    /// Ends the unfinished sequence. The beginning of one becomes the keys that send the same bytes; more than that is dropped.
    fn give_up(&mut self) {
        let state = std::mem::replace(&mut self.state, DecoderState::Ground);
        let held = std::mem::take(&mut self.held);
        match state {
            DecoderState::Escape => self.events.push(key(KeyCode::Esc, KeyModifiers::NONE)),
            DecoderState::Paste => self.end_paste(),
            DecoderState::Control if held.len() > 2 => {}
            DecoderState::SingleShift
            | DecoderState::Control
            | DecoderState::Console
            | DecoderState::Text(None)
            | DecoderState::TextEscape(None) => {
                for (at, byte) in held.iter().enumerate().skip(1) {
                    let event = key_of_byte(*byte);
                    let alt = if at == 1 { KeyModifiers::ALT } else { KeyModifiers::NONE };
                    self.events.push(key(event.code, event.modifiers | alt));
                }
                if state == DecoderState::TextEscape(None) {
                    self.byte(0x1b);
                    self.give_up();
                }
            }
            DecoderState::Ground
            | DecoderState::Character
            | DecoderState::Mouse
            | DecoderState::Text(_)
            | DecoderState::TextEscape(_) => {}
        }
    }
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

/// Returns whether these are the bytes of a single key with Ctrl, which no paste ends a read with.
fn is_lone_control(bytes: &[u8]) -> bool {
    match bytes {
        [byte] => byte.is_ascii_control() && !b"\t\n\r\x1b".contains(byte),
        [0x1b, b'[', b'0'..=b'9', .., b'u'] => bytes.len() < 16,
        _ => false,
    }
}
