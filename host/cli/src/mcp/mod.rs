//! MCP servers of a command: their files, their processes, their tokens, and what serves as one.

mod adapter;
pub(crate) mod edit;
pub(crate) mod files;
mod first_start;
mod launch;
pub(crate) mod lazy;
pub(crate) mod offered;
mod person;
mod programs;
mod sampling;
mod served_call;
pub(crate) mod servers;
mod tokens;
