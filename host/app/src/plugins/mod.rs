//! The plugins that a run loads, and their grants.

pub mod builtin;
pub mod grants;
pub mod policy;
pub mod runtime;
pub mod secrets;
mod skills;
pub mod sources;
mod stamp;
