//! The background of the terminal, dark or light, which the terminal reports on request.
//!
//! It answers among the keys, as soon as it can: at once, or after a round trip of SSH. Nothing waits for it.

#[cfg(any(not(unix), test))]
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// Asks the terminal for its background (OSC 11 of xterm). Terminals that do not know the question ignore it.
pub const ASK_FOR_BACKGROUND: &str = "\x1b]11;?\x07";

/// The beginning of the answer; after it come the shares of red, green and blue in hexadecimal digits, and for some
/// terminals one of opacity.
const ANSWER: &str = "11;rgb";
/// Characters of an answer.
#[cfg(any(not(unix), test))]
const MAX_ANSWER: usize = 40;

/// The background of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Light text is read on it.
    Dark,
    /// Dark text is read on it.
    Light,
}

impl Background {
    /// Returns the background that `COLORFGBG` names, as rxvt and Konsole set it: numbers of the sixteen colours, the background
    /// last.
    pub fn of_variable(value: &str) -> Option<Self> {
        match value.rsplit(';').next()?.parse::<u8>().ok()? {
            7 | 9..=15 => Some(Self::Light),
            0..=8 => Some(Self::Dark),
            _ => None,
        }
    }

    /// Reads the answer of a terminal, `11;rgb:RRRR/GGGG/BBBB` with one to four digits each.
    pub(crate) fn of_answer(answer: &str) -> Option<Self> {
        let (kind, shares) = answer.strip_prefix(ANSWER)?.split_once(':')?;
        let shares: Vec<f32> = shares.split('/').map(share).collect::<Option<_>>()?;
        match (kind, shares.as_slice()) {
            ("", [red, green, blue]) | ("a", [red, green, blue, _]) => {
                // The weights of ITU-R BT.709.
                let brightness = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
                Some(if brightness < 0.5 { Self::Dark } else { Self::Light })
            }
            _ => None,
        }
    }
}

/// Returns the part of the largest number with as many hexadecimal digits.
fn share(digits: &str) -> Option<f32> {
    let largest: u16 = match digits.len() {
        1 => 0xf,
        2 => 0xff,
        3 => 0xfff,
        4 => 0xffff,
        _ => return None,
    };
    Some(f32::from(u16::from_str_radix(digits, 16).ok()?) / f32::from(largest))
}

/// Finds the answers of a terminal among the events that a console sends. All others pass.
#[cfg(any(not(unix), test))]
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Events that may be the beginning of an answer.
    held: Vec<Event>,
    /// Their text, behind the mark of the beginning.
    text: String,
    /// Esc came last. With the one that begins an answer it is read as a single key.
    is_after_escape: bool,
}

#[cfg(any(not(unix), test))]
impl Answers {
    /// Returns whether events are held that may be the beginning of an answer. If no more come soon, they are not an
    /// answer.
    #[cfg(not(unix))]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes an event, and appends to `passed` the events that turn out not to be an answer. Returns the background of
    /// an answer that is complete.
    pub(crate) fn take_event(&mut self, event: Event, passed: &mut impl Extend<Event>) -> Option<Background> {
        let key = event.as_key_press_event();
        if self.held.is_empty() {
            let was_after_escape = std::mem::take(&mut self.is_after_escape);
            match key {
                Some(key) if is(key, ']', KeyModifiers::ALT) => self.held.push(event),
                Some(key) if was_after_escape && is(key, ']', KeyModifiers::NONE) => self.held.push(event),
                _ => {
                    self.is_after_escape = key.is_some_and(|key| key.code == KeyCode::Esc);
                    passed.extend([event]);
                }
            }
            return None;
        }
        let is_end = |key| is(key, 'g', KeyModifiers::CONTROL) || is(key, '\\', KeyModifiers::ALT);
        match key {
            Some(key) if is_end(key) && self.text.starts_with(ANSWER) => {
                self.held.clear();
                return Background::of_answer(&std::mem::take(&mut self.text));
            }
            Some(KeyEvent { code: KeyCode::Char(next), modifiers, .. })
                if modifiers.difference(KeyModifiers::SHIFT).is_empty() && self.continues(next) =>
            {
                self.text.push(next);
                self.held.push(event);
            }
            _ => {
                self.give_up(passed);
                // It may begin an answer itself.
                return self.take_event(event, passed);
            }
        }
        None
    }

    /// Appends the held events to `passed`, because they are not an answer.
    pub(crate) fn give_up(&mut self, passed: &mut impl Extend<Event>) {
        self.text.clear();
        passed.extend(self.held.drain(..));
    }

    fn continues(&self, next: char) -> bool {
        match ANSWER.as_bytes().get(self.text.len()) {
            Some(expected) => next == char::from(*expected),
            None => self.text.len() < MAX_ANSWER && (next.is_ascii_hexdigit() || matches!(next, ':' | '/')),
        }
    }
}

#[cfg(any(not(unix), test))]
fn is(key: KeyEvent, code: char, modifiers: KeyModifiers) -> bool {
    key.code == KeyCode::Char(code) && key.modifiers == modifiers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(code: char, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(code), modifiers))
    }

    fn plain(code: char) -> Event {
        key(code, if code.is_ascii_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE })
    }

    /// Returns the events of an answer.
    fn answer(text: &str, end: Event) -> Vec<Event> {
        let text = text.chars().map(plain);
        std::iter::once(key(']', KeyModifiers::ALT)).chain(text).chain([end]).collect()
    }

    fn bell() -> Event {
        key('g', KeyModifiers::CONTROL)
    }

    fn taken(events: Vec<Event>) -> (Vec<Background>, Vec<Event>) {
        let (mut answers, mut passed) = (Answers::default(), Vec::new());
        let found = events.into_iter().filter_map(|event| answers.take_event(event, &mut passed)).collect();
        answers.give_up(&mut passed);
        (found, passed)
    }

    #[test]
    fn answers_are_found_between_keys() {
        let string_end = key('\\', KeyModifiers::ALT);
        for (text, end, background) in [
            ("11;rgb:1e1e/1e1e/2e2e", bell(), Background::Dark),
            ("11;rgb:FFFF/FAFA/F0F0", string_end.clone(), Background::Light),
            ("11;rgb:f/f/f", bell(), Background::Light),
            ("11;rgba:0000/0000/ffff/ffff", string_end, Background::Dark),
        ] {
            let events = [vec![plain('h')], answer(text, end), vec![plain('i')]].concat();
            assert_eq!(taken(events), (vec![background], vec![plain('h'), plain('i')]), "{text}");
        }
    }

    #[test]
    fn answer_right_behind_escape_is_found() {
        let escape = Event::Key(KeyCode::Esc.into());
        let mut events = answer("11;rgb:0/0/0", bell());
        events[0] = plain(']');
        let events = [vec![escape.clone()], events, vec![escape.clone(), plain(']'), plain('x')]].concat();
        assert_eq!(taken(events), (vec![Background::Dark], vec![escape.clone(), escape, plain(']'), plain('x')]));
    }

    #[test]
    fn answer_that_makes_no_sense_is_dropped_and_says_nothing() {
        for text in ["11;rgb:", "11;rgb:1/2", "11;rgb:12345/1/1", "11;rgb", "11;rgb::/1/2"] {
            assert_eq!(taken(answer(text, bell())), (vec![], vec![]), "{text}");
        }
    }

    #[test]
    fn keys_that_begin_like_an_answer_pass() {
        let begin = key(']', KeyModifiers::ALT);
        for keys in [
            vec![begin.clone()],
            vec![begin.clone(), begin.clone(), plain('x')],
            vec![begin.clone(), plain('1'), plain('1'), plain(';'), plain('r'), plain('x')],
            vec![begin.clone(), bell()],
            [vec![begin], "11;rgb:".chars().map(plain).collect(), vec![key('a', KeyModifiers::CONTROL)]].concat(),
        ] {
            assert_eq!(taken(keys.clone()), (vec![], keys));
        }
    }

    #[test]
    fn variable_names_the_background_last() {
        assert_eq!(Background::of_variable("15;0"), Some(Background::Dark));
        assert_eq!(Background::of_variable("0;default;15"), Some(Background::Light));
        for unknown in ["", "default", "0;default", "99"] {
            assert_eq!(Background::of_variable(unknown), None, "{unknown}");
        }
    }

    proptest! {
        #[test]
        fn no_key_is_lost_and_none_is_made_up(parts in prop::collection::vec(0..7_usize, 0..30)) {
            let part = |part: &usize| match part {
                0 => vec![key(']', KeyModifiers::ALT)],
                1 => "11;rgb".chars().map(plain).collect(),
                2 => ":1/2/3".chars().map(plain).collect(),
                3 => vec![bell()],
                4 => vec![key('\\', KeyModifiers::ALT)],
                5 => vec![plain('1')],
                _ => vec![plain('x')],
            };
            let events: Vec<Event> = parts.iter().flat_map(part).collect();
            let (_, passed) = taken(events.clone());
            let mut rest = events.iter();
            prop_assert!(passed.iter().all(|event| rest.any(|sent| sent == event)));
            // Only answers are missing; each has a beginning, a text and an end.
            let missing = events.len() - passed.len();
            prop_assert!(missing == 0 || missing > ANSWER.len() + 1);
        }
    }
}
