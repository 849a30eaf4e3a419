//! Tools of strangers, made fit to be offered: their names, input schemas and texts, and a search among them.
//!
//! Not a plugin: the bridges to MCP servers and to HTTP interfaces share it.

pub mod clean;
pub mod names;
#[path = "../../../host/protocol/src/pattern.rs"]
pub mod pattern;
pub mod schema;
pub mod search;
