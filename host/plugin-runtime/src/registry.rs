//! Which plugins there are, which generation of each is current, and which names lead to them.
//!
//! One lock, the slots', is held while plugins are added, reloaded or removed, so that names are checked and swapped as
//! one. Calls never take it: they read the [`Catalog`], a snapshot that is replaced as a whole. A call that began on a
//! generation holds it and ends on it; the next one finds the new one.

use crate::generation::{CommandDefinition, Generation, LoadError, Tool};
use crate::instance::{self, Finished, Job, Setup};
use crate::manifest::{Inspection, Lifetime};
use crate::policy::{Ceiling, is_alike};
use crate::program::Program;
use crate::runtime::Shared;
use crate::session::Session;
use arc_swap::ArcSwap;
use pinion_agent::ToolDefinition;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// A file that was written this recently may still be being written.
const QUIET: Duration = Duration::from_millis(50);
/// How long to wait for a file that goes on being written.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The source of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Part of this program.
    BuiltIn {
        /// Its name, which no file may claim.
        name: &'static str,
        /// The component.
        bytes: &'static [u8],
    },
    /// A file, watched.
    File {
        /// The file.
        path: PathBuf,
        /// Who put it where it is.
        origin: FileOrigin,
    },
}

/// The origin of a plugin file. Grants for one origin are none for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileOrigin {
    /// The user's plugin directory.
    User,
    /// A project's plugin directory: whoever writes to the repository.
    Project,
    /// A file that the user named.
    Named,
}

impl FileOrigin {
    /// The origin for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::User => "user directory",
            Self::Project => "project directory",
            Self::Named => "named file",
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn { .. } => f.write_str("built-in"),
            Self::File { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

/// A plugin was loaded, or was not.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The plugin's name, or its file's where the name is not known.
    pub plugin: String,
    /// Where it comes from.
    pub source: String,
    /// What happened.
    pub event: NoticeEvent,
}

/// What happened to a plugin.
#[derive(Debug, Clone)]
pub enum NoticeEvent {
    /// This generation answers from now on.
    Loaded {
        /// Counted from 1.
        generation: u32,
        /// As its manifest says.
        version: String,
    },
    /// It was not loaded. An earlier generation, where there is one, goes on.
    Refused(LoadError),
    /// Some of its grants are not in effect. The text says why, with a hint.
    HeldBack(String),
    /// Its file is gone, and so is it.
    Removed,
}

/// All plugins.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    slots: Mutex<Vec<Slot>>,
    catalog: ArcSwap<Catalog>,
    on_notice: Box<dyn Fn(Notice) + Send + Sync>,
}

/// A plugin, loaded or not.
struct Slot {
    source: Source,
    /// The file as it was when it was last tried.
    stamp: Option<Stamp>,
    loaded: Option<Arc<Loaded>>,
    problem: Option<LoadError>,
    generations: u32,
}

/// A generation that answers calls.
pub(crate) struct Loaded {
    pub(crate) generation: Arc<Generation>,
    session: Option<Session>,
    source: Source,
    /// The file as it was when it was loaded.
    stamp: Option<Stamp>,
}

/// What calls see.
#[derive(Default)]
pub(crate) struct Catalog {
    loaded: Vec<Arc<Loaded>>,
    /// Sources that did not load, and why; with the plugin's name where an earlier generation answers.
    problems: Vec<(String, String)>,
    tools: HashMap<String, usize>,
    commands: HashMap<String, usize>,
}

/// Tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok()?,
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }
}

impl Source {
    /// A file that the user named.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), origin: FileOrigin::Named }
    }

    /// Reads what the component says of itself, and the digest of the same bytes in hexadecimal.
    ///
    /// # Errors
    /// The file cannot be read, or is no plugin for this host.
    pub fn inspect(&self) -> Result<(Inspection, String), LoadError> {
        let bytes = self.bytes()?;
        Ok((Inspection::of(&bytes)?, blake3::hash(&bytes).to_hex().to_string()))
    }

    fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::BuiltIn { .. } => None,
            Self::File { path, .. } => Stamp::of(path),
        }
    }

    fn bytes(&self) -> Result<Cow<'static, [u8]>, LoadError> {
        match self {
            Self::BuiltIn { bytes, .. } => Ok(Cow::Borrowed(bytes)),
            Self::File { path, .. } => std::fs::read(path).map(Cow::Owned).map_err(|e| LoadError::Read(e.to_string())),
        }
    }
}

impl Slot {
    /// The plugin's name. Until it is known, the file's name with its extension, which no plugin can have.
    fn name(&self) -> Cow<'_, str> {
        match (&self.loaded, &self.source) {
            (Some(loaded), _) => Cow::Borrowed(&loaded.program().name),
            (None, Source::File { path, .. }) => path.file_name().unwrap_or_default().to_string_lossy(),
            (None, Source::BuiltIn { name, .. }) => Cow::Borrowed(name),
        }
    }

    fn ceiling(&self) -> Option<Arc<Ceiling>> {
        self.loaded.as_ref().map(|loaded| loaded.generation.ceiling.clone())
    }

    /// Returns whether a plugin was left out because the user disabled it, which is no news.
    fn is_disabled(&self, error: &LoadError) -> bool {
        let is_named = matches!(&self.source, Source::File { origin: FileOrigin::Named, .. });
        matches!(error, LoadError::Disabled(_)) && self.loaded.is_none() && !is_named
    }
}

/// Reads and loads a component, on a thread that may block.
async fn read(
    shared: Arc<Shared>,
    source: Source,
    number: u32,
    before: Option<Arc<Ceiling>>,
) -> Result<Arc<Generation>, LoadError> {
    let runtime = Handle::current();
    let loading = spawn_blocking(move || {
        if let Source::File { path, .. } = &source {
            shared.surroundings.protected.add_plugin(path);
        }
        let bytes = source.bytes()?;
        runtime.block_on(Generation::load(&shared, &source, &bytes, number, before))
    });
    loading.await.unwrap_or_else(|error| Err(LoadError::Link(error.to_string())))
}

/// The file's state once nobody writes to it any more, or none when it is gone. A compiler that replaces a file may
/// remove it for a moment.
async fn quiet_stamp(path: &Path) -> Option<Stamp> {
    let waited = Instant::now();
    loop {
        let stamp = Stamp::of(path);
        let age = stamp.and_then(|stamp| stamp.modified.elapsed().ok());
        // A time in the future tells nothing; take the file as it is.
        let is_quiet = stamp.is_some() && age.is_none_or(|age| age >= QUIET);
        let patience = if stamp.is_some() { MAX_WAIT } else { QUIET * 4 };
        if is_quiet || waited.elapsed() >= patience {
            return stamp;
        }
        tokio::time::sleep(age.map_or(QUIET, |age| QUIET.saturating_sub(age))).await;
    }
}

/// Names lead to one plugin each, and a plugin keeps its name as long as it is loaded.
fn check_names(slots: &[Slot], at: usize, new: &Generation) -> Result<(), LoadError> {
    if let Some(old) = slots[at].loaded.as_ref().filter(|old| old.program().name != new.program.name) {
        let (from, to) = (old.program().name.to_string(), new.program.name.to_string());
        return Err(LoadError::Renamed { from, to });
    }
    let others = slots.iter().enumerate().filter(|(i, _)| *i != at).filter_map(|(_, slot)| slot.loaded.as_ref());
    for other in others {
        let collision = |what, name: &str| {
            Err(LoadError::Collision { what, name: name.to_owned(), other: other.program().name.to_string() })
        };
        if is_alike(&other.program().name, &new.program.name) {
            return collision("plugin", &new.program.name);
        }
        for tool in &new.tools {
            if other.generation.tool(&tool.definition.name).is_some() {
                return collision("tool", &tool.definition.name);
            }
        }
        for command in &new.commands {
            if other.generation.commands.iter().any(|c| c.name == command.name) {
                return collision("command", &command.name);
            }
        }
    }
    Ok(())
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>, on_notice: Box<dyn Fn(Notice) + Send + Sync>) -> Arc<Self> {
        let registry =
            Arc::new(Self { shared: shared.clone(), slots: Mutex::default(), catalog: ArcSwap::default(), on_notice });
        shared.set_registry(&registry);
        registry
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Loads plugins side by side; those that come first win where names collide. Files that are there already are
    /// looked at again.
    pub(crate) async fn add(&self, sources: Vec<Source>) {
        let mut slots = self.slots.lock().await;
        let mut news = Vec::new();
        for source in sources {
            if !slots.iter().any(|slot| slot.source == source) {
                let stamp = source.stamp();
                let read = read(self.shared.clone(), source.clone(), 1, None);
                news.push((source, stamp, tokio::task::spawn(read)));
            }
        }
        for (source, stamp, loading) in news {
            let loaded = loading.await.unwrap_or_else(|e| Err(LoadError::Link(e.to_string())));
            slots.push(Slot { source, stamp, loaded: None, problem: None, generations: 0 });
            let at = slots.len() - 1;
            self.settle(&mut slots, at, loaded).await;
        }
    }

    /// Loads plugins anew whose files have changed. What did not change stays as it is.
    pub(crate) async fn refresh(&self) {
        let mut slots = self.slots.lock().await;
        // From the end, because a slot whose file is gone goes too.
        for at in (0..slots.len()).rev() {
            self.refresh_slot(&mut slots, at).await;
        }
    }

    async fn refresh_slot(&self, slots: &mut Vec<Slot>, at: usize) {
        let Source::File { path, .. } = slots[at].source.clone() else { return };
        let stamp = quiet_stamp(&path).await;
        if stamp == slots[at].stamp {
            return;
        }
        slots[at].stamp = stamp;
        if stamp.is_none() {
            self.remove(slots, at);
            return;
        }
        let number = slots[at].generations + 1;
        let loaded = read(self.shared.clone(), slots[at].source.clone(), number, slots[at].ceiling()).await;
        self.settle(slots, at, loaded).await;
    }

    /// Puts a generation in its place, or says why not.
    async fn settle(&self, slots: &mut [Slot], at: usize, loaded: Result<Arc<Generation>, LoadError>) {
        let admitted = loaded.and_then(|generation| {
            check_names(slots, at, &generation)?;
            self.tell_policy(&slots[at].source, &generation)?;
            Ok(generation)
        });
        let settled = match admitted {
            Ok(generation) => self.install(&mut slots[at], generation).await,
            Err(error) => Err(error),
        };
        let slot = &mut slots[at];
        let mut held_back = None;
        let event = match settled {
            Err(error) if slot.is_disabled(&error) => return,
            Ok(loaded) => {
                held_back = loaded.generation.held_back.clone().map(NoticeEvent::HeldBack);
                slot.problem = None;
                slot.generations = loaded.generation.program.number;
                let version = loaded.generation.inspection.manifest.version.clone();
                slot.loaded = Some(loaded);
                NoticeEvent::Loaded { generation: slot.generations, version }
            }
            Err(error) => {
                slot.problem = Some(error.clone());
                NoticeEvent::Refused(error)
            }
        };
        let (plugin, source) = (slot.name().into_owned(), slot.source.to_string());
        self.publish(slots);
        for event in [Some(event), held_back].into_iter().flatten() {
            (self.on_notice)(Notice { plugin: plugin.clone(), source: source.clone(), event });
        }
    }

    fn tell_policy(&self, source: &Source, generation: &Generation) -> Result<(), LoadError> {
        let digest = generation.digest.to_hex();
        self.shared.policy.loaded(&generation.identity(source, &digest), &generation.offered)
    }

    /// Makes a generation ready to be called; one of lifetime `session` inherits from the one before.
    async fn install(&self, slot: &mut Slot, generation: Arc<Generation>) -> Result<Arc<Loaded>, LoadError> {
        let mut session = None;
        if generation.inspection.manifest.lifetime == Lifetime::Session {
            let inheritance = match &slot.loaded {
                Some(old) => old.inheritance().await,
                None => None,
            };
            let started = Session::start(&self.shared, &generation.program, inheritance);
            session = Some(started.map_err(|error| LoadError::Link(format!("no thread for it: {error}")))?);
        }
        Ok(Arc::new(Loaded { generation, session, source: slot.source.clone(), stamp: slot.stamp }))
    }

    fn remove(&self, slots: &mut Vec<Slot>, at: usize) {
        let slot = slots.remove(at);
        self.publish(slots);
        let (plugin, source) = (slot.name().into_owned(), slot.source.to_string());
        (self.on_notice)(Notice { plugin, source, event: NoticeEvent::Removed });
    }

    fn publish(&self, slots: &[Slot]) {
        let mut catalog = Catalog::default();
        for slot in slots {
            if let Some(problem) = &slot.problem {
                catalog.problems.push((slot.name().into_owned(), problem.to_string()));
            }
            if let Some(loaded) = &slot.loaded {
                catalog.add(loaded.clone());
            }
        }
        self.catalog.store(Arc::new(catalog));
    }

    /// Who answers this tool now. A plugin whose file has changed is loaded anew first, so that a call that comes after
    /// a change is answered by what the change made.
    pub(crate) async fn tool(&self, name: &str) -> Option<(Arc<Loaded>, ToolRef)> {
        let found = self.catalog().tool(name);
        match &found {
            Some((loaded, _)) if loaded.is_outdated() => {}
            Some(_) => return found,
            None => return None,
        }
        self.refresh().await;
        self.catalog().tool(name)
    }

    /// Who answers this command now.
    pub(crate) async fn command(&self, name: &str) -> Option<Arc<Loaded>> {
        let found = self.catalog().command(name)?;
        if !found.is_outdated() {
            return Some(found);
        }
        self.refresh().await;
        self.catalog().command(name)
    }
}

/// A tool of a generation, by its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolRef(usize);

impl Catalog {
    fn add(&mut self, loaded: Arc<Loaded>) {
        let at = self.loaded.len();
        for tool in &loaded.generation.tools {
            self.tools.insert(tool.definition.name.clone(), at);
        }
        for command in &loaded.generation.commands {
            self.commands.insert(command.name.clone(), at);
        }
        self.loaded.push(loaded);
    }

    fn tool(&self, name: &str) -> Option<(Arc<Loaded>, ToolRef)> {
        let loaded = &self.loaded[*self.tools.get(name)?];
        let at = loaded.generation.tools.iter().position(|tool| tool.definition.name == name)?;
        Some((loaded.clone(), ToolRef(at)))
    }

    fn command(&self, name: &str) -> Option<Arc<Loaded>> {
        Some(self.loaded[*self.commands.get(name)?].clone())
    }

    pub(crate) fn loaded(&self) -> &[Arc<Loaded>] {
        &self.loaded
    }

    /// What did not load: the plugin's name, or its file's, and why.
    pub(crate) fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.loaded.iter().flat_map(|loaded| loaded.generation.tools.iter().map(|tool| &tool.definition))
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = &CommandDefinition> {
        self.loaded.iter().flat_map(|loaded| &loaded.generation.commands)
    }
}

impl Loaded {
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.generation.program
    }

    pub(crate) fn get(&self, tool: ToolRef) -> &Tool {
        &self.generation.tools[tool.0]
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Its file, where it is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match &self.source {
            Source::BuiltIn { .. } => None,
            Source::File { path, .. } => Some(path.clone()),
        }
    }

    /// Does a job: on the one instance of lifetime `session`, or on a fresh one.
    pub(crate) async fn run<J: Job>(&self, shared: &Arc<Shared>, setup: Setup, job: J) -> Finished<J::Answer> {
        match &self.session {
            Some(session) => session.run(self.program(), setup, job).await,
            None => instance::run(shared, self.program(), setup, job).await,
        }
    }

    /// Has its file changed since? One `stat`, about a microsecond, for plugins that are files.
    fn is_outdated(&self) -> bool {
        matches!(&self.source, Source::File { path, .. } if Stamp::of(path) != self.stamp)
    }

    async fn inheritance(&self) -> Option<crate::session::Inheritance> {
        let version = &self.generation.inspection.manifest.version;
        self.session.as_ref()?.inheritance(self.program(), version).await
    }
}
