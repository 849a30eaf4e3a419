//! The plugins that a run loads, and their grants.

pub(crate) mod builtin;
pub(crate) mod contract;
pub(crate) mod grants;
pub(crate) mod policy;
pub(crate) mod runtime;
pub(crate) mod secrets;
mod skills;
pub(crate) mod sources;
mod stamp;
