//! Calls of plugins: tool calls and commands, the instance each one runs on, and the state the host keeps for it.

pub(crate) mod commands;
mod executor;
pub(crate) mod instance;
pub(crate) mod session;
pub(crate) mod state;
