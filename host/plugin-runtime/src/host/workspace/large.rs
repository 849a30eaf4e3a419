//! One large file at a time.
//!
//! Most files are searched in small buffers. One with a very long line, with a match over many lines, or read whole for a
//! multiline pattern needs much more. Threads that come upon such a file take turns, so that the memory of a search does
//! not grow with the number of threads.

use super::lock;
use crate::calls::deadline::Deadline;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a thread that waits for its turn looks at the clock and the cancellation.
const POLL: Duration = Duration::from_millis(20);

/// The turn, shared by the threads of a search.
#[derive(Default)]
pub(super) struct Large {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

struct Turn<'a>(&'a Large);

impl Large {
    /// Waits for the turn; none when the call was given up before.
    fn take(&self, deadline: &Deadline) -> Option<Turn<'_>> {
        let mut is_taken = lock(&self.is_taken);
        while *is_taken {
            if deadline.is_over() {
                return None;
            }
            is_taken = self.freed.wait_timeout(is_taken, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_taken = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.freed.notify_one();
    }
}

/// What one thread needs for the file that it searches; the turn ends when this is dropped.
pub(super) struct Scale<'a> {
    large: &'a Large,
    deadline: &'a Deadline,
    turn: RefCell<Option<Turn<'a>>>,
}

impl<'a> Scale<'a> {
    pub(super) fn new(large: &'a Large, deadline: &'a Deadline) -> Self {
        Self { large, deadline, turn: RefCell::new(None) }
    }

    /// Waits until this file may be large. Returns false when the call was given up.
    pub(super) fn grow(&self) -> bool {
        let mut turn = self.turn.borrow_mut();
        if turn.is_none() {
            *turn = self.large.take(self.deadline);
        }
        turn.is_some()
    }

    pub(super) fn is_large(&self) -> bool {
        self.turn.borrow().is_some()
    }
}
