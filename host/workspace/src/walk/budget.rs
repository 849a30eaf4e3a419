//! Memory that one walk or search may hold, counted before it is allocated.
//!
//! A hostile tree decides how many entries a walk lists and how long their names are. Everything that waits in memory has a
//! [`Reservation`] from the call's [`ByteBudget`] and returns it when it is dropped. Entries without room are left out, and the
//! result is marked as `truncated`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that are left.
pub(super) struct ByteBudget(AtomicU64);

/// Bytes taken from a budget, returned on drop.
pub(super) struct Reservation {
    budget: Arc<ByteBudget>,
    bytes: u64,
}

impl ByteBudget {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    /// Creates an empty reservation.
    pub(super) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

impl Reservation {
    /// Takes more bytes, or fails and takes nothing. Returns whether there was room.
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

    /// Moves up to `bytes` bytes to a new reservation.
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_never_exceed_their_budget() {
        let budget = ByteBudget::new(10);
        let mut reservation = budget.reservation();
        assert!(reservation.grow(8) && !reservation.grow(3) && reservation.grow(2));
        let half = reservation.split(5);
        drop(reservation);
        let mut other = budget.reservation();
        assert!(!other.grow(6) && other.grow(5));
        drop(half);
        assert!(other.grow(5));
    }
}
