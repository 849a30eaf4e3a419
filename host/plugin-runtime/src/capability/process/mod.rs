//! The capability `process`: programs of the machine, which the sandbox of the operating system confines.

mod child;
pub(crate) mod import;

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::{Exceeded, Limits};
use pinion_protocol::{Authority, Ledger};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the names of the variables that programs get.
pub(crate) type Entry = Switch<Vec<String>>;
/// The environment of programs; `None` when no programs may run.
pub(crate) type Grant = Option<ProcessGrant>;

/// The environment of the programs that a plugin runs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProcessGrant {
    /// Their whole environment, by name.
    pub environment: BTreeMap<String, String>,
    /// The directory for output that is too long to be kept in memory; made when it is needed.
    pub spill_directory: PathBuf,
}

impl std::fmt::Debug for ProcessGrant {
    /// Names only: values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessGrant").field("environment", &self.environment.keys()).finish_non_exhaustive()
    }
}

/// The capability.
pub(crate) struct Process;

impl Capability for Process {
    const NAME: &'static str = "process";
    const INTERFACES: &'static [&'static str] = &["process", "child-process"];
    const EFFECT: &'static str = "executes";
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ProcessGrant;
    type Account = ProcessAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(Switch::Plain(true))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, context: &GrantContext<'_>) -> Grant {
        let names = match entry {
            Switch::Plain(false) => return None,
            Switch::Plain(true) => context.usual_variables,
            Switch::With(names) => names,
        };
        let is_granted = |variable: &str| {
            names.iter().any(|name| match name.strip_suffix('*') {
                Some(beginning) => variable.starts_with(beginning),
                None => variable == name,
            })
        };
        let environment = (context.variables)().into_iter().filter(|(name, _)| is_granted(name)).collect();
        Some(ProcessGrant { environment, spill_directory: context.output.to_owned() })
    }

    fn held(grant: &Grant) -> Option<&ProcessGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "run programs"
    }

    fn needed(ask: Ask, declared: Authority) -> Ask {
        ask && declared.executes
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { executes: grant.is_some(), ..Authority::default() }
    }
}

/// Programs that a call has run.
pub(crate) struct ProcessAccount {
    programs: u64,
    max: u64,
}

impl ProcessAccount {
    /// Counts a program that is about to run.
    fn spend(&mut self) -> Result<(), Exceeded> {
        self.programs += 1;
        if self.programs > self.max { Err(Exceeded::Programs) } else { Ok(()) }
    }
}

impl super::definition::CapabilityAccount for ProcessAccount {
    fn open(limits: &Limits) -> Self {
        Self { programs: 0, max: limits.programs }
    }

    fn enter(&self, ledger: &mut Ledger) {
        ledger.processes = self.programs;
    }
}
