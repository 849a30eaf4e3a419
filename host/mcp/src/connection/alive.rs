//! Checks that a connection can take another request.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{ClientRequest, DiscoverRequest, PingRequest};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep, timeout};

use super::Connection;

/// Wait for a server to answer anything, after it left a request unanswered.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

impl Connection {
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed() || self.stop.is_cancelled() || self.is_retired.load(Ordering::SeqCst)
    }

    /// Returns when the connection will have been idle for `limit`; `None` while requests are in flight.
    pub(crate) fn idle_at(&self, limit: Duration) -> Option<Instant> {
        (!self.traffic.is_busy()).then(|| self.last_used() + limit)
    }

    /// Returns when the last request ended.
    pub(crate) fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the catalogue was fetched, and how long it is good for. `None` means until the server announces a
    /// change.
    pub(crate) fn fetched(&self, lifetime: Option<Duration>) {
        self.lifetime.send_replace(lifetime.map(|lifetime| (Instant::now(), lifetime)));
    }

    /// Returns once the catalogue is out of date by the server's own account, after `least` at the earliest, and the
    /// connection was used since it was fetched.
    pub(crate) async fn outdated(&self, least: Duration) {
        let mut known = self.lifetime.subscribe();
        loop {
            let current = *known.borrow_and_update();
            let over = async {
                let Some((fetched, lifetime)) = current else { return std::future::pending().await };
                loop {
                    sleep(lifetime.max(least)).await;
                    if self.last_used() >= fetched {
                        return;
                    }
                }
            };
            tokio::select! {
                () = over => return,
                _ = known.changed() => {}
            }
        }
    }

    /// Keeps further requests away, and ends the connection with the last one that is in flight.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        self.end_if_retired();
    }

    pub(super) fn end_if_retired(&self) {
        if self.is_retired.load(Ordering::SeqCst) && !self.traffic.is_busy() {
            self.stop.cancel();
        }
    }

    /// Notes that a request timed out.
    pub(super) fn doubt(&self) {
        self.is_doubtful.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server still answers, after a request that it left unanswered: a program may hang, and a
    /// server over HTTP may have lost its state. A server that works on other requests is not asked.
    pub(crate) async fn is_alive(&self) -> bool {
        if !self.is_doubtful.load(Ordering::Relaxed) || self.traffic.is_busy() {
            return true;
        }
        let Some(probe) = self.probe() else { return true };
        let is_alive = match timeout(SIGN_OF_LIFE, self.peer.send_request(probe)).await {
            Ok(answer) => matches!(answer, Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)),
            Err(_) => false,
        };
        self.is_doubtful.store(!is_alive, Ordering::Relaxed);
        is_alive
    }

    /// Returns a request that any server answers at once. `None` where requests have nothing in common that could be
    /// lost.
    fn probe(&self) -> Option<ClientRequest> {
        let has_initialize = self.info().is_none_or(|info| info.protocol_version.has_initialize());
        match (has_initialize, &self.url) {
            (true, _) => Some(PingRequest::default().into()),
            (false, None) => Some(DiscoverRequest::default().into()),
            (false, Some(_)) => None,
        }
    }
}
