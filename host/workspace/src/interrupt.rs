//! The end of work that blocks its thread.

use std::time::{Duration, Instant};

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
