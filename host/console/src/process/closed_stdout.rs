//! A stdout that was closed when the program started.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether this program was started with stdout closed. The standard library opens `/dev/null` in its place before
/// `main`, so that the output would disappear without an error.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Runs before the standard library starts.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code, reason = "only code that runs before `main` sees the streams as they were")]
static FIND_CLOSED_STDOUT: extern "C" fn() = {
    extern "C" fn find() {
        // SAFETY: fcntl takes numbers here and changes nothing.
        if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
            STDOUT_WAS_CLOSED.store(true, Ordering::Relaxed);
        }
    }
    find
};
