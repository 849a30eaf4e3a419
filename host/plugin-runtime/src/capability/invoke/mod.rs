//! The capability `invoke`: calls of other plugins' tools.

pub(crate) mod import;

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::Limits;
use pinion_protocol::Ledger;
use std::collections::BTreeSet;
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the names of the tools.
pub(crate) type Entry = Switch<BTreeSet<String>>;
/// The tools that may be called; `None` when no tools may.
pub(crate) type Grant = Option<InvokeGrant>;

/// The tools that a plugin may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvokeGrant {
    /// Names of the tools; `None` for all of them.
    pub tools: Option<BTreeSet<String>>,
}

impl InvokeGrant {
    fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|names| names.contains(tool))
    }
}

/// The capability.
pub(crate) struct Invoke;

impl Capability for Invoke {
    const NAME: &'static str = "invoke";
    const INTERFACES: &'static [&'static str] = &["invoke"];
    const FORMS: &'static [&'static str] = &["invoke", "invoke=TOOL,..."];
    const FOR_COMMANDS: bool = false;
    const FOR_COMPLETIONS: bool = false;
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = InvokeGrant;
    type Account = InvokeAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        let Some(value) = value else { return Some(Switch::Plain(true)) };
        let names: BTreeSet<String> = value.split(',').map(|name| name.trim().to_owned()).collect();
        names.iter().all(|name| !name.is_empty()).then_some(Switch::With(names))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        match entry {
            Switch::Plain(false) => None,
            Switch::Plain(true) => Some(InvokeGrant::default()),
            Switch::With(tools) => Some(InvokeGrant { tools: Some(tools.clone()) }),
        }
    }

    fn held(grant: &Grant) -> Option<&InvokeGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "call other tools"
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        match entry {
            Switch::Plain(false) => Vec::new(),
            Switch::Plain(true) => vec!["invoke".to_owned()],
            Switch::With(tools) => {
                vec![format!("invoke={}", tools.iter().map(String::as_str).collect::<Vec<_>>().join(","))]
            }
        }
    }

    fn extent(grant: &Grant) -> Option<String> {
        grant.as_ref().map(|grant| match &grant.tools {
            None => String::new(),
            Some(tools) => format!(": {}", tools.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        })
    }
}

/// Calls that a call has made.
pub(crate) struct InvokeAccount {
    calls: u64,
}

impl super::definition::CapabilityAccount for InvokeAccount {
    fn open(_limits: &Limits) -> Self {
        Self { calls: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.calls > 0 {
            ledger.counts.insert("tool call".to_owned(), self.calls);
        }
    }
}
