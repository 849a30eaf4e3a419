//! Threads that work on one call.

use std::num::NonZero;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

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
