//! Opening many sources at once from their descriptions in the cache.
//!
//! Most starts find every plugin as it was. One thread reads all descriptions, checks names and asks the policy, and the
//! snapshot that calls see is replaced once. A plugin without a valid description, or one that might
//! conflict with another plugin, is loaded as if there were no descriptions.

use crate::loading::generation::Generation;
use crate::loading::stamp::Stamp;
use crate::loading::wording::FoldedNames;
use crate::registry::Registry;
use crate::registry::attempt::{FileState, Phase};
use crate::registry::load::Work;
use crate::registry::loaded::Loaded;
use crate::registry::names::settle_running;
use crate::registry::plugin_set::PluginSet;
use crate::registry::slot::Slot;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
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

fn find(begun: Vec<StartedLoads>) -> (Vec<Found>, Vec<StartedLoads>) {
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
    let generation = Generation::described(&work.shared, &work.source, work.share.as_ref().ok()?)?;
    Some(Arc::new(Loaded::new(generation, None, work.source.clone(), stamp)))
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
