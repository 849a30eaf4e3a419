//! Turns to run, shared fairly between plugins.
//!
//! The first call of a plugin has a turn reserved apart from all others, as long as one is free. More turns come from a
//! pool; a plugin may hold no more of it than it leaves free. So each plugin that takes as many turns as it can leaves
//! half of the turns that it found.

use crate::shares::Share;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A pool of turns.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Pool>>);

struct Pool {
    free: u32,
    /// Turns reserved for plugins without a turn.
    first: u32,
    /// The turns of each plugin that holds any.
    held: HashMap<u64, HeldTurns>,
    waiting: WaitingCalls,
}

/// Calls that wait, in the order of their arrival. Whether one may have a turn depends on its plugin, so only the first
/// call of each plugin is looked at, however many wait.
#[derive(Default)]
struct WaitingCalls {
    /// The calls of each plugin that has any, by their places in the order.
    calls: HashMap<u64, BTreeMap<u64, oneshot::Sender<TurnPermit>>>,
    /// The plugins by the places of their first calls.
    plugins: BTreeMap<u64, u64>,
    /// The place of the next call.
    next: u64,
}

/// The place of a call in the order, which it leaves when this is dropped.
struct TurnPosition {
    turns: Turns,
    plugin: u64,
    number: u64,
}

/// Turns that one plugin holds.
#[derive(Clone, Copy, Default)]
struct HeldTurns {
    of_pool: u32,
    /// Set when the plugin holds one of [`Pool::first`] as well.
    first: bool,
}

/// The right to run one call, returned when it is dropped.
pub struct TurnPermit {
    turns: Turns,
    plugin: u64,
}

impl Turns {
    /// Creates a pool of `turns`, and `first` others for plugins without a turn.
    pub(crate) fn new(turns: u32, first: u32) -> Self {
        let (held, waiting) = (HashMap::new(), WaitingCalls::default());
        Self(Arc::new(Mutex::new(Pool { free: turns, first, held, waiting })))
    }

    /// Waits for a turn for a plugin. Dropping the future gives up the place in the queue.
    pub(crate) async fn acquire_turn(&self, share: &Share) -> Option<TurnPermit> {
        let plugin = share.number();
        let (waiting, _place) = {
            let mut pool = self.pool();
            // Calls of the same plugin keep their order.
            if !pool.waiting.has(plugin) && pool.try_acquire(plugin) {
                return Some(self.turn(plugin));
            }
            let (sender, receiver) = oneshot::channel();
            let number = pool.waiting.push(plugin, sender);
            (receiver, TurnPosition { turns: self.clone(), plugin, number })
        };
        waiting.await.ok()
    }

    fn turn(&self, plugin: u64) -> TurnPermit {
        TurnPermit { turns: self.clone(), plugin }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands free turns to the calls that have waited longest and may have one.
    fn hand_out(&self) {
        // Dropped after the lock, because dropping a turn takes it.
        let mut given_up = Vec::new();
        let mut pool = self.pool();
        let mut from = 0;
        while pool.free > 0 || pool.first > 0 {
            let Some((place, plugin)) = pool.waiting.first_call_from(from) else { break };
            from = place + 1;
            if !pool.try_acquire(plugin) {
                continue;
            }
            let Some(call) = pool.waiting.remove(plugin, place) else { break };
            // A call that gives up waits for the lock to leave its place.
            if let Err(turn) = call.send(self.turn(plugin)) {
                given_up.push(turn);
            }
        }
        drop(pool);
    }
}

impl WaitingCalls {
    fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Returns whether calls of a plugin wait.
    fn has(&self, plugin: u64) -> bool {
        self.calls.contains_key(&plugin)
    }

    /// Adds a call, and returns its place.
    fn push(&mut self, plugin: u64, call: oneshot::Sender<TurnPermit>) -> u64 {
        let place = self.next;
        self.next += 1;
        let calls = self.calls.entry(plugin).or_default();
        if calls.is_empty() {
            self.plugins.insert(place, plugin);
        }
        calls.insert(place, call);
        place
    }

    /// Removes the call of a plugin at a place, if it still waits.
    fn remove(&mut self, plugin: u64, place: u64) -> Option<oneshot::Sender<TurnPermit>> {
        let calls = self.calls.get_mut(&plugin)?;
        let call = calls.remove(&place)?;
        let was_first = self.plugins.remove(&place).is_some();
        match calls.first_key_value() {
            Some((next, _)) if was_first => drop(self.plugins.insert(*next, plugin)),
            Some(_) => {}
            None => drop(self.calls.remove(&plugin)),
        }
        Some(call)
    }

    /// Returns the first of the plugins' first calls from a place on, with its place.
    fn first_call_from(&self, place: u64) -> Option<(u64, u64)> {
        self.plugins.range(place..).next().map(|(place, plugin)| (*place, *plugin))
    }
}

impl Drop for TurnPosition {
    fn drop(&mut self) {
        self.turns.pool().waiting.remove(self.plugin, self.number);
    }
}

impl Pool {
    fn try_acquire(&mut self, plugin: u64) -> bool {
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

impl Drop for TurnPermit {
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
    use proptest::prelude::*;

    fn shares(count: u64) -> Vec<Arc<Share>> {
        let counts = Arc::default();
        (0..count).map(|number| Share::new(number, &counts).unwrap()).collect()
    }

    fn take_all(turns: &Turns, share: &Share) -> Vec<TurnPermit> {
        std::iter::from_fn(|| turns.acquire_turn(share).now_or_never().flatten()).collect()
    }

    #[test]
    fn every_plugin_gets_a_turn_beside_greedy_ones() {
        let (turns, shares) = (Turns::new(64, 20), shares(24));
        let taken: Vec<Vec<TurnPermit>> = shares.iter().map(|share| take_all(&turns, share)).collect();
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
            let taken: Vec<Vec<TurnPermit>> = shares.iter().map(|share| take_all(&turns, share)).collect();
            taken.iter().map(Vec::len).collect()
        };
        assert_eq!(counts, [16, 8, 4, 2]);
        assert_eq!(turns.pool().free, 32);
    }

    #[tokio::test]
    async fn turn_goes_to_the_longest_waiting_eligible_call() {
        let (turns, shares) = (Turns::new(2, 2), shares(2));
        let mut greedy = take_all(&turns, &shares[0]);
        let mut first = Box::pin(turns.acquire_turn(&shares[0]));
        let mut second = Box::pin(turns.acquire_turn(&shares[0]));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        // A call that gave up does not block the queue.
        drop(first);
        greedy.pop();
        assert!(second.await.is_some());
        drop(greedy);
        assert_eq!(turns.pool().free, 2);
        assert!(turns.pool().held.is_empty());
    }

    #[test]
    fn calls_that_give_up_leave_the_queue_wherever_they_wait() {
        let (turns, shares) = (Turns::new(2, 0), shares(1));
        let _running = take_all(&turns, &shares[0]);
        let mut waiting: Vec<_> = (0..10_000).map(|_| Box::pin(turns.acquire_turn(&shares[0]))).collect();
        assert!(waiting.iter_mut().all(|call| call.now_or_never().is_none()));
        let count = || turns.pool().waiting.calls.values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(count(), 10_000);
        waiting.truncate(1);
        assert_eq!(count(), 1);
        waiting.clear();
        assert!(turns.pool().waiting.is_empty() && turns.pool().waiting.calls.is_empty());
    }

    /// A call that waits for a turn or has one.
    type Call = std::pin::Pin<Box<dyn Future<Output = Option<TurnPermit>>>>;

    /// Turns that are handed out as the documentation says, by looking at every call.
    struct Model {
        pool: Pool,
        waiting: Vec<(usize, u64)>,
    }

    impl Model {
        fn hand_out(&mut self) -> Vec<usize> {
            let mut given = Vec::new();
            self.waiting.retain(|(call, plugin)| {
                let waits = !self.pool.try_acquire(*plugin);
                if !waits {
                    given.push(*call);
                }
                waits
            });
            given
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Take(usize),
        End(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![3 => (0..5_usize).prop_map(Step::Take), 2 => (0..40_usize).prop_map(Step::End)]
    }

    proptest! {
        #[test]
        fn turns_go_to_the_same_calls_as_if_each_was_looked_at(
            free in 1_u32..6, first in 0_u32..4, steps in proptest::collection::vec(step(), 1..60),
        ) {
            let (turns, shares) = (Turns::new(free, first), shares(5));
            let pool = Pool { free, first, held: HashMap::new(), waiting: WaitingCalls::default() };
            let mut model = Model { pool, waiting: Vec::new() };
            // The plugin of each call, and the call while it waits, or its turn.
            let mut calls: Vec<(u64, Option<Call>, Option<TurnPermit>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(plugin) => {
                        let (turns, share) = (turns.clone(), shares[plugin].clone());
                        model.waiting.push((calls.len(), share.number()));
                        let call: Call = Box::pin(async move { turns.acquire_turn(&share).await });
                        calls.push((plugin as u64, Some(call), None));
                    }
                    Step::End(call) if call < calls.len() => {
                        let (plugin, _, held) = &mut calls[call];
                        if held.is_some() {
                            model.pool.give_back(*plugin);
                        }
                        model.waiting.retain(|(waiting, _)| *waiting != call);
                        calls[call] = (*plugin, None, None);
                    }
                    Step::End(_) => {}
                }
                let mut given = Vec::new();
                for (number, (_, call, turn)) in calls.iter_mut().enumerate() {
                    if let Some(now) = call.as_mut().and_then(|call| call.now_or_never()) {
                        (*call, *turn) = (None, now);
                        given.push(number);
                    }
                }
                let mut expected = model.hand_out();
                expected.sort_unstable();
                prop_assert_eq!(given, expected);
            }
        }
    }
}
