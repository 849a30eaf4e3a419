//! Ctrl-C, and what else asks the program to stop.

use pinion_agent::Agent;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs something that the agent does. The first signal aborts it, the second one ends the program.
///
/// Tells whether a signal came.
pub(crate) async fn interruptible<T>(agent: &Arc<Agent>, work: impl Future<Output = T>) -> (T, bool) {
    let came = Arc::new(AtomicBool::new(false));
    let watching = watch(agent.clone(), came.clone());
    tokio::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => (done, came.load(Ordering::Acquire)),
        () = watching => std::process::exit(130),
    }
}

/// Ends at the second signal.
async fn watch(agent: Arc<Agent>, came: Arc<AtomicBool>) {
    signal().await;
    came.store(true, Ordering::Release);
    agent.abort();
    signal().await;
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut streams: Vec<_> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
    let any = streams.iter_mut().map(|stream| Box::pin(async { stream.recv().await }));
    futures_util::future::select_all(any).await;
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
