//! Servers of the Model Context Protocol (MCP): their config, connections, catalogue and login.
//!
//! [`Servers`] holds all configured servers. Nothing runs until the first request to a server; its offer is known
//! before from a cache on disk. Servers are strangers: everything they send is bounded ([`limits`]), and everything of
//! it that a message quotes is cleaned.
//!
//! The host brings [`Ports`]: how to start a program, where to keep tokens, how to ask the user. A server over HTTP, for
//! a host without programs and without a user:
//!
//! ```
//! use pinion_mcp::config::{ServerConfig, ServerTransport};
//! use pinion_mcp::{
//!     CallContext, HttpSettings, LaunchedServer, Launcher, McpError, MemoryTokens, NoPerson, Ports, Request, Servers,
//! };
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! struct NoPrograms;
//!
//! impl Launcher for NoPrograms {
//!     fn launch(&self, _: &ServerConfig) -> std::io::Result<LaunchedServer> {
//!         Err(std::io::ErrorKind::Unsupported.into())
//!     }
//! }
//!
//! async fn search(servers: &Servers, words: &str) -> Result<String, McpError> {
//!     let arguments = serde_json::json!({ "query": words }).to_string();
//!     let request = Request::CallTool { name: "search".to_owned(), arguments };
//!     servers.request("docs", request, CallContext::within(Duration::from_secs(60))).await
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "https://example.com/mcp".parse()?;
//! let docs = ServerConfig::new("docs", ServerTransport::Http { url, headers: BTreeMap::new(), sse: false });
//! let ports = Ports {
//!     launcher: Arc::new(NoPrograms),
//!     http: HttpSettings::default(),
//!     cache: std::env::temp_dir().join("mcp-example"),
//!     tasks: std::env::temp_dir().join("mcp-example-tasks"),
//!     tokens: Arc::new(MemoryTokens::default()),
//!     person: Arc::new(NoPerson),
//!     client_metadata: None,
//!     workspace_roots: Vec::new(),
//! };
//! let servers = Servers::new(vec![docs], ports);
//! assert_eq!(servers.list()[0].name, "docs");
//! # Ok(())
//! # }
//! ```

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
mod tasks;

pub use catalogue::contact::{Contact, ContactOutcome};
pub use connection::{OnProgress, RequestProgress};
pub use error::McpError;
pub use http::{ChooseProxy, ChosenProxy, HttpSettings};
pub use oauth::Redirect;
pub use ports::{
    Elicited, LaunchedServer, Launcher, LoginCode, LoginMethod, LoginPage, MemoryTokens, NoPerson, Person, Ports,
    ServerProcess, StoredToken, TokenStore,
};
pub use request::{CallContext, Request};
pub use server::{PromptInfo, ServerInfo, ServerState, ToolInfo};
pub use servers::Servers;
pub use tasks::TaskHandle;
