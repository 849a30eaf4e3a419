//! A guest's stdout and stderr, which go to the host's log and never to the host's own streams.
//!
//! The end of stderr is kept for errors, because panics write there.

use bytes::Bytes;
use pinion_plugin_contract::bindings::pinion::plugin::log::Level;
use pinion_plugin_contract::convert::clip;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes of the end of stderr that are kept.
const KEPT_BYTES: usize = 2048;
/// Bytes of one line; the rest is cut off.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes that one write may carry.
const MAX_WRITE_BYTES: usize = 64 * 1024;
/// Bytes of both streams together that reach the log during the life of an instance, or during one of its calls if it is
/// of lifetime `reused`.
const MAX_LOGGED_BYTES: usize = 1024 * 1024;

/// A guest's stderr. Clones share one stream.
#[derive(Clone)]
pub struct GuestStderr {
    lines: Arc<Mutex<StderrLines>>,
}

impl GuestStderr {
    /// Creates the stream of a plugin.
    pub fn new(plugin: Arc<str>) -> Self {
        Self { lines: Arc::new(Mutex::new(StderrLines::new(plugin))) }
    }

    /// Creates the guest's stdout, which goes to the same log.
    pub fn stdout(&self) -> Stdout {
        Stdout(self.clone())
    }

    /// Begins a call on an instance that had others: forgets the earlier output.
    pub fn begin(&self) {
        let mut lines = self.lock();
        (lines.logged, lines.line) = (0, Vec::new());
        lines.kept.clear();
    }

    /// The last bytes that were written.
    pub fn tail(&self) -> String {
        let lines = self.lock();
        String::from_utf8_lossy(&lines.kept.iter().copied().collect::<Vec<u8>>()).into_owned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, StderrLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest's stdout.
#[derive(Clone)]
pub struct Stdout(GuestStderr);

struct StderrLines {
    plugin: Arc<str>,
    line: Vec<u8>,
    kept: VecDeque<u8>,
    logged: usize,
}

impl StderrLines {
    fn new(plugin: Arc<str>) -> Self {
        Self { plugin, line: Vec::new(), kept: VecDeque::new(), logged: 0 }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let over = (self.kept.len() + bytes.len()).saturating_sub(KEPT_BYTES);
        self.kept.drain(..over);
        self.kept.extend(bytes);
    }

    fn log(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.line.len() < MAX_LINE_BYTES {
                self.line.push(byte);
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.logged < MAX_LOGGED_BYTES {
            self.logged += line.len() + 1;
            write_log_line(&self.plugin, Level::Info, clip(&String::from_utf8_lossy(&line), MAX_LINE_BYTES));
        }
    }
}

/// The host's end of a stream.
struct Sink {
    to: GuestStderr,
    keeps: bool,
}

impl Sink {
    fn push_bytes(&self, bytes: &[u8]) {
        let mut lines = self.to.lock();
        if self.keeps {
            lines.keep(bytes);
        }
        lines.log(bytes);
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

impl OutputStream for Sink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push_bytes(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

impl AsyncWrite for Sink {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.push_bytes(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for GuestStderr {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl IsTerminal for Stdout {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestStderr {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(Sink { to: self.clone(), keeps: true })
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Sink { to: self.clone(), keeps: true })
    }
}

impl StdoutStream for Stdout {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(Sink { to: self.0.clone(), keeps: false })
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Sink { to: self.0.clone(), keeps: false })
    }
}

/// Writes one line to the host's log under the plugin's name. Control characters are escaped, because a log is read in a terminal.
pub fn write_log_line(plugin: &str, level: Level, line: &str) {
    let line = visible(line);
    match level {
        Level::Trace => tracing::trace!(target: "plugin", plugin, "{line}"),
        Level::Debug => tracing::debug!(target: "plugin", plugin, "{line}"),
        Level::Info => tracing::info!(target: "plugin", plugin, "{line}"),
        Level::Warn => tracing::warn!(target: "plugin", plugin, "{line}"),
        Level::Error => tracing::error!(target: "plugin", plugin, "{line}"),
    }
}

/// Escapes control characters.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect())
}
