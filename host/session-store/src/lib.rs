//! Sessions on disk.
//!
//! A session is one JSONL file, `<root>/<project>/<time>_<id>.jsonl`, that only grows: a header, then one entry a line.
//! Each entry names the entry it follows, so the entries form a tree. `format.rs` describes the lines.
//!
//! Guarantees:
//! - When [`Session`]'s `append` returns, the entry survives a kill of the process. When it fails, the file is
//!   unchanged.
//! - A file can be cut off at any byte, or have any line broken: [`open_to_continue`] keeps every entry whose line is
//!   intact, and deletes nothing.
//! - One process writes to a session; a second one gets an error that names the first. Any process may read meanwhile,
//!   with a [`Transcript`].
//! - Memory holds the messages of the branch that is continued, and never a whole file.
//!
//! This crate reads no environment variables and knows no home directory: the caller says where sessions are.
//!
//! A new [`Session`] is the `SessionStore` of an agent: the loop appends messages and reports its events, which become
//! [`Record`]s. Continuing the last session of a workspace and listing its runs:
//!
//! ```no_run
//! use pinion_session_store::{SessionDirectory, Transcript, open_to_continue};
//! use std::path::Path;
//!
//! let workspace = Path::new("/home/me/project");
//! let directory = SessionDirectory::new("/home/me/sessions");
//! if let Some(last) = directory.latest(workspace)? {
//!     let opened = open_to_continue(&last.path, workspace)?;
//!     let (id, count) = (opened.session.id(), opened.messages.len());
//!     assert!(!id.is_empty() && count > 0);
//!     let mut transcript = Transcript::open(&last.path)?;
//!     for run in transcript.runs()?.roots() {
//!         let (id, status) = (&run.run_id, run.status());
//!     }
//! }
//! # Ok::<(), pinion_session_store::SessionError>(())
//! ```

mod access;
mod delete;
mod directory;
mod error;
mod export;
mod files;
mod fork;
mod format;
mod header;
mod id;
mod index;
mod lines;
mod lock;
mod log;
mod name;
mod pairing;
mod parallel_groups;
pub mod record;
mod recovery;
mod replay;
mod runs;
mod session;
mod session_tail;
mod snapshot;
mod snapshot_files;
mod store;
mod summary;
#[cfg(test)]
mod testing;
mod transcript;
mod tree;
#[cfg(test)]
mod tree_kill_tests;

pub use directory::{ListScope, SessionDirectory, SessionListing};
pub use error::{BadLine, BadLines, ErrorSubject, SessionError, SessionErrorKind};
pub use export::{ExportFormat, RenderError, export, render, render_branch};
pub use files::project_slug;
pub use format::{Payload, SessionEntry, VERSION};
pub use header::{SessionHeader, SessionOrigin, Spawn};
pub use id::{EntryId, InvalidEntryId, RunName};
pub use log::Loss;
pub use pairing::{Pairing, repair_pairing};
pub use pinion_protocol::text::printable;
pub use record::Record;
pub use recovery::{Recovery, ResumableSession, open_to_continue};
pub use replay::History;
pub use runs::{GroupMembership, RunRecord, RunStart, RunStatus, Runs};
pub use session::Session;
pub use session_tail::{last_history, was_interrupted};
pub use snapshot::{SessionSnapshot, restore};
pub use snapshot_files::{SnapshotError, load_snapshot, save_snapshot};
pub use store::MemorySession;
pub use summary::Summary;
pub use transcript::{Branch, EntryError, Transcript};
pub use tree::BranchInfo;
