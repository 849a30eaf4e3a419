//! The contract that the module of a capability implements.

use crate::capability::secrets::source::SecretSource;
use pinion_plugin_limits::Limits;
use pinion_protocol::{Authority, Ledger};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A capability. Its state appears in three forms: the ask of a manifest, the entry in a `[plugins.NAME.grants]` table,
/// and the grant that the entry resolves to on this machine. The default value of each form means "nothing".
///
/// The provided methods fit a capability that is granted as a whole or not at all.
pub(crate) trait Capability {
    /// The key in manifests, in the config and on the command line.
    const NAME: &'static str;
    /// The interfaces of `pinion:plugin` whose functions need it.
    const INTERFACES: &'static [&'static str];
    /// The spellings on the command line.
    const FORMS: &'static [&'static str] = &[Self::NAME];
    /// The flags of `effects` as hints name them; a tool must declare one of them to use it; empty when no flag is
    /// needed.
    const EFFECT: &'static str = "";
    /// True if slash commands may use it, too.
    const FOR_COMMANDS: bool = true;
    /// True if the completion of an argument may use it, where no effect is needed.
    const FOR_COMPLETIONS: bool = true;
    /// True if its functions do nothing but wait for MCP servers. Calls of a plugin that was granted nothing else block
    /// no thread, and its offer while it runs follows from the servers.
    const ONLY_WAITS: bool = false;
    /// The most that a manifest can ask for.
    const MOST: Self::Ask;

    /// The ask of a manifest. A wider ask compares greater; two asks do not compare if neither covers the other.
    type Ask: Clone + Default + PartialOrd;
    /// The value in a grants table.
    type Entry: Clone + Default + PartialEq;
    /// The resolved grant of a plugin.
    type Grant: Clone + Default + PartialEq + 'static;
    /// The part of a grant that imports use once the check has passed.
    type Held: 'static;
    /// The use that a call makes of it.
    type Account: CapabilityAccount;

    /// Parses a word of the command line; `value` is the text after `=`. `None` when it cannot be understood.
    fn parse(value: Option<&str>, workspace: &Path) -> Option<Self::Entry>;

    /// Returns why a value cannot be parsed and, in further lines, hints; `None` if its form is all that is wrong.
    fn problem(_value: Option<&str>) -> Option<String> {
        None
    }

    /// The least ask that covers an entry.
    fn ask_for(entry: &Self::Entry) -> Self::Ask;

    /// Resolves an entry.
    fn resolve(entry: &Self::Entry, context: &GrantContext<'_>) -> Self::Grant;

    /// Returns the part of a grant that imports use; `None` when nothing is granted.
    fn held(grant: &Self::Grant) -> Option<&Self::Held>;

    /// The verb phrase for people, as in "plugin `x` may not run programs".
    fn phrase(ask: Self::Ask) -> &'static str;

    /// The verb phrase of an ask with its details, such as the names of servers.
    fn detailed(ask: Self::Ask) -> String {
        Self::phrase(ask).to_owned()
    }

    /// Returns the part of an ask that an earlier one does not cover.
    fn beyond(_known: &Self::Ask, asked: Self::Ask) -> Self::Ask {
        asked
    }

    /// The part of an ask without which a tool with these effects cannot work at all.
    fn needed(_ask: Self::Ask, _declared: Authority) -> Self::Ask {
        Self::Ask::default()
    }

    /// The effects that a grant makes possible.
    fn effects(_grant: &Self::Grant) -> Authority {
        Authority::default()
    }

    /// The line of a grants table that grants an ask.
    fn line(_ask: Self::Ask) -> String {
        format!("{} = true", Self::NAME)
    }

    /// An ask as a word of the command line.
    fn ask_word(ask: Self::Ask) -> Option<String> {
        (ask != Self::Ask::default()).then(|| Self::NAME.to_owned())
    }

    /// An entry as words of the command line.
    fn spell_entry(entry: &Self::Entry) -> Vec<String> {
        if *entry == Self::Entry::default() { Vec::new() } else { vec![Self::NAME.to_owned()] }
    }

    /// Describes a grant after the word "granted"; `None` when nothing is granted.
    fn extent(grant: &Self::Grant) -> Option<String> {
        Self::held(grant).map(|_| String::new())
    }

    /// Adds `more` to an entry. Where both say something, `more` counts.
    fn merge(entry: &mut Self::Entry, more: &Self::Entry) {
        if *more != Self::Entry::default() {
            entry.clone_from(more);
        }
    }

    /// Takes `less` from an entry.
    fn remove(entry: &mut Self::Entry, less: &Self::Entry) {
        if *less != Self::Entry::default() {
            *entry = Self::Entry::default();
        }
    }

    /// Adds `more` to a grant. Where both say something, the wider one counts, or else `more`.
    fn widen(grant: &mut Self::Grant, more: Self::Grant) {
        if more != Self::Grant::default() {
            *grant = more;
        }
    }

    /// Cuts a grant to the ask.
    fn cut(grant: &mut Self::Grant, ask: Self::Ask) {
        if ask == Self::Ask::default() {
            *grant = Self::Grant::default();
        }
    }
}

/// The counted use that a call makes of a capability.
pub(crate) trait CapabilityAccount {
    /// The account of a call that begins.
    fn open(limits: &Limits) -> Self;

    /// Enters the counts.
    fn enter(&self, ledger: &mut Ledger);
}

/// The account of a capability that counts nothing.
impl CapabilityAccount for () {
    fn open(_limits: &Limits) -> Self {}

    fn enter(&self, _ledger: &mut Ledger) {}
}

/// The facts of an application that grants refer to.
pub struct GrantContext<'a> {
    /// The workspace root, absolute.
    pub workspace: &'a Path,
    /// The names of variables that programs get unless a grant names its own; `NAME*` stands for all that begin so.
    pub usual_variables: &'a [String],
    /// Returns the variables of this process. Called at most once for each grant.
    pub variables: &'a dyn Fn() -> BTreeMap<String, String>,
    /// The directory for output that is too long to be kept in memory.
    pub output: &'a Path,
    /// The directory for the values that plugins store, which no plugin may use itself; made when it is needed.
    pub storage: &'a Path,
    /// The secrets that the user defined.
    pub secrets: &'a Arc<dyn SecretSource>,
}

/// An entry of a grants table: `true`, `false`, or a list that narrows the grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Switch<T> {
    /// The whole grant, or nothing.
    Plain(bool),
    /// The grant for these alone.
    With(T),
}

impl<T> Default for Switch<T> {
    fn default() -> Self {
        Self::Plain(false)
    }
}

impl<T: PartialEq> Switch<T> {
    /// Returns whether anything is granted.
    pub(crate) fn is_on(&self) -> bool {
        *self != Self::Plain(false)
    }
}
