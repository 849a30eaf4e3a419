//! Hands calls to other threads, and waits for their answers.
//!
//! Waking a thread of a core that sleeps takes longer than a short call. So the caller of a lone call spins for its answer, and a
//! thread that ended a call spins for the next one. Calls in a row, such as a hook, the tool behind it and the hook after it,
//! wake no thread. Where other programs keep the cores awake, the thread that spins is often the one that does not run:
//! [`Spinning`] learns from each call whether spinning helps.

use crate::calls::deadline::Deadline;
use crate::calls::instance::Finished;
use crate::engine::{Engine, cores};
use crate::errors::fault::FaultKind;
use crate::loading::program::Program;
use crate::shared::Shared;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time that the host waits for a call after its deadline and grace period, before it gives up the thread.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time that the caller of a lone call spins: about what it takes to wake the thread of the call, and the call itself, which takes
/// 100 µs in an interpreter.
const SPIN: Duration = Duration::from_micros(200);
/// Time that a thread spins for the next call, if no other guest runs.
const LINGER: Duration = Duration::from_micros(80);
/// Calls for which nothing spins after spinning did not help several times in a row.
const MAX_PAUSE: u32 = 64;

/// Whether spinning helps the calls of a plugin. After a call that was not answered in time, the next one does not spin, then
/// two, then four, because calls of this plugin take longer, or because the machine has other work.
#[derive(Debug, Default)]
pub(crate) struct Spinning {
    /// Calls left that do not spin.
    pause: AtomicU32,
    last_pause: AtomicU32,
}

impl Spinning {
    /// Begins a call. Returns whether it spins.
    fn begin(&self) -> bool {
        cores() >= 2
            && self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Learns whether the answer to a call that spun came in time.
    fn learn(&self, was_in_time: bool) {
        let pause = if was_in_time { 0 } else { (self.last_pause.load(Ordering::Relaxed) * 2).clamp(1, MAX_PAUSE) };
        self.last_pause.store(pause, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        cores() >= 2 && self.pause.load(Ordering::Relaxed) == 0
    }
}

/// The work of one call.
type Work = Box<dyn FnOnce() + Send>;

/// Where the thread that ended a call takes the next one.
#[derive(Default)]
pub(crate) struct NextCall {
    slot: Mutex<Slot>,
    /// Whether the slot is full, to be looked at without its lock.
    is_full: AtomicBool,
}

#[derive(Default)]
enum Slot {
    /// No thread waits.
    #[default]
    Closed,
    /// A thread waits.
    Open,
    Full(Work),
}

impl NextCall {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the work to the thread that waits. Returns it where none does.
    fn give(&self, work: Work) -> Option<Work> {
        let mut slot = self.slot();
        if !matches!(*slot, Slot::Open) {
            return Some(work);
        }
        *slot = Slot::Full(work);
        self.is_full.store(true, Ordering::Release);
        None
    }

    /// Waits for the next call while `goes_on`, unless another thread does.
    fn wait(&self, goes_on: impl Fn() -> bool) -> Option<Work> {
        {
            let mut slot = self.slot();
            if !matches!(*slot, Slot::Closed) {
                return None;
            }
            *slot = Slot::Open;
        }
        spin(LINGER, goes_on, || self.is_full.load(Ordering::Acquire).then_some(()));
        // Also after the time is up: a call that came until now has no other thread.
        let mut slot = self.slot();
        self.is_full.store(false, Ordering::Release);
        match std::mem::take(&mut *slot) {
            Slot::Full(work) => Some(work),
            Slot::Open | Slot::Closed => None,
        }
    }
}

impl Shared {
    /// Runs the work of a call on a thread that may block: the one that ended a call just now, or another one of tokio's.
    pub(crate) fn start(self: Arc<Self>, program: Arc<Program>, work: Work) {
        let given = if program.share.spinning.is_on() { self.next_call.give(work) } else { Some(work) };
        let Some(mut work) = given else { return };
        tokio::task::spawn_blocking(move || {
            loop {
                work();
                if !program.share.spinning.is_on() {
                    return;
                }
                match self.next_call.wait(|| self.engine.is_idle()) {
                    Some(next) => work = next,
                    None => return,
                }
            }
        });
    }
}

/// Waits for the next call of an instance that has a thread of its own. None when there will be none.
pub(crate) fn linger<W>(program: &Program, engine: &Engine, calls: &mut mpsc::Receiver<W>) -> Option<W> {
    let goes_on = || program.share.spinning.is_on() && engine.is_idle();
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
    program: &Program,
    deadline: &Deadline,
    engine: Option<&Engine>,
    start: impl FnOnce(oneshot::Sender<Finished<A>>, CancellationToken),
) -> Finished<A> {
    let abandoned = CancellationToken::new();
    let (sender, mut receiver) = oneshot::channel();
    let engine = engine.filter(|_| program.share.spinning.begin());
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
    finished.unwrap_or_else(|| Finished::fault(program, FaultKind::Stuck))
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
    // Beside other calls, nothing was learnt.
    if answer.is_some() || is_alone() {
        spinning.learn(answer.is_some());
    }
    answer.unwrap_or(Err(TryRecvError::Empty))
}

/// Asks again and again for at most `time`, while `goes_on`.
fn spin<T>(time: Duration, goes_on: impl Fn() -> bool, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while goes_on() && begun.elapsed() < time {
        match ask() {
            None => std::hint::spin_loop(),
            answer => return answer,
        }
    }
    None
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

    #[test]
    fn calls_pause_from_spinning_longer_each_time_it_does_not_help() {
        let spinning = Spinning::default();
        let calls_without = || std::iter::from_fn(|| (!spinning.begin()).then_some(())).count();
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            spinning.learn(false);
            assert_eq!(calls_without(), if cores() >= 2 { expected } else { return });
        }
        spinning.learn(true);
        assert_eq!(calls_without(), 0);
        spinning.learn(false);
        assert_eq!(calls_without(), 1, "an answer in time ends what was learnt before");
    }

    #[test]
    fn call_is_given_only_to_a_thread_that_waits() {
        let next = NextCall::default();
        assert!(next.give(Box::new(|| ())).is_some(), "no thread waits");

        // Gives itself a call when it looks for the last time.
        let given = next.wait(|| {
            assert!(next.give(Box::new(|| ())).is_none(), "a thread waits");
            false
        });
        assert!(given.is_some(), "a call that was given is taken");

        assert!(next.wait(|| false).is_none());
        assert!(next.give(Box::new(|| ())).is_some(), "the thread has gone");
    }

    #[test]
    fn one_thread_waits_at_a_time() {
        let next = NextCall::default();
        *next.slot() = Slot::Open;
        assert!(next.wait(|| true).is_none());
        assert!(next.give(Box::new(|| ())).is_none(), "the first thread still waits");
    }
}
