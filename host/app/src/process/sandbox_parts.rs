//! Parts that the sandboxes of all programs share: the helper, the limits and the reports.

use crate::config::sandbox::SandboxSettings;
use crate::process::own_command::{RUN_IN_SANDBOX, own_command};
use pinion_sandbox::{ResourceLimits, helper_beside};
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the command of the helper: the small program next to this one, or else this one itself.
pub fn helper() -> Option<(PathBuf, Vec<OsString>)> {
    let (own, arguments) = own_command(RUN_IN_SANDBOX)?;
    Some(match helper_beside(&own) {
        Some(small) => (small, Vec::new()),
        None => (own, arguments),
    })
}

/// Returns the limits on a program.
pub fn limits(settings: &SandboxSettings) -> ResourceLimits {
    let usual = ResourceLimits::default();
    ResourceLimits {
        processes: settings.max_processes.unwrap_or(usual.processes),
        memory_bytes: settings.max_memory.or_else(most_memory),
        ..usual
    }
}

/// Returns the memory that a program may have by default: four fifths of the machine's, so that the machine goes on.
fn most_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024 / 5 * 4)
}

/// Returns the paths that exist, without links in them.
pub fn without_links(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}
