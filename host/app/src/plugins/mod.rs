//! The plugins that a run loads, and their grants.

pub mod builtin;
mod file_stamp;
pub mod grants;
pub mod policy;
pub mod runtime;
pub mod secrets;
mod skills;
pub mod sources;
