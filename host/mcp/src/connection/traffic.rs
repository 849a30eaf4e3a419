//! Requests in flight and open questions of one connection.
//!
//! A server may ask only while it works on a request, and has no time limit while the user answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The counts, shared by a connection and the handler of the server's messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<ConnectionCounts>);

#[derive(Debug, Default)]
struct ConnectionCounts {
    requests: AtomicUsize,
    questions: AtomicUsize,
    /// Fires when a question opens or closes, and when the last request ends.
    changed: Notify,
}

/// Counts one request or question until it is dropped.
pub(crate) struct Counted<'a> {
    counts: &'a ConnectionCounts,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Request,
    Question,
}

impl ConnectionCounts {
    fn select_counter(&self, what: What) -> &AtomicUsize {
        match what {
            What::Request => &self.requests,
            What::Question => &self.questions,
        }
    }
}

impl Traffic {
    /// Counts a request.
    pub(super) fn request(&self) -> Counted<'_> {
        self.count(What::Request)
    }

    fn count(&self, what: What) -> Counted<'_> {
        self.0.select_counter(what).fetch_add(1, Ordering::SeqCst);
        if what == What::Question {
            self.0.changed.notify_waiters();
        }
        Counted { counts: &self.0, what }
    }

    /// Returns whether the server works on a request.
    pub(super) fn is_busy(&self) -> bool {
        self.0.requests.load(Ordering::SeqCst) > 0
    }

    /// Returns whether a question is open.
    pub(super) fn is_asking(&self) -> bool {
        self.0.questions.load(Ordering::SeqCst) > 0
    }

    /// Returns a future that ends with the next question that opens or closes. Changes count from this call on.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Answers a question of the server, as long as it works on a request. Returns `None` if it works on no request.
    pub(super) async fn during_request<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let idle = async {
            loop {
                let changed = self.changed();
                if !self.is_busy() {
                    return;
                }
                changed.await;
            }
        };
        let _question = self.count(What::Question);
        tokio::select! {
            biased;
            () = idle => None,
            answer = answer => Some(answer),
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let left = self.counts.select_counter(self.what).fetch_sub(1, Ordering::SeqCst) - 1;
        if self.what == What::Question || left == 0 {
            self.counts.changed.notify_waiters();
        }
    }
}
