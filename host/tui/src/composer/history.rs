//! Earlier messages of the user.

/// Maximum number of messages.
const MAX_MESSAGES: usize = 1_000;

/// Messages, oldest first, and the place of the user among them.
#[derive(Debug, Default)]
pub(super) struct History {
    messages: Vec<String>,
    /// The message that is shown, and the text that was being written before.
    at: Option<(usize, String)>,
}

impl History {
    pub(super) fn new(mut messages: Vec<String>) -> Self {
        messages.drain(..messages.len().saturating_sub(MAX_MESSAGES));
        Self { messages, at: None }
    }

    /// Adds a message, unless it repeats the last one.
    pub(super) fn add(&mut self, message: &str) {
        self.at = None;
        if message.trim().is_empty() || self.messages.last().is_some_and(|last| last == message) {
            return;
        }
        self.messages.push(message.to_owned());
        if self.messages.len() > MAX_MESSAGES {
            self.messages.remove(0);
        }
    }

    /// Returns to the present.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// Moves by one message and returns the text to show; `None` at the end.
    pub(super) fn step(&mut self, is_earlier: bool, current: &str) -> Option<String> {
        let (at, draft) = self.at.take().unwrap_or_else(|| (self.messages.len(), current.to_owned()));
        let next = if is_earlier { at.checked_sub(1) } else { Some(at + 1).filter(|at| *at <= self.messages.len()) };
        match next {
            Some(next) if next == self.messages.len() => Some(draft),
            Some(next) => {
                self.at = Some((next, draft));
                self.messages.get(next).cloned()
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
