//! Sub-agents in the background of a run: their calls return at once, and the run gets their reports as messages.
//!
//! The run does not end before them. When its model is done, it waits for a report or for a message of the user. So the limits
//! of the run hold for them, an abort ends them, and everything that they change belongs to the same turn of the user.

use pinion_protocol::content::{Content, text_of};
use pinion_protocol::delegation::SubAgentReport;
use pinion_protocol::message::Message;
use pinion_protocol::output_bounds::OutputBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Maximum number of sub-agents that work in the background of one run.
pub(crate) const MAX_IN_BACKGROUND: usize = 16;

/// The sub-agents in the background of a run.
#[derive(Default)]
pub(crate) struct BackgroundAgents {
    state: Mutex<BackgroundState>,
    news: Notify,
}

#[derive(Default)]
struct BackgroundState {
    working: usize,
    reports: Vec<Message>,
}

impl BackgroundAgents {
    /// Counts a sub-agent until the entry is dropped; `None` if too many work.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<BackgroundEntry> {
        let mut state = self.state();
        if state.working >= MAX_IN_BACKGROUND {
            return None;
        }
        state.working += 1;
        Some(BackgroundEntry(self.clone()))
    }

    /// Returns the number of sub-agents that work.
    pub(crate) fn count(&self) -> usize {
        self.state().working
    }

    /// Removes and returns the reports so far.
    pub(crate) fn take_reports(&self) -> Vec<Message> {
        std::mem::take(&mut self.state().reports)
    }

    /// Waits for a report. Returns `false` if there is no report and no sub-agent works.
    pub(crate) async fn reported(&self) -> bool {
        loop {
            let news = self.news.notified();
            {
                let state = self.state();
                if !state.reports.is_empty() || state.working == 0 {
                    return !state.reports.is_empty();
                }
            }
            news.await;
        }
    }

    /// Locks the state. A panic leaves it consistent, so poisoning is ignored.
    fn state(&self) -> MutexGuard<'_, BackgroundState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sub-agent that works in the background.
pub(crate) struct BackgroundEntry(Arc<BackgroundAgents>);

impl BackgroundEntry {
    /// Ends the work with a report.
    pub(crate) fn report(self, report: Message) {
        self.0.state().reports.push(report);
    }
}

impl Drop for BackgroundEntry {
    fn drop(&mut self) {
        self.0.state().working -= 1;
        self.0.news.notify_waiters();
    }
}

/// Words a report for the parent's model, within the bounds of a call's result.
pub(crate) fn report_message(name: &str, report: &SubAgentReport, bounds: &OutputBounds) -> Message {
    let text = text_of(&bounds.apply(vec![Content::text(report.for_model())]));
    let label = format!("report of the sub-agent `{name}` in the background");
    let id = &report.run_id;
    Message::labelled(
        label,
        format!(
            "The sub-agent `{id}` in the background has ended. It reports (these are not the user's words):\n\n{text}"
        ),
    )
}
