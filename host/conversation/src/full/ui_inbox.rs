//! Inputs of the UI besides the events of runs, from any task.

use pinion_agent::Event;
use pinion_app::failure::Failure;
use pinion_console::output::Text;
use pinion_tui::{Input, Tone};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Inputs for the UI, from any task.
#[derive(Debug, Default)]
pub(crate) struct UiInbox {
    waiting: Mutex<BufferedInputs>,
    /// Wakes the UI.
    pub(super) arrived: Notify,
}

#[derive(Debug, Default)]
struct BufferedInputs {
    inputs: Vec<Input>,
    /// The last segment of each plugin, because a plugin may set its own faster than they are drawn.
    segments: BTreeMap<String, Option<String>>,
}

impl UiInbox {
    /// Says a line of the host; one that begins with `!` is a warning.
    pub(crate) fn line(&self, line: &Text) {
        let text = line.as_str().trim();
        self.push_input(match text.strip_prefix("! ") {
            Some(warning) => Input::Note(Tone::Warning, warning.to_owned()),
            None => Input::Note(Tone::Plain, text.to_owned()),
        });
    }

    /// Reports a failure with its remedy.
    pub(crate) fn failure(&self, failure: &Failure) {
        let hint = failure.remedy().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.push_input(Input::Note(Tone::Error, failure.message() + &hint));
    }

    /// Shows Markdown.
    pub(crate) fn page(&self, markdown: &str) {
        self.push_input(Input::Page(markdown.to_owned()));
    }

    /// Shows another session, or the same one at another position.
    pub(crate) fn session(&self, events: Vec<Event>) {
        self.push_input(Input::Session(events));
    }

    /// Sets or removes the segment of a plugin in the status line.
    pub(super) fn segment(&self, plugin: &str, text: Option<&str>) {
        self.waiting().segments.insert(plugin.to_owned(), text.map(str::to_owned));
        self.arrived.notify_one();
    }

    /// Removes the segments of plugins from the status line.
    pub(crate) fn remove_segments(&self, plugins: Vec<String>) {
        plugins.iter().for_each(|plugin| self.segment(plugin, None));
    }

    pub(crate) fn push_input(&self, input: Input) {
        self.waiting().inputs.push(input);
        self.arrived.notify_one();
    }

    pub(super) fn take_inputs(&self) -> Vec<Input> {
        let BufferedInputs { mut inputs, segments } = std::mem::take(&mut *self.waiting());
        inputs.extend(segments.into_iter().map(|(plugin, text)| Input::Segment { plugin, text }));
        inputs
    }

    fn waiting(&self) -> MutexGuard<'_, BufferedInputs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_segment_of_each_plugin_waits() {
        let said = UiInbox::default();
        for number in 0..10_000 {
            said.segment("loud", Some(&number.to_string()));
            said.segment("done", (number % 2 == 0).then_some("busy"));
        }
        said.page("text");
        let segments: Vec<(String, Option<String>)> = said
            .take_inputs()
            .into_iter()
            .filter_map(|input| match input {
                Input::Segment { plugin, text } => Some((plugin, text)),
                _ => None,
            })
            .collect();
        assert_eq!(segments, [("done".to_owned(), None), ("loud".to_owned(), Some("9999".to_owned()))]);
        assert!(said.take_inputs().is_empty());
    }
}
