//! Opening many sources at once from their descriptions in the cache.
//!
//! Most starts find every plugin as it was. A few threads read the descriptions, one checks names and asks the policy, and
//! the snapshot that calls see is replaced once. A plugin without a valid description, or one that might
//! conflict with another plugin, is loaded as if there were no descriptions. A plugin that the user disabled needs only its
//! manifest from the cache.

use crate::load_error::LoadError;
use crate::loading::description_cache::Described;
use crate::loading::generation::Generation;
use crate::loading::index::Places;
use crate::loading::last_offer;
use crate::loading::source::{FileOrigin, PluginSource, Stamp};
use crate::loading::source_metadata::SourceMetadata;
use crate::policy::{Component, PluginSettings};
use crate::registry::Registry;
use crate::registry::load::LoadInput;
use crate::registry::load_attempt::{FileState, Phase};
use crate::registry::loaded::{Loaded, Offer};
use crate::registry::names::settle_running;
use crate::registry::plugin_set::PluginSet;
use crate::registry::slot::PluginSlot;
use crate::runtime_shared::Shared;
use pinion_plugin_engine::CodeCache;
use pinion_plugin_limits::cores;
use pinion_plugin_offers::names::FoldedNames;
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::thread;
use tokio::sync::watch;

/// The beginning of a slot's first attempt. Dropping it ends the attempt.
pub(super) struct StartedLoads {
    pub(super) work: LoadInput,
    pub(super) phase: watch::Sender<Phase>,
}

/// A source whose description was found.
struct DescribedSource {
    begun: StartedLoads,
    loaded: Arc<Loaded>,
}

/// A source whose plugin the user disabled, with the state of its file.
struct DisabledSource {
    begun: StartedLoads,
    stamp: Option<Stamp>,
}

/// Sources, divided by the content of the cache.
#[derive(Default)]
struct Findings {
    described: Vec<DescribedSource>,
    disabled: Vec<DisabledSource>,
    /// Sources that must be loaded.
    rest: Vec<StartedLoads>,
}

impl Findings {
    fn append(mut self, mut other: Self) -> Self {
        self.described.append(&mut other.described);
        self.disabled.append(&mut other.disabled);
        self.rest.append(&mut other.rest);
        self
    }
}

/// Settles the sources that the cache describes, and begins to load the others.
pub(super) async fn open(registry: Weak<Registry>, begun: Vec<StartedLoads>) {
    let Some(this) = registry.upgrade() else { return };
    let opening = tokio::task::spawn_blocking(move || {
        let shared = this.shared.clone();
        let Some(cache) = &shared.cache else { return this.spawn(begun) };
        let sources: Vec<PluginSource> = begun.iter().map(|begun| begun.work.source.clone()).collect();
        let places = Places::open(cache, sources.iter());
        let Findings { described, disabled, rest } = find(begun, &shared, cache, &places);
        this.settle_disabled(disabled);
        let rest = this.settle_found(described).into_iter().chain(rest).collect();
        this.spawn(rest);
        drop(this);
        places.store(cache);
    });
    // Fails when the program ends.
    let _ = opening.await;
}

/// Sources that justify another thread, which takes as long to start as two of them to open.
const SOURCES_PER_THREAD: usize = 50;
/// Threads that open sources. They share the allocator and the file system, so that more help less.
const MAX_THREADS: usize = 4;

/// Looks for the sources in the cache, and keeps their order.
fn find(mut begun: Vec<StartedLoads>, shared: &Arc<Shared>, cache: &CodeCache, places: &Places<'_>) -> Findings {
    let threads = (begun.len() / SOURCES_PER_THREAD).clamp(1, cores().min(MAX_THREADS));
    let length = begun.len().div_ceil(threads);
    let mut parts = Vec::with_capacity(threads);
    while begun.len() > length {
        let rest = begun.split_off(length);
        parts.push(std::mem::replace(&mut begun, rest));
    }
    thread::scope(|scope| {
        let find = |part| find_each(part, shared, cache, places);
        let others: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || find(part))).collect();
        let last = find(begun);
        let parts = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        parts.chain([last]).fold(Findings::default(), Findings::append)
    })
}

/// A source with its description.
struct Sighting {
    begun: StartedLoads,
    look: SourceMetadata,
    described: Described,
}

fn find_each(begun: Vec<StartedLoads>, shared: &Arc<Shared>, cache: &CodeCache, places: &Places<'_>) -> Findings {
    let (mut seen, mut findings) = (Vec::new(), Findings::default());
    for begun in begun {
        let source = &begun.work.source;
        let look = places.inspect_source(source, &shared.surroundings.protected);
        let cached = look.seen.and_then(|seen| places.described(cache, shared.engine.compatibility(), source, seen));
        match cached.or_else(|| Described::embedded(source)) {
            Some(described) => seen.push(Sighting { begun, look, described }),
            None => findings.rest.push(begun),
        }
    }
    let components: Vec<Component<'_>> = seen.iter().map(Sighting::component).collect();
    let settings = shared.policy.settings_of_all(&components);
    for (Sighting { begun, look, mut described }, settings) in seen.into_iter().zip(settings) {
        let settings = match settings {
            Err(LoadError::Disabled(_)) if !is_named(&begun.work.source) => {
                findings.disabled.push(DisabledSource { begun, stamp: look.stamp });
                continue;
            }
            settings => settings.ok(),
        };
        if described.description.is_none() && settings.is_some() {
            // The user enabled it again. The index may have forgotten what its own entry says.
            let own = look.seen.and_then(|seen| {
                places.own_description(cache, shared.engine.compatibility(), &begun.work.source, seen)
            });
            described = own.unwrap_or(described);
        }
        match settings.and_then(|settings| described_plugin(&begun.work, look, described, settings)) {
            Some(loaded) => findings.described.push(DescribedSource { begun, loaded }),
            None => findings.rest.push(begun),
        }
    }
    findings
}

/// Returns whether the user named the file, so that a refusal of it is worth a notice.
fn is_named(source: &PluginSource) -> bool {
    matches!(source, PluginSource::File { origin: FileOrigin::Named, .. })
}

impl Sighting {
    fn component(&self) -> Component<'_> {
        let Self { begun, look, described } = self;
        let (manifest, digest) = (&described.inspection.manifest, described.digest.as_str());
        Component { manifest, source: &begun.work.source, digest, path: look.path.as_deref() }
    }
}

fn described_plugin(
    work: &LoadInput,
    look: SourceMetadata,
    described: Described,
    settings: PluginSettings,
) -> Option<Arc<Loaded>> {
    let (shared, source) = (&work.shared, &work.source);
    let share = work.share.as_ref().ok()?;
    let generation = Generation::described(shared, source, look.path, share, described, settings)?;
    let loaded = Loaded::new(generation.clone(), None, source.clone(), look.stamp);
    if !generation.has_offers() {
        return Some(Arc::new(loaded));
    }
    // The offers of other plugins while they run may depend on anything.
    let is_known = generation.program.authority.only_waits() && work.is_followed();
    let cache = shared.cache.as_ref().filter(|_| is_known)?;
    let description = last_offer::read_for(cache, source, &generation, &*shared.mcp)?;
    let (lists, _) = generation.running_lists(description.clone()).ok()?;
    let offer = Offer { description: Arc::new(description), is_confirmed: false };
    Some(Arc::new(loaded.offering(Arc::new(lists), Some(offer))))
}

/// The names of all plugins together.
#[derive(Default)]
struct Taken<'a> {
    plugins: PluginNames<'a>,
    tools: PluginNames<'a>,
    commands: PluginNames<'a>,
}

/// Names of many plugins, as they are read and as they are drawn.
#[derive(Default)]
struct PluginNames<'a>([HashSet<&'a str>; 2]);

impl<'a> PluginNames<'a> {
    fn add(&mut self, names: &'a FoldedNames) {
        for (all, names) in self.0.iter_mut().zip(names.forms()) {
            all.extend(names.iter().map(String::as_str));
        }
    }

    fn meets(&self, names: &FoldedNames) -> bool {
        self.0.iter().zip(names.forms()).any(|(all, names)| names.iter().any(|name| all.contains(name.as_str())))
    }
}

impl<'a> Taken<'a> {
    fn from_set(plugins: &'a PluginSet) -> Self {
        let mut taken = Self::default();
        for loaded in plugins.loaded() {
            taken.add(&loaded.generation);
            // Its offer while it runs.
            taken.tools.add(&loaded.lists.tool_names);
            taken.commands.add(&loaded.lists.command_names);
        }
        taken
    }

    fn add(&mut self, generation: &'a Generation) {
        self.plugins.add(&generation.plugin_name);
        self.tools.add(&generation.lists.tool_names);
        self.commands.add(&generation.lists.command_names);
    }

    /// Adds the names of a generation, unless one of them could be mistaken for another one.
    fn admits(&mut self, generation: &'a Generation) -> bool {
        let meets = self.plugins.meets(&generation.plugin_name)
            || self.tools.meets(&generation.lists.tool_names)
            || self.commands.meets(&generation.lists.command_names);
        if !meets {
            self.add(generation);
        }
        !meets
    }
}

/// Splits plugins into those whose names are free, both in `others` and in earlier plugins, and the rest.
fn split(others: &PluginSet, found: Vec<DescribedSource>) -> (Vec<DescribedSource>, Vec<StartedLoads>) {
    let mut taken = Taken::from_set(others);
    let is_admitted: Vec<bool> = found.iter().map(|found| taken.admits(&found.loaded.generation)).collect();
    let mut is_admitted = is_admitted.into_iter();
    separate(found, |_| is_admitted.next() == Some(true))
}

fn separate(
    found: Vec<DescribedSource>,
    is_meant: impl FnMut(&DescribedSource) -> bool,
) -> (Vec<DescribedSource>, Vec<StartedLoads>) {
    let (meant, rest): (Vec<DescribedSource>, Vec<DescribedSource>) = found.into_iter().partition(is_meant);
    (meant, rest.into_iter().map(|found| found.begun).collect())
}

impl Registry {
    /// Ends the attempts of plugins that the user disabled.
    fn settle_disabled(&self, disabled: Vec<DisabledSource>) {
        let mut slots = self.slots();
        let places = positions(&slots);
        for DisabledSource { begun, stamp } in &disabled {
            let Some(at) = places.get(&begun.work.slot).copied() else { continue };
            slots[at].end_attempt(FileState { stamp: *stamp, is_restless: false });
            slots[at].is_settled = true;
        }
    }

    /// Makes described plugins answer. Returns those that need a load. Blocks.
    fn settle_found(self: &Arc<Self>, found: Vec<DescribedSource>) -> Vec<StartedLoads> {
        let before = self.current();
        let (found, mut rest) = split(&before, found);
        let (mut found, refused) =
            separate(found, |found| found.begun.work.ask_policy(&found.loaded.generation).is_ok());
        rest.extend(refused);
        let mut slots = self.slots();
        let current = self.current();
        if !Arc::ptr_eq(&before, &current) {
            // Other loads have ended meanwhile.
            let (still, late) = split(&current, found);
            found = still;
            rest.extend(late);
        }
        let mut notices = Vec::new();
        let places = positions(&slots);
        let (mut settled, mut new) = (Vec::new(), Vec::new());
        for DescribedSource { begun, loaded } in found {
            let Some(at) = places.get(&begun.work.slot).copied() else { continue };
            slots[at].end_attempt(FileState { stamp: loaded.stamp(), is_restless: false });
            notices.extend(slots[at].accept(loaded));
            new.push(at);
            settled.push(begun);
        }
        notices.extend(settle_running(&mut slots, &new));
        self.current.store(Arc::new(PluginSet::from_slots(&slots)));
        drop(slots);
        // Those who wait for a plugin see it.
        drop(settled);
        notices.into_iter().for_each(|notice| (self.on_notice)(notice));
        rest
    }

    /// Begins the loads of attempts.
    pub(super) fn spawn(self: &Arc<Self>, begun: Vec<StartedLoads>) {
        let mut slots = self.slots();
        let places = positions(&slots);
        for StartedLoads { work, phase } in begun {
            let Some(attempt) = places.get(&work.slot).and_then(|at| slots[*at].attempt.as_mut()) else { continue };
            if attempt.number == work.number {
                attempt.task = Some(tokio::spawn(work.run(phase)));
            }
        }
    }
}

/// Returns the position of each slot by its number.
fn positions(slots: &[PluginSlot]) -> HashMap<u64, usize> {
    slots.iter().enumerate().map(|(at, slot)| (slot.number, at)).collect()
}
