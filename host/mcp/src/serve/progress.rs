//! Progress of calls on its way to a client.

use pinion_protocol::{Content, ToolProgress};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Reports that wait for the client; further ones are dropped, because progress is a convenience.
const MAX_WAITING: usize = 32;

/// The reports of one call.
pub(super) struct Reports {
    token: Option<ProgressToken>,
    texts: mpsc::Receiver<String>,
    sent: f64,
}

impl Reports {
    /// Creates both ends. Without a token of the client, reports are dropped.
    pub(super) fn channel(token: Option<ProgressToken>) -> (Arc<dyn ToolProgress>, Self) {
        let (sender, texts) = mpsc::channel(MAX_WAITING);
        (Arc::new(Sender(token.is_some().then_some(sender))), Self { token, texts, sent: 0.0 })
    }

    /// Waits for the next report; none once the call can report nothing any more.
    pub(super) async fn next(&mut self) -> Option<ProgressNotificationParam> {
        let text = self.texts.recv().await?;
        self.report(text)
    }

    /// Returns the next report that is there already.
    pub(super) fn waiting(&mut self) -> Option<ProgressNotificationParam> {
        let text = self.texts.try_recv().ok()?;
        self.report(text)
    }

    fn report(&mut self, text: String) -> Option<ProgressNotificationParam> {
        self.sent += 1.0;
        Some(ProgressNotificationParam::new(self.token.clone()?, self.sent).with_message(text))
    }
}

struct Sender(Option<mpsc::Sender<String>>);

impl ToolProgress for Sender {
    fn report(&self, message: String) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(message);
        }
    }

    /// The protocol has no partial results.
    fn update(&self, _partial: Vec<Content>) {}
}
