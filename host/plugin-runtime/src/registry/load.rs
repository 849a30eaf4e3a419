//! The task that loads one slot.
//!
//! It reads, compiles, links and describes without any lock, and takes the lock of the slots only to settle.

use crate::calls::session::SessionInstance;
use crate::load_error::LoadError;
use crate::loading::blocking;
use crate::loading::generation::{Announce, CompiledAhead, Generation, compile_ahead};
use crate::loading::last_offer;
use crate::loading::source::{PluginSource, Stamp};
use crate::manifest::Lifetime;
use crate::registry::Registry;
use crate::registry::load_attempt::{FileState, Phase};
use crate::registry::loaded::{Loaded, Offer};
use crate::registry::names::displaced;
use crate::registry::notice::{Notice, NoticeEvent};
use crate::runtime_shared::Shared;
use pinion_plugin_limits::Share;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A file that was written this recently may still be being written.
const QUIET: Duration = Duration::from_millis(50);
/// A file that cannot be loaded is complete once nothing was written to it for this long.
const COMPLETE: Duration = Duration::from_millis(800);
/// Time that a reload waits for a file that is being written.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(10);

/// The input of one attempt.
pub(super) struct LoadInput {
    pub(super) registry: Weak<Registry>,
    pub(super) shared: Arc<Shared>,
    /// The number of the slot.
    pub(super) slot: u64,
    /// The number of the attempt.
    pub(super) number: u64,
    pub(super) source: PluginSource,
    pub(super) generation: u32,
    pub(super) share: Result<Arc<Share>, LoadError>,
    /// The generation that answers meanwhile.
    pub(super) old: Option<Arc<Loaded>>,
    pub(super) reason: LoadReason,
}

/// The reason for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadReason {
    /// The source is new, or its file has changed, or its code is needed.
    Code,
    /// Like `Code`, and afterwards a missing file does not count as one that is about to come back.
    Refresh,
    /// The policy may have other settings for it.
    Policy,
}

/// The result of an attempt.
pub(super) enum LoadOutcome {
    Loaded(Arc<Loaded>),
    Refused(LoadError),
    /// The file is missing.
    Missing,
    /// Neither the file nor the settings have changed.
    Unchanged,
}

/// A compile that began before it was certain that writing to the file had stopped. Dropping it aborts the compile.
struct Ahead {
    /// The file as it was then.
    stamp: Option<Stamp>,
    task: JoinHandle<Option<CompiledAhead>>,
}

impl Ahead {
    async fn compiled(mut self) -> Option<CompiledAhead> {
        (&mut self.task).await.ok().flatten()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LoadInput {
    /// Loads the slot and settles it.
    pub(super) async fn run(self, phase: watch::Sender<Phase>) {
        // Compiles while it waits for the file to rest, which most files already do.
        let ahead = self.compile_ahead();
        let mut state = self.file_state().await;
        phase.send_replace(Phase::Loading);
        let mut outcome = self.load(state.stamp, ahead).await;
        while let Err(error) = &outcome
            && let Some(rest) = self.may_be_incomplete(state.stamp, error)
        {
            sleep(rest).await;
            let before = std::mem::replace(&mut state, self.file_state().await).stamp;
            if before == state.stamp {
                break;
            }
            outcome = self.load(state.stamp, None).await;
        }
        let outcome = outcome.unwrap_or_else(LoadOutcome::Refused);
        if let Some(registry) = self.registry.upgrade() {
            registry.settle(&self, state, outcome);
        }
    }

    /// Returns the wait until a file that was written a moment ago counts as complete, if it looks as if its end is
    /// missing.
    fn may_be_incomplete(&self, stamp: Option<Stamp>, error: &LoadError) -> Option<Duration> {
        let is_content = matches!(error, LoadError::Read(_) | LoadError::Manifest(_) | LoadError::Link { .. });
        let age = stamp.filter(|_| is_content && self.source.path().is_some())?.age()?;
        COMPLETE.checked_sub(age).filter(|rest| !rest.is_zero())
    }

    async fn file_state(&self) -> FileState {
        match &self.source {
            PluginSource::BuiltIn { .. } => FileState { stamp: None, is_restless: false },
            // A first load does not wait: if the file changes meanwhile, it is loaded again.
            PluginSource::File { path, .. } if self.generation == 1 || self.is_as_before(Stamp::from_path(path)) => {
                FileState { stamp: Stamp::from_path(path), is_restless: false }
            }
            PluginSource::File { path, .. } => quiet_state(path).await,
        }
    }

    /// Begins to compile a file that has changed. `None` where there is nothing to wait for.
    fn compile_ahead(&self) -> Option<Ahead> {
        let stamp = Stamp::from_path(self.source.path().filter(|_| self.generation > 1)?)?;
        let is_waiting = !self.is_as_before(Some(stamp)) && stamp.age().is_some_and(|age| age < QUIET);
        is_waiting.then(|| {
            let (shared, source) = (self.shared.clone(), self.source.clone());
            let task = tokio::spawn(compile_ahead(shared, source, self.generation, self.announce()));
            Ahead { stamp: Some(stamp), task }
        })
    }

    /// Returns the function that tells the application that a compile takes long.
    fn announce(&self) -> Box<Announce> {
        let (registry, source) = (self.registry.clone(), self.source.to_string());
        Box::new(move |plugin| {
            if let Some(registry) = registry.upgrade() {
                let (plugin, source) = (plugin.to_owned(), source.clone());
                registry.notify(Notice { plugin, source, event: NoticeEvent::Compiling });
            }
        })
    }

    /// Loads the source and makes it ready to be called.
    async fn load(&self, stamp: Option<Stamp>, ahead: Option<Ahead>) -> Result<LoadOutcome, LoadError> {
        if stamp.is_none() && self.old.is_some() && self.source.path().is_some() {
            return Ok(LoadOutcome::Missing);
        }
        if self.reason == LoadReason::Policy && self.has_same_settings(stamp).await? {
            return Ok(LoadOutcome::Unchanged);
        }
        let ahead = match ahead.filter(|ahead| ahead.stamp == stamp) {
            Some(ahead) => ahead.compiled().await,
            None => None,
        };
        let generation = self.generation(stamp, ahead).await?;
        self.admit(&generation).await?;
        let session = self.session(&generation).await?;
        let loaded = Loaded::new(generation, session, self.source.clone(), stamp);
        Ok(LoadOutcome::Loaded(Arc::new(match self.is_followed() {
            true => self.with_last_offer(loaded).await,
            false => loaded,
        })))
    }

    /// Returns whether plugins are asked for their offers while they run.
    pub(super) fn is_followed(&self) -> bool {
        self.registry.upgrade().is_some_and(|registry| registry.follows_offers())
    }

    /// Adds the plugin's latest offer, from here or an earlier process, until its instance has listed its current
    /// offer.
    async fn with_last_offer(&self, loaded: Loaded) -> Loaded {
        if !loaded.generation.has_offers() {
            return loaded;
        }
        let before = self.old.as_ref().and_then(|old| Some(old.offer()?.description.clone()));
        let (shared, source, generation) = (self.shared.clone(), self.source.clone(), loaded.generation.clone());
        let last = blocking(move || {
            let cached = || Some(Arc::new(last_offer::read(shared.cache.as_ref()?, &source, &generation)?));
            let Some(description) = before.or_else(cached) else { return Ok(None) };
            let (lists, _) = generation.running_lists((*description).clone())?;
            Ok(Some((lists, description)))
        })
        .await;
        match last {
            Ok(Some((lists, description))) => {
                loaded.offering(Arc::new(lists), Some(Offer { description, is_confirmed: false }))
            }
            Ok(None) => loaded,
            Err(error) => {
                tracing::debug!(plugin = &*loaded.program().name, %error, "its last offer is not shown");
                loaded
            }
        }
    }

    /// Returns whether the policy decides on the current generation as it did, and its file is unchanged.
    async fn has_same_settings(&self, stamp: Option<Stamp>) -> Result<bool, LoadError> {
        let Some(old) = self.old.clone().filter(|old| old.stamp() == stamp) else { return Ok(false) };
        let (shared, source) = (self.shared.clone(), self.source.clone());
        blocking(move || {
            let digest = old.generation.digest.to_hex();
            let settings = shared.policy.settings(&old.generation.identity(&source, &digest))?;
            Ok(settings == old.generation.settings)
        })
        .await
    }

    fn is_as_before(&self, stamp: Option<Stamp>) -> bool {
        self.old.as_ref().is_some_and(|old| old.stamp() == stamp)
    }

    /// Returns whether this attempt loads the code of a generation that is only described, from an unchanged file.
    fn confirms(&self, stamp: Option<Stamp>) -> bool {
        self.reason == LoadReason::Code
            && self.is_as_before(stamp)
            && self.old.as_ref().is_some_and(|old| old.generation.is_described())
    }

    /// Loads the code. If it differs from the description in the cache, it is a new generation, so that calls that were
    /// approved for the description are decided on again.
    async fn generation(
        &self,
        stamp: Option<Stamp>,
        ahead: Option<CompiledAhead>,
    ) -> Result<Arc<Generation>, LoadError> {
        let share = self.share.as_ref().map_err(Clone::clone)?;
        let announce = self.announce();
        let load = |number, before, ahead| {
            Generation::load(&self.shared, &self.source, number, before, share, ahead, &*announce)
        };
        let before = self.old.as_ref().map(|old| old.generation.ceiling.clone());
        if let Some(old) = self.old.as_ref().filter(|_| self.confirms(stamp)) {
            let generation = load(old.program().number, before.clone(), None).await?;
            if generation.is_as(&old.generation) {
                return Ok(generation);
            }
            tracing::info!(plugin = &*old.program().name, "the plugin is not as the cache described it");
        }
        load(self.generation, before, ahead).await
    }

    /// Asks the policy, which may write a file, once nothing else is likely to stand against the generation.
    async fn admit(&self, generation: &Arc<Generation>) -> Result<(), LoadError> {
        if let Some(registry) = self.registry.upgrade() {
            let slots = registry.slots();
            let at = slots.iter().position(|slot| slot.number == self.slot);
            at.map(|at| displaced(&slots, at, generation)).transpose()?;
        }
        let (shared, source, generation) = (self.shared.clone(), self.source.clone(), generation.clone());
        blocking(move || ask_policy(&shared, &source, &generation)).await
    }

    /// Asks the policy whether a generation may answer. Blocks.
    pub(super) fn ask_policy(&self, generation: &Generation) -> Result<(), LoadError> {
        ask_policy(&self.shared, &self.source, generation)
    }

    /// Starts the thread of a plugin of lifetime `session`, which inherits from the generation before.
    async fn session(&self, generation: &Generation) -> Result<Option<SessionInstance>, LoadError> {
        if generation.inspection.manifest.lifetime != Lifetime::Session {
            return Ok(None);
        }
        let inheritance = match &self.old {
            Some(old) => old.inheritance().await,
            None => None,
        };
        SessionInstance::start(&self.shared, &generation.program, inheritance).map(Some)
    }
}

fn ask_policy(shared: &Shared, source: &PluginSource, generation: &Generation) -> Result<(), LoadError> {
    let digest = generation.digest.to_hex();
    shared.policy.loaded(&generation.identity(source, &digest), &generation.offered)
}

/// Waits until writing to a file has stopped. A compiler that replaces a file may remove it for a moment.
async fn quiet_state(path: &Path) -> FileState {
    let waited = Instant::now();
    loop {
        let stamp = Stamp::from_path(path);
        let age = stamp.and_then(|stamp| stamp.age());
        // A time in the future says nothing; load the file as it is.
        let is_quiet = stamp.is_some() && age.is_none_or(|age| age >= QUIET);
        let max_wait = if stamp.is_some() { MAX_QUIET_WAIT } else { QUIET * 4 };
        if is_quiet || waited.elapsed() >= max_wait {
            return FileState { stamp, is_restless: stamp.is_some() && !is_quiet };
        }
        sleep(age.map_or(QUIET, |age| QUIET.saturating_sub(age))).await;
    }
}
