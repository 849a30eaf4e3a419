//! Fair shares of resources that all plugins need: memory, threads and places in the registry.
//!
//! A [`Share`] belongs to one source of plugins as long as anything of it lives: every generation, call and instance
//! counts towards it, regardless of the names in their manifests.
//!
//! [`crate::turns`] shares out the right to run in the same way.

use crate::limits::EngineLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Plugins that may exist at once.
pub const MAX_PLUGINS: u32 = 1024;
/// Calls without spinning after spinning did not help several times in a row.
const MAX_PAUSE: u32 = 64;
/// Instances of lifetime `session` of one plugin: the current one, and one whose last call still runs.
const MAX_OWN_RESIDENTS: u32 = 2;
/// Idle instances of one plugin of lifetime `reused`.
const MAX_OWN_IDLE: u32 = 4;

/// A plugin needs more than its share, or all plugins together need more than there is. The text says what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShareExceeded(String);

/// A counter with a limit.
#[derive(Debug, Default)]
pub(crate) struct SharedCount(AtomicU32);

impl SharedCount {
    /// Counts one more. `None` when the limit is reached.
    fn count_one(&self, at_most: u32) -> Option<()> {
        let add = |count: u32| (count < at_most).then_some(count + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok().map(|_| ())
    }

    fn give_back(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts that all plugins share.
#[derive(Debug, Default)]
pub struct SharedCounts {
    plugins: SharedCount,
    residents: SharedCount,
    idle: SharedCount,
}

/// The share of one plugin.
#[derive(Debug)]
pub struct Share {
    number: u64,
    memory: AtomicU64,
    residents: SharedCount,
    idle: SharedCount,
    counts: Arc<SharedCounts>,
    /// Whether its calls spin.
    pub spinning: Spinning,
}

impl Share {
    /// Creates the share of a new plugin.
    ///
    /// # Errors
    /// There are too many plugins.
    pub fn new(number: u64, counts: &Arc<SharedCounts>) -> Result<Arc<Self>, ShareExceeded> {
        let too_many = || ShareExceeded(format!("there are {MAX_PLUGINS} plugins already"));
        counts.plugins.count_one(MAX_PLUGINS).ok_or_else(too_many)?;
        let (memory, residents, idle) = (AtomicU64::new(0), SharedCount::default(), SharedCount::default());
        Ok(Arc::new(Self { number, memory, residents, idle, counts: counts.clone(), spinning: Spinning::default() }))
    }

    /// The plugin's number, which is unique and never reused.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds memory of an instance. Returns false, and adds nothing, if the plugin's instances together would have more
    /// than `limit` bytes.
    pub fn grow(&self, bytes: u64, limit: u64) -> bool {
        let grown = |memory: u64| memory.checked_add(bytes).filter(|memory| *memory <= limit);
        self.memory.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).is_ok()
    }

    /// Subtracts the memory of an instance that was dropped.
    pub fn shrink(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Takes a permit for an instance of lifetime `session`.
    ///
    /// # Errors
    /// There are too many such instances.
    pub fn resident(self: &Arc<Self>) -> Result<ResidentPermit, ShareExceeded> {
        let limit = |text: &str| ShareExceeded(text.to_owned());
        self.residents
            .count_one(MAX_OWN_RESIDENTS)
            .ok_or_else(|| limit("calls of its last two generations still run"))?;
        let place = self.counts.residents.count_one(EngineLimits::RESIDENTS);
        if place.is_none() {
            self.residents.give_back();
        }
        place
            .map(|()| ResidentPermit(self.clone()))
            .ok_or_else(|| limit("there are too many plugins of lifetime `session`"))
    }
}

impl Share {
    /// Takes a place for an idle instance of lifetime `reused`. `None` when the plugin, or all plugins together, have
    /// too many.
    pub fn idle_place(self: &Arc<Self>) -> Option<IdlePlace> {
        self.idle.count_one(MAX_OWN_IDLE)?;
        let place = self.counts.idle.count_one(EngineLimits::IDLE);
        if place.is_none() {
            self.idle.give_back();
        }
        place.map(|()| IdlePlace(self.clone()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counts.plugins.give_back();
    }
}

/// The permit of an instance of lifetime `session`, returned when it is dropped.
#[derive(Debug)]
pub struct ResidentPermit(Arc<Share>);

impl Drop for ResidentPermit {
    fn drop(&mut self) {
        self.0.residents.give_back();
        self.0.counts.residents.give_back();
    }
}

/// The place of an idle instance, returned when it is dropped.
#[derive(Debug)]
pub struct IdlePlace(Arc<Share>);

impl Drop for IdlePlace {
    fn drop(&mut self) {
        self.0.idle.give_back();
        self.0.counts.idle.give_back();
    }
}

/// Whether spinning helps the calls of a plugin. After a call that was not answered in time, the next one does not spin, then
/// two, then four, because calls of this plugin take longer, or because the machine has other work.
#[derive(Debug, Default)]
pub struct Spinning {
    /// Calls left that do not spin.
    pause: AtomicU32,
    last_pause: AtomicU32,
}

impl Spinning {
    /// Begins a call. Returns whether it spins.
    pub fn begin(&self) -> bool {
        self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Learns whether the answer to a call that spun came in time.
    pub fn learn(&self, was_in_time: bool) {
        let pause = if was_in_time { 0 } else { (self.last_pause.load(Ordering::Relaxed) * 2).clamp(1, MAX_PAUSE) };
        self.last_pause.store(pause, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }

    /// Returns whether the next call spins.
    pub fn is_on(&self) -> bool {
        self.pause.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(count: u64) -> Vec<Arc<Share>> {
        let counts = Arc::default();
        (0..count).map(|number| Share::new(number, &counts).unwrap()).collect()
    }

    #[test]
    fn memory_of_a_plugin_is_bounded_over_all_its_instances() {
        let shares = shares(2);
        assert!(shares[0].grow(60, 100) && !shares[0].grow(60, 100) && shares[1].grow(100, 100));
        shares[0].shrink(60);
        assert!(shares[0].grow(100, 100));
    }

    #[test]
    fn number_of_plugins_is_bounded() {
        let counts = Arc::default();
        let mut shares: Vec<_> = (0..u64::from(MAX_PLUGINS)).map(|n| Share::new(n, &counts).unwrap()).collect();
        assert!(matches!(Share::new(999, &counts), Err(ShareExceeded(_))));
        shares.pop();
        assert!(Share::new(999, &counts).is_ok());
    }

    #[test]
    fn instances_of_lifetime_session_are_bounded() {
        let share = shares(1).remove(0);
        let places = [share.resident().unwrap(), share.resident().unwrap()];
        assert!(share.resident().is_err());
        drop(places);
        assert!(share.resident().is_ok());
    }

    #[test]
    fn idle_instances_are_bounded_for_each_plugin_and_for_all() {
        let shares = shares(3);
        let take = |share: &Arc<Share>| -> Vec<IdlePlace> { std::iter::from_fn(|| share.idle_place()).collect() };
        let mut places: Vec<_> = shares.iter().map(take).collect();
        assert_eq!(places.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 0]);
        places[0].pop();
        assert!(shares[1].idle_place().is_none() && shares[2].idle_place().is_some());
    }

    #[test]
    fn calls_pause_from_spinning_longer_each_time_it_does_not_help() {
        let spinning = Spinning::default();
        let calls_without = || std::iter::from_fn(|| (!spinning.begin()).then_some(())).count();
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            spinning.learn(false);
            assert_eq!(calls_without(), expected);
        }
        spinning.learn(true);
        assert_eq!(calls_without(), 0);
        spinning.learn(false);
        assert_eq!(calls_without(), 1, "an answer in time ends what was learnt before");
    }
}
