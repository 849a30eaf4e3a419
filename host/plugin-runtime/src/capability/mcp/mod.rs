//! The capability `mcp`: servers of the Model Context Protocol.
//!
//! A server is a program or a remote service, so its use needs both effects, `executes` and `network`, regardless of
//! the server's claims about its tools. The application provides the servers through the port [`McpServers`].

pub(crate) mod import;
mod long;
pub(crate) mod port;

pub use self::port::{McpCall, McpServers};
pub use pinion_protocol::mcp::{McpFailure, McpPrompt, McpRequest, McpServer, McpState, McpTask, McpTool};

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::{Exceeded, Limits};
use pinion_protocol::{Authority, Ledger};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the names of the servers.
pub(crate) type Entry = Switch<BTreeSet<String>>;
/// The servers that may be used; `None` when no servers may.
pub(crate) type Grant = Option<McpGrant>;

/// The servers that a plugin may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpGrant {
    /// Names of the servers; `None` for all of them.
    pub servers: Option<BTreeSet<String>>,
    /// The directory for texts that are too long for a result; made when it is needed.
    pub output: PathBuf,
}

impl McpGrant {
    fn allows(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|names| names.contains(server))
    }
}

/// The capability.
pub(crate) struct Mcp;

impl Capability for Mcp {
    const NAME: &'static str = "mcp";
    const INTERFACES: &'static [&'static str] = &["mcp"];
    const FORMS: &'static [&'static str] = &["mcp", "mcp=SERVER,..."];
    const EFFECT: &'static str = "executes` together with `network";
    const FOR_COMPLETIONS: bool = false;
    const ONLY_WAITS: bool = true;
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = McpGrant;
    type Account = McpAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        let Some(value) = value else { return Some(Switch::Plain(true)) };
        let names: BTreeSet<String> = value.split(',').map(|name| name.trim().to_owned()).collect();
        names.iter().all(|name| !name.is_empty()).then_some(Switch::With(names))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, context: &GrantContext<'_>) -> Grant {
        let servers = match entry {
            Switch::Plain(false) => return None,
            Switch::Plain(true) => None,
            Switch::With(names) => Some(names.clone()),
        };
        Some(McpGrant { servers, output: context.output.to_owned() })
    }

    fn held(grant: &Grant) -> Option<&McpGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "use MCP servers"
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { executes: grant.is_some(), network: grant.is_some(), ..Authority::default() }
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        match entry {
            Switch::Plain(false) => Vec::new(),
            Switch::Plain(true) => vec!["mcp".to_owned()],
            Switch::With(names) => vec![format!("mcp={}", names.iter().cloned().collect::<Vec<_>>().join(","))],
        }
    }

    fn extent(grant: &Grant) -> Option<String> {
        grant.as_ref().map(|grant| match &grant.servers {
            None => String::new(),
            Some(names) => format!(": {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        })
    }
}

/// Requests to servers that a call has made.
pub(crate) struct McpAccount {
    requests: u64,
    max: u64,
}

impl McpAccount {
    /// Counts a request that is about to be sent.
    fn spend(&mut self) -> Result<(), Exceeded> {
        self.requests += 1;
        if self.requests > self.max { Err(Exceeded::Requests) } else { Ok(()) }
    }
}

impl super::definition::CapabilityAccount for McpAccount {
    fn open(limits: &Limits) -> Self {
        Self { requests: 0, max: limits.requests }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.requests > 0 {
            ledger.counts.insert("MCP request".to_owned(), self.requests);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::table::GrantTable;

    fn table(text: &str) -> GrantTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn grant_names_all_servers_or_some() {
        let all = table("mcp = true");
        let some = table("mcp = [\"docs\", \"git\"]");
        assert_eq!(
            (all.spell_grants(), some.spell_grants()),
            (vec!["mcp".to_owned()], vec!["mcp=docs,git".to_owned()])
        );
        let mut parsed = GrantTable::default();
        parsed.add(&["mcp=git, docs".to_owned()], Path::new("/w")).unwrap();
        assert_eq!(parsed, some);
        assert!(GrantTable::default().add(&["mcp=".to_owned()], Path::new("/w")).is_err());
        let grant = McpGrant { servers: Some(["git".to_owned()].into()), ..McpGrant::default() };
        assert!(grant.allows("git") && !grant.allows("docs") && McpGrant::default().allows("docs"));
        assert_eq!(Mcp::extent(&Some(grant)).as_deref(), Some(": git"));
    }

    #[test]
    fn servers_need_both_effects() {
        let effects = Mcp::effects(&Some(McpGrant::default()));
        assert!(effects.executes && effects.network && !effects.writes);
        assert_eq!(Mcp::effects(&None), Authority::default());
    }
}
