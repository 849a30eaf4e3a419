//! The handle of the task that asks a plugin for its offer.

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Asks a plugin for its offer, until this is dropped.
pub(super) struct OfferTask {
    task: JoinHandle<()>,
    /// Its sender is dropped once the first answer is in effect.
    first: watch::Receiver<()>,
}

impl OfferTask {
    pub(super) fn new(task: JoinHandle<()>, first: watch::Receiver<()>) -> Self {
        Self { task, first }
    }

    /// Returns a future that ends once the first answer is in effect.
    pub(super) fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut first = self.first.clone();
        async move { while first.changed().await.is_ok() {} }
    }
}

impl Drop for OfferTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}
