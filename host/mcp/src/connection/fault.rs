//! The reason for the end of a connection, and the end of a server's standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinion_protocol::text::one_line;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::limits::{MAX_QUOTED, STDERR_TAIL};

/// Wait for the end of a program that closed its output, and for the rest of its standard error, so that a message can say
/// how it ended and why.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// Shared notes on a connection, for the message when it ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault {
    notes: Arc<Mutex<Notes>>,
    /// The reading of standard error.
    reading: TaskTracker,
}

#[derive(Debug, Default)]
struct Notes {
    reason: Option<String>,
    is_deaf: bool,
    stderr: VecDeque<u8>,
}

impl Fault {
    fn lock(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why the connection ends; the first reason stays.
    pub(crate) fn set(&self, reason: String) {
        self.lock().reason.get_or_insert(reason);
    }

    /// Records that the server does not survive or answer `server/discover`.
    pub(crate) fn set_deaf(&self) {
        self.lock().is_deaf = true;
    }

    /// Returns whether the next connection should do without `server/discover`.
    pub(crate) fn is_deaf(&self) -> bool {
        self.lock().is_deaf
    }

    /// Returns the recorded reason, or `otherwise`, with `when` behind it and then the last lines of standard error.
    pub(crate) fn describe(&self, otherwise: &str, when: &str) -> String {
        let notes = self.lock();
        let mut text = format!("{}{when}", notes.reason.as_deref().unwrap_or(otherwise));
        let (first, second) = notes.stderr.as_slices();
        let stderr = [first, second].concat();
        let stderr = String::from_utf8_lossy(&stderr);
        // The end says most: keep the last lines that fit.
        let mut tail = Vec::new();
        let mut room = MAX_QUOTED;
        for line in stderr.lines().rev().map(|line| one_line(line, MAX_QUOTED)).filter(|line| !line.is_empty()) {
            let length = line.chars().count() + 3;
            if length > room {
                break;
            }
            room -= length;
            tail.push(line);
        }
        if !tail.is_empty() {
            tail.reverse();
            text.push_str("; its standard error ends with: ");
            text.push_str(&tail.join(" ⏎ "));
        }
        text
    }

    /// Starts to keep the end of a standard error, until it closes.
    pub(crate) fn keep_stderr(&self, mut stderr: Box<dyn AsyncRead + Send + Unpin>) {
        let notes = self.notes.clone();
        self.reading.spawn(async move {
            let mut buffer = vec![0; 4 << 10];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.stderr.extend(&buffer[..read]);
                let excess = notes.stderr.len().saturating_sub(STDERR_TAIL);
                notes.stderr.drain(..excess);
            }
        });
    }

    /// Waits for the rest of the standard error of a program that ended, at most [`LAST_WORDS`]: its last lines may still
    /// be in the pipe, and a child of the program can keep the pipe open.
    pub(crate) async fn last_words(&self) {
        self.reading.close();
        let _ = timeout(LAST_WORDS, self.reading.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_standard_error_is_kept_and_cleaned() {
        let fault = Fault::default();
        let mut text = "noise\n".repeat(10_000).into_bytes();
        text.extend_from_slice(b"\x1b[31mError: no token\x1b[0m\n");
        fault.keep_stderr(Box::new(std::io::Cursor::new(text)));
        fault.last_words().await;
        assert_eq!(fault.lock().stderr.len(), STDERR_TAIL);
        let text = fault.describe("ended", "");
        assert!(text.starts_with("ended; its standard error ends with: ") && text.ends_with("Error: no token␛[0m"));
        assert!(!text.contains('\u{1b}') && text.len() < 2_000);
    }

    #[test]
    fn first_reason_stays() {
        let fault = Fault::default();
        fault.set("first".into());
        fault.set("second".into());
        assert_eq!(fault.describe("ended", ""), "first");
    }
}
