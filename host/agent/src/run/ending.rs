//! The end of a run, also after a panic, and hooks of plugins that prevent it.

use super::Run;
use pinion_protocol::event::EventKind;
use pinion_protocol::guard::{Panicked, caught_async};
use pinion_protocol::history::cancelled_results;
use pinion_protocol::message::{Message, StopReason};
use pinion_protocol::outcome::{Outcome, RunEnd, RunErrorKind};
use pinion_protocol::usage::Spend;

/// Times that hooks of plugins may make a run continue.
const MAX_CONTINUATIONS: u32 = 3;

impl Run<'_> {
    /// Asks the hooks of plugins whether the run, which ended its work, continues. A run at a limit stops.
    pub(super) async fn is_continued(&mut self, stop_reason: StopReason) -> bool {
        let is_at_limit = self.config.policy.limits.reached(self.turns, &self.budget).is_some();
        if stop_reason != StopReason::Stop || is_at_limit || self.continuations == MAX_CONTINUATIONS {
            return false;
        }
        let reply = match self.context.messages.last().map(|message| &**message) {
            Some(Message::Assistant(reply)) => reply.text(),
            _ => String::new(),
        };
        let message = self.plugin_hooks().before_stop(&reply, self.turns, self.continuations).await;
        self.continuations += u32::from(message.is_some());
        self.pending.extend(message);
        !self.pending.is_empty()
    }

    /// Completes a turn that a panic interrupted: gives each call without a result one, and ends the turn.
    pub(super) async fn recover(&mut self, panicked: &Panicked) -> RunEnd {
        tracing::error!(%panicked, "the run ends");
        for message in cancelled_results(&self.context.messages) {
            // The store may be the part that panics.
            let kept = caught_async(self.append(Message::clone(&message))).await;
            if !matches!(kept, Ok(Ok(()))) {
                self.context.messages.push(message);
            }
        }
        self.end_turn(StopReason::Error).await;
        RunEnd::failed(RunErrorKind::Panic, self.config.ports.secrets.clean(&panicked.to_string()))
    }

    /// Ends everything that the run started, and reports its end.
    pub(super) async fn end(mut self, end: RunEnd) -> Outcome {
        if let Some(children) = &self.children {
            children.close().await;
            self.account_for_children();
        }
        self.append_reports().await;
        if let RunEnd::Limit { limit } = &end
            && let Ok(Err(error)) = caught_async(self.append(limit.message())).await
        {
            tracing::warn!(error = error.full_text(), "the limit that ended the run is not in the session");
        }
        let (messages, Spend { usage, cost }) = (self.added.messages.clone(), self.spent);
        self.emit(EventKind::AgentEnd { end: end.clone(), messages, usage, cost, turns: self.turns }).await;
        let mut outcome = Outcome::new(end, self.spent, self.turns);
        outcome.messages = self.added.messages;
        outcome
    }
}
