//! Exclusions: files that the agent can neither read nor change in any way.
//!
//! [`Exclusions`] are patterns, as in `.gitignore`, and decide by name. A [`Finder`] also looks for the files that match in
//! the workspace, so that a file counts as excluded under each of its names: hard links, links that lead to it, and other
//! mounts of the same file system. Plugins, walks, programs, checkpoints and completions all ask one finder.
//!
//! A look at the whole workspace also finds the directories of repositories, for the sandbox.
//!
//! Names of excluded files are not secret, only their content. Outside of the workspace, patterns decide by name alone.

mod find;
mod identity;
mod links;
mod list;
mod mounts;
mod names;
mod patterns;

pub use find::{ExcludedPaths, ExcludedPlace, Finder, LookError};
pub use identity::FileId;
pub use list::PickEntry;
pub use patterns::{Exclusions, InvalidPattern, Pattern, PatternOrigin};
