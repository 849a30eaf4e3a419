//! The parts of a conversation that are copied, as they were written.

use crate::ansi::without_colours;
use crate::markdown::code_blocks;
use crate::transcript::{Transcript, TranscriptEntry, TranscriptItem};

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
        let is_written =
            |entry: &&TranscriptEntry| matches!(entry.item, TranscriptItem::Text(_) | TranscriptItem::Thinking(_));
        let mut parts = self.entries.iter().rev().filter(is_written).peekable();
        std::iter::from_fn(move || {
            let last = parts.find(|part| part.item.answer().is_some())?;
            let is_before = |part: &&TranscriptEntry| part.message == last.message && part.item.answer().is_some();
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
            TranscriptItem::Call(call) => without_colours(&call.output).into_owned(),
            TranscriptItem::Thinking(thinking) => thinking.text.clone(),
            TranscriptItem::Agent(agent) => agent.words.clone(),
            TranscriptItem::Folded(folded) => folded.text.clone(),
            TranscriptItem::User(text) => text.clone(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

impl TranscriptItem {
    /// Returns the text of a part of the model's answer.
    fn answer(&self) -> Option<&str> {
        match self {
            Self::Text(segment) => Some(segment.text()),
            _ => None,
        }
    }
}
