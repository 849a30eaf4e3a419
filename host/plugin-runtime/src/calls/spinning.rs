//! When threads that hand a call over spin instead of sleeping, and the call that such a thread takes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a thread spins for the next call, while no guest runs.
pub(super) const LINGER: Duration = Duration::from_micros(80);
/// Calls without spinning after spinning did not help several times in a row.
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
    pub(super) fn begin(&self) -> bool {
        self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Learns whether the answer to a call that spun came in time.
    pub(super) fn learn(&self, was_in_time: bool) {
        let pause = if was_in_time { 0 } else { (self.last_pause.load(Ordering::Relaxed) * 2).clamp(1, MAX_PAUSE) };
        self.last_pause.store(pause, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.pause.load(Ordering::Relaxed) == 0
    }
}

/// The work of one call.
pub(super) type CallTask = Box<dyn FnOnce() + Send>;

/// The slot that the thread that ended a call takes the next call from.
#[derive(Default)]
pub(crate) struct NextCall {
    slot: Mutex<WaiterSlot>,
    /// Whether the slot is full, to be looked at without its lock.
    is_full: AtomicBool,
}

#[derive(Default)]
enum WaiterSlot {
    /// No thread waits.
    #[default]
    Closed,
    /// A thread waits.
    Open,
    Full(CallTask),
}

impl NextCall {
    fn slot(&self) -> MutexGuard<'_, WaiterSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the work to the thread that waits. Returns it where no thread waits.
    pub(super) fn give(&self, work: CallTask) -> Option<CallTask> {
        let mut slot = self.slot();
        if !matches!(*slot, WaiterSlot::Open) {
            return Some(work);
        }
        *slot = WaiterSlot::Full(work);
        self.is_full.store(true, Ordering::Release);
        None
    }

    /// Waits for the next call while `goes_on`, unless another thread does.
    pub(super) fn wait(&self, goes_on: impl Fn() -> bool) -> Option<CallTask> {
        {
            let mut slot = self.slot();
            if !matches!(*slot, WaiterSlot::Closed) {
                return None;
            }
            *slot = WaiterSlot::Open;
        }
        spin(LINGER, goes_on, || self.is_full.load(Ordering::Acquire).then_some(()));
        // Also after the time is up: a call that came until now has no thread but this one.
        let mut slot = self.slot();
        self.is_full.store(false, Ordering::Release);
        match std::mem::take(&mut *slot) {
            WaiterSlot::Full(work) => Some(work),
            WaiterSlot::Open | WaiterSlot::Closed => None,
        }
    }
}

/// Asks again and again for at most `time`, while `goes_on`, and once more after that: the thread may not have run meanwhile.
pub(super) fn spin<T>(time: Duration, goes_on: impl Fn() -> bool, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let is_last = !goes_on() || begun.elapsed() >= time;
        match ask() {
            None if is_last => return None,
            None => std::hint::spin_loop(),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_pause_from_spinning_longer_each_time_it_does_not_help() {
        let spinning = Spinning::default();
        let calls_without = || std::iter::from_fn(|| (!spinning.begin()).then_some(())).count();
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            spinning.learn(false);
            assert_eq!(calls_without(), expected);
        }
        spinning.learn(true);
        assert_eq!(calls_without(), 0);
        spinning.learn(false);
        assert_eq!(calls_without(), 1, "an answer in time ends what was learnt before");
    }

    #[test]
    fn thread_that_did_not_run_meanwhile_asks_once_more() {
        assert_eq!(spin(Duration::ZERO, || true, || Some(1)), Some(1));
        assert_eq!(spin(Duration::MAX, || false, || Some(1)), Some(1));
        assert_eq!(spin(Duration::ZERO, || true, || None::<u8>), None);
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
        *next.slot() = WaiterSlot::Open;
        assert!(next.wait(|| true).is_none());
        assert!(next.give(Box::new(|| ())).is_none(), "the first thread still waits");
    }
}
