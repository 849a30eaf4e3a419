//! This program as an MCP server.

pub(crate) mod offered;
mod served_call;
