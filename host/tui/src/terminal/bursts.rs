//! Pastes of terminals that do not mark them.
//!
//! Keys that arrive together were not pressed one by one. If one of them ends a line and others follow it, they are a
//! paste of several lines, and no line of it is a message to send.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// Longest time between two keys of a burst. A finger is slower.
const NEXT: Duration = Duration::from_millis(8);
/// Time that the end of a line in a burst waits for more. Parts of a paste arrive within it.
const MORE: Duration = Duration::from_millis(25);
/// Most keys that wait.
const MAX_KEYS: usize = 1 << 20;

/// Finds bursts among the events of a terminal.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    held: Vec<KeyEvent>,
    /// One of them ends a line.
    has_line_end: bool,
    /// Time of the last key that types text.
    last: Option<Duration>,
    /// The keys before `held` were pasted.
    is_pasting: bool,
}

impl Bursts {
    /// Returns the time when [`Self::expire`] is due; `None` while no key waits.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.last.filter(|_| !self.held.is_empty()).map(|last| last + MORE)
    }

    /// Passes the keys that wait if it is due.
    pub(super) fn expire(&mut self, now: Duration, passed: &mut Vec<Event>) {
        if self.deadline().is_some_and(|at| now >= at) {
            self.pass(passed);
        }
    }

    /// Takes the events of one read, and passes all that wait for no more.
    pub(super) fn take_events(&mut self, events: Vec<Event>, now: Duration, passed: &mut Vec<Event>) {
        self.expire(now, passed);
        let count = events.len();
        for event in events {
            let Event::Key(key) = event else {
                self.pass(passed);
                passed.push(event);
                continue;
            };
            if text(key).is_none() {
                self.pass(passed);
                self.is_pasting = false;
                passed.push(event);
                continue;
            }
            let pause = self.last.replace(now).map(|last| now.saturating_sub(last));
            let is_burst = count > 1 || pause.is_some_and(|pause| pause < NEXT);
            self.is_pasting &= pause.is_some_and(|pause| pause < MORE);
            if !is_burst && !self.is_pasting && self.held.is_empty() {
                passed.push(event);
                continue;
            }
            self.held.push(key);
            self.has_line_end |= ends_line(key);
            if self.held.len() >= MAX_KEYS {
                self.pass(passed);
            }
        }
        if !self.is_pasting && !self.has_line_end {
            self.pass(passed);
        }
    }

    /// Passes the keys that wait, as a paste if they are one.
    fn pass(&mut self, passed: &mut Vec<Event>) {
        let held = std::mem::take(&mut self.held);
        self.has_line_end = false;
        let line_end = held.iter().position(|key| ends_line(*key));
        self.is_pasting |= line_end.is_some_and(|at| held[at..].iter().any(|key| !ends_line(*key)));
        match self.is_pasting && !held.is_empty() {
            true => {
                let text: String = held.into_iter().filter_map(text).collect();
                passed.push(Event::Paste(text.replace("\r\n", "\n").replace('\r', "\n")));
            }
            false => passed.extend(held.into_iter().map(Event::Key)),
        }
    }
}

fn ends_line(key: KeyEvent) -> bool {
    matches!(text(key), Some('\r' | '\n'))
}

/// Returns the character that a key types.
fn text(key: KeyEvent) -> Option<char> {
    let is_plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => Some('\n'),
        KeyCode::Enter if key.modifiers.is_empty() => Some('\r'),
        KeyCode::Tab if key.modifiers.is_empty() => Some('\t'),
        KeyCode::Char(c) if is_plain => Some(c),
        _ => None,
    }
}
