//! Progress and log lines of calls on their way to a client.

use pinion_protocol::text::printable;
use pinion_protocol::{Content, LogLevel, ToolProgress};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Reports that wait for the client; further ones are dropped, because they are a convenience.
const MAX_WAITING: usize = 32;

/// The reports of one call.
pub(super) struct Reports {
    token: Option<ProgressToken>,
    waiting: mpsc::Receiver<WaitingReport>,
    sent: f64,
}

/// A report that waits for the client.
enum WaitingReport {
    Progress(String),
    Line(LogLevel, String),
}

/// A report as the client gets it.
pub(super) enum ProgressReport {
    Progress {
        message: String,
        /// `None` if the client wants to hear of no progress.
        notification: Option<ProgressNotificationParam>,
    },
    Line(LogLevel, String),
}

impl ProgressReport {
    /// Sends the report. Nothing depends on its arrival.
    #[expect(deprecated, reason = "clients still read logs")]
    pub(super) async fn send(self, peer: &Peer<RoleServer>) {
        use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
        let _ = match self {
            Self::Progress { notification: Some(progress), .. } => peer.notify_progress(progress).await,
            Self::Progress { notification: None, .. } => Ok(()),
            Self::Line(level, line) => {
                let level = match level {
                    LogLevel::Trace | LogLevel::Debug => LoggingLevel::Debug,
                    LogLevel::Info => LoggingLevel::Info,
                    LogLevel::Warn => LoggingLevel::Warning,
                    LogLevel::Error => LoggingLevel::Error,
                };
                peer.notify_logging_message(LoggingMessageNotificationParam::new(level, line.into())).await
            }
        };
    }
}

impl Reports {
    /// Creates both ends. The client hears of progress if it gave a token; lines below `least`, and all of them without it,
    /// are dropped.
    pub(super) fn channel(token: Option<ProgressToken>, least: Option<LogLevel>) -> (Arc<dyn ToolProgress>, Self) {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        let sender = Sender { waiting: sender, least };
        (Arc::new(sender), Self { token, waiting, sent: 0.0 })
    }

    /// Waits for the next report; `None` once the call can report nothing any more.
    pub(super) async fn next(&mut self) -> Option<ProgressReport> {
        let next = self.waiting.recv().await?;
        Some(self.report(next))
    }

    /// Returns the next report that is there already.
    pub(super) fn waiting(&mut self) -> Option<ProgressReport> {
        let next = self.waiting.try_recv().ok()?;
        Some(self.report(next))
    }

    fn report(&mut self, next: WaitingReport) -> ProgressReport {
        match next {
            WaitingReport::Progress(message) => {
                self.sent += 1.0;
                let notification = self
                    .token
                    .clone()
                    .map(|token| ProgressNotificationParam::new(token, self.sent).with_message(message.clone()));
                ProgressReport::Progress { message, notification }
            }
            WaitingReport::Line(level, line) => ProgressReport::Line(level, line),
        }
    }
}

struct Sender {
    waiting: mpsc::Sender<WaitingReport>,
    least: Option<LogLevel>,
}

impl ToolProgress for Sender {
    fn report(&self, message: String) {
        let _ = self.waiting.try_send(WaitingReport::Progress(message));
    }

    /// The protocol has no partial results.
    fn update(&self, _partial: Vec<Content>) {}

    fn log(&self, level: LogLevel, line: String) {
        if self.least.is_some_and(|least| level >= least) {
            let _ = self.waiting.try_send(WaitingReport::Line(level, printable(&line).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_gets_lines_from_its_level_up_and_none_without_one() {
        let lines = |least| {
            let (progress, mut reports) = Reports::channel(None, least);
            for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Error] {
                progress.log(level, format!("{level:?}\u{1b}[2J"));
            }
            let next = || match reports.waiting()? {
                ProgressReport::Line(_, line) => Some(line),
                ProgressReport::Progress { .. } => None,
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(lines(Some(LogLevel::Info)), ["Info␛[2J", "Error␛[2J"]);
        assert!(lines(None).is_empty());
    }
}
