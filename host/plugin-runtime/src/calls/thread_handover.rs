//! Hands calls to other threads, and waits for their answers.
//!
//! Waking a thread of a core that sleeps takes longer than a short call. So the caller of a lone call spins for its answer, and a
//! thread that ended a call spins for the next one. Calls in a row, such as a hook, the tool behind it and the hook after it,
//! wake no thread. Where other programs keep the cores awake, the thread that spins is often the one that does not run:
//! [`Spinning`] learns from each call whether spinning helps.

use crate::calls::instance::FinishedJob;
use crate::calls::spinning::{CallTask, LINGER, spin};
use crate::loading::instance_template::InstanceTemplate;
use crate::runtime_shared::Shared;
use pinion_plugin_engine::Engine;
use pinion_plugin_limits::{Deadline, FaultKind, Spinning, cores};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time that the host waits for a call after its deadline and grace period, before it gives up the thread.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time that the caller of a lone call spins: roughly the time to wake the thread of the call, and the call itself,
/// which takes 100 µs in an interpreter.
const SPIN: Duration = Duration::from_micros(200);

/// Runs the work of a call on a thread that may block: the one that ended a call just now, or another one of tokio's.
pub(crate) fn start(shared: Arc<Shared>, program: Arc<InstanceTemplate>, work: CallTask) {
    let given = if spins(&program) { shared.next_call.give(work) } else { Some(work) };
    let Some(mut work) = given else { return };
    tokio::task::spawn_blocking(move || {
        loop {
            work();
            if !spins(&program) {
                return;
            }
            match shared.next_call.wait(|| shared.engine.is_idle()) {
                Some(next) => work = next,
                None => return,
            }
        }
    });
}

/// Returns whether calls of a plugin spin now. A single core has better uses for the time.
fn spins(program: &InstanceTemplate) -> bool {
    cores() >= 2 && program.share.spinning.is_on()
}

/// Waits for the next call of an instance that has a separate thread. `None` when no call will follow.
pub(crate) fn linger<W>(program: &InstanceTemplate, engine: &Engine, calls: &mut mpsc::Receiver<W>) -> Option<W> {
    let goes_on = || spins(program) && engine.is_idle();
    let next = spin(LINGER, goes_on, || match calls.try_recv() {
        Ok(work) => Some(Some(work)),
        Err(mpsc::error::TryRecvError::Disconnected) => Some(None),
        Err(mpsc::error::TryRecvError::Empty) => None,
    });
    next.unwrap_or_else(|| calls.blocking_recv())
}

/// Lets `start` begin work elsewhere and waits for its answer. Dropping this future cancels the token that `start` gets;
/// when the work does not end long after its deadline, its thread is given up. Spins only with the engine that says
/// whether the call is alone.
pub(crate) async fn hand_over<A>(
    program: &InstanceTemplate,
    deadline: &Deadline,
    engine: Option<&Engine>,
    start: impl FnOnce(oneshot::Sender<FinishedJob<A>>, CancellationToken),
) -> FinishedJob<A> {
    let abandoned = CancellationToken::new();
    let (sender, mut receiver) = oneshot::channel();
    let engine = engine.filter(|_| cores() >= 2 && program.share.spinning.begin());
    start(sender, abandoned.clone());
    let _abandon: DropGuard = abandoned.drop_guard();
    let answer = match engine {
        Some(engine) => answer_in_time(&mut receiver, &program.share.spinning, || engine.is_quiet()),
        None => Err(TryRecvError::Empty),
    };
    let finished = match answer {
        Ok(finished) => Some(finished),
        // A receiver that has seen the end must not be polled again.
        Err(TryRecvError::Closed) => None,
        Err(TryRecvError::Empty) => tokio::select! {
            biased;
            finished = receiver => finished.ok(),
            () = deadline.abandoned(PATIENCE) => None,
        },
    };
    finished.unwrap_or_else(|| FinishedJob::fault(program, FaultKind::Stuck))
}

/// Waits for a short call without giving up the core.
fn answer_in_time<T>(
    receiver: &mut oneshot::Receiver<T>,
    spinning: &Spinning,
    is_alone: impl Fn() -> bool,
) -> Result<T, TryRecvError> {
    let answer = spin(SPIN, &is_alone, || match receiver.try_recv() {
        Err(TryRecvError::Empty) => None,
        ended => Some(ended),
    });
    // Other calls in progress make the result meaningless.
    if answer.is_some() || is_alone() {
        spinning.learn(answer.is_some());
    }
    answer.unwrap_or(Err(TryRecvError::Empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn receiver_that_has_seen_the_end_is_not_polled_again() {
        let (sender, mut receiver) = oneshot::channel::<()>();
        drop(sender);
        assert_eq!(answer_in_time(&mut receiver, &Spinning::default(), || true), Err(TryRecvError::Closed));
    }
}
