//! Keys that answer a question: pressed after it appeared, one at a time.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use pinion_tui::terminal::{self, Inputs, RawMode};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Interval between two checks whether the answer to a waiting question still matters.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time without any key before keys count: longer than the pause between two keys of a fast typist or of a paste.
const QUIET: Duration = Duration::from_millis(300);
/// Keys that arrive within this time of each other were pasted, not pressed.
const BURST: Duration = Duration::from_millis(40);

/// A key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKey {
    Yes,
    Always,
    /// Always in this project, by a rule.
    Rule,
    No,
    /// No, with words for the model.
    Refuse,
    More,
    Rest,
    /// Several keys at once; they do not count.
    Burst,
    /// Any other key.
    Other,
    Interrupt,
}

/// A key while text may be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    Character(char),
    /// Several keys at once, with the characters among them up to the first line end.
    Pasted(String),
    Backspace,
    /// Enter, pressed alone.
    Enter,
    Down,
    Escape,
    /// Ctrl-X.
    Mute,
    Interrupt,
    /// The answer no longer matters.
    Late,
    /// Any other key.
    Other,
}

impl AnswerKey {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Always => "always",
            Self::Rule => "always in this project",
            _ => "no",
        }
    }
}

/// The keyboard, in raw mode until this is dropped.
pub(crate) struct RawKeyboard<'a> {
    token: &'a CancellationToken,
    is_quiet: bool,
    inputs: Inputs,
    /// Events that have arrived.
    arrived: VecDeque<Event>,
    _raw: RawMode,
}

impl Drop for RawKeyboard<'_> {
    fn drop(&mut self) {
        // Keys typed during the question are not meant for the next reader.
        self.inputs.discard();
    }
}

impl<'a> RawKeyboard<'a> {
    /// Enters raw mode and discards keys that were typed before. Keys count after a quiet moment.
    pub(crate) fn open(token: &'a CancellationToken) -> io::Result<Self> {
        // Raw mode comes first because it makes the text of an unfinished line readable.
        let raw = RawMode::enter()?;
        let inputs = Inputs::new(terminal::size()?).without_bursts();
        let mut keys = Self { token, is_quiet: false, inputs, arrived: VecDeque::new(), _raw: raw };
        keys.inputs.discard();
        Ok(keys)
    }

    /// Waits for an event. Returns whether there is one.
    fn poll(&mut self, time: Duration) -> io::Result<bool> {
        if self.arrived.is_empty() {
            self.arrived.extend(self.inputs.read_within(time)?);
            // Nothing is drawn here that depends on it.
            let _ = self.inputs.background();
        }
        Ok(!self.arrived.is_empty())
    }

    /// Takes the next event if it is the press of a key; a paste is not one.
    fn pressed(&mut self) -> Option<KeyEvent> {
        match self.arrived.pop_front()? {
            Event::Key(event) if event.kind != KeyEventKind::Release => Some(event),
            _ => None,
        }
    }

    /// Discards keys until no key has arrived for a moment; later keys count. Returns Ctrl-C at any time, and a no once
    /// the answer no longer matters.
    pub(crate) fn settle(&mut self) -> io::Result<Option<AnswerKey>> {
        let mut since = Instant::now();
        while !self.is_quiet {
            if self.token.is_cancelled() {
                return Ok(Some(AnswerKey::No));
            }
            if self.poll(QUIET.saturating_sub(since.elapsed()).min(POLL_INTERVAL))? {
                if self.pressed().and_then(meaning) == Some(AnswerKey::Interrupt) {
                    return Ok(Some(AnswerKey::Interrupt));
                }
                since = Instant::now();
            }
            self.is_quiet = since.elapsed() >= QUIET;
        }
        Ok(None)
    }

    /// Blocks until a key is pressed; returns a no once the answer no longer matters.
    pub(crate) fn next(&mut self) -> io::Result<AnswerKey> {
        loop {
            if self.token.is_cancelled() {
                return Ok(AnswerKey::No);
            }
            if !self.poll(POLL_INTERVAL)? {
                continue;
            }
            let Some(event) = self.pressed() else { continue };
            let key = meaning(event).unwrap_or(AnswerKey::Other);
            if key == AnswerKey::Interrupt || self.is_alone()? {
                return Ok(key);
            }
            self.is_quiet = false;
            return Ok(AnswerKey::Burst);
        }
    }

    /// Like [`Self::settle`], for [`Self::typed`].
    pub(crate) fn settled(&mut self) -> io::Result<Option<Typed>> {
        Ok(self.settle()?.map(|key| if key == AnswerKey::Interrupt { Typed::Interrupt } else { Typed::Late }))
    }

    /// Blocks until a key is pressed, once keys count.
    pub(crate) fn typed(&mut self) -> io::Result<Typed> {
        if let Some(ended) = self.settled()? {
            return Ok(ended);
        }
        loop {
            if self.token.is_cancelled() {
                return Ok(Typed::Late);
            }
            if !self.poll(POLL_INTERVAL)? {
                continue;
            }
            let Some(event) = self.pressed() else { continue };
            let first = typed(event);
            if first == Typed::Interrupt || !self.poll(BURST)? {
                return Ok(first);
            }
            return self.pasted(first);
        }
    }

    /// Reads the rest of a burst; only its characters count.
    fn pasted(&mut self, first: Typed) -> io::Result<Typed> {
        let (mut text, mut is_over) = (String::new(), false);
        let mut take = |typed: Typed| match typed {
            Typed::Character(c) if !is_over => text.push(c),
            Typed::Enter => is_over = true,
            _ => {}
        };
        take(first);
        while self.poll(BURST)? {
            match self.pressed().map(typed) {
                Some(Typed::Interrupt) => return Ok(Typed::Interrupt),
                Some(other) => take(other),
                None => {}
            }
        }
        Ok(Typed::Pasted(text))
    }

    /// Returns whether the key stands alone. A single Enter may follow at once, because some people add it out of
    /// habit.
    fn is_alone(&mut self) -> io::Result<bool> {
        let mut has_entered = false;
        while self.poll(BURST)? {
            let is_enter = self.pressed().is_none_or(|event| event.code == KeyCode::Enter);
            if !is_enter || has_entered {
                return Ok(false);
            }
            has_entered = true;
        }
        Ok(true)
    }
}

fn typed(event: KeyEvent) -> Typed {
    let is_plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
    match event.code {
        KeyCode::Char('c' | 'd') if event.modifiers == KeyModifiers::CONTROL => Typed::Interrupt,
        KeyCode::Char('x') if event.modifiers == KeyModifiers::CONTROL => Typed::Mute,
        KeyCode::Char(c) if is_plain => Typed::Character(c),
        KeyCode::Backspace => Typed::Backspace,
        KeyCode::Enter if is_plain => Typed::Enter,
        KeyCode::Down | KeyCode::PageDown => Typed::Down,
        KeyCode::Esc => Typed::Escape,
        _ => Typed::Other,
    }
}

/// Returns the meaning of a key. Enter has no meaning, because people press it without looking.
fn meaning(event: KeyEvent) -> Option<AnswerKey> {
    let is_plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
    match event.code {
        KeyCode::Char('c' | 'd') if event.modifiers == KeyModifiers::CONTROL => Some(AnswerKey::Interrupt),
        KeyCode::Char('y' | 'Y') if is_plain => Some(AnswerKey::Yes),
        KeyCode::Char('a' | 'A') if is_plain => Some(AnswerKey::Always),
        KeyCode::Char('p' | 'P') if is_plain => Some(AnswerKey::Rule),
        KeyCode::Char('n' | 'N') if is_plain => Some(AnswerKey::No),
        KeyCode::Char('r' | 'R') if is_plain => Some(AnswerKey::Refuse),
        KeyCode::Esc => Some(AnswerKey::No),
        KeyCode::Char(' ') | KeyCode::Down | KeyCode::PageDown if is_plain => Some(AnswerKey::More),
        KeyCode::End | KeyCode::Char('G') if is_plain => Some(AnswerKey::Rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answer_keys_have_a_meaning() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!((key(KeyCode::Enter, none), key(KeyCode::Char(' '), none)), (None, Some(AnswerKey::More)));
        assert_eq!(
            (key(KeyCode::Char('y'), none), key(KeyCode::Char('n'), none)),
            (Some(AnswerKey::Yes), Some(AnswerKey::No))
        );
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(AnswerKey::Interrupt));
        assert_eq!(
            (key(KeyCode::Char('y'), KeyModifiers::CONTROL), key(KeyCode::Char('a'), KeyModifiers::ALT)),
            (None, None)
        );
    }
}
