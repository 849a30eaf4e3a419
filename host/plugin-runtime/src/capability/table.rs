//! Asks, grants and accounts of all capabilities together, generated from the [list](super).

use super::definition::{Capability, CapabilityAccount as _, GrantContext};
use super::with_capabilities;
use super::*;
use pinion_plugin_limits::Limits;
use pinion_protocol::{Authority, Ledger};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::Path;

/// A word of the command line that names no capability, or grants nothing that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a capability{}", .problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default())]
pub struct UnknownCapability {
    /// The word.
    pub word: String,
    /// The problem with its value, where that is known; further lines are hints.
    pub problem: Option<String>,
}

/// An ask that is not granted, and that a tool cannot work without.
pub(crate) struct Missing {
    pub(crate) phrase: &'static str,
    /// The line of the config that grants it.
    pub(crate) line: String,
}

/// Finds the grant of a capability in [`Grants`].
pub(crate) trait Granted: Capability {
    /// The grant.
    fn select_grant(grants: &Grants) -> &Self::Grant;
}

macro_rules! tables {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        /// The capabilities that a manifest asks for.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct Asks {
            $(
                #[doc = $doc]
                $(#[$cfg])?
                #[serde(skip_serializing_if = "is_default")]
                pub $name: $name::Ask,
            )+
        }

        /// A `[plugins.NAME.grants]` table: capabilities that the user grants to a plugin.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct GrantTable {
            $(#[doc = $doc] $(#[$cfg])? pub $name: $name::Entry,)+
        }

        /// The capabilities that a plugin is granted, resolved for this machine.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Grants {
            $(#[doc = $doc] $(#[$cfg])? pub $name: $name::Grant,)+
        }

        $(
            $(#[$cfg])?
            impl Granted for $name::$Capability {
                fn select_grant(grants: &Grants) -> &Self::Grant {
                    &grants.$name
                }
            }
        )+

        /// Returns the spellings of all capabilities on the command line.
        pub fn capability_forms() -> Vec<&'static str> {
            let mut forms = Vec::new();
            $($(#[$cfg])? forms.extend($name::$Capability::FORMS);)+
            forms
        }

        impl Asks {
            /// The names of all capabilities.
            pub(crate) fn names() -> Vec<&'static str> {
                Vec::from([$($(#[$cfg])? $name::$Capability::NAME,)+])
            }

            /// The widest asks, as an example for authors.
            pub(crate) fn most() -> Self {
                Self { $($(#[$cfg])? $name: $name::$Capability::MOST,)+ }
            }

            /// Parses the asks of a packed plugin. They use the words of grants. Where a grant names more, such as the
            /// servers of `http`, the name of the capability alone asks for anything that the user grants.
            ///
            /// # Errors
            /// A word names no capability.
            pub fn parse(words: &[String], workspace: &Path) -> Result<Self, UnknownCapability> {
                let (mut table, mut open) = (GrantTable::default(), Vec::new());
                for word in words {
                    match table.add(std::slice::from_ref(word), workspace) {
                        Err(_) if Self::names().contains(&word.as_str()) => open.push(word.as_str()),
                        added => added?,
                    }
                }
                let mut asks = table.asks();
                $(
                    $(#[$cfg])?
                    if open.contains(&$name::$Capability::NAME) {
                        asks.$name = $name::$Capability::MOST;
                    }
                )+
                Ok(asks)
            }

            /// The asks as words of the command line.
            pub fn spell_asks(&self) -> Vec<String> {
                let mut words = Vec::new();
                $($(#[$cfg])? words.extend($name::$Capability::ask_word(self.$name.clone()));)+
                words
            }

            /// Returns whether `other` asks for nothing beyond this.
            pub fn covers(&self, other: &Self) -> bool {
                self.excess(other).is_empty()
            }

            /// Returns the verb phrases of the asks that only `other` contains.
            pub(crate) fn excess(&self, other: &Self) -> Vec<String> {
                let mut phrases = Vec::new();
                $(
                    $(#[$cfg])?
                    if other.$name.partial_cmp(&self.$name).is_none_or(Ordering::is_gt) {
                        let beyond = $name::$Capability::beyond(&self.$name, other.$name.clone());
                        phrases.push($name::$Capability::detailed(beyond));
                    }
                )+
                phrases
            }

            /// Adds the widest asks for the capability that the functions of an interface of `pinion:plugin` need.
            pub(crate) fn add_interface(&mut self, interface: &str) {
                $(
                    $(#[$cfg])?
                    if $name::$Capability::INTERFACES.contains(&interface) {
                        self.$name = $name::$Capability::MOST;
                    }
                )+
            }

            /// Returns whether the functions of an interface of `pinion:plugin` can work with these asks.
            pub fn covers_import(&self, interface: &str) -> bool {
                let mut is_covered = true;
                $(
                    $(#[$cfg])?
                    if $name::$Capability::INTERFACES.contains(&interface) {
                        is_covered &= !is_default(&self.$name);
                    }
                )+
                is_covered
            }

            /// Returns the first ask that is not granted although tools with these effects cannot work without it.
            pub(crate) fn missing(&self, grants: &Grants, declared: Authority) -> Option<Missing> {
                $(
                    $(#[$cfg])?
                    if $name::$Capability::held(&grants.$name).is_none() {
                        let needed = $name::$Capability::needed(self.$name.clone(), declared);
                        if !is_default(&needed) {
                            let phrase = $name::$Capability::phrase(needed.clone());
                            let line = $name::$Capability::line(needed);
                            return Some(Missing { phrase, line });
                        }
                    }
                )+
                None
            }
        }

        impl GrantTable {
            /// Adds capabilities, given as words of the command line. Relative directories begin at `workspace`.
            ///
            /// # Errors
            /// A word names no capability.
            pub fn add(&mut self, words: &[String], workspace: &Path) -> Result<(), UnknownCapability> {
                for word in words {
                    let (name, value) = match word.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (word.as_str(), None),
                    };
                    let unknown = || UnknownCapability { word: word.clone(), problem: Self::problem(name, value) };
                    let more = Self::parse(name, value, workspace).ok_or_else(unknown)?;
                    self.merge(&more);
                }
                Ok(())
            }

            fn parse(name: &str, value: Option<&str>, workspace: &Path) -> Option<Self> {
                let mut table = Self::default();
                $(
                    $(#[$cfg])?
                    if name == $name::$Capability::NAME {
                        table.$name = $name::$Capability::parse(value, workspace)?;
                        return Some(table);
                    }
                )+
                None
            }

            fn problem(name: &str, value: Option<&str>) -> Option<String> {
                $(
                    $(#[$cfg])?
                    if name == $name::$Capability::NAME {
                        return $name::$Capability::problem(value);
                    }
                )+
                None
            }

            /// Adds the entries of `more`, which win over this table's entries.
            pub fn merge(&mut self, more: &Self) {
                $($(#[$cfg])? $name::$Capability::merge(&mut self.$name, &more.$name);)+
            }

            /// Removes the entries of `less`.
            pub fn remove(&mut self, less: &Self) {
                $($(#[$cfg])? $name::$Capability::remove(&mut self.$name, &less.$name);)+
            }

            /// The entries as words of the command line.
            pub fn spell_grants(&self) -> Vec<String> {
                let mut words = Vec::new();
                $($(#[$cfg])? words.extend($name::$Capability::spell_entry(&self.$name));)+
                words
            }

            /// Returns the least asks that cover the table.
            pub fn asks(&self) -> Asks {
                Asks { $($(#[$cfg])? $name: $name::$Capability::ask_for(&self.$name),)+ }
            }

            /// Resolves the entries.
            pub fn resolve(&self, context: &GrantContext<'_>) -> Grants {
                Grants { $($(#[$cfg])? $name: $name::$Capability::resolve(&self.$name, context),)+ }
            }
        }

        impl Grants {
            /// Adds other grants. Where both grant something, the wider one counts, or else `more`.
            pub fn widen(&mut self, more: Self) {
                $($(#[$cfg])? $name::$Capability::widen(&mut self.$name, more.$name);)+
            }

            /// Cuts the grants to the asks.
            #[must_use]
            pub(crate) fn cut_to(mut self, asks: &Asks) -> Self {
                $($(#[$cfg])? $name::$Capability::cut(&mut self.$name, asks.$name.clone());)+
                self
            }

            /// Returns whether something is granted, and all its functions only wait for MCP servers.
            pub(crate) fn only_wait(&self) -> bool {
                let (mut only_wait, mut is_any) = (true, false);
                $(
                    $(#[$cfg])?
                    if $name::$Capability::held(&self.$name).is_some() {
                        is_any = true;
                        only_wait &= $name::$Capability::ONLY_WAITS;
                    }
                )+
                is_any && only_wait
            }

            /// Returns the effects that the grants make possible in calls of tools.
            pub(crate) fn effects(&self) -> Authority {
                let mut effects = Authority::default();
                $($(#[$cfg])? { effects = effects.union($name::$Capability::effects(&self.$name)); })+
                effects
            }

            /// Returns the effects that the grants make possible in slash commands.
            pub(crate) fn command_effects(&self) -> Authority {
                let mut effects = Authority::default();
                $(
                    $(#[$cfg])?
                    if $name::$Capability::FOR_COMMANDS {
                        effects = effects.union($name::$Capability::effects(&self.$name));
                    }
                )+
                effects
            }

            /// Returns the name and the verb phrase of each ask, with the granted extent.
            pub(crate) fn extents(&self, asks: &Asks) -> Vec<(&'static str, String, Option<String>)> {
                let mut extents = Vec::new();
                $(
                    $(#[$cfg])?
                    if !is_default(&asks.$name) {
                        let extent = $name::$Capability::extent(&self.$name);
                        let phrase = $name::$Capability::detailed(asks.$name.clone());
                        extents.push(($name::$Capability::NAME, phrase, extent));
                    }
                )+
                extents
            }
        }
    };
}
with_capabilities!(tables);

macro_rules! accounts {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        /// The accounts of one call.
        pub(crate) struct Accounts {
            $($(#[$cfg])? pub(crate) $name: <$name::$Capability as Capability>::Account,)+
        }

        impl Accounts {
            /// The accounts of a call that begins.
            pub(crate) fn open(limits: &Limits) -> Self {
                Self { $($(#[$cfg])? $name: <$name::$Capability as Capability>::Account::open(limits),)+ }
            }

            /// Enters all counts.
            pub(crate) fn enter(&self, ledger: &mut Ledger) {
                $($(#[$cfg])? self.$name.enter(ledger);)+
            }
        }
    };
}
with_capabilities!(accounts);

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! without_commands {
        ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {{
            let mut names = Vec::new();
            $(
                $(#[$cfg])?
                if !$name::$Capability::FOR_COMMANDS {
                    names.push(format!("`{}`", $name::$Capability::NAME));
                }
            )+
            names
        }};
    }

    #[test]
    fn contract_names_the_capabilities_that_commands_lack() {
        let contract = include_str!("../../../../wit/commands.wit").replace("\n  ///", "");
        let names = with_capabilities!(without_commands);
        let (last, others) = names.split_last().unwrap();
        let sentence = format!("granted except {} and {last}.", others.join(", "));
        assert!(contract.contains(&sentence), "`wit/commands.wit` does not say: {sentence}");
    }
}
