//! Loading and reloading, without anyone waiting who does not want to.
//!
//! Every source has a slot, in the order in which sources were added. An [`Attempt`] to load a slot is a task of its own: it
//! reads, compiles, links and describes without any lock, and takes the slots' lock only to settle. Dropping the registry
//! aborts all attempts.
//!
//! Names go by the order of slots, whichever is ready first: while a slot's first attempt is under way, its names are
//! open, and when it settles, a later slot that took one of them is removed with a notice. After that, names belong to
//! the plugin that has them, and a reload that wants the name of another plugin is refused.
//!
//! A call whose plugin's file has changed waits for the reload of that plugin alone: [`QUIET_PATIENCE`] for the file to
//! rest, [`RELOAD_PATIENCE`] in all, and no longer than its own token. After that the old generation answers, and no later
//! call waits for the same attempt.

use crate::calls::session::Session;
use crate::limits::shares::Share;
use crate::loading::generation::{Generation, LoadError, blocking};
use crate::manifest::Lifetime;
use crate::registry::{Loaded, Notice, NoticeEvent, Registry, Slot, Source, Stamp};
use crate::runtime::Shared;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// A file that was written this recently may still be being written.
const QUIET: Duration = Duration::from_millis(50);
/// How long a first load waits for a file that goes on being written, and a reload.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(10);
/// How long a call waits for its plugin's file to rest.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);
/// How long a call waits for the reload of its plugin, from the beginning of the attempt.
const RELOAD_PATIENCE: Duration = Duration::from_secs(12);

/// Loads under way. Dropping it stops none of them.
#[derive(Debug)]
#[must_use = "loads go on whether they are waited for or not"]
pub struct Loading(Vec<watch::Receiver<Phase>>);

impl Loading {
    /// Waits until every plugin was loaded or refused. The limits of loading bound that.
    pub async fn settled(mut self) {
        for attempt in &mut self.0 {
            end_of(attempt).await;
        }
    }

    /// Waits until every plugin was loaded or refused, but no longer than until then. Returns whether all were.
    pub async fn settled_before(self, deadline: Instant) -> bool {
        timeout_at(deadline, self.settled()).await.is_ok()
    }
}

/// One attempt to load a slot.
pub(crate) struct Attempt {
    number: u64,
    begun: Instant,
    phase: watch::Receiver<Phase>,
    task: JoinHandle<()>,
    /// False when the last attempt never saw the file at rest: its calls do not wait.
    is_waited_for: bool,
}

/// How far an attempt is. It is over when the sender is dropped, with the task that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for the file to rest.
    Waiting,
    /// Reads, compiles, describes.
    Loading,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until an attempt is over.
async fn end_of(attempt: &mut watch::Receiver<Phase>) {
    while attempt.changed().await.is_ok() {}
}

/// The result of an attempt.
enum Outcome {
    Loaded(Arc<Loaded>),
    Refused(LoadError),
    /// The file is gone.
    Removed,
}

/// What an attempt works on.
struct Work {
    registry: Weak<Registry>,
    shared: Arc<Shared>,
    slot: u64,
    number: u64,
    source: Source,
    generation: u32,
    share: Result<Arc<Share>, LoadError>,
    /// The generation that answers meanwhile.
    old: Option<Arc<Loaded>>,
}

impl Registry {
    /// Begins to load sources that have no slot yet.
    pub(crate) fn begin(self: &Arc<Self>, sources: Vec<Source>) -> Loading {
        let mut slots = self.slots();
        let mut loading = Vec::new();
        for source in sources {
            if !slots.iter().any(|slot| slot.source == source) {
                let number = self.next_number();
                let mut slot = Slot::new(number, source, Share::new(number, &self.shared.counts));
                loading.push(self.start(&mut slot));
                slots.push(slot);
            }
        }
        Loading(loading)
    }

    /// Begins to reload every plugin whose file has changed.
    pub(crate) fn begin_refresh(self: &Arc<Self>) -> Loading {
        let mut slots = self.slots();
        let mut loading = Vec::new();
        for slot in slots.iter_mut() {
            match &slot.attempt {
                Some(attempt) => loading.push(attempt.phase.clone()),
                None if slot.is_changed() => loading.push(self.start(slot)),
                None => {}
            }
        }
        Loading(loading)
    }

    /// Names of plugins, or of their files, that are being loaded for the first time.
    pub(crate) fn being_loaded(&self) -> Vec<String> {
        let slots = self.slots();
        slots.iter().filter(|slot| !slot.is_settled).map(|slot| slot.name().into_owned()).collect()
    }

    /// Waits until a plugin whose file has changed was reloaded, as long as a call may be held for that.
    pub(crate) async fn reload(self: &Arc<Self>, outdated: &Loaded, token: &CancellationToken) {
        let Some((mut phase, begun)) = self.reload_of(outdated) else { return };
        let waiting = async {
            let rest = phase.wait_for(|phase| *phase == Phase::Loading);
            if timeout_at(begun + QUIET_PATIENCE, rest).await.is_ok() {
                // Whether it is over or not, somebody answers.
                let _ = timeout_at(begun + RELOAD_PATIENCE, end_of(&mut phase)).await;
            }
        };
        tokio::select! {
            () = waiting => {}
            () = token.cancelled() => {}
        }
    }

    fn reload_of(self: &Arc<Self>, outdated: &Loaded) -> Option<(watch::Receiver<Phase>, Instant)> {
        let mut slots = self.slots();
        let slot = slots.iter_mut().find(|slot| slot.source == *outdated.source())?;
        if slot.attempt.is_none() && slot.is_changed() {
            let _ = self.start(slot);
        }
        let attempt = slot.attempt.as_ref().filter(|attempt| attempt.is_waited_for)?;
        Some((attempt.phase.clone(), attempt.begun))
    }

    fn start(self: &Arc<Self>, slot: &mut Slot) -> watch::Receiver<Phase> {
        let number = self.next_number();
        let (phase, receiver) = watch::channel(Phase::Waiting);
        let work = Work {
            registry: Arc::downgrade(self),
            shared: self.shared.clone(),
            slot: slot.number,
            number,
            source: slot.source.clone(),
            generation: slot.generations + 1,
            share: slot.share.clone(),
            old: slot.loaded.clone(),
        };
        let task = tokio::spawn(work.run(phase));
        let is_waited_for = !slot.is_restless;
        slot.attempt = Some(Attempt { number, begun: Instant::now(), phase: receiver.clone(), task, is_waited_for });
        receiver
    }

    /// Puts the result of an attempt in its place, unless the attempt was given up.
    fn settle(self: &Arc<Self>, work: &Work, state: FileState, outcome: Outcome) {
        let mut notices = Vec::new();
        let mut slots = self.slots();
        let is_current = |slot: &Slot| {
            slot.number == work.slot && slot.attempt.as_ref().is_some_and(|attempt| attempt.number == work.number)
        };
        let Some(at) = slots.iter().position(is_current) else { return };
        // To abort this very task has no effect, because it awaits nothing any more.
        slots[at].attempt = None;
        slots[at].stamp = state.stamp;
        slots[at].is_restless = state.is_restless;
        match outcome {
            Outcome::Loaded(loaded) => match displaced(&slots, at, &loaded.generation) {
                Ok(displaced) => {
                    displaced.into_iter().for_each(|(weaker, error)| notices.push(slots[weaker].refuse(error, true)));
                    notices.extend(slots[at].accept(loaded));
                }
                Err(error) => notices.push(slots[at].refuse(error, false)),
            },
            Outcome::Refused(error) if slots[at].is_disabled(&error) => slots[at].is_settled = true,
            Outcome::Refused(error) => notices.push(slots[at].refuse(error, false)),
            Outcome::Removed => {
                let slot = slots.remove(at);
                notices.push(slot.notice(NoticeEvent::Removed));
            }
        }
        self.publish(&slots);
        // Written to while it was loaded: what was loaded may be half of it.
        if let Some(slot) = slots.get_mut(at).filter(|slot| slot.number == work.slot && slot.is_changed()) {
            let _ = self.start(slot);
        }
        drop(slots);
        notices.into_iter().for_each(|notice| self.notify(notice));
    }
}

impl Slot {
    fn accept(&mut self, loaded: Arc<Loaded>) -> Vec<Notice> {
        self.problem = None;
        self.is_settled = true;
        self.generations = loaded.generation.program.number;
        let version = loaded.generation.inspection.manifest.version.clone();
        let held_back = loaded.generation.held_back.clone().map(NoticeEvent::HeldBack);
        self.loaded = Some(loaded);
        let events = [Some(NoticeEvent::Loaded { generation: self.generations, version }), held_back];
        events.into_iter().flatten().map(|event| self.notice(event)).collect()
    }

    fn refuse(&mut self, error: LoadError, is_displaced: bool) -> Notice {
        self.is_settled = true;
        self.problem = Some(error.clone());
        let notice = self.notice(NoticeEvent::Refused(error));
        if is_displaced {
            self.loaded = None;
        }
        notice
    }

    fn notice(&self, event: NoticeEvent) -> Notice {
        Notice { plugin: self.name().into_owned(), source: self.source.to_string(), event }
    }

    /// Whether the file differs from when it was tried last. One `stat`.
    fn is_changed(&self) -> bool {
        matches!(&self.source, Source::File { path, .. } if Stamp::of(path) != self.stamp)
    }
}

/// A plugin's file as an attempt found it.
#[derive(Clone, Copy)]
struct FileState {
    stamp: Option<Stamp>,
    /// It was written to all the time.
    is_restless: bool,
}

impl Work {
    async fn run(self, phase: watch::Sender<Phase>) {
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
            // Nothing waits for a first load that could not load again.
            Source::File { path, .. } if self.generation == 1 => {
                FileState { stamp: Stamp::of(path), is_restless: false }
            }
            Source::File { path, .. } => quiet_stamp(path).await,
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

    /// Asks the policy, which may write a file, once it is likely that nothing else stands against the generation.
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

    /// The thread of a plugin of lifetime `session`, which inherits from the generation before.
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

/// The file's state once nobody writes to it any more, or none when it is gone. A compiler that replaces a file may
/// remove it for a moment.
async fn quiet_stamp(path: &Path) -> FileState {
    let waited = Instant::now();
    loop {
        let stamp = Stamp::of(path);
        let age = stamp.and_then(|stamp| stamp.age());
        // A time in the future says nothing; take the file as it is.
        let is_quiet = stamp.is_some() && age.is_none_or(|age| age >= QUIET);
        let patience = if stamp.is_some() { MAX_QUIET_WAIT } else { QUIET * 4 };
        if is_quiet || waited.elapsed() >= patience {
            return FileState { stamp, is_restless: stamp.is_some() && !is_quiet };
        }
        sleep(age.map_or(QUIET, |age| QUIET.saturating_sub(age))).await;
    }
}

/// Names lead to one plugin each, and a plugin keeps its name as long as it is loaded. Returns the slots that must give
/// way to a generation, and why, or the reason why the generation must give way itself.
fn displaced(slots: &[Slot], at: usize, new: &Generation) -> Result<Vec<(usize, LoadError)>, LoadError> {
    if let Some(old) = slots[at].loaded.as_ref().filter(|old| old.program().name != new.program.name) {
        let (from, to) = (old.program().name.to_string(), new.program.name.to_string());
        return Err(LoadError::Renamed { from, to });
    }
    let mut displaced = Vec::new();
    let others = slots.iter().enumerate().filter(|(i, _)| *i != at);
    for (i, loaded) in others.filter_map(|(i, slot)| Some((i, slot.loaded.as_ref()?))) {
        let is_stronger = slots[at].is_settled || i < at;
        let (stronger, weaker) = if is_stronger { (&*loaded.generation, new) } else { (new, &*loaded.generation) };
        let Some(error) = collision(weaker, stronger) else { continue };
        if is_stronger {
            return Err(error);
        }
        displaced.push((i, error));
    }
    Ok(displaced)
}

/// The error of a plugin that has a name of another one, or one that a person takes for it.
fn collision(new: &Generation, other: &Generation) -> Option<LoadError> {
    let error = |what, name: &str, is_same| {
        let (name, other) = (name.to_owned(), other.program.name.to_string());
        if is_same { LoadError::Collision { what, name, other } } else { LoadError::LookAlike { what, name, other } }
    };
    if new.plugin_name.meets(&other.plugin_name) {
        return Some(error("plugin", &new.program.name, new.program.name == other.program.name));
    }
    if new.tool_names.meets(&other.tool_names)
        && let Some(tool) = new.tools.iter().find(|tool| other.tool_names.has(&tool.definition.name))
    {
        let name = &tool.definition.name;
        return Some(error("tool", name, other.tool(name).is_some()));
    }
    if new.command_names.meets(&other.command_names)
        && let Some(command) = new.commands.iter().find(|command| other.command_names.has(&command.name))
    {
        let is_same = other.commands.iter().any(|theirs| theirs.name == command.name);
        return Some(error("command", &command.name, is_same));
    }
    None
}
