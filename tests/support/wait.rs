//! Bounded waiting for conditions without a notification.

use std::path::Path;
use std::time::{Duration, Instant};

/// Far more time than any condition takes unless the test has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);

/// Blocks until `condition` holds.
///
/// # Panics
/// The condition does not hold within a minute.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {what}");
        std::thread::sleep(STEP);
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// The condition does not hold within a minute.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {what}");
        tokio::time::sleep(STEP).await;
    }
}

/// Waits until a process has ended. A zombie that waits to be reaped counts as ended.
///
/// # Panics
/// The process is still running after a minute.
pub async fn until_gone(pid: i32) {
    let stat = Path::new("/proc").join(pid.to_string()).join("stat");
    let is_running = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|state| !state.is_empty() && !state.trim_start().starts_with('Z'))
    };
    until("the process is gone", || !is_running()).await;
}
