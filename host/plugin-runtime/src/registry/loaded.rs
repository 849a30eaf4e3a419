//! A generation that answers calls.

use crate::calls::instance::{self, FinishedJob, InstanceJob, Setup};
use crate::calls::session::{Hold, Inheritance, SessionInstance};
use crate::loading::describe::ListOffer;
use crate::loading::generation::Generation;
use crate::loading::instance_template::InstanceTemplate;
use crate::loading::source::{PluginSource, Stamp};
use crate::runtime_shared::Shared;
use pinion_plugin_limits::{HOOK_MS, Limits};
use pinion_plugin_offers::lists::{ListedTool, Lists};
use pinion_plugin_offers::offer::Description;
use std::sync::{Arc, OnceLock};

/// A generation that answers calls.
pub(crate) struct Loaded {
    pub(crate) generation: Arc<Generation>,
    /// The tools and commands of its load, without those whose names other plugins have.
    pub(crate) own: Arc<Lists>,
    /// Phrases for the tools and commands of its load that were left out.
    pub(crate) left_out: Vec<String>,
    /// The tools and commands that it offers now.
    pub(crate) lists: Arc<Lists>,
    /// Its last offer while it runs.
    offer: Option<Offer>,
    session: Option<Arc<SessionInstance>>,
    source: PluginSource,
    /// The state of the file when it was loaded.
    stamp: Option<Stamp>,
    /// The program under the limits of hooks.
    hook_program: OnceLock<Arc<InstanceTemplate>>,
}

/// The last offer of a running plugin.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(crate) description: Arc<Description>,
    /// False while only an earlier instance said so.
    pub(crate) is_confirmed: bool,
}

/// A tool of a generation, by its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolRef(usize);

impl Loaded {
    pub(crate) fn new(
        generation: Arc<Generation>,
        session: Option<SessionInstance>,
        source: PluginSource,
        stamp: Option<Stamp>,
    ) -> Self {
        let (lists, session) = (generation.lists.clone(), session.map(Arc::new));
        Self {
            generation,
            own: lists.clone(),
            left_out: Vec::new(),
            lists,
            offer: None,
            session,
            source,
            stamp,
            hook_program: OnceLock::new(),
        }
    }

    /// The same generation without the tools and commands of its load that were removed from `own`; `removed` has
    /// phrases for them. Hooks, and its offer while it runs, stay.
    pub(super) fn without(&self, own: Lists, removed: &[String]) -> Self {
        let own = Arc::new(own);
        let lists = if self.offer.is_some() { self.lists.clone() } else { own.clone() };
        let left_out = self.left_out.iter().chain(removed).cloned().collect();
        Self { own, left_out, ..self.offering(lists, self.offer.clone()) }
    }

    /// The same generation with other tools and commands, and the offer that led to them. `None` stands for the lists
    /// of its load.
    pub(super) fn offering(&self, lists: Arc<Lists>, offer: Option<Offer>) -> Self {
        Self {
            generation: self.generation.clone(),
            own: self.own.clone(),
            left_out: self.left_out.clone(),
            lists,
            offer,
            session: self.session.clone(),
            source: self.source.clone(),
            stamp: self.stamp,
            hook_program: self.hook_program.clone(),
        }
    }

    /// Its last offer while it runs.
    pub(super) fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    pub(crate) fn program(&self) -> &Arc<InstanceTemplate> {
        &self.generation.program
    }

    /// Finds a tool by its name.
    pub(crate) fn tool(&self, name: &str) -> Option<ToolRef> {
        self.lists.tools.iter().position(|tool| tool.definition.name == name).map(ToolRef)
    }

    pub(crate) fn get(&self, tool: ToolRef) -> &ListedTool {
        &self.lists.tools[tool.0]
    }

    pub(crate) fn source(&self) -> &PluginSource {
        &self.source
    }

    /// Runs a job: on the one instance of lifetime `session`, on an idle one of lifetime `reused`, or on a fresh one.
    pub(crate) async fn run<J: InstanceJob>(
        &self,
        shared: &Arc<Shared>,
        setup: Setup,
        job: J,
    ) -> FinishedJob<J::Answer> {
        self.run_as(shared, self.program(), setup, job).await
    }

    /// Runs a job like [`Loaded::run`], under the limits of `program`.
    pub(crate) async fn run_as<J: InstanceJob>(
        &self,
        shared: &Arc<Shared>,
        program: &Arc<InstanceTemplate>,
        setup: Setup,
        job: J,
    ) -> FinishedJob<J::Answer> {
        match &self.session {
            Some(session) => session.run(program, setup, job).await,
            None => instance::run(shared, program, setup, job).await,
        }
    }

    /// Asks for the plugin's offer, with its grants. It asks a fresh instance, or the instance of lifetime `session`,
    /// where no call begins until the [`Hold`] is dropped.
    pub(super) async fn list_offer(
        &self,
        shared: &Arc<Shared>,
        max_ms: u64,
    ) -> (FinishedJob<Result<Description, String>>, Option<Hold>) {
        let program = self.program();
        let limits = Limits { deadline_ms: program.limits.deadline_ms.min(max_ms), ..(*program.limits).clone() };
        let setup = Setup { authority: program.authority.for_command(), ..Setup::without_authority(program) };
        let program = program.under(&limits);
        match &self.session {
            Some(session) => {
                let (finished, hold) = session.run_and_hold(&program, setup, ListOffer).await;
                (finished, Some(hold))
            }
            None => (instance::run(shared, &program, setup, ListOffer).await, None),
        }
    }

    /// The program with the deadline of hooks.
    pub(crate) fn hook_program(&self) -> &Arc<InstanceTemplate> {
        self.hook_program.get_or_init(|| {
            let limits = &self.program().limits;
            self.program().under(&Limits { deadline_ms: limits.deadline_ms.min(HOOK_MS), ..(**limits).clone() })
        })
    }

    /// Returns whether the code is loaded and belongs to the file as it is now, and the instance confirmed its offer.
    pub(crate) fn is_ready(&self) -> bool {
        let is_confirmed = self.offer.is_none() || self.is_confirmed();
        is_confirmed && !self.generation.is_described() && !self.is_outdated()
    }

    /// Returns whether the instance itself offers [`Loaded::lists`].
    pub(super) fn is_confirmed(&self) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.is_confirmed)
    }

    /// The state of the file when it was loaded.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Returns whether the file has changed since. One `stat`, about a microsecond, for plugins that are files.
    pub(crate) fn is_outdated(&self) -> bool {
        self.source.has_changed_since(self.stamp)
    }

    /// Asks the instance of lifetime `session` for the state that its successor needs.
    pub(crate) async fn inheritance(&self) -> Option<Inheritance> {
        let version = &self.generation.inspection.manifest.version;
        self.session.as_ref()?.inheritance(self.program(), version).await
    }
}
