//! Git repositories as files that strangers wrote: which programs git runs because of them.
//!
//! Git runs programs that settings name, hooks, and any program that these start. This crate reads settings as git does
//! ([`config`]), knows those that run nothing ([`harmless_settings`]), finds the files that others name
//! ([`GitSettings`], [`files_of_arguments`]), knows where a repository keeps all of this ([`Repository`],
//! [`RepositoryLayout`]), and reads its [`refs()`]. It decides nothing, writes nothing, and starts no git.

mod command;
pub mod config;
pub mod harmless_settings;
mod layout;
mod look_budget;
mod refs;
mod reftable;
mod settings;

pub use command::{CommandContext, UNKNOWN, as_path, files_of_arguments, files_of_command};
pub use layout::{Repository, RepositoryLayout, is_repository, is_worktree, nearby};
pub use look_budget::{Exhausted, LookBudget, MAX_FILE_BYTES, read, read_at_most};
pub use refs::{MAX_REFS, Refs, command_to_restore, refs};
pub use settings::{GitSettings, GitUser, Named};
