//! Servers of the Model Context Protocol (MCP): their config, connections, catalogue and login.
//!
//! [`Servers`] holds all configured servers. Nothing runs until the first request to a server; what it offers is known
//! before from a cache on disk. Servers are strangers: everything they send is bounded ([`limits`]), and everything of
//! it that a message quotes is cleaned.
//!
//! The host brings [`Ports`]: how to start a program, where to keep tokens, how to ask the user.

mod catalogue;
pub mod config;
mod connection;
mod error;
mod http;
pub mod limits;
mod oauth;
mod ports;
mod questions;
mod request;
pub mod serve;
mod server;
mod servers;

pub use connection::{OnProgress, Progress};
pub use error::McpError;
pub use http::{ChooseProxy, HttpSettings};
pub use oauth::Redirect;
pub use ports::{
    Elicited, LaunchedServer, Launcher, LoginCode, LoginMethod, LoginPage, MemoryTokens, NoPerson, Person, Ports,
    ServerProcess, StoredToken, TokenStore,
};
pub use request::{CallContext, Request};
pub use server::{PromptInfo, ServerInfo, ServerState, ToolInfo};
pub use servers::Servers;
