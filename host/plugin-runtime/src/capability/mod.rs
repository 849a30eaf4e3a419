//! Capabilities: everything that a plugin may do beyond computing, and the check that decides.
//!
//! One module per capability holds everything about it: its name, how a manifest asks for it, how the config, the command
//! line and a dialog grant it, the words that people read, its imports and its counts in the ledger. A module and its
//! row in [`list`] are all that a capability needs; the README of this crate shows how to add one.
//!
//! Three things meet in a call. A component *asks* in its manifest ([`Asks`](table::Asks)). The user *grants* in the config
//! ([`GrantTable`](table::GrantTable), resolved to [`Grants`](table::Grants)). A tool *declares* its effects. The call's authority is the intersection,
//! and every import checks it before it acts: [`CallAuthority`](authority::CallAuthority) is the only place that decides.

pub(crate) mod authority;
pub(crate) mod definition;
pub(crate) mod list;
pub(crate) mod table;

/// Declares the module of each capability.
macro_rules! modules {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        $($(#[$cfg])? pub(crate) mod $name;)+
    };
}
list::with_capabilities!(modules);
