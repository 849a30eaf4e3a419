//! Failures of the store with their remedies, and the time of an installation.

use pinion_app::failure::Failure;
use pinion_packages::{LockError, StoreError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Converts a failure of the store, with its remedy.
pub(super) fn store_failure(error: StoreError) -> Failure {
    let hint = match &error {
        StoreError::Lock { cause: LockError::Edited, .. } => "look at it with: pinion plugin verify --accept",
        StoreError::Lock { .. } => "it must belong to you and have mode 0600",
        StoreError::Changed(_) => "run the command again",
        StoreError::Unknown(_) => "list the plugins with: pinion plugin list",
        StoreError::NoVersion { .. } => "install it again with: pinion plugin add",
        StoreError::Occupied { .. } => "move the file away to install the package",
        StoreError::Tampered { .. } => "remove the package, then install it again",
        StoreError::LooksAlike { .. } => "remove the other one if you want this one in its place",
        StoreError::Io { .. } => "nothing was changed",
    };
    Failure::failed(&error).hint(hint)
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
