//! Memory that one walk or search may hold, counted before it is allocated.
//!
//! A hostile tree decides how many entries a walk lists and how long their names are. Whatever waits in memory for its
//! turn has a [`Share`] of the call's [`Budget`] and returns it when it is dropped. What finds no room is left out, and
//! the result says `truncated`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are left.
pub(super) struct Budget(AtomicU64);

/// Bytes taken from a budget; given back on drop.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    /// An empty share, to be grown.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes this many bytes more, or none at all.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let taken = self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if taken.is_ok() {
            self.bytes += bytes;
        }
        taken.is_ok()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves up to this many bytes to a share of their own.
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_their_budget_and_return_what_they_took() {
        let budget = Budget::new(10);
        let mut share = budget.share();
        assert!(share.grow(8) && !share.grow(3) && share.grow(2));
        let half = share.split(5);
        drop(share);
        let mut other = budget.share();
        assert!(!other.grow(6) && other.grow(5));
        drop(half);
        assert!(other.grow(5));
    }
}
