//! Ctrl-C, and what else asks the program to stop.

use pinion_agent::Agent;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs something that the agent does. The first signal aborts it, the second one ends the program.
///
/// Tells whether a signal came.
pub(crate) async fn interruptible<T>(agent: &Arc<Agent>, work: impl Future<Output = T>) -> (T, bool) {
    interruptible_runs(agent, |_| work).await
}

/// The same, for work of several runs: a signal aborts only the one under way, so the work has to look whether one came
/// before it begins the next.
pub(crate) async fn interruptible_runs<T, F: Future<Output = T>>(
    agent: &Arc<Agent>,
    work: impl FnOnce(Arc<AtomicBool>) -> F,
) -> (T, bool) {
    let came = Arc::new(AtomicBool::new(false));
    // Before the work begins, which may go far before it waits for the first time.
    let signals = Signals::listen();
    let watching = watch(signals, agent.clone(), came.clone());
    let work = work(came.clone());
    tokio::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => (done, came.load(Ordering::Acquire)),
        () = watching => {
            crate::out::restore_terminal();
            std::process::exit(130)
        }
    }
}

/// Ends at the second signal.
async fn watch(mut signals: Signals, agent: Arc<Agent>, came: Arc<AtomicBool>) {
    signals.next().await;
    came.store(true, Ordering::Release);
    agent.abort();
    signals.next().await;
}

/// Signals that ask the program to stop.
#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    async fn next(&mut self) {
        let any = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures_util::future::select_all(any).await;
    }
}

/// Signals that ask the program to stop: Ctrl-C alone, and only while it is waited for.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
