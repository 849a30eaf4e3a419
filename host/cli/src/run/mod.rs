//! Runs: how the agent is put together, and the ways to use it.

pub(crate) mod agents;
pub(crate) mod chat;
pub(crate) mod compose;
pub(crate) mod effects;
pub(crate) mod plan;
pub(crate) mod print;
