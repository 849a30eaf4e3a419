//! Which plugins there are, which generation of each is current, and which names lead to them.
//!
//! One lock, the slots', is held for moments: to begin a load, and to check names and swap generations as one
//! ([`crate::registry::load`]). Calls take it only when their plugin's file has changed: they read the [`Catalog`], a snapshot
//! that is replaced as a whole. A call that began on a generation holds it and ends on it; the next one finds the new one.

pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod watch;

use crate::calls::instance::{self, Finished, Job, Setup};
use crate::calls::session::Session;
use crate::limits::shares::Share;
use crate::loading::component_file::read_component;
use crate::loading::generation::{CommandDefinition, Generation, LoadError, Tool};
use crate::loading::program::Program;
use crate::manifest::Inspection;
use crate::registry::load::Attempt;
use crate::runtime::Shared;
use arc_swap::ArcSwap;
use pinion_protocol::ToolDefinition;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

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
    pub(crate) shared: Arc<Shared>,
    slots: Mutex<Vec<Slot>>,
    numbers: AtomicU64,
    catalog: ArcSwap<Catalog>,
    on_notice: Box<dyn Fn(Notice) + Send + Sync>,
}

/// A plugin, loaded or not.
pub(crate) struct Slot {
    /// Tells it from all others, those that are gone included.
    pub(crate) number: u64,
    pub(crate) source: Source,
    /// Its share of what all plugins need; an error when there are too many plugins.
    pub(crate) share: Result<Arc<Share>, LoadError>,
    /// The file as it was when it was last tried.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) loaded: Option<Arc<Loaded>>,
    pub(crate) problem: Option<LoadError>,
    pub(crate) generations: u32,
    /// The load that is under way.
    pub(crate) attempt: Option<Attempt>,
    /// Its first load is over.
    pub(crate) is_settled: bool,
    /// The file was written to all the time when it was last tried.
    pub(crate) is_restless: bool,
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
pub(crate) struct Stamp {
    modified: SystemTime,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok()?,
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }

    /// The time since it was last written; none when that lies in the future.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.modified.elapsed().ok()
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

    /// The component. Blocks.
    pub(crate) fn bytes(&self) -> Result<Cow<'static, [u8]>, LoadError> {
        match self {
            Self::BuiltIn { bytes, .. } => Ok(Cow::Borrowed(bytes)),
            Self::File { path, .. } => Ok(Cow::Owned(read_component(path)?)),
        }
    }
}

impl Slot {
    pub(crate) fn new(number: u64, source: Source, share: Result<Arc<Share>, LoadError>) -> Self {
        Self {
            number,
            source,
            share,
            stamp: None,
            loaded: None,
            problem: None,
            generations: 0,
            attempt: None,
            is_settled: false,
            is_restless: false,
        }
    }

    /// The plugin's name. Until it is known, the file's name with its extension, which no plugin can have.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match (&self.loaded, &self.source) {
            (Some(loaded), _) => Cow::Borrowed(&loaded.program().name),
            (None, Source::File { path, .. }) => path.file_name().unwrap_or_default().to_string_lossy(),
            (None, Source::BuiltIn { name, .. }) => Cow::Borrowed(name),
        }
    }

    /// Returns whether a plugin was left out because the user disabled it, which is no news.
    pub(crate) fn is_disabled(&self, error: &LoadError) -> bool {
        let is_named = matches!(&self.source, Source::File { origin: FileOrigin::Named, .. });
        matches!(error, LoadError::Disabled(_)) && self.loaded.is_none() && !is_named
    }
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>, on_notice: Box<dyn Fn(Notice) + Send + Sync>) -> Arc<Self> {
        let registry = Arc::new(Self {
            shared: shared.clone(),
            slots: Mutex::default(),
            numbers: AtomicU64::new(0),
            catalog: ArcSwap::default(),
            on_notice,
        });
        shared.set_registry(&registry);
        registry
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no slot and no attempt had before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn notify(&self, notice: Notice) {
        (self.on_notice)(notice);
    }

    pub(crate) fn publish(&self, slots: &[Slot]) {
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

    /// The plugin that answers this tool now. One whose file has changed is reloaded first, as far as [`crate::registry::load`]
    /// lets a call wait for that, so that a call that comes after a change is answered by what the change made.
    pub(crate) async fn tool(
        self: &Arc<Self>,
        name: &str,
        token: &CancellationToken,
    ) -> Option<(Arc<Loaded>, ToolRef)> {
        let found = self.catalog().tool(name)?;
        if !found.0.is_outdated() {
            return Some(found);
        }
        self.reload(&found.0, token).await;
        self.catalog().tool(name)
    }

    /// The plugin that answers this command now.
    pub(crate) async fn command(self: &Arc<Self>, name: &str, token: &CancellationToken) -> Option<Arc<Loaded>> {
        let found = self.catalog().command(name)?;
        if !found.is_outdated() {
            return Some(found);
        }
        self.reload(&found, token).await;
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
    pub(crate) fn new(
        generation: Arc<Generation>,
        session: Option<Session>,
        source: Source,
        stamp: Option<Stamp>,
    ) -> Self {
        Self { generation, session, source, stamp }
    }

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

    pub(crate) async fn inheritance(&self) -> Option<crate::calls::session::Inheritance> {
        let version = &self.generation.inspection.manifest.version;
        self.session.as_ref()?.inheritance(self.program(), version).await
    }
}
