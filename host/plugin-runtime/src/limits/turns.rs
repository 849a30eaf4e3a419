//! Turns to run, of which each plugin gets its share.
//!
//! The first call of a plugin has a turn reserved apart from all others, as long as one is free. More turns come from a
//! pool, of which a plugin may hold no more than it leaves free. So each plugin that takes as many turns as it can leaves
//! half of what it found.

use crate::limits::shares::Share;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A pool of turns.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Pool>>);

struct Pool {
    free: u32,
    /// Turns reserved for plugins that hold none.
    first: u32,
    /// The turns of each plugin that holds any.
    held: HashMap<u64, HeldTurns>,
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
}

/// Turns that one plugin holds.
#[derive(Clone, Copy, Default)]
struct HeldTurns {
    of_pool: u32,
    /// Set when the plugin holds one of [`Pool::first`] as well.
    first: bool,
}

/// The right to run one call, returned when it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    plugin: u64,
}

impl Turns {
    /// Creates a pool of `turns`, and `first` others for plugins that hold none.
    pub(crate) fn new(turns: u32, first: u32) -> Self {
        let (held, waiting) = (HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(Pool { free: turns, first, held, waiting })))
    }

    /// Waits for a turn for a plugin. Dropping the future gives up the place in the queue.
    pub(crate) async fn take(&self, share: &Share) -> Option<Turn> {
        let waiting = {
            let mut pool = self.pool();
            // Calls of the same plugin keep their order.
            let is_next = !pool.waiting.iter().any(|(plugin, _)| *plugin == share.number());
            if is_next && pool.take(share.number()) {
                return Some(self.turn(share.number()));
            }
            let (sender, receiver) = oneshot::channel();
            pool.waiting.push_back((share.number(), sender));
            receiver
        };
        waiting.await.ok()
    }

    fn turn(&self, plugin: u64) -> Turn {
        Turn { turns: self.clone(), plugin }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands free turns to the calls that have waited longest and may have one.
    fn hand_out(&self) {
        // Dropped after the lock, because dropping a turn takes it.
        let mut given_up = Vec::new();
        let mut pool = self.pool();
        let mut at = 0;
        while let Some((plugin, waiting)) = pool.waiting.get(at) {
            let (plugin, is_given_up) = (*plugin, waiting.is_closed());
            if !is_given_up && !pool.take(plugin) {
                at += 1;
                continue;
            }
            let Some((_, waiting)) = pool.waiting.remove(at) else { return };
            if !is_given_up && let Err(turn) = waiting.send(self.turn(plugin)) {
                given_up.push(turn);
            }
        }
        drop(pool);
    }
}

impl Pool {
    fn take(&mut self, plugin: u64) -> bool {
        let mut held = self.held.get(&plugin).copied().unwrap_or_default();
        if held.is_none() && self.first > 0 {
            self.first -= 1;
            held.first = true;
        } else if held.of_pool < self.free {
            self.free -= 1;
            held.of_pool += 1;
        } else {
            return false;
        }
        self.held.insert(plugin, held);
        true
    }

    fn give_back(&mut self, plugin: u64) {
        let Some(held) = self.held.get_mut(&plugin) else { return };
        if held.of_pool > 0 {
            held.of_pool -= 1;
            self.free += 1;
        } else {
            held.first = false;
            self.first += 1;
        }
        if held.is_none() {
            self.held.remove(&plugin);
        }
    }
}

impl HeldTurns {
    fn is_none(self) -> bool {
        self.of_pool == 0 && !self.first
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let has_waiting = {
            let mut pool = self.turns.pool();
            pool.give_back(self.plugin);
            !pool.waiting.is_empty()
        };
        if has_waiting {
            self.turns.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn shares(count: u64) -> Vec<Arc<Share>> {
        let counts = Arc::default();
        (0..count).map(|number| Share::new(number, &counts).unwrap()).collect()
    }

    fn take_all(turns: &Turns, share: &Share) -> Vec<Turn> {
        std::iter::from_fn(|| turns.take(share).now_or_never().flatten()).collect()
    }

    #[test]
    fn every_plugin_gets_a_turn_beside_greedy_ones() {
        let (turns, shares) = (Turns::new(64, 20), shares(24));
        let taken: Vec<Vec<Turn>> = shares.iter().map(|share| take_all(&turns, share)).collect();
        let counts: Vec<usize> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts[..8], [33, 17, 9, 5, 3, 2, 2, 1]);
        assert_eq!(counts[8..20], [1; 12]);
        assert_eq!(counts[20..], [0; 4], "reserved turns are bounded, too");
        drop(taken);
        let pool = turns.pool();
        assert_eq!((pool.free, pool.first), (64, 20));
    }

    #[test]
    fn first_turn_comes_from_the_pool_when_no_reserved_one_is_free() {
        let (turns, shares) = (Turns::new(8, 1), shares(2));
        let apart = take_all(&turns, &shares[0]);
        assert_eq!(apart.len(), 5);
        assert_eq!(take_all(&turns, &shares[1]).len(), 2);
    }

    #[test]
    fn plugin_leaves_half_of_the_free_turns() {
        let (turns, shares) = (Turns::new(32, 0), shares(4));
        let counts: Vec<usize> = {
            let taken: Vec<Vec<Turn>> = shares.iter().map(|share| take_all(&turns, share)).collect();
            taken.iter().map(Vec::len).collect()
        };
        assert_eq!(counts, [16, 8, 4, 2]);
        assert_eq!(turns.pool().free, 32);
    }

    #[tokio::test]
    async fn turn_goes_to_the_longest_waiting_eligible_call() {
        let (turns, shares) = (Turns::new(2, 2), shares(2));
        let mut greedy = take_all(&turns, &shares[0]);
        let mut first = Box::pin(turns.take(&shares[0]));
        let mut second = Box::pin(turns.take(&shares[0]));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        // A call that gave up does not block the queue.
        drop(first);
        greedy.pop();
        assert!(second.await.is_some());
        drop(greedy);
        assert_eq!(turns.pool().free, 2);
        assert!(turns.pool().held.is_empty());
    }
}
