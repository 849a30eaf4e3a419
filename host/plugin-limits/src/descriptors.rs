//! Shares of the process's file descriptors.
//!
//! Descriptors are few, and programs, sessions and connections need them too. So the files and directories that guests
//! hold open are counted for each plugin over all its calls, and for all plugins together.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors reserved for the host, if the process may have at least four times as many.
const RESERVED: u64 = 256;
/// The divisor of the rest that yields the share of one plugin.
const PART: u64 = 4;
/// The limit that is assumed where the system reports no limit.
const UNLIMITED: u64 = 65_536;

/// The descriptors that guests may hold.
#[derive(Debug)]
pub struct Descriptors {
    all: Arc<DescriptorCount>,
    shares: Mutex<BTreeMap<String, Arc<DescriptorShare>>>,
}

/// The descriptors of one plugin, over all its calls.
#[derive(Debug)]
pub struct DescriptorShare {
    own: DescriptorCount,
    all: Arc<DescriptorCount>,
}

/// One open file or directory, returned when this is dropped.
#[derive(Debug)]
pub struct DescriptorPermit(Arc<DescriptorShare>);

#[derive(Debug)]
struct DescriptorCount {
    used: AtomicU64,
    limit: u64,
}

impl Descriptors {
    /// Counts against the limit of this process.
    #[allow(clippy::new_without_default, reason = "it looks at the process")]
    pub fn new() -> Self {
        Self::with_limit(process_limit())
    }

    fn with_limit(limit: u64) -> Self {
        Self { all: Arc::new(DescriptorCount::new(limit - RESERVED.min(limit / 4))), shares: Mutex::default() }
    }

    /// The share of a plugin, which all its generations use.
    pub fn share(&self, plugin: &str) -> Arc<DescriptorShare> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let new =
            || Arc::new(DescriptorShare { own: DescriptorCount::new(self.all.limit / PART), all: self.all.clone() });
        shares.entry(plugin.to_owned()).or_insert_with(new).clone()
    }
}

impl DescriptorShare {
    /// Takes a descriptor. `None` when the share is used up.
    pub fn acquire_permit(self: &Arc<Self>) -> Option<DescriptorPermit> {
        if !self.own.try_acquire() {
            return None;
        }
        if !self.all.try_acquire() {
            self.own.give_back();
            return None;
        }
        Some(DescriptorPermit(self.clone()))
    }
}

impl Default for DescriptorShare {
    fn default() -> Self {
        Self { own: DescriptorCount::new(UNLIMITED), all: Arc::new(DescriptorCount::new(UNLIMITED)) }
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        self.0.own.give_back();
        self.0.all.give_back();
    }
}

impl DescriptorCount {
    fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    fn try_acquire(&self) -> bool {
        let taken = self.used.fetch_add(1, Ordering::AcqRel) < self.limit;
        if !taken {
            self.give_back();
        }
        taken
    }

    fn give_back(&self) {
        self.used.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(unix)]
fn process_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(UNLIMITED).min(1 << 20)
}

#[cfg(not(unix))]
fn process_limit() -> u64 {
    UNLIMITED
}

/// Returns whether the process or the system has no file handle left now.
pub fn are_handles_used_up() -> bool {
    File::open("/").is_err_and(|error| pinion_workspace::is_out_of_handles(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(share: &Arc<DescriptorShare>) -> Vec<DescriptorPermit> {
        std::iter::from_fn(|| share.acquire_permit()).collect()
    }

    #[test]
    fn one_plugin_leaves_descriptors_to_the_others() {
        let descriptors = Descriptors::with_limit(1024);
        let held = take_all(&descriptors.share("one"));
        assert_eq!(held.len(), 192);
        assert!(
            descriptors.share("one").acquire_permit().is_none() && descriptors.share("two").acquire_permit().is_some()
        );
        drop(held);
        assert!(descriptors.share("one").acquire_permit().is_some());
    }

    #[test]
    fn plugins_leave_descriptors_to_the_host() {
        let descriptors = Descriptors::with_limit(1024);
        let held: Vec<DescriptorPermit> =
            (0..10).flat_map(|plugin| take_all(&descriptors.share(&plugin.to_string()))).collect();
        assert_eq!(held.len(), 768);
    }
}
