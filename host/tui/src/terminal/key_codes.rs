//! Keys and mouse events of control sequences: the sequences of xterm, rxvt, the Linux console and kitty's protocol.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyEventState, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Returns the key that sends a single byte of ASCII.
pub(super) fn key_of_byte(byte: u8) -> KeyEvent {
    let control = |c: u8| KeyEvent::new(KeyCode::Char(char::from(c)), KeyModifiers::CONTROL);
    match byte {
        b'\r' => KeyCode::Enter.into(),
        b'\t' => KeyCode::Tab.into(),
        0x7f => KeyCode::Backspace.into(),
        0x1b => KeyCode::Esc.into(),
        0x00 => control(b' '),
        0x01..=0x1a => control(byte - 1 + b'a'),
        0x1c..=0x1f => control(byte - 0x1c + b'4'),
        b'A'..=b'Z' => KeyEvent::new(KeyCode::Char(char::from(byte)), KeyModifiers::SHIFT),
        _ => KeyCode::Char(char::from(byte)).into(),
    }
}

/// A complete control sequence without its `ESC [`.
pub(super) struct Csi<'a> {
    body: &'a [u8],
    last: u8,
}

/// Modifiers, kind and state of a key, as the parameter `modifiers:kind` encodes them.
type Manner = (KeyModifiers, KeyEventKind, KeyEventState);

impl<'a> Csi<'a> {
    pub(super) fn new(body: &'a [u8], last: u8) -> Self {
        Self { body, last }
    }

    /// Returns the event of a sequence behind `ESC O`.
    pub(super) fn single_shift(body: &[u8], last: u8) -> Option<Event> {
        let code = match last {
            b'M' => KeyCode::Enter,
            b'I' => KeyCode::Tab,
            b'X' => KeyCode::Char('='),
            b'j'..=b'y' => KeyCode::Char(char::from(last - b'j' + b'*')),
            b'a'..=b'd' => return Some(event(arrow(last)?, (KeyModifiers::CONTROL, PRESS, PLAIN))),
            _ => return Csi::new(body, last).function(),
        };
        Some(event(code, Csi::new(body, last).manner()))
    }

    /// Returns the event; `None` for a report, and for a sequence that is unknown.
    pub(super) fn event(&self) -> Option<Event> {
        if self.body.first() == Some(&b'<') {
            return self.mouse();
        }
        if self.last == b'$' || (matches!(self.last, b'^' | b'@') && !self.body.is_empty()) {
            return self.rxvt();
        }
        // Other signs are in reports only.
        if !self.body.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')) {
            return None;
        }
        match self.last {
            b'~' if self.number(0) == Some(27) => self.other_key(),
            b'~' => Some(event(numbered(self.number(0)?)?, self.manner())),
            b'u' => self.kitty(),
            b'M' => self.mouse(),
            b'I' if self.body.is_empty() => Some(Event::FocusGained),
            b'O' if self.body.is_empty() => Some(Event::FocusLost),
            b'a'..=b'd' if self.body.is_empty() => Some(event(arrow(self.last)?, (KeyModifiers::SHIFT, PRESS, PLAIN))),
            b'Z' => {
                let (modifiers, kind, state) = self.manner();
                Some(event(KeyCode::BackTab, (modifiers | KeyModifiers::SHIFT, kind, state)))
            }
            // F3 with modifiers, and a position of the cursor.
            b'R' if !self.body.is_empty() => self.function().filter(|_| {
                self.number(0) == Some(1) && matches!(self.number(1), Some(2..=16)) && self.parameters().count() == 2
            }),
            _ => self.function(),
        }
    }

    fn parameters(&self) -> impl Iterator<Item = &'a [u8]> {
        self.body.split(|byte| *byte == b';')
    }

    /// Returns a parameter without the part after a colon.
    fn number(&self, at: usize) -> Option<u32> {
        parse(self.parameters().nth(at)?.split(|byte| *byte == b':').next()?)
    }

    fn manner(&self) -> Manner {
        let mut parts = self.parameters().nth(1).unwrap_or_default().split(|byte| *byte == b':');
        let mask = parts.next().and_then(parse).unwrap_or(1);
        let kind = match parts.next().and_then(parse) {
            Some(2) => KeyEventKind::Repeat,
            Some(3) => KeyEventKind::Release,
            _ => PRESS,
        };
        let (modifiers, state) = modifiers(mask);
        (modifiers, kind, state)
    }

    /// Reads `1;MODIFIERS` and a letter, or an older form with the modifiers alone.
    fn function(&self) -> Option<Event> {
        let code = match self.last {
            b'A'..=b'D' => arrow(self.last + 32)?,
            b'E' => KeyCode::KeypadBegin,
            b'F' => KeyCode::End,
            b'H' => KeyCode::Home,
            b'P'..=b'S' => KeyCode::F(self.last - b'P' + 1),
            _ => return None,
        };
        let count = if self.body.is_empty() { 0 } else { self.parameters().count() };
        match (count, self.number(0)) {
            (0, _) | (1, None | Some(1)) | (2, None | Some(1)) => Some(event(code, self.manner())),
            (1, Some(mask @ 2..=16)) => Some(event(code, (modifiers(mask).0, PRESS, PLAIN))),
            _ => None,
        }
    }

    /// Reads a key of rxvt, whose last byte encodes the modifiers.
    fn rxvt(&self) -> Option<Event> {
        let modifiers = match self.last {
            b'$' => KeyModifiers::SHIFT,
            b'^' => KeyModifiers::CONTROL,
            _ => KeyModifiers::CONTROL | KeyModifiers::SHIFT,
        };
        Some(event(numbered(parse(self.body)?)?, (modifiers, PRESS, PLAIN)))
    }

    /// Reads `27;MODIFIERS;CHARACTER`, xterm's form for keys without a separate form.
    fn other_key(&self) -> Option<Event> {
        let c = char::from_u32(self.number(2)?)?;
        let (modifiers, kind, state) = self.manner();
        character(c, (modifiers, kind, state))
    }

    /// Reads `CHARACTER:SHIFTED:BASE;MODIFIERS:KIND;TEXT`.
    fn kitty(&self) -> Option<Event> {
        let code = self.number(0)?;
        let (modifiers, kind, state) = self.manner();
        if let Some(code) = of_keypad(code) {
            return Some(event(code, (modifiers, kind, state | KeyEventState::KEYPAD)));
        }
        match code {
            57358 => Some(event(KeyCode::CapsLock, (modifiers, kind, state))),
            57359 => Some(event(KeyCode::ScrollLock, (modifiers, kind, state))),
            57360 => Some(event(KeyCode::NumLock, (modifiers, kind, state))),
            57361 => Some(event(KeyCode::PrintScreen, (modifiers, kind, state))),
            57362 => Some(event(KeyCode::Pause, (modifiers, kind, state))),
            57363 => Some(event(KeyCode::Menu, (modifiers, kind, state))),
            57376..=57398 => Some(event(KeyCode::F(u8::try_from(code - 57376 + 13).ok()?), (modifiers, kind, state))),
            // Keys of media and modifiers alone.
            57344..=63743 => None,
            _ => {
                let mut codes = self.parameters().next()?.split(|byte| *byte == b':').skip(1);
                let shifted = codes.next().and_then(parse).and_then(char::from_u32);
                match shifted.filter(|c| modifiers.contains(KeyModifiers::SHIFT) && !c.is_control()) {
                    Some(c) => Some(event(KeyCode::Char(c), (modifiers - KeyModifiers::SHIFT, kind, state))),
                    None => character(char::from_u32(code)?, (modifiers, kind, state)),
                }
            }
        }
    }

    /// Reads a mouse event with numbers, of xterm (SGR) or rxvt.
    fn mouse(&self) -> Option<Event> {
        let body = self.body.strip_prefix(b"<");
        let mut numbers = body.unwrap_or(self.body).split(|byte| *byte == b';').map(parse);
        let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let button = if body.is_some() { button } else { button.checked_sub(32)? };
        mouse(button, column, row, self.last == b'm')
    }

    /// Reads a mouse event of three bytes.
    pub(super) fn mouse_of_bytes(button: u8, column: u8, row: u8) -> Option<Event> {
        let number = |byte: u8| u32::from(byte.saturating_sub(32));
        mouse(number(button), number(column), number(row), false)
    }
}

const PRESS: KeyEventKind = KeyEventKind::Press;
const PLAIN: KeyEventState = KeyEventState::NONE;

fn event(code: KeyCode, (modifiers, kind, state): Manner) -> Event {
    Event::Key(KeyEvent::new_with_kind_and_state(code, modifiers, kind, state))
}

/// Reads a decimal number.
fn parse(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn modifiers(mask: u32) -> (KeyModifiers, KeyEventState) {
    let bits = mask.saturating_sub(1);
    let modifiers = [
        KeyModifiers::SHIFT,
        KeyModifiers::ALT,
        KeyModifiers::CONTROL,
        KeyModifiers::SUPER,
        KeyModifiers::HYPER,
        KeyModifiers::META,
    ];
    let is_set = |at: usize| bits >> at & 1 == 1;
    let modifiers = modifiers.into_iter().enumerate().filter(|(at, _)| is_set(*at)).map(|(_, modifier)| modifier);
    let locks = [(6, KeyEventState::CAPS_LOCK), (7, KeyEventState::NUM_LOCK)];
    let state = locks.into_iter().filter(|(at, _)| is_set(*at)).map(|(_, state)| state);
    (modifiers.collect(), state.collect())
}

/// Returns the key that types a character, also for control characters.
fn character(c: char, (modifiers, kind, state): Manner) -> Option<Event> {
    let (code, modifiers) = match c {
        '\t' if modifiers.contains(KeyModifiers::SHIFT) => (KeyCode::BackTab, modifiers),
        '\0'..='\x7f' if c.is_control() => {
            let key = key_of_byte(u8::try_from(c).ok()?);
            (key.code, key.modifiers | modifiers)
        }
        // Some terminals report the letter without the effect of Shift.
        _ if modifiers == KeyModifiers::SHIFT => (KeyCode::Char(upper(c)), modifiers),
        _ if c.is_control() => return None,
        _ => (KeyCode::Char(c), modifiers),
    };
    Some(event(code, (modifiers, kind, state)))
}

fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

fn arrow(letter: u8) -> Option<KeyCode> {
    [KeyCode::Up, KeyCode::Down, KeyCode::Right, KeyCode::Left].get(usize::from(letter.checked_sub(b'a')?)).copied()
}

/// Returns the key of a sequence with `~`.
fn numbered(number: u32) -> Option<KeyCode> {
    let function = |first: u32| u8::try_from(number - first).ok().map(KeyCode::F);
    match number {
        1 | 7 => Some(KeyCode::Home),
        2 => Some(KeyCode::Insert),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        11..=15 => function(10),
        17..=21 => function(11),
        23..=26 => function(12),
        28 | 29 => function(15),
        31..=34 => function(17),
        57427 => Some(KeyCode::KeypadBegin),
        _ => None,
    }
}

/// Returns a key of the number pad in kitty's protocol.
fn of_keypad(code: u32) -> Option<KeyCode> {
    const CHARACTERS: &[u8] = b"0123456789./*-+\r=,";
    const KEYS: &[KeyCode] = &[
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Insert,
        KeyCode::Delete,
        KeyCode::KeypadBegin,
    ];
    let at = usize::try_from(code.checked_sub(57399)?).ok()?;
    let character = CHARACTERS.get(at).map(|byte| key_of_byte(*byte).code);
    character.or_else(|| KEYS.get(at.checked_sub(CHARACTERS.len())?).copied())
}

/// Returns a mouse event of a button's number and a place that begins with 1.
fn mouse(button: u32, column: u32, row: u32, is_release: bool) -> Option<Event> {
    let number = (button & 3) | (button & 0xc0) >> 4;
    let is_drag = button & 32 != 0;
    let pressed = match number {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let kind = match (number, pressed, is_drag) {
        (_, Some(button), true) => MouseEventKind::Drag(button),
        (_, Some(button), false) if is_release => MouseEventKind::Up(button),
        (_, Some(button), false) => MouseEventKind::Down(button),
        (3, _, false) => MouseEventKind::Up(MouseButton::Left),
        (3..=5, _, true) => MouseEventKind::Moved,
        (4, ..) => MouseEventKind::ScrollUp,
        (5, ..) => MouseEventKind::ScrollDown,
        (6, ..) => MouseEventKind::ScrollLeft,
        (7, ..) => MouseEventKind::ScrollRight,
        _ => return None,
    };
    let masks = [(4, KeyModifiers::SHIFT), (8, KeyModifiers::ALT), (16, KeyModifiers::CONTROL)];
    let modifiers = masks.into_iter().filter(|(mask, _)| button & mask != 0).map(|(_, modifier)| modifier).collect();
    let place = |number: u32| u16::try_from(number).ok()?.checked_sub(1);
    Some(Event::Mouse(MouseEvent { kind, column: place(column)?, row: place(row)?, modifiers }))
}
