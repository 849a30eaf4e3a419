//! A text that is searched for, and the texts of items that it may be in.
//!
//! A search may look through 100,000 items. Each text is therefore compared as it is written first, and parsed only if it has the
//! letters of the needle one after another, with any marks between them.

use crate::ansi::without_colours;
use crate::markdown::{plain, without_emphasis};
use crate::transcript::TranscriptItem;
use crate::transcript::items::{CallItem, Drawing, SubAgent};
use pinion_protocol::arguments::summary;
use pinion_protocol::{Display, DrawingBlock};
use serde_json::Value;
use std::borrow::Cow;

/// A text that is searched for, in any case.
pub(super) struct Needle {
    /// The text in small letters.
    text: String,
    /// The text without blanks and signs.
    letters: String,
}

/// The form of an item that shows a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisplayForm {
    Folded,
    Unfolded,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        Self { letters: letters(&text), text }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the form of an item that shows the text, if any does.
    pub(super) fn form_of(&self, item: &TranscriptItem) -> Option<DisplayForm> {
        let is_in = match item {
            TranscriptItem::User(text) | TranscriptItem::Note(_, text) => self.is_in(text),
            TranscriptItem::Plan(plan) => self.is_in(&plan.file) || self.is_in_markdown(&plan.text),
            TranscriptItem::Page(text) => self.is_in_markdown(text),
            TranscriptItem::Text(segment) => self.is_in_marked(segment.text(), || plain(&segment.markdown()).into()),
            TranscriptItem::Thinking(thinking) => {
                self.is_in_marked(&thinking.text, || without_emphasis(&thinking.text))
            }
            TranscriptItem::Folded(folded) => self.is_in(&folded.label) || self.is_in_markdown(&folded.text),
            TranscriptItem::Call(call) => return self.form_of_call(call),
            TranscriptItem::Agent(agent) => self.is_in_agent(agent),
        };
        is_in.then_some(DisplayForm::Unfolded)
    }

    fn form_of_call(&self, call: &CallItem) -> Option<DisplayForm> {
        let output = || match call.display {
            Display::Markdown => self.is_in_markdown(&call.output),
            _ => self.is_in(&without_colours(&call.output)),
        };
        let is_in = self.is_in(&format!("{} {}", call.tool, summary(&call.arguments)))
            || !call.has_diff() && self.is_in_arguments(&call.arguments)
            || call.drawn_call.as_ref().is_some_and(|drawing| self.is_in_drawing(drawing))
            || output();
        if is_in {
            return Some(DisplayForm::Unfolded);
        }
        // The result replaces its drawing.
        call.drawn_result.as_ref().filter(|drawing| self.is_in_drawing(drawing)).map(|_| DisplayForm::Folded)
    }

    /// Returns whether arguments contain the text, as they are shown or as they are.
    fn is_in_arguments(&self, arguments: &Value) -> bool {
        let Value::Object(fields) = arguments else { return false };
        fields.iter().any(|(name, value)| match value {
            Value::String(text) => self.is_in(&format!("{name}: {text}")),
            other => self.is_in(&format!("{name}: {other}")) || self.is_in_strings(other),
        })
    }

    fn is_in_strings(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_in(text),
            Value::Array(values) => values.iter().any(|value| self.is_in_strings(value)),
            Value::Object(fields) => fields.values().any(|value| self.is_in_strings(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn is_in_drawing(&self, drawing: &Drawing) -> bool {
        drawing.blocks.iter().any(|block| match block {
            DrawingBlock::Markdown { text } => self.is_in_markdown(text),
            other => other.lines().iter().any(|line| {
                let spans = line.iter().map(|span| span.text.as_str());
                self.is_in(&spans.collect::<String>())
            }),
        })
    }

    fn is_in_agent(&self, agent: &SubAgent) -> bool {
        let calls = agent.calls.iter();
        [&agent.name, &agent.title, &agent.model, &agent.words]
            .into_iter()
            .chain(&agent.end)
            .any(|text| self.is_in(text))
            || calls.clone().any(|call| self.is_in(&format!("{} {}", call.tool, call.head.text())))
            || calls.clone().any(|call| self.is_in(&without_colours(&call.failure)))
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.text)
    }

    fn is_in_markdown(&self, source: &str) -> bool {
        self.is_in_marked(source, || plain(source).into())
    }

    /// Returns whether a text with marks contains the text, as it is written or as it is shown.
    fn is_in_marked<'a>(&self, source: &str, shown: impl FnOnce() -> Cow<'a, str>) -> bool {
        let source = source.to_lowercase();
        source.contains(&self.text) || self.may_be_in(&source) && self.is_in(&shown())
    }

    /// Returns whether a text in small letters may contain the text without its marks.
    fn may_be_in(&self, source: &str) -> bool {
        // Of entities and links, letters are not shown either.
        source.contains(['&', '[']) || letters(source).contains(&self.letters)
    }
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_ascii_punctuation()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everything_shown_is_found(text in "([a-c*_`~&<>#.|\\\\\\[\\]() -]{0,8}\n?){0,6}", from in 0_usize..40, length in 1_usize..12) {
            let shown = plain(&text);
            for line in shown.lines() {
                let part: String = line.chars().skip(from % line.len().max(1)).take(length).collect();
                prop_assert!(part.is_empty() || Needle::new(&part).is_in_markdown(&text), "{part:?} in {shown:?}");
            }
        }
    }
}
