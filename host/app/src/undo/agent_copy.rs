//! Copies of the workspace, each for the run of one sub-agent.
//!
//! ```text
//! agent-copies/NAME.lock      locked by the process that uses the copy
//! agent-copies/NAME/work      the copy
//! agent-copies/NAME/store     snapshots of the copy
//! ```
//!
//! A copy has the files of a checkpoint of the workspace. At the end of the run, the checkpoints of the workspace take over
//! what changed, and the copy is removed. A copy that a killed process left is removed before the next one is made.

use crate::files::private::{FileLock, create_directory, try_lock};
use crate::undo::keeper::{Keeper, lost};
use crate::workspace_base::Base;
use pinion_checkpoints::{
    CheckpointStore, Digest, Error, GapReason, ImportedChanges, RelPath, SnapshotLimits, Tree, remove_tree,
};
use pinion_session_store::record::AgentChanges;
use pinion_session_store::{Payload, Record, Session, Transcript};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A copy of the workspace, removed when this is dropped.
pub(crate) struct AgentCopy {
    /// The directory around the copy and its snapshots.
    directory: PathBuf,
    _lock: FileLock,
    /// The config and the paths of runs in the copy.
    pub(crate) base: Base,
    store: CheckpointStore,
    before: Tree,
    original: CheckpointStore,
    session: Arc<Session>,
    /// Files of the workspace that the copy does not have.
    pub(crate) gaps: Vec<(RelPath, GapReason)>,
}

impl AgentCopy {
    /// Copies the workspace as it is now. Blocks.
    ///
    /// # Errors
    /// There are no checkpoints, the data directory lies in the workspace, or a file cannot be written.
    pub(crate) fn create(base: &Base, keeper: &Keeper) -> Result<Self, String> {
        let (session, original) = keeper.kept().ok_or(
            "it needs checkpoints, which are off or belong to a session that is not saved; the user can turn them on with \
             `enabled = true` in `[undo]` of the config",
        )?;
        let copies = base.paths.agent_copies();
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| format!("cannot create `{path}`: {error}")
        };
        create_directory(&copies).map_err(failed(&copies))?;
        let copies = copies.canonicalize().map_err(failed(&copies))?;
        if copies.starts_with(&base.workspace) {
            let (copies, workspace) = (copies.display(), base.workspace.display());
            return Err(format!("the directory for copies, `{copies}`, lies in the workspace `{workspace}`"));
        }
        remove_left(&copies);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{:x}", std::process::id(), now.as_nanos());
        let lock = try_lock(&lock_file(&copies, &name)).map_err(failed(&copies))?;
        let lock = lock.ok_or_else(|| format!("another process uses `{name}`"))?;
        let directory = copies.join(name);
        let work = directory.join("work");
        let base = base.for_copy(&work)?;
        let store = base.store_in(&directory.join("store"), &work, Vec::new(), SnapshotLimits::default()).complete();
        let (before, gaps) = (Tree::default(), Vec::new());
        let mut copy = Self { directory, _lock: lock, base, store, before, original, session, gaps };
        create_directory(&work).map_err(failed(&work))?;
        copy.fill(&work).map_err(|error| lost(&error))?;
        Ok(copy)
    }

    fn fill(&mut self, work: &Path) -> Result<(), Error> {
        let snapshot = self.original.snapshot()?;
        self.gaps = self.original.check_out(&snapshot.tree, work)?;
        self.before = self.store.snapshot()?.tree;
        Ok(())
    }

    /// Takes over the changes of the run `run_id`, and records them in the session. Blocks.
    ///
    /// # Errors
    /// A snapshot cannot be taken, or the changes cannot be recorded.
    pub(crate) fn finish(self, run_id: &str, keeper: &Keeper) -> Result<ImportedChanges, String> {
        let imported = || self.original.import(&self.store, &self.before, &self.store.snapshot()?.tree);
        let changes = imported().map_err(|error| lost(&error))?;
        if changes.changed > 0 {
            keeper.need(changes.before);
            keeper.need(changes.after);
            let record = AgentChanges {
                run_id: run_id.to_owned(),
                before: changes.before.to_string(),
                after: changes.after.to_string(),
                changed: changes.changed as u64,
            };
            self.session.record(&Record::AgentChanges(record)).map_err(|error| lost(&error))?;
        }
        Ok(changes)
    }
}

impl Drop for AgentCopy {
    fn drop(&mut self) {
        match remove_tree(&self.directory) {
            Ok(()) => drop(fs::remove_file(self.directory.with_extension("lock"))),
            Err(error) => tracing::warn!(%error, "a sub-agent's copy of the workspace was not removed"),
        }
    }
}

fn lock_file(copies: &Path, name: &str) -> PathBuf {
    copies.join(name).with_extension("lock")
}

/// Removes copies that no process uses.
pub(crate) fn remove_left(copies: &Path) {
    for entry in fs::read_dir(copies).into_iter().flatten().flatten() {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let Ok(Some(_held)) = try_lock(&lock) else { continue };
        match remove_tree(&lock.with_extension("")) {
            Ok(()) => drop(fs::remove_file(&lock)),
            Err(error) => tracing::warn!(%error, "a copy of a workspace that a killed process left was not removed"),
        }
    }
}

/// Returns the snapshots around the work of a sub-agent, if the session records changes of it.
pub(crate) fn recorded_changes(session: &Path, run_id: &str) -> Option<(Digest, Digest)> {
    let mut transcript = Transcript::open(session).ok()?;
    let found = transcript.branch().flatten().find_map(|entry| match entry.payload {
        Payload::Record(Record::AgentChanges(changes)) if changes.run_id == run_id => Some(changes),
        _ => None,
    })?;
    Digest::parse(&found.before).zip(Digest::parse(&found.after))
}
