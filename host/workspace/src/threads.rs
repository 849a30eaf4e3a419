//! The threads that work on one call, and the end of their work.

use std::num::NonZero;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that work on one call, including the calling one.
const MAX_THREADS: usize = 8;

/// The number of threads for one call. Looked up once, because the system answers through several files.
pub(crate) fn threads() -> usize {
    static THREADS: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS));
    *THREADS
}

/// Locks a mutex, also after a panic of the thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells work when to end. Asked between two files, so it must be cheap.
pub trait Interrupt: Sync {
    /// Returns whether the work should end: its result is no longer wanted, or its time has passed.
    fn is_over(&self) -> bool;
}

/// An [`Interrupt`] after some time; never, if the clock cannot represent the end.
pub(crate) struct Limit(Option<Instant>);

impl Limit {
    pub(crate) fn new(limit: Duration) -> Self {
        Self(Instant::now().checked_add(limit))
    }
}

impl Interrupt for Limit {
    fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}
