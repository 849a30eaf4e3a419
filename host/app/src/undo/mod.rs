//! Undo: checkpoints of the workspace around the agent's work, and the return to an earlier turn.
//!
//! A turn of the user is a prompt with everything that the agent did for it. Before the first call of a turn that may
//! change files, and again at its end, [`keeper::Keeper`] takes a snapshot of the workspace and records it in the session.
//! [`turns`] reads them back, and [`rewind`] restores files and conversation.

pub mod keeper;
pub mod rewind;
pub mod show;
pub mod turns;

use crate::base::Base;
use crate::files::paths;
use pinion_checkpoints::CheckpointStore;
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
        let inside = workspace.to_owned();
        let protected = std::iter::once_with(move || protected_in(&inside, &paths::git_user())).flatten();
        let excluded = protected.chain(self.host_directories().private).chain(own).chain(more.to_owned());
        let store = CheckpointStore::new(&directory, workspace, excluded, settings.limits.clone());
        Some(store.without(self.config.exclusions.clone()))
    }
}
