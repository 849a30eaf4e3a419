//! The progress that a call reports.

use pinion_agent::Content;
use pinion_agent::tool::ToolProgress;
use std::sync::Mutex;
use tokio::sync::Notify;

/// A progress report of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A progress line.
    Line(String),
    /// A partial result.
    Update(Vec<Content>),
}

/// Records the progress of a call and wakes waiting tests.
#[derive(Default)]
pub struct Progress {
    seen: Mutex<Vec<Seen>>,
    news: Notify,
}

impl Progress {
    /// Waits for the first report.
    pub async fn first(&self) -> Seen {
        loop {
            let news = self.news.notified();
            if let Some(first) = self.seen.lock().unwrap().first() {
                return first.clone();
            }
            news.await;
        }
    }

    /// Returns all reports so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn put(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.news.notify_waiters();
    }
}

impl ToolProgress for Progress {
    fn report(&self, message: String) {
        self.put(Seen::Line(message));
    }

    fn update(&self, partial: Vec<Content>) {
        self.put(Seen::Update(partial));
    }
}
