//! Which events are of the loop that is waited for, and which of others that work for it.

use pinion_agent::{Event, EventKind, Message};
use std::sync::Arc;

/// The loops of a run: the first one that is heard of is the one that is waited for. Others are its sub-agents', or,
/// where it is a group, its branches.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    main: Option<Arc<str>>,
    others: Vec<Other>,
}

/// A loop that works for the one that is waited for.
#[derive(Debug)]
struct Other {
    id: Arc<str>,
    /// What it said last.
    last_words: String,
}

impl Loops {
    /// Is this an event of the loop that is waited for? That of a step of a plan is: it comes between the runs.
    pub(crate) fn is_main(&mut self, event: &Event) -> bool {
        if matches!(event.kind, EventKind::PlanStep { .. }) {
            return true;
        }
        *self.main.get_or_insert_with(|| event.loop_id.clone()) == event.loop_id
    }

    /// Does the run end with this event? The next one begins another run. To be told of every event.
    pub(crate) fn is_end(&mut self, event: &Event) -> bool {
        let is_main = self.is_main(event);
        let is_end = is_main && matches!(event.kind, EventKind::AgentEnd { .. } | EventKind::ParallelEnd { .. });
        if is_end {
            *self = Self::default();
        }
        is_end
    }

    /// The number of a loop that is not waited for, counted from 1.
    pub(crate) fn number(&mut self, event: &Event) -> usize {
        let at = self.others.iter().position(|other| other.id == event.loop_id).unwrap_or_else(|| {
            self.others.push(Other { id: event.loop_id.clone(), last_words: String::new() });
            self.others.len() - 1
        });
        if let EventKind::MessageEnd { message } = &event.kind
            && let Message::Assistant(message) = &**message
        {
            self.others[at].last_words = message.text();
        }
        at + 1
    }

    /// What that loop said last.
    pub(crate) fn last_words(&self, loop_id: &str) -> Option<&str> {
        self.others.iter().find(|other| &*other.id == loop_id).map(|other| other.last_words.as_str())
    }
}
