//! Fair shares: what one plugin may hold of what all plugins need.
//!
//! A [`Share`] belongs to one source of plugins for as long as anything of it lives: all generations, calls and instances
//! count to it, whatever names their manifests give.
//!
//! Calls take [`Turns`]. The first call of a plugin has a turn that is kept apart from all others, as long as there is
//! one. More turns come from a pool, of which a plugin may hold no more than is left free. So each plugin that takes as
//! many turns as it can leaves half of what it found.

use crate::loading::generation::LoadError;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Plugins that may be there at once.
pub(crate) const MAX_PLUGINS: u32 = 1024;
/// Instances of lifetime `session` that may live at once; each has a thread of its own.
pub(crate) const MAX_RESIDENTS: u32 = 32;
/// Instances of lifetime `session` of one plugin: the current one, and one whose last call still runs.
const MAX_OWN_RESIDENTS: u32 = 2;

/// Counts what lives, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU32);

impl Count {
    /// Counts one more. None when there are as many as may be.
    fn take(&self, at_most: u32) -> Option<()> {
        let add = |count: u32| (count < at_most).then_some(count + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok().map(|_| ())
    }

    fn give_back(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts that all plugins share.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    plugins: Count,
    residents: Count,
}

/// What a plugin holds.
#[derive(Debug)]
pub(crate) struct Share {
    number: u64,
    memory: AtomicU64,
    residents: Count,
    counts: Arc<Counts>,
}

impl Share {
    /// The share of a new plugin.
    ///
    /// # Errors
    /// There are as many plugins as may be.
    pub(crate) fn new(number: u64, counts: &Arc<Counts>) -> Result<Arc<Self>, LoadError> {
        let too_many = || LoadError::Limit(format!("there are {MAX_PLUGINS} plugins already"));
        counts.plugins.take(MAX_PLUGINS).ok_or_else(too_many)?;
        let (memory, residents) = (AtomicU64::new(0), Count::default());
        Ok(Arc::new(Self { number, memory, residents, counts: counts.clone() }))
    }

    /// Adds memory of an instance, unless all of the plugin's instances together had more than `limit` then.
    pub(crate) fn grow(&self, bytes: u64, limit: u64) -> bool {
        let grown = |memory: u64| memory.checked_add(bytes).filter(|memory| *memory <= limit);
        self.memory.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).is_ok()
    }

    /// Takes off the memory of an instance that is gone.
    pub(crate) fn shrink(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// A place for an instance of lifetime `session`.
    ///
    /// # Errors
    /// There are as many as may be.
    pub(crate) fn resident(self: &Arc<Self>) -> Result<ResidentPlace, LoadError> {
        let limit = |text: &str| LoadError::Limit(text.to_owned());
        self.residents.take(MAX_OWN_RESIDENTS).ok_or_else(|| limit("calls of its last two generations still run"))?;
        let place = self.counts.residents.take(MAX_RESIDENTS);
        if place.is_none() {
            self.residents.give_back();
        }
        place
            .map(|()| ResidentPlace(self.clone()))
            .ok_or_else(|| limit("there are too many plugins of lifetime `session`"))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counts.plugins.give_back();
    }
}

/// The place of an instance of lifetime `session`, until it is dropped.
#[derive(Debug)]
pub(crate) struct ResidentPlace(Arc<Share>);

impl Drop for ResidentPlace {
    fn drop(&mut self) {
        self.0.residents.give_back();
        self.0.counts.residents.give_back();
    }
}

/// Turns to run, of which each plugin gets its share.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Pool>>);

struct Pool {
    free: u32,
    /// Turns that are only for plugins that hold none.
    first: u32,
    /// Turns of each plugin that holds any.
    held: HashMap<u64, Held>,
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
}

/// Turns that one plugin holds.
#[derive(Clone, Copy, Default)]
struct Held {
    of_pool: u32,
    /// Holds one of [`Pool::first`] as well.
    first: bool,
}

/// The right to run, until it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    plugin: u64,
}

impl Turns {
    /// A pool of so many turns, and so many others for plugins that hold none.
    pub(crate) fn new(turns: u32, first: u32) -> Self {
        let (held, waiting) = (HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(Pool { free: turns, first, held, waiting })))
    }

    /// A turn for a plugin, once there is one. Dropping the future gives up the place among those that wait.
    pub(crate) async fn take(&self, share: &Share) -> Option<Turn> {
        let waiting = {
            let mut pool = self.pool();
            // Not past those of the same plugin that came before.
            let is_next = !pool.waiting.iter().any(|(plugin, _)| *plugin == share.number);
            if is_next && pool.take(share.number) {
                return Some(self.turn(share.number));
            }
            let (sender, receiver) = oneshot::channel();
            pool.waiting.push_back((share.number, sender));
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

    /// Hands turns to those that wait longest, of those that may have one.
    fn hand_out(&self) {
        // Dropped after the lock, which their end takes.
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

impl Held {
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
    fn every_plugin_gets_a_turn_however_greedy_others_are() {
        let (turns, shares) = (Turns::new(64, 20), shares(24));
        let taken: Vec<Vec<Turn>> = shares.iter().map(|share| take_all(&turns, share)).collect();
        let counts: Vec<usize> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts[..8], [33, 17, 9, 5, 3, 2, 2, 1]);
        assert_eq!(counts[8..20], [1; 12]);
        assert_eq!(counts[20..], [0; 4], "those that are apart are bounded, too");
        drop(taken);
        let pool = turns.pool();
        assert_eq!((pool.free, pool.first), (64, 20));
    }

    #[test]
    fn first_turn_comes_from_the_pool_when_none_is_left_apart() {
        let (turns, shares) = (Turns::new(8, 1), shares(2));
        let apart = take_all(&turns, &shares[0]);
        assert_eq!(apart.len(), 5);
        assert_eq!(take_all(&turns, &shares[1]).len(), 2);
    }

    #[test]
    fn without_turns_apart_a_plugin_leaves_half_of_what_it_finds() {
        let (turns, shares) = (Turns::new(32, 0), shares(4));
        let counts: Vec<usize> = {
            let taken: Vec<Vec<Turn>> = shares.iter().map(|share| take_all(&turns, share)).collect();
            taken.iter().map(Vec::len).collect()
        };
        assert_eq!(counts, [16, 8, 4, 2]);
        assert_eq!(turns.pool().free, 32);
    }

    #[tokio::test]
    async fn turn_goes_to_whoever_waits_longest_and_may_have_it() {
        let (turns, shares) = (Turns::new(2, 2), shares(2));
        let mut greedy = take_all(&turns, &shares[0]);
        let mut first = Box::pin(turns.take(&shares[0]));
        let mut second = Box::pin(turns.take(&shares[0]));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        // One that came first and gave up does not stand in the way.
        drop(first);
        greedy.pop();
        assert!(second.await.is_some());
        drop(greedy);
        assert_eq!(turns.pool().free, 2);
        assert!(turns.pool().held.is_empty());
    }

    #[test]
    fn memory_of_all_instances_of_a_plugin_is_bounded_and_given_back() {
        let shares = shares(2);
        assert!(shares[0].grow(60, 100) && !shares[0].grow(60, 100) && shares[1].grow(100, 100));
        shares[0].shrink(60);
        assert!(shares[0].grow(100, 100));
    }

    #[test]
    fn number_of_plugins_is_bounded_while_anything_of_them_lives() {
        let counts = Arc::default();
        let mut shares: Vec<_> = (0..u64::from(MAX_PLUGINS)).map(|n| Share::new(n, &counts).unwrap()).collect();
        assert!(matches!(Share::new(999, &counts), Err(LoadError::Limit(_))));
        shares.pop();
        assert!(Share::new(999, &counts).is_ok());
    }

    #[test]
    fn generations_of_lifetime_session_are_bounded() {
        let share = shares(1).remove(0);
        let places = [share.resident().unwrap(), share.resident().unwrap()];
        assert!(share.resident().is_err());
        drop(places);
        assert!(share.resident().is_ok());
    }
}
