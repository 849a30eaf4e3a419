//! The task that loads one slot.
//!
//! It reads, compiles, links and describes without any lock, and takes the lock of the slots only to settle.

use crate::calls::session::Session;
use crate::errors::load::LoadError;
use crate::limits::shares::Share;
use crate::loading::blocking;
use crate::loading::generation::Generation;
use crate::loading::source::Source;
use crate::loading::stamp::Stamp;
use crate::manifest::Lifetime;
use crate::registry::Registry;
use crate::registry::attempt::Phase;
use crate::registry::loaded::Loaded;
use crate::registry::names::displaced;
use crate::shared::Shared;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A file that was written this recently may still be being written.
const QUIET: Duration = Duration::from_millis(50);
/// Time that a reload waits for a file that is being written.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(10);

/// The input of one attempt.
pub(super) struct Work {
    pub(super) registry: Weak<Registry>,
    pub(super) shared: Arc<Shared>,
    /// The number of the slot.
    pub(super) slot: u64,
    /// The number of the attempt.
    pub(super) number: u64,
    pub(super) source: Source,
    pub(super) generation: u32,
    pub(super) share: Result<Arc<Share>, LoadError>,
    /// The generation that answers meanwhile.
    pub(super) old: Option<Arc<Loaded>>,
}

/// The result of an attempt.
pub(super) enum Outcome {
    Loaded(Arc<Loaded>),
    Refused(LoadError),
    /// The file is gone.
    Removed,
}

/// A plugin's file as an attempt found it.
#[derive(Clone, Copy)]
pub(super) struct FileState {
    pub(super) stamp: Option<Stamp>,
    /// The file was being written to all the time.
    pub(super) is_restless: bool,
}

impl Work {
    /// Loads the slot and settles it.
    pub(super) async fn run(self, phase: watch::Sender<Phase>) {
        let state = self.file_state().await;
        phase.send_replace(Phase::Loading);
        let outcome = match self.load(state.stamp).await {
            Ok(Some(loaded)) => Outcome::Loaded(loaded),
            Ok(None) => Outcome::Removed,
            Err(error) => Outcome::Refused(error),
        };
        if let Some(registry) = self.registry.upgrade() {
            registry.settle(&self, state, outcome);
        }
    }

    async fn file_state(&self) -> FileState {
        match &self.source {
            Source::BuiltIn { .. } => FileState { stamp: None, is_restless: false },
            // A first load does not wait: if the file changes meanwhile, it is loaded again.
            Source::File { path, .. } if self.generation == 1 => {
                FileState { stamp: Stamp::of(path), is_restless: false }
            }
            Source::File { path, .. } => quiet_state(path).await,
        }
    }

    /// Loads the source and makes it ready to be called. None when a file that was loaded before is gone.
    async fn load(&self, stamp: Option<Stamp>) -> Result<Option<Arc<Loaded>>, LoadError> {
        if stamp.is_none() && self.old.is_some() {
            return Ok(None);
        }
        let share = self.share.as_ref().map_err(Clone::clone)?;
        let before = self.old.as_ref().map(|old| old.generation.ceiling.clone());
        let generation = Generation::load(&self.shared, &self.source, self.generation, before, share).await?;
        self.admit(&generation).await?;
        let session = self.session(&generation).await?;
        Ok(Some(Arc::new(Loaded::new(generation, session, self.source.clone(), stamp))))
    }

    /// Asks the policy, which may write a file, once nothing else is likely to stand against the generation.
    async fn admit(&self, generation: &Arc<Generation>) -> Result<(), LoadError> {
        if let Some(registry) = self.registry.upgrade() {
            let slots = registry.slots();
            let at = slots.iter().position(|slot| slot.number == self.slot);
            at.map(|at| displaced(&slots, at, generation)).transpose()?;
        }
        let (shared, source, generation) = (self.shared.clone(), self.source.clone(), generation.clone());
        blocking(move || {
            let digest = generation.digest.to_hex();
            shared.policy.loaded(&generation.identity(&source, &digest), &generation.offered)
        })
        .await
    }

    /// Starts the thread of a plugin of lifetime `session`, which inherits from the generation before.
    async fn session(&self, generation: &Generation) -> Result<Option<Session>, LoadError> {
        if generation.inspection.manifest.lifetime != Lifetime::Session {
            return Ok(None);
        }
        let inheritance = match &self.old {
            Some(old) => old.inheritance().await,
            None => None,
        };
        Session::start(&self.shared, &generation.program, inheritance).map(Some)
    }
}

/// Waits until nobody writes to a file any more. A compiler that replaces a file may remove it for a moment.
async fn quiet_state(path: &Path) -> FileState {
    let waited = Instant::now();
    loop {
        let stamp = Stamp::of(path);
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
