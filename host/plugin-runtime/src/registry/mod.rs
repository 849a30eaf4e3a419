//! The registry of plugins: their sources, the current generation of each, and the names that lead to them.
//!
//! Every source has a [`PluginSlot`], in the order that sources were added. One lock, the slots', is held for moments: to
//! begin a load, and to check names and swap generations as one. Dropping the registry aborts all attempts. Calls take
//! the lock only when their plugin's file has changed: they read the [`PluginSet`], a snapshot that is replaced as a
//! whole. A call that began on a generation holds it and ends on it; the next one uses the new one.
//!
//! Names go by the order of slots, regardless of the order of their readiness: while a slot's first attempt is under
//! way, its names are open, and when it settles, a later slot loses its tools and commands with one of these names,
//! with a notice. After that, names belong to the plugin that has them, and a reload gets those that are free. A plugin
//! is refused only for its own name.
//!
//! A call whose plugin's file has changed waits for the reload of that plugin alone: [`QUIET_PATIENCE`] for the file to
//! rest, [`RELOAD_PATIENCE`] in all, and no longer than its own token. After that the old generation answers, and no later
//! call waits for the same attempt.
//!
//! A file that vanishes keeps its plugin for [`ABSENCE`], because builds remove files before they write them; a
//! [`Runtime::refresh`](crate::Runtime::refresh) removes it at once. Whenever the file comes back, it is loaded again.

mod batch;
pub(crate) mod listing;
mod load;
pub(crate) mod load_attempt;
pub(crate) mod loaded;
mod names;
pub(crate) mod notice;
mod offers;
mod plugin_set;
mod slot;
pub(crate) mod watch;

use crate::bindings::pinion::plugin::catalog as wit;
use crate::capability::authority::PluginAuthority;
use crate::host_info::GenerationSettings;
use crate::host_info::LoadedPlugins;
use crate::loading::source::{FileOrigin, PluginSource, Stamp};
use crate::policy::PluginPolicy;
use crate::registry::batch::StartedLoads;
use crate::registry::load::{LoadInput, LoadOutcome, LoadReason};
use crate::registry::load_attempt::{FileState, LoadAttempt, Loading, Phase, end_of};
use crate::registry::loaded::{Loaded, ToolRef};
use crate::registry::names::{displaced, settle_running, take_names, taken, without_taken};
use crate::registry::notice::{Notice, NoticeEvent};
use crate::registry::plugin_set::PluginSet;
use crate::registry::slot::PluginSlot;
use crate::runtime_shared::Shared;
use arc_swap::ArcSwap;
use pinion_plugin_limits::Share;
use pinion_plugin_offers::offer::CommandDefinition;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch as channel;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Time that a call waits for its plugin's file to rest.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);
/// Time that a call waits for the reload of its plugin, from the beginning of the attempt.
const RELOAD_PATIENCE: Duration = Duration::from_secs(12);
/// Time that a plugin answers calls while its file is missing.
const ABSENCE: Duration = Duration::from_secs(30);

/// The state of the files that a policy depends on.
#[derive(PartialEq, Eq)]
struct PolicyFiles(Vec<Option<Stamp>>);

impl PolicyFiles {
    fn from_policy(policy: &dyn PluginPolicy) -> Self {
        Self(policy.files().iter().map(|file| Stamp::from_path(file)).collect())
    }
}

/// The place of a source, which is unique to its slot.
#[derive(PartialEq, Eq, Hash)]
enum SourceKey {
    BuiltIn(&'static str),
    File(PathBuf, FileOrigin),
}

impl SourceKey {
    fn from_source(source: &PluginSource) -> Self {
        match source {
            PluginSource::BuiltIn { name, .. } => Self::BuiltIn(name),
            PluginSource::File { path, origin } => Self::File(path.clone(), *origin),
        }
    }
}

/// All plugins of a runtime.
pub(crate) struct Registry {
    pub(crate) shared: Arc<Shared>,
    slots: Mutex<Vec<PluginSlot>>,
    numbers: AtomicU64,
    /// The files of the policy as the last refresh found them.
    policy_files: Mutex<PolicyFiles>,
    current: ArcSwap<PluginSet>,
    /// Set once plugins are asked for their offers while they run.
    follows_offers: AtomicBool,
    on_notice: Box<dyn Fn(Notice) + Send + Sync>,
}

impl Registry {
    /// Creates an empty registry. `share` gets the registry, which does not exist yet.
    pub(crate) fn new(
        share: impl FnOnce(Weak<dyn LoadedPlugins>) -> Shared,
        on_notice: Box<dyn Fn(Notice) + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let shared = Arc::new(share(this.clone()));
            let policy_files = Mutex::new(PolicyFiles::from_policy(&*shared.policy));
            let (slots, numbers, current) = (Mutex::default(), AtomicU64::new(0), ArcSwap::default());
            let follows_offers = AtomicBool::new(false);
            Self { shared, slots, numbers, policy_files, current, follows_offers, on_notice }
        })
    }

    /// The plugins that answer calls now.
    pub(crate) fn current(&self) -> Arc<PluginSet> {
        self.current.load_full()
    }

    /// The plugin that answers a tool now. One whose file has changed is reloaded first, within the bounds above, so that a
    /// call that comes after a change is answered by the changed plugin.
    pub(crate) async fn tool(
        self: &Arc<Self>,
        name: &str,
        token: &CancellationToken,
    ) -> Option<(Arc<Loaded>, ToolRef)> {
        let found = self.current().tool(name)?;
        if found.0.is_ready() {
            return Some(found);
        }
        self.make_ready(&found.0, token).await;
        self.current().tool(name)
    }

    /// The plugin that answers a command now, reloaded like a tool's plugin.
    pub(crate) async fn command(self: &Arc<Self>, name: &str, token: &CancellationToken) -> Option<Arc<Loaded>> {
        let found = self.current().command(name)?;
        if found.is_ready() {
            return Some(found);
        }
        self.make_ready(&found, token).await;
        self.current().command(name)
    }

    async fn make_ready(self: &Arc<Self>, loaded: &Loaded, token: &CancellationToken) {
        self.reload(loaded, token).await;
        self.offer_settled(loaded.source(), token).await;
    }

    /// The current generation of a plugin with hooks, reloaded like a tool's plugin. `None` if the plugin is gone.
    pub(crate) async fn refreshed(
        self: &Arc<Self>,
        found: &Arc<Loaded>,
        token: &CancellationToken,
    ) -> Option<Arc<Loaded>> {
        if found.generation.is_described() || found.is_outdated() {
            self.reload(found, token).await;
        }
        self.current().loaded().iter().find(|loaded| loaded.source() == found.source()).cloned()
    }

    /// Passes a notice to the application.
    pub(crate) fn notify(&self, notice: Notice) {
        (self.on_notice)(notice);
    }

    /// Begins to load sources that have no slot yet.
    pub(crate) fn begin(self: &Arc<Self>, sources: Vec<PluginSource>) -> Loading {
        let mut slots = self.slots();
        let mut known: HashSet<SourceKey> = slots.iter().map(|slot| SourceKey::from_source(&slot.source)).collect();
        let (mut loading, mut begun) = (Vec::new(), Vec::new());
        for source in sources {
            if known.insert(SourceKey::from_source(&source)) {
                let number = self.next_number();
                let mut slot =
                    PluginSlot::new(number, source, Share::new(number, &self.shared.counts).map_err(Into::into));
                let (beginning, phase) = self.attempt(&mut slot, LoadReason::Code);
                begun.push(beginning);
                loading.push(phase);
                slots.push(slot);
            }
        }
        drop(slots);
        match &self.shared.cache {
            _ if begun.is_empty() => {}
            Some(_) => drop(tokio::spawn(batch::open(Arc::downgrade(self), begun))),
            None => self.spawn(begun),
        }
        Loading::new(loading)
    }

    /// Begins to load the code of plugins that are only described: of the one with this name, or of all.
    pub(crate) fn begin_code(self: &Arc<Self>, plugin: Option<&str>) -> Loading {
        let mut slots = self.slots();
        let is_meant =
            |slot: &&mut PluginSlot| slot.is_described() && plugin.is_none_or(|plugin| slot.name() == plugin);
        let described = slots.iter_mut().filter(is_meant);
        Loading::new(
            described
                .map(|slot| {
                    slot.attempt
                        .as_ref()
                        .map(|attempt| attempt.phase.clone())
                        .unwrap_or_else(|| self.start(slot, LoadReason::Code))
                })
                .collect(),
        )
    }

    /// Begins to reload every plugin whose file has changed, or whose decision by the policy may differ. Removes those
    /// whose files are missing.
    pub(crate) fn begin_refresh(self: &Arc<Self>) -> Loading {
        let missing: Vec<u64> =
            self.slots().iter().filter(|slot| slot.missing_since.is_some()).map(|slot| slot.number).collect();
        missing.into_iter().for_each(|number| self.remove_missing(number));
        self.begin_reloads(LoadReason::Refresh)
    }

    /// Like [`Registry::begin_refresh`], after a change of files: a missing one may be about to come back.
    pub(crate) fn begin_refresh_after_change(self: &Arc<Self>) -> Loading {
        self.begin_reloads(LoadReason::Code)
    }

    fn begin_reloads(self: &Arc<Self>, reason: LoadReason) -> Loading {
        let mut slots = self.slots();
        let has_policy_changed = self.has_policy_changed();
        let mut loading = Vec::new();
        for slot in slots.iter_mut() {
            match &slot.attempt {
                Some(attempt) => loading.push(attempt.phase.clone()),
                None if slot.is_changed() => loading.push(self.start(slot, reason)),
                None if has_policy_changed && !slot.is_gone() => loading.push(self.start(slot, LoadReason::Policy)),
                None => {}
            }
        }
        Loading::new(loading)
    }

    /// Returns whether a file of the policy differs from the last time. One `stat` for each.
    fn has_policy_changed(&self) -> bool {
        let now = PolicyFiles::from_policy(&*self.shared.policy);
        let mut known = self.policy_files.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *known != now;
        *known = now;
        has_changed
    }

    /// The names of plugins, or of their files, that are being loaded for the first time.
    pub(crate) fn being_loaded(&self) -> Vec<String> {
        let slots = self.slots();
        slots.iter().filter(|slot| !slot.is_settled).map(|slot| slot.name().into_owned()).collect()
    }

    /// Waits until a plugin whose file has changed was reloaded, as long as a call may be held for that; or until the
    /// code of a described plugin was loaded, which the limits of loading bound.
    async fn reload(self: &Arc<Self>, outdated: &Loaded, token: &CancellationToken) {
        let Some((mut phase, begun)) = self.reload_of(outdated) else { return };
        let waiting = async {
            if outdated.generation.is_described() {
                return end_of(&mut phase).await;
            }
            let rest = phase.wait_for(|phase| *phase == Phase::Loading);
            if timeout_at(begun + QUIET_PATIENCE, rest).await.is_ok() {
                // A generation answers whether the attempt has ended or not.
                let _ = timeout_at(begun + RELOAD_PATIENCE, end_of(&mut phase)).await;
            }
        };
        tokio::select! {
            () = waiting => {}
            () = token.cancelled() => {}
        }
    }

    fn reload_of(self: &Arc<Self>, outdated: &Loaded) -> Option<(channel::Receiver<Phase>, Instant)> {
        let mut slots = self.slots();
        let slot = slots.iter_mut().find(|slot| slot.source == *outdated.source())?;
        if slot.attempt.is_none() && (slot.is_described() || slot.is_changed()) {
            let _ = self.start(slot, LoadReason::Code);
        }
        let attempt = slot.attempt.as_ref().filter(|attempt| attempt.is_waited_for)?;
        Some((attempt.phase.clone(), attempt.begun))
    }

    /// Begins an attempt, whose task is spawned at once.
    fn start(self: &Arc<Self>, slot: &mut PluginSlot, reason: LoadReason) -> channel::Receiver<Phase> {
        let (StartedLoads { work, phase }, receiver) = self.attempt(slot, reason);
        if let Some(attempt) = &mut slot.attempt {
            attempt.task = Some(tokio::spawn(work.run(phase)));
        }
        receiver
    }

    /// Begins an attempt without a task.
    fn attempt(
        self: &Arc<Self>,
        slot: &mut PluginSlot,
        reason: LoadReason,
    ) -> (StartedLoads, channel::Receiver<Phase>) {
        let number = self.next_number();
        let (phase, receiver) = channel::channel(Phase::Waiting);
        let work = LoadInput {
            registry: Arc::downgrade(self),
            shared: self.shared.clone(),
            slot: slot.number,
            number,
            source: slot.source.clone(),
            generation: slot.generations + 1,
            share: slot.share.clone(),
            old: slot.loaded.clone(),
            reason,
        };
        let (begun, is_waited_for) = (Instant::now(), !slot.is_restless);
        slot.attempt = Some(LoadAttempt { number, begun, phase: receiver.clone(), task: None, is_waited_for });
        (StartedLoads { work, phase }, receiver)
    }

    /// Puts the result of an attempt in its place, unless the attempt was given up.
    fn settle(self: &Arc<Self>, work: &LoadInput, state: FileState, outcome: LoadOutcome) {
        let mut notices = Vec::new();
        let mut slots = self.slots();
        let is_current = |slot: &PluginSlot| {
            slot.number == work.slot && slot.attempt.as_ref().is_some_and(|attempt| attempt.number == work.number)
        };
        let Some(at) = slots.iter().position(is_current) else { return };
        slots[at].end_attempt(state);
        match outcome {
            LoadOutcome::Loaded(loaded) => match displaced(&slots, at, &loaded.generation) {
                Ok(displaced) => {
                    displaced.into_iter().for_each(|(weaker, error)| notices.push(slots[weaker].displace(error)));
                    let is_first = !slots[at].is_settled;
                    let (loaded, removed) = without_taken(&slots, at, loaded);
                    let is_known = slots[at].loaded.as_ref().is_some_and(|old| old.left_out == removed);
                    notices.extend(slots[at].accept(loaded));
                    if !removed.is_empty() && !is_known {
                        notices.push(slots[at].notice(NoticeEvent::LeftOut(taken(&removed))));
                    }
                    if is_first {
                        notices.extend(take_names(&mut slots, at));
                    }
                    notices.extend(settle_running(&mut slots, &[at]));
                    self.follow_offers(&mut slots[at]);
                }
                Err(error) => notices.push(slots[at].refuse(error)),
            },
            LoadOutcome::Unchanged => slots[at].is_settled = true,
            LoadOutcome::Refused(error) if slots[at].is_disabled(&error) => slots[at].is_settled = true,
            LoadOutcome::Refused(error) => notices.push(slots[at].refuse(error)),
            LoadOutcome::Missing if work.reason == LoadReason::Refresh || slots[at].is_described() => {
                notices.push(slots[at].remove());
            }
            LoadOutcome::Missing => {
                slots[at].is_settled = true;
                if slots[at].missing_since.is_none() {
                    slots[at].missing_since = Some(Instant::now());
                    self.remove_later(work.slot);
                }
            }
        }
        self.current.store(Arc::new(PluginSet::from_slots(&slots)));
        // A file that was written to while it was loaded may have been read half-written.
        if let Some(slot) = slots.get_mut(at).filter(|slot| slot.number == work.slot && slot.is_changed()) {
            let _ = self.start(slot, LoadReason::Code);
        }
        drop(slots);
        notices.into_iter().for_each(|notice| (self.on_notice)(notice));
    }

    /// Removes a plugin if its file is still missing after [`ABSENCE`].
    fn remove_later(self: &Arc<Self>, number: u64) {
        let registry = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(ABSENCE).await;
            if let Some(registry) = registry.upgrade() {
                registry.remove_missing(number);
            }
        });
    }

    fn remove_missing(&self, number: u64) {
        let mut slots = self.slots();
        let is_missing =
            |slot: &PluginSlot| slot.attempt.is_none() && slot.missing_since.is_some() && !slot.is_changed();
        let Some(slot) = slots.iter_mut().find(|slot| slot.number == number && is_missing(slot)) else { return };
        let notice = slot.remove();
        self.current.store(Arc::new(PluginSet::from_slots(&slots)));
        drop(slots);
        (self.on_notice)(notice);
    }

    /// The reason why a plugin does not answer calls, if it does not.
    pub(crate) fn problem(&self, plugin: &str) -> Option<String> {
        let current = self.current();
        current.problems().iter().find(|(name, _)| name == plugin).map(|(_, problem)| problem.clone())
    }

    fn slots(&self) -> MutexGuard<'_, Vec<PluginSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no slot and no attempt had before.
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

impl LoadedPlugins for Registry {
    fn tools(&self) -> Vec<wit::ToolInfo> {
        self.current().tool_infos()
    }

    fn commands(&self, is_offered: &dyn Fn(&CommandDefinition) -> bool) -> Vec<wit::CommandInfo> {
        self.current().command_infos(is_offered)
    }

    fn plugins(&self) -> Vec<wit::PluginInfo> {
        self.current().plugin_infos()
    }

    fn settings(&self, plugin: &PluginAuthority) -> Option<GenerationSettings> {
        let current = self.current();
        let is_same = |loaded: &&Arc<Loaded>| loaded.program().authority.identity() == plugin.identity();
        let program = current.loaded().iter().find(is_same)?.program();
        Some(GenerationSettings { config: program.config.clone(), generation: program.number })
    }
}
