//! Threads that hand a call over and spin instead of sleeping, and the call that such a thread takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a thread spins for the next call, while no guest runs.
pub(super) const LINGER: Duration = Duration::from_micros(80);

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
