//! A generation that answers calls.

use crate::calls::instance::{self, Finished, Job, Setup};
use crate::calls::session::{Inheritance, Session};
use crate::loading::generation::{Generation, Tool};
use crate::loading::program::Program;
use crate::loading::source::Source;
use crate::loading::stamp::Stamp;
use crate::shared::Shared;
use std::sync::Arc;

/// A generation that answers calls.
pub(crate) struct Loaded {
    pub(crate) generation: Arc<Generation>,
    session: Option<Session>,
    source: Source,
    /// The state of the file when it was loaded.
    stamp: Option<Stamp>,
}

/// A tool of a generation, by its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolRef(usize);

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

    /// Finds a tool by its name.
    pub(crate) fn tool(&self, name: &str) -> Option<ToolRef> {
        self.generation.tools.iter().position(|tool| tool.definition.name == name).map(ToolRef)
    }

    pub(crate) fn get(&self, tool: ToolRef) -> &Tool {
        &self.generation.tools[tool.0]
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Runs a job: on the one instance of lifetime `session`, or on a fresh one.
    pub(crate) async fn run<J: Job>(&self, shared: &Arc<Shared>, setup: Setup, job: J) -> Finished<J::Answer> {
        match &self.session {
            Some(session) => session.run(self.program(), setup, job).await,
            None => instance::run(shared, self.program(), setup, job).await,
        }
    }

    /// Returns whether the code is loaded and belongs to the file as it is now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.generation.is_described() && !self.is_outdated()
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
