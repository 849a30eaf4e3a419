//! Capabilities: everything that a plugin may do beyond computing, and the check that decides.
//!
//! One module per capability holds everything about it: its name, how a manifest asks for it, how the config, the command
//! line and a dialog grant it, the words that people read, its imports and its counts in the ledger. A module and its
//! row in [`list`] are all that a capability needs; the README of this crate shows how to add one.
//!
//! Three things meet in a call. A component *asks* in its manifest ([`Asks`]). The user *grants* in the config
//! ([`GrantTable`], resolved to [`Grants`]). A tool *declares* its effects. The call's authority is the intersection,
//! and every import checks it before it acts: [`CallAuthority`] is the only place that decides.

pub(crate) mod account;
pub(crate) mod authority;
pub(crate) mod definition;
pub(crate) mod list;
pub(crate) mod table;

pub use self::agents::AgentsGrant;
pub(crate) use self::authority::{CallAuthority, CallKind, Denied, PluginAuthority, Surroundings};
pub use self::definition::{GrantContext, Switch};
pub use self::files::shell_word;
pub use self::http::HttpAsk;
pub use self::invoke::InvokeGrant;
pub use self::mcp::{
    McpCall, McpFailure, McpGrant, McpPrompt, McpRequest, McpServer, McpServers, McpState, McpTask, McpTool,
};
pub use self::model::{ModelEntry, ModelGrant};
pub use self::process::ProcessGrant;
pub use self::secrets::{
    NoSecrets, SecretError, SecretPlacement, SecretRequests, SecretSource, SecretsAsk, SecretsGrant,
};
pub use self::session::SessionAccess;
pub use self::storage::contents::{PluginStorage, StoredPlugin, StoredScope};
pub use self::storage::{StorageGrant, StorageQuota};
pub use self::table::{Asks, GrantTable, Grants, UnknownCapability, capability_forms};

/// Declares the module of each capability.
macro_rules! modules {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        $($(#[$cfg])? pub(crate) mod $name;)+
    };
}
list::with_capabilities!(modules);
