//! Inputs of the UI besides the events of runs, from any task.

use crate::failure::Failure;
use crate::output::Text;
use pinion_agent::Event;
use pinion_tui::{Input, Tone};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Inputs for the UI, from any task.
#[derive(Debug, Default)]
pub(crate) struct Said {
    waiting: Mutex<Vec<Input>>,
    /// Wakes the UI.
    pub(super) arrived: Notify,
}

impl Said {
    /// Says a line of the host; one that begins with `!` is a warning.
    pub(crate) fn line(&self, line: &Text) {
        let text = line.as_str().trim();
        self.put(match text.strip_prefix("! ") {
            Some(warning) => Input::Note(Tone::Warning, warning.to_owned()),
            None => Input::Note(Tone::Plain, text.to_owned()),
        });
    }

    /// Reports a failure with its remedy.
    pub(crate) fn failure(&self, failure: &Failure) {
        let hint = failure.remedy().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.put(Input::Note(Tone::Error, failure.message() + &hint));
    }

    /// Shows Markdown.
    pub(crate) fn page(&self, markdown: &str) {
        self.put(Input::Page(markdown.to_owned()));
    }

    /// Shows another session, or the same one at another position.
    pub(crate) fn session(&self, events: Vec<Event>) {
        self.put(Input::Session(events));
    }

    /// Removes the segments of plugins from the status line.
    pub(crate) fn remove_segments(&self, plugins: Vec<String>) {
        plugins.into_iter().for_each(|plugin| self.put(Input::Segment { plugin, text: None }));
    }

    pub(crate) fn put(&self, input: Input) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        self.arrived.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Input> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
