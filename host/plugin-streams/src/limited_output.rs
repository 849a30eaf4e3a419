//! Streams into files that are held to the limits of a call.

use crate::transferred_bytes::Written;
use bytes::Bytes;
use std::sync::Arc;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

/// A stream into a file, held to the limits.
pub struct Limited<H> {
    inner: DynOutputStream,
    written: Arc<Written>,
    /// The offset of the next byte.
    at: u64,
    /// Dropped with the stream.
    _hold: H,
}

impl<H> Limited<H> {
    /// Limits `inner`, whose first byte goes to the offset `at`.
    pub fn new(inner: DynOutputStream, written: Arc<Written>, at: u64, hold: H) -> Self {
        Self { inner, written, at, _hold: hold }
    }

    fn will_write(&mut self, bytes: &Bytes) -> StreamResult<()> {
        let bytes = bytes.len() as u64;
        self.written.spend_at(self.at, bytes).map_err(|exceeded| StreamError::Trap(exceeded.into()))?;
        self.at += bytes;
        Ok(())
    }
}

#[async_trait]
impl<H: Send + 'static> Pollable for Limited<H> {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait]
impl<H: Send + 'static> OutputStream for Limited<H> {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.will_write(&bytes)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.will_write(&bytes)?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
