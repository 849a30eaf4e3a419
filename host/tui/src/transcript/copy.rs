//! The parts of a conversation that are copied, as they were written.

use crate::ansi::without_colours;
use crate::markdown::code_blocks;
use crate::transcript::{Entry, Item, Transcript};

impl Transcript {
    /// Returns an answer of the model; 1 stands for the last one.
    pub(crate) fn answer(&self, number: usize) -> Option<String> {
        self.answers().nth(number.checked_sub(1)?)
    }

    /// Returns a code block of the model's answers; 1 stands for the last one.
    pub(crate) fn code(&self, number: usize) -> Option<String> {
        let mut blocks = self.answers().flat_map(|answer| code_blocks(&answer).into_iter().rev());
        blocks.nth(number.checked_sub(1)?)
    }

    /// Returns the answers of the model, the last one first.
    fn answers(&self) -> impl Iterator<Item = String> {
        // An item that came while the model wrote, such as a note, stands between parts of one message.
        let is_written = |entry: &&Entry| matches!(entry.item, Item::Text(_) | Item::Thinking(_));
        let mut parts = self.entries.iter().rev().filter(is_written).peekable();
        std::iter::from_fn(move || {
            let last = parts.find(|part| part.item.answer().is_some())?;
            let is_before = |part: &&Entry| part.message == last.message && part.item.answer().is_some();
            let before = std::iter::from_fn(|| parts.next_if(is_before));
            let mut answer: Vec<&str> =
                std::iter::once(last).chain(before).filter_map(|part| part.item.answer()).collect();
            answer.reverse();
            Some(answer.concat())
        })
    }

    /// Returns the text of the selected item: the result of a call, reasoning, a message, or the last words of a sub-agent.
    pub(crate) fn selected_text(&self) -> Option<String> {
        let entry = self.entries.get(self.selected?)?;
        let text = match &entry.item {
            Item::Call(call) => without_colours(&call.output).into_owned(),
            Item::Thinking(thinking) => thinking.text.clone(),
            Item::Agent(agent) => agent.words.clone(),
            Item::Folded(folded) => folded.text.clone(),
            Item::User(text) => text.clone(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

impl Item {
    /// Returns the text of a part of the model's answer.
    fn answer(&self) -> Option<&str> {
        match self {
            Self::Text(segment) => Some(segment.text()),
            _ => None,
        }
    }
}
