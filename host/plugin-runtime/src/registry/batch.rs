//! Opening many sources at once from their descriptions in the cache.
//!
//! Most starts find every plugin as it was. A few threads read the descriptions, one checks names and asks the policy, and
//! the snapshot that calls see is replaced once. A plugin without a valid description, or one that might
//! conflict with another plugin, is loaded as if there were no descriptions.

use crate::loading::generation::Generation;
use crate::loading::last_offer;
use crate::loading::stamp::Stamp;
use crate::loading::wording::FoldedNames;
use crate::registry::Registry;
use crate::registry::attempt::{FileState, Phase};
use crate::registry::load::Work;
use crate::registry::loaded::{Loaded, Offer};
use crate::registry::names::settle_running;
use crate::registry::plugin_set::PluginSet;
use crate::registry::slot::Slot;
use std::collections::HashMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::thread;
use tokio::sync::watch;

/// The beginning of a slot's first attempt. Dropping it ends the attempt.
pub(super) struct StartedLoads {
    pub(super) work: Work,
    pub(super) phase: watch::Sender<Phase>,
}

/// A source whose description was found.
struct Found {
    begun: StartedLoads,
    loaded: Arc<Loaded>,
}

/// Settles the sources that the cache describes, and begins to load the others.
pub(super) async fn open(registry: Weak<Registry>, begun: Vec<StartedLoads>) {
    let Some(this) = registry.upgrade() else { return };
    let opening = tokio::task::spawn_blocking(move || {
        let (found, mut rest) = find(begun);
        rest.extend(this.settle_found(found));
        rest
    });
    // Fails when the program ends.
    let Ok(rest) = opening.await else { return };
    if let Some(registry) = registry.upgrade() {
        registry.spawn(rest);
    }
}

/// Sources that justify another thread, which takes as long to start as two of them to open.
const SOURCES_PER_THREAD: usize = 50;
/// Threads that open sources. They share the allocator and the file system, so that more help less.
const MAX_THREADS: usize = 4;

/// Opens the sources that the cache describes, in their order. Returns the others, too.
fn find(mut begun: Vec<StartedLoads>) -> (Vec<Found>, Vec<StartedLoads>) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (begun.len() / SOURCES_PER_THREAD).clamp(1, cores.min(MAX_THREADS));
    let length = begun.len().div_ceil(threads);
    let mut parts = Vec::with_capacity(threads);
    while begun.len() > length {
        let rest = begun.split_off(length);
        parts.push(std::mem::replace(&mut begun, rest));
    }
    thread::scope(|scope| {
        let others: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| find_each(part))).collect();
        let last = find_each(begun);
        let parts = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let (found, rest): (Vec<_>, Vec<_>) = parts.chain([last]).unzip();
        (found.into_iter().flatten().collect(), rest.into_iter().flatten().collect())
    })
}

fn find_each(begun: Vec<StartedLoads>) -> (Vec<Found>, Vec<StartedLoads>) {
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    for begun in begun {
        match found_in_cache(&begun.work) {
            Some(loaded) => found.push(Found { begun, loaded }),
            None => rest.push(begun),
        }
    }
    (found, rest)
}

fn found_in_cache(work: &Work) -> Option<Arc<Loaded>> {
    // Before the description, whose check sees a later change of the file.
    let stamp = work.source.path().and_then(Stamp::of);
    let (shared, source) = (&work.shared, &work.source);
    let generation = Generation::described(shared, source, work.share.as_ref().ok()?)?;
    let loaded = Loaded::new(generation.clone(), None, source.clone(), stamp);
    if !generation.has_offers() {
        return Some(Arc::new(loaded));
    }
    // What others offer while they run may depend on anything.
    let is_known = generation.program.authority.only_waits() && work.is_followed();
    let cache = shared.cache.as_ref().filter(|_| is_known)?;
    let description = last_offer::read_for(cache, source, &generation, &*shared.mcp)?;
    let (lists, _) = generation.running_lists(description.clone()).ok()?;
    let offer = Offer { description: Arc::new(description), is_confirmed: false };
    Some(Arc::new(loaded.offering(Arc::new(lists), Some(offer))))
}

/// The names of all plugins together.
#[derive(Default)]
struct Taken {
    plugins: FoldedNames,
    tools: FoldedNames,
    commands: FoldedNames,
}

impl Taken {
    fn by(slots: &[Slot]) -> Self {
        let mut taken = Self::default();
        slots.iter().filter_map(|slot| slot.loaded.as_ref()).for_each(|loaded| taken.add(&loaded.generation));
        taken
    }

    fn add(&mut self, generation: &Generation) {
        self.plugins.extend(&generation.plugin_name);
        self.tools.extend(&generation.lists.tool_names);
        self.commands.extend(&generation.lists.command_names);
    }

    /// Adds the names of a generation, unless one of them could be mistaken for another one.
    fn admits(&mut self, generation: &Generation) -> bool {
        let meets = self.plugins.meets(&generation.plugin_name)
            || self.tools.meets(&generation.lists.tool_names)
            || self.commands.meets(&generation.lists.command_names);
        if !meets {
            self.add(generation);
        }
        !meets
    }
}

impl Registry {
    /// Makes described plugins answer. Returns those that need a load. Blocks.
    fn settle_found(self: &Arc<Self>, found: Vec<Found>) -> Vec<StartedLoads> {
        let mut taken = Taken::by(&self.slots());
        let is_admitted = |found: &Found| {
            let generation = &found.loaded.generation;
            taken.admits(generation) && found.begun.work.ask_policy(generation).is_ok()
        };
        let (found, rest): (Vec<Found>, Vec<Found>) = found.into_iter().partition(is_admitted);
        let mut rest: Vec<StartedLoads> = rest.into_iter().map(|found| found.begun).collect();
        let mut notices = Vec::new();
        let mut slots = self.slots();
        // Other loads may have ended meanwhile.
        let mut taken = Taken::by(&slots);
        let places: HashMap<u64, usize> = slots.iter().enumerate().map(|(at, slot)| (slot.number, at)).collect();
        let mut settled = Vec::new();
        for Found { begun, loaded } in found {
            let Some(at) = places.get(&begun.work.slot).copied() else { continue };
            if !taken.admits(&loaded.generation) {
                rest.push(begun);
                continue;
            }
            slots[at].end_attempt(FileState { stamp: loaded.stamp(), is_restless: false });
            notices.extend(slots[at].accept(loaded));
            notices.extend(settle_running(&mut slots, at));
            settled.push(begun);
        }
        self.current.store(Arc::new(PluginSet::of(&slots)));
        drop(slots);
        // Those who wait for a plugin see it.
        drop(settled);
        notices.into_iter().for_each(|notice| (self.on_notice)(notice));
        rest
    }

    /// Begins the loads of attempts.
    pub(super) fn spawn(self: &Arc<Self>, begun: Vec<StartedLoads>) {
        let mut slots = self.slots();
        let places: HashMap<u64, usize> = slots.iter().enumerate().map(|(at, slot)| (slot.number, at)).collect();
        for StartedLoads { work, phase } in begun {
            let Some(attempt) = places.get(&work.slot).and_then(|at| slots[*at].attempt.as_mut()) else { continue };
            if attempt.number == work.number {
                attempt.task = Some(tokio::spawn(work.run(phase)));
            }
        }
    }
}
