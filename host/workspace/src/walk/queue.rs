//! A work queue for several threads, ordered by path.

use crate::threads::lock;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Condvar, Mutex, PoisonError};

/// Work by path. The queue ends when it is empty and no thread works, because work may add more work.
pub(super) struct PathQueue<W> {
    state: Mutex<QueueState<W>>,
    more: Condvar,
}

struct QueueState<W> {
    waiting: BTreeMap<OsString, W>,
    /// The number of threads that work.
    busy: usize,
    /// The number of threads that wait for work.
    idle: usize,
}

/// A guard: the thread works until it is dropped.
pub(super) struct Taken<'a, W> {
    queue: &'a PathQueue<W>,
}

impl<W> PathQueue<W> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(QueueState { waiting: BTreeMap::new(), busy: 0, idle: 0 }), more: Condvar::new() }
    }

    /// The number of pieces of work that wait.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    /// Adds work, and wakes threads for it.
    pub(super) fn add(&self, work: impl IntoIterator<Item = (OsString, W)>) {
        let mut state = lock(&self.state);
        state.waiting.extend(work);
        let wanted = state.idle.min(state.waiting.len());
        drop(state);
        (0..wanted).for_each(|_| self.more.notify_one());
    }

    /// Drops the work at this path and after it.
    pub(super) fn forget_from(&self, path: &OsStr) {
        drop(lock(&self.state).waiting.split_off(path));
    }

    /// Takes the first work by path, and waits while other threads may still add some. `None` when the queue has ended.
    /// While `is_scarce` holds, only one thread works, so that open handles grow with the depth alone.
    pub(super) fn take_work(&self, is_scarce: impl Fn() -> bool) -> Option<(OsString, W, Taken<'_, W>)> {
        let mut state = lock(&self.state);
        loop {
            if (state.busy == 0 || !is_scarce())
                && let Some((path, work)) = state.waiting.pop_first()
            {
                state.busy += 1;
                return Some((path, work, Taken { queue: self }));
            }
            if state.busy == 0 {
                return None;
            }
            state.idle += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl<W> Drop for Taken<'_, W> {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        state.busy -= 1;
        if state.busy == 0 && state.waiting.is_empty() {
            self.queue.more.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &PathQueue<u32>) -> Option<(String, u32)> {
        queue.take_work(|| false).map(|(path, work, _taken)| (path.into_string().unwrap(), work))
    }

    #[test]
    fn work_is_taken_in_the_order_of_paths() {
        let queue = PathQueue::new();
        queue.add([("b".into(), 2), ("d/".into(), 4)]);
        assert_eq!(taken(&queue), Some(("b".into(), 2)));
        queue.add([("a".into(), 1), ("c".into(), 3)]);
        assert_eq!(taken(&queue), Some(("a".into(), 1)));
        queue.forget_from(OsStr::new("d"));
        assert_eq!(taken(&queue), Some(("c".into(), 3)));
        assert_eq!(taken(&queue), None);
    }

    #[test]
    fn threads_wait_for_work_that_others_may_add() {
        for scarce in [false, true] {
            assert_eq!(done_by_four(scarce), 2_u32.pow(11) - 1);
        }
    }

    /// Works on a tree of pieces that add two more each.
    fn done_by_four(scarce: bool) -> u32 {
        let queue = PathQueue::new();
        queue.add([("a".into(), 10_u32)]);
        let work = || {
            let mut done = 0;
            while let Some((path, left, _taken)) = queue.take_work(|| scarce) {
                done += 1;
                let more = |side: &str| (format!("{}{side}", path.to_string_lossy()).into(), left - 1);
                if left > 0 {
                    queue.add([more("l"), more("r")]);
                }
            }
            done
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    }
}
