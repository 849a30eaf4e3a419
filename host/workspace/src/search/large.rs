//! One large file at a time.
//!
//! Most files are searched in small buffers. A file with a very long line or a match over many lines needs much more, as
//! does one that is read completely for a multiline pattern. Threads take turns at such files, so that the memory of a
//! search does not grow with the number of threads.

use crate::threads::Interrupt;
use crate::threads::lock;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The interval between two checks of the deadline by a thread that waits for its turn.
const POLL: Duration = Duration::from_millis(20);

/// The turn, shared by the threads of a search.
#[derive(Default)]
pub(super) struct Large {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

struct LargeFilePermit<'a>(&'a Large);

impl Large {
    /// Waits for the turn. `None` when the call is over before.
    fn acquire_turn(&self, deadline: &dyn Interrupt) -> Option<LargeFilePermit<'_>> {
        let mut is_taken = lock(&self.is_taken);
        while *is_taken {
            if deadline.is_over() {
                return None;
            }
            is_taken = self.freed.wait_timeout(is_taken, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_taken = true;
        Some(LargeFilePermit(self))
    }
}

impl Drop for LargeFilePermit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.freed.notify_one();
    }
}

/// The memory class of the file that a thread searches. Dropping it ends the turn.
pub(super) struct Scale<'a> {
    large: &'a Large,
    deadline: &'a dyn Interrupt,
    turn: RefCell<Option<LargeFilePermit<'a>>>,
}

impl<'a> Scale<'a> {
    pub(super) fn new(large: &'a Large, deadline: &'a dyn Interrupt) -> Self {
        Self { large, deadline, turn: RefCell::new(None) }
    }

    /// Waits until this file may use more memory. Returns false when the call is over.
    pub(super) fn grow(&self) -> bool {
        let mut turn = self.turn.borrow_mut();
        if turn.is_none() {
            *turn = self.large.acquire_turn(self.deadline);
        }
        turn.is_some()
    }

    pub(super) fn is_large(&self) -> bool {
        self.turn.borrow().is_some()
    }
}
