//! Distinguishes the foreground run from the runs that work for it.

use pinion_agent::{Event, EventKind, Message};
use std::sync::Arc;

/// The runs behind a stream of events. The first one is the foreground run. Others are its sub-agents or, if it is a
/// group, its branches.
#[derive(Debug, Default)]
pub struct Runs {
    main: Option<Arc<str>>,
    others: Vec<Other>,
}

/// A run that works for the foreground run.
#[derive(Debug)]
struct Other {
    id: Arc<str>,
    /// Text of its last message.
    last_words: String,
}

impl Runs {
    /// Returns whether an event belongs to the foreground run. Events of plans do: they come between its runs.
    pub(crate) fn is_main(&mut self, event: &Event) -> bool {
        if matches!(event.kind, EventKind::PlanMade { .. } | EventKind::PlanStep { .. }) {
            return true;
        }
        *self.main.get_or_insert_with(|| event.run_id.clone()) == event.run_id
    }

    /// Returns whether an event ends the foreground run. If so, the next event begins another. Must see every event.
    pub fn is_end(&mut self, event: &Event) -> bool {
        let is_main = self.is_main(event);
        let is_end = is_main && matches!(event.kind, EventKind::AgentEnd { .. } | EventKind::ParallelEnd { .. });
        if is_end {
            *self = Self::default();
        }
        is_end
    }

    /// Returns the number of a background run, counted from 1.
    pub(crate) fn number(&mut self, event: &Event) -> usize {
        let at = self.others.iter().position(|other| other.id == event.run_id).unwrap_or_else(|| {
            self.others.push(Other { id: event.run_id.clone(), last_words: String::new() });
            self.others.len() - 1
        });
        if let EventKind::MessageEnd { message } = &event.kind
            && let Message::Assistant(message) = &**message
        {
            self.others[at].last_words = message.text();
        }
        at + 1
    }

    /// Returns the text of a run's last message.
    pub(crate) fn last_words(&self, run_id: &str) -> Option<&str> {
        self.others.iter().find(|other| &*other.id == run_id).map(|other| other.last_words.as_str())
    }
}
