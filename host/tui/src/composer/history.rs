//! Earlier messages of the user.

use std::collections::VecDeque;

/// Maximum number and bytes of the messages.
const MAX_MESSAGES: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;

/// Messages, oldest first, and the place of the user among them.
#[derive(Debug, Default)]
pub(super) struct History {
    messages: VecDeque<String>,
    bytes: usize,
    /// The message that is shown, and the text that was being written before.
    at: Option<(usize, String)>,
}

/// A text to show instead of the one in the editor.
pub(super) enum Recalled {
    Message(String),
    /// The text that was being written, as it was.
    Draft(String),
}

impl History {
    pub(super) fn new(messages: Vec<String>) -> Self {
        let mut history = Self::default();
        messages.iter().for_each(|message| history.add(message));
        history
    }

    /// Adds a message, unless it repeats the last one. The oldest messages are dropped.
    pub(super) fn add(&mut self, message: &str) {
        self.at = None;
        if message.trim().is_empty() || self.messages.back().is_some_and(|last| last == message) {
            return;
        }
        self.bytes += message.len();
        self.messages.push_back(message.to_owned());
        while self.messages.len() > MAX_MESSAGES || self.bytes > MAX_BYTES && self.messages.len() > 1 {
            self.bytes -= self.messages.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Returns to the present.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// Moves by one message and returns the text to show; `None` at the end.
    pub(super) fn step(&mut self, is_earlier: bool, current: &str) -> Option<Recalled> {
        let (at, draft) = self.at.take().unwrap_or_else(|| (self.messages.len(), current.to_owned()));
        let next = if is_earlier { at.checked_sub(1) } else { Some(at + 1).filter(|at| *at <= self.messages.len()) };
        match next {
            Some(next) if next == self.messages.len() => Some(Recalled::Draft(draft)),
            Some(next) => {
                self.at = Some((next, draft));
                self.messages.get(next).cloned().map(Recalled::Message)
            }
            None => {
                self.at = Some((at, draft)).filter(|(at, _)| *at < self.messages.len());
                None
            }
        }
    }

    pub(super) fn latest_first(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().rev().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_push_the_oldest_ones_out() {
        let mut history = History::new((0..5).map(|n| n.to_string()).collect());
        history.add(&"x".repeat(MAX_BYTES - 2));
        assert_eq!(history.latest_first().skip(1).collect::<Vec<_>>(), ["4", "3"]);
        history.add(&"y".repeat(2 * MAX_BYTES));
        assert_eq!(history.latest_first().map(str::len).collect::<Vec<_>>(), [2 * MAX_BYTES]);
        history.add("z");
        assert_eq!(history.latest_first().collect::<Vec<_>>(), ["z"]);
    }
}
