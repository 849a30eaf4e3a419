//! Work that writes while a run goes on.

use std::future::Future;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

/// Runs work that writes to stdout or stderr, on a separate thread.
///
/// A write waits for its reader. On a worker it would hold up the task that this work woke last, which other workers do
/// not take over: a run that was aborted would never end.
pub(crate) fn showing<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let handle = Handle::current();
    spawn_blocking(move || handle.block_on(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_blocks_holds_up_no_task() {
        let (done, blocked) = std::sync::mpsc::channel();
        let work = showing(async move {
            tokio::spawn(async move { done.send(()) });
            blocked.recv()
        });
        assert_eq!(work.await.unwrap(), Ok(()));
    }
}
