//! Undo: checkpoints of the workspace around the agent's work, and the return to an earlier turn.
//!
//! A turn of the user is a prompt with everything that the agent did for it. Before the first call of a turn that may
//! change files, and again at its end, [`keeper::Keeper`] takes a snapshot of the workspace and records it in the session.
//! [`turns`] reads them back, and [`rewind`] restores files and conversation.

pub(crate) mod agent_copy;
mod argument_paths;
pub mod bisection;
pub mod calls;
pub mod keeper;
pub mod patch;
pub mod rewind;
pub mod show;
pub mod turns;

use crate::files::paths;
use crate::workspace_base::Base;
use pinion_checkpoints::{CheckpointStore, SnapshotLimits};
use pinion_sandbox::protected_in;
use pinion_session_store::project_slug;
use std::path::{Path, PathBuf};

impl Base {
    /// Returns the checkpoints of a workspace; `None` if they are off. They skip the file `session`, and the files in
    /// `more`.
    pub fn checkpoints(&self, workspace: &Path, session: &Path, more: &[PathBuf]) -> Option<CheckpointStore> {
        let settings = self.config.undo.as_ref()?;
        let directory = self.paths.checkpoints().join(project_slug(workspace));
        let own = [
            session.to_owned(),
            session.with_extension(""),
            session.with_extension("name"),
            session.with_extension("title"),
        ];
        let own = own.into_iter().chain(more.to_owned()).collect();
        Some(self.store_in(&directory, workspace, own, settings.limits.clone()))
    }

    /// Returns a store of a workspace in this directory. It skips the files in `own`, and all that programs may not
    /// change or read.
    pub(crate) fn store_in(
        &self,
        directory: &Path,
        workspace: &Path,
        own: Vec<PathBuf>,
        limits: SnapshotLimits,
    ) -> CheckpointStore {
        let inside = workspace.to_owned();
        let protected = std::iter::once_with(move || protected_in(&inside, &paths::git_user())).flatten();
        let excluded = protected.chain(self.host_directories().private).chain(own);
        CheckpointStore::new(directory, workspace, excluded, limits).without(self.config.exclusions.clone())
    }
}
