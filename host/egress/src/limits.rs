//! Bounds of a request, and the clock that enforces those on time.

use crate::error::ExchangeFailure;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Maximum number of header fields of a request, and of a response.
pub(crate) const MAX_HEADERS: usize = 100;

/// Bounds of one request with all its redirects. A request whose limit is reached ends with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of the request's body. Defaults to 10 MiB.
    pub request_body: u64,
    /// Bytes of the header fields of the request, and of each response. Defaults to 64 KiB.
    pub headers: u64,
    /// Bytes of the response's body, both as transferred and decompressed. Defaults to 50 MiB.
    pub response_body: u64,
    /// Time to resolve a name, connect to its addresses and set up TLS. Defaults to 10 s.
    pub connect: Duration,
    /// Time until the last byte of the response. Defaults to 60 s, and is at most a year.
    pub total: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            request_body: 10 << 20,
            headers: 64 << 10,
            response_body: 50 << 20,
            connect: Duration::from_secs(10),
            total: Duration::from_secs(60),
        }
    }
}

/// Maximum of both times: longer ones would exceed the range of the system's clock.
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Ends work that takes too long or is cancelled.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    cancel: CancellationToken,
    end: Instant,
    limit: Duration,
}

impl Clock {
    pub(crate) fn start(limit: Duration, cancel: CancellationToken) -> Self {
        let limit = limit.min(MAX_TIME);
        Self { cancel, end: Instant::now() + limit, limit }
    }

    /// Returns a clock that also ends after `limit` from now.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        let end = Instant::now() + limit.min(MAX_TIME);
        match end < self.end {
            true => Self { cancel: self.cancel.clone(), end, limit },
            false => self.clone(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Runs `work` until the clock ends.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, ExchangeFailure> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ExchangeFailure::Cancelled),
            done = timeout_at(self.end, work) => done.map_err(|_| ExchangeFailure::TimedOut(self.limit)),
        }
    }
}
