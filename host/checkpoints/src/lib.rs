//! Snapshots of a directory, and their restoration.
//!
//! A [`CheckpointStore`] keeps snapshots of one directory in a private one. A snapshot is a [`Tree`]: an entry for everything below
//! the directory that no ignore rule excludes, whether a repository tracks it or not. The contents of files are stored
//! once each, under their digests. Taking a snapshot costs one look at each file, and the reading of those that changed.
//!
//! Undoing work takes the trees before and after it, and the current one. A [`Plan`] reverts the changes of the work,
//! and keeps changes that others made since then. [`CheckpointStore::restore`] carries it out.
//!
//! Work can also happen in a copy: [`CheckpointStore::check_out`] writes a snapshot to another directory,
//! [`CheckpointStore::import`] takes over the changes made there, and [`Plan::applying`] makes them here.
//!
//! Guarantees:
//! - A snapshot names the paths that it does not cover: [`Tree::uncovered`], [`TreeEntry::Excluded`].
//! - Nothing outside the directory is read or written, even if programs change its links meanwhile.
//! - A kill at any moment leaves snapshots that are complete or absent, and a restoration that [`CheckpointStore::recover`]
//!   completes.
//! - Processes take turns.
//!
//! Not covered: the directory's own mode, extended attributes, times, and hard links, which become separate files when
//! they are restored. Owners are restored where the system allows it. A file never gets the bits that give programs the
//! rights of its owner without that owner.
//!
//! ```no_run
//! use pinion_checkpoints::{SnapshotLimits, Plan, UndoStep, StepKind, CheckpointStore};
//! use std::path::Path;
//!
//! let store = CheckpointStore::new(Path::new("/home/me/checkpoints/project"), Path::new("/home/me/project"), [], SnapshotLimits::default());
//! let before = store.snapshot()?;
//! // Another program works in the directory.
//! let after = store.snapshot()?;
//! let current = store.snapshot()?;
//! let plan = Plan::new(&[UndoStep { before: before.tree, after: Some(after.tree), kind: StepKind::Whole }], &current.tree, false);
//! let report = store.restore(&plan, "")?;
//! # Ok::<(), pinion_checkpoints::Error>(())
//! ```

#![cfg(unix)]

mod activity;
mod check_out;
mod collect;
mod diff;
mod error;
mod import;
mod index;
mod objects;
mod patch;
mod path;
mod path_restoration;
mod plan;
mod refs;
mod remove;
mod restore;
mod root;
mod rules;
mod sealed;
mod store;
mod tree;
mod walk;

pub use activity::Overlap;
pub use collect::{Retention, remove_unused};
pub use diff::{Diff, WorkChanges, unified};
pub use error::Error;
pub use import::ImportedChanges;
pub use patch::PatchReport;
pub use path::{InvalidPath, RelPath};
pub use plan::{PathAction, Plan, StepKind, UndoStep};
pub use refs::RefChange;
pub use remove::remove_tree;
pub use restore::{PreparedRestoration, RestoreReport};
pub use store::{CheckpointStore, TreeSnapshot};
pub use tree::{Digest, GapReason, Owner, Tree, TreeChange, TreeEntry};
pub use walk::SnapshotLimits;
