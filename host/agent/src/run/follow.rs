//! The end of a turn without calls: messages in the queues, reports of children, or hooks of plugins start another round.

use super::Run;
use pinion_protocol::dialog::Severity;
use pinion_protocol::event::EventKind;
use pinion_protocol::guard::caught_async;
use pinion_protocol::message::{Message, StopReason};
use pinion_protocol::outcome::RunEnd;

impl Run<'_> {
    /// Starts another round if a message is queued, a child in the background reports, or else a hook of a plugin has a
    /// reason. Otherwise returns the end of the run.
    /// A message that came too late to interrupt a call needs an answer, too.
    pub(super) async fn follow(&mut self, stop_reason: StopReason) -> Option<RunEnd> {
        while self.pending.is_empty() {
            if self.await_report().await {
                return self.token.is_cancelled().then_some(RunEnd::Aborted);
            }
            let state = self.events.state(&self.context.run_id);
            let Some(messages) = self.config.inbox.next(state) else {
                return (!self.is_continued(stop_reason).await).then_some(RunEnd::Done { stop_reason });
            };
            // A rejected message must not block the next one.
            self.admit(messages).await;
        }
        None
    }

    /// Waits while children work in the background and no message is queued. Returns `true` if the wait is over because of
    /// a report, or of a limit that the next turn notices, or because the run was aborted.
    async fn await_report(&self) -> bool {
        let Some(children) = &self.children else { return false };
        let (steering, follow_up) = (&self.config.inbox.steering, &self.config.inbox.follow_up);
        let count = children.in_background();
        if count > 0 && steering.is_empty() && follow_up.is_empty() {
            let agents = if count == 1 { "sub-agent" } else { "sub-agents" };
            let text = format!("waiting for {count} {agents} in the background");
            self.emit(EventKind::PluginNotice { plugin: "pinion".to_owned(), severity: Severity::Info, text }).await;
        }
        tokio::select! {
            biased;
            () = steering.filled() => false,
            () = follow_up.filled() => false,
            has_report = children.reported() => has_report,
            () = self.token.cancelled() => true,
            () = self.budget.over().cancelled() => true,
        }
    }

    pub(super) fn take_reports(&self) -> Vec<Message> {
        self.children.as_ref().map(|children| children.take_reports()).unwrap_or_default()
    }

    /// Keeps the reports that came too late for a turn.
    pub(super) async fn append_reports(&mut self) {
        for report in self.take_reports() {
            if let Ok(Err(error)) = caught_async(self.append(report)).await {
                tracing::warn!(error = error.full_text(), "the report of a sub-agent is not in the session");
            }
        }
    }
}
