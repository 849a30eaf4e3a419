//! Attempts to load a slot, as seen by their waiters.

use crate::loading::source::Stamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Loads that are under way. Dropping it does not stop any of them.
#[derive(Debug)]
#[must_use = "loads continue whether they are waited for or not"]
pub struct Loading(Vec<watch::Receiver<Phase>>);

impl Loading {
    pub(super) fn new(attempts: Vec<watch::Receiver<Phase>>) -> Self {
        Self(attempts)
    }

    /// Waits until every plugin was loaded or refused. The limits of loading bound the time.
    pub async fn settled(mut self) {
        for attempt in &mut self.0 {
            end_of(attempt).await;
        }
    }

    /// Waits until every plugin was loaded or refused, at most until `deadline`. Returns whether all were.
    pub async fn settled_before(self, deadline: Instant) -> bool {
        timeout_at(deadline, self.settled()).await.is_ok()
    }
}

/// One attempt to load a slot. Dropping it aborts the attempt.
pub(super) struct LoadAttempt {
    pub(super) number: u64,
    pub(super) begun: Instant,
    pub(super) phase: watch::Receiver<Phase>,
    /// The task; `None` while the source is looked up in the cache.
    pub(super) task: Option<JoinHandle<()>>,
    /// False when the last attempt never saw the file at rest: calls do not wait for this one.
    pub(super) is_waited_for: bool,
}

/// The phase of an attempt. It has ended when the sender is dropped, with the task that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits until writing to the file has stopped.
    Waiting,
    /// Reads, compiles and describes.
    Loading,
}

/// A plugin's file as an attempt found it.
#[derive(Clone, Copy)]
pub(super) struct FileState {
    pub(super) stamp: Option<Stamp>,
    /// The file was being written to all the time.
    pub(super) is_restless: bool,
}

impl Drop for LoadAttempt {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Waits until an attempt has ended.
pub(super) async fn end_of(attempt: &mut watch::Receiver<Phase>) {
    while attempt.changed().await.is_ok() {}
}
