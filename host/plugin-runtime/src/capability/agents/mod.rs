//! The capability `agents`: sub-agents.

pub(crate) mod import;

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::Limits;
use pinion_protocol::{Authority, Ledger};
use std::collections::BTreeSet;
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the names of the tools that sub-agents may use.
pub(crate) type Entry = Switch<BTreeSet<String>>;
/// The tools of sub-agents; `None` when no sub-agents may be started.
pub(crate) type Grant = Option<AgentsGrant>;

/// The tools of the agent that the sub-agents of a plugin may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentsGrant {
    /// Names of the tools; `None` for all of them.
    pub tools: Option<BTreeSet<String>>,
}

impl AgentsGrant {
    fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|names| names.contains(tool))
    }
}

/// The capability.
pub(crate) struct Agents;

impl Capability for Agents {
    const NAME: &'static str = "agents";
    const INTERFACES: &'static [&'static str] = &["agents"];
    const EFFECT: &'static str = "delegates";
    const FOR_COMMANDS: bool = false;
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = AgentsGrant;
    type Account = AgentsAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(Switch::Plain(true))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        match entry {
            Switch::Plain(false) => None,
            Switch::Plain(true) => Some(AgentsGrant::default()),
            Switch::With(tools) => Some(AgentsGrant { tools: Some(tools.clone()) }),
        }
    }

    fn held(grant: &Grant) -> Option<&AgentsGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "start agents"
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { delegates: grant.is_some(), ..Authority::default() }
    }

    fn extent(grant: &Grant) -> Option<String> {
        grant.as_ref().map(|grant| match &grant.tools {
            None => String::new(),
            Some(tools) => format!(": with {}", tools.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        })
    }
}

/// Sub-agents that a call has started.
pub(crate) struct AgentsAccount {
    started: u64,
}

impl super::definition::CapabilityAccount for AgentsAccount {
    fn open(_limits: &Limits) -> Self {
        Self { started: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        ledger.agents = self.started;
    }
}
