//! MCP servers: their files, their processes, their tokens, and the user whom they may ask.

pub mod edit;
mod elicitation_dialogs;
pub mod files;
mod first_start;
mod launch;
pub mod lazy_servers;
mod sampling;
pub mod servers;
mod tokens;
pub mod written;
