//! Progress on its way from the guest's thread to the task that waits for the call.

use pinion_protocol::{Content, LogLevel, ToolProgress};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Lines that wait at most; older ones are dropped.
const MAX_LINES: usize = 64;

/// A bounded buffer of progress: the latest update, and the last lines of progress and of the log.
#[derive(Default)]
pub(super) struct Relay {
    waiting: Mutex<WaitingOutput>,
    news: Notify,
}

#[derive(Default)]
struct WaitingOutput {
    lines: Vec<String>,
    logged: Vec<(LogLevel, String)>,
    update: Option<Vec<Content>>,
}

impl Relay {
    /// Waits until there is progress to pass on.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Passes on everything that waits.
    pub(super) fn pass_on(&self, progress: &dyn ToolProgress) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.logged.into_iter().for_each(|(level, line)| progress.log(level, line));
        waiting.lines.into_iter().for_each(|line| progress.report(line));
        if let Some(update) = waiting.update {
            progress.update(update);
        }
    }

    fn update_waiting(&self, put: impl FnOnce(&mut WaitingOutput)) {
        put(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_one();
    }
}

fn push<T>(lines: &mut Vec<T>, line: T) {
    if lines.len() == MAX_LINES {
        lines.remove(0);
    }
    lines.push(line);
}

impl ToolProgress for Relay {
    fn report(&self, message: String) {
        self.update_waiting(|waiting| push(&mut waiting.lines, message));
    }

    fn log(&self, level: LogLevel, line: String) {
        self.update_waiting(|waiting| push(&mut waiting.logged, (level, line)));
    }

    fn update(&self, partial: Vec<Content>) {
        self.update_waiting(|waiting| waiting.update = Some(partial));
    }
}
