//! The stream of events that a session has besides its requests, which wait for it.
//!
//! rmcp opens it in the background. A server sends notices there, and some drop those that come before: a list that changes
//! between its request and the stream would stay out of date. Requests use connections that are kept, the stream needs a new
//! one, so that requests would often be first.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Wait for a server to answer the request for the stream. Some answer with their first event.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the stream is being opened. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct EventStream(watch::Sender<Option<Instant>>);

impl EventStream {
    /// Notes that the stream is about to be opened.
    pub(super) fn begin(&self) {
        self.0.send_replace(Some(Instant::now() + PATIENCE));
    }

    /// Notes that it is open, or that the server has no such stream.
    pub(super) fn settle(&self) {
        self.0.send_replace(None);
    }

    /// Returns once the stream is not being opened, or the server was given enough time.
    pub(super) async fn settled(&self) {
        let mut state = self.0.subscribe();
        let Some(limit) = *state.borrow_and_update() else { return };
        let _ = timeout_at(limit, state.wait_for(Option::is_none)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn server_that_opens_no_stream_delays_requests_once() {
        let stream = EventStream::default();
        let began = Instant::now();
        stream.settled().await;
        stream.begin();
        stream.settled().await;
        stream.settled().await;
        assert_eq!(began.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
        stream.begin();
        let (waiting, opened) = (stream.clone(), stream.clone());
        tokio::join!(waiting.settled(), async move { opened.settle() });
        assert_eq!(began.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
    }
}
