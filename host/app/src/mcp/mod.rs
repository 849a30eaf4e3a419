//! MCP servers: their files, their processes, their tokens, and the user whom they may ask.

pub mod edit;
pub mod files;
mod first_start;
mod launch;
pub mod lazy;
mod person;
mod sampling;
pub mod servers;
mod tokens;
pub mod written;
