//! Reports of exchanges and their servers, for the ledger and the audit log.

use crate::error::ExchangeFailure;
use crate::policy::Denial;
use crate::target::RequestTarget;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Receives a report for each request and each redirect, when its response was read or dropped, or when it failed.
pub trait Observer: Send + Sync {
    /// Called once per exchange, from the task that sends the request or reads the response. Must not block.
    fn exchange_ended(&self, exchange: &Exchange);

    /// Called before that when the policy refuses an exchange of a program. Must not block.
    fn denied(&self, denial: &Denial) {
        let _ = denial;
    }
}

/// One request to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchange {
    /// The host of the URL.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method.
    pub method: String,
    /// The address of the connection, if there was one.
    pub address: Option<SocketAddr>,
    /// The handle of the credential that was sent; of several, with commas.
    pub credential: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Bytes of HTTP that were sent, without TLS.
    pub bytes_sent: u64,
    /// Bytes of HTTP that were received, without TLS.
    pub bytes_received: u64,
    /// The end of the exchange.
    pub outcome: ExchangeOutcome,
}

/// The end of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeOutcome {
    /// The response was read to its end.
    Complete,
    /// The caller dropped the request or the response, or a redirect was followed.
    Dropped,
    /// The policy refused it; the text is the reason.
    Denied(String),
    /// It failed; the text is the error.
    Failed(String),
    /// A program and the proxy did not agree on TLS; the text is the reason.
    Handshake(String),
}

/// Counts the bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Locked while bytes are handed to the operating system: a server may have them before they are counted, and a report
    /// that is made meanwhile waits for the count.
    sent: Mutex<u64>,
    received: AtomicU64,
}

impl Meter {
    /// Writes without blocking, and counts the written bytes.
    pub(crate) fn write(&self, write: impl FnOnce() -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let mut sent = self.lock_sent();
        let written = ready!(write())?;
        *sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn lock_sent(&self) -> MutexGuard<'_, u64> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the bytes of both directions.
    pub(crate) fn total(&self) -> u64 {
        self.lock_sent().wrapping_add(self.received.load(Ordering::Relaxed))
    }

    pub(crate) fn has_sent(&self) -> bool {
        *self.lock_sent() > 0
    }
}

/// Reports an exchange when it is dropped, so that every exchange is reported.
pub(crate) struct ExchangeReport {
    observer: Option<Arc<dyn Observer>>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) exchange: Exchange,
}

impl ExchangeReport {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>, method: &str, target: &RequestTarget) -> Self {
        Self::for_exchange(observer, method, target.host().to_owned(), target.port())
    }

    pub(crate) fn for_exchange(observer: Option<Arc<dyn Observer>>, method: &str, host: String, port: u16) -> Self {
        let exchange = Exchange {
            host,
            port,
            method: method.to_owned(),
            address: None,
            credential: None,
            status: None,
            bytes_sent: 0,
            bytes_received: 0,
            outcome: ExchangeOutcome::Dropped,
        };
        Self { observer, meter: Arc::default(), exchange }
    }

    pub(crate) fn fail(&mut self, failure: &ExchangeFailure) {
        self.exchange.outcome = match failure {
            ExchangeFailure::Denied(denial) => ExchangeOutcome::Denied(denial.to_string()),
            failure => ExchangeOutcome::Failed(failure.to_string()),
        };
    }
}

impl Drop for ExchangeReport {
    fn drop(&mut self) {
        self.exchange.bytes_sent = *self.meter.lock_sent();
        self.exchange.bytes_received = self.meter.received.load(Ordering::Relaxed);
        if let Some(observer) = &self.observer {
            observer.exchange_ended(&self.exchange);
        }
    }
}

// Counts the bytes of HTTP on a connection, which also tells whether a part of the request was sent.

/// A stream whose bytes are counted before encryption.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.meter.add_received(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, meter } = &mut *self;
        meter.write(|| Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_waits_for_the_count_of_bytes_that_the_server_already_has() {
        let meter = Meter::default();
        let written = meter.write(|| {
            assert!(meter.sent.try_lock().is_err());
            Poll::Ready(Ok(7))
        });
        assert!(matches!(written, Poll::Ready(Ok(7))) && meter.has_sent());
    }
}
