//! Starting the engine in a process that is not dumpable.
//!
//! The engine opens `/proc/self/pagemap` once, to reset memory page by page; without it, each call costs more. The system
//! denies that file to a process that is not dumpable, except to root. So the process is made dumpable while the engine
//! starts, when no guest and no program of a guest runs yet. The user's own key commands may run, in a sandbox that does not
//! show them this process.

/// Runs `start` while the process may open its own files in `/proc`.
#[cfg(target_os = "linux")]
pub(crate) fn readable<T>(start: impl FnOnce() -> T) -> T {
    use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
    let is_hidden = matches!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    if !is_hidden || rustix::process::geteuid().is_root() {
        return start();
    }
    // If the system refuses, the engine works without the file.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let started = start();
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::error!(%error, "the process stays dumpable");
    }
    started
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn readable<T>(start: impl FnOnce() -> T) -> T {
    start()
}
