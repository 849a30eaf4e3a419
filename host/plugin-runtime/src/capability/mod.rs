//! Capabilities: everything that a plugin may do beyond computing, and the check that decides.
//!
//! One module per capability holds everything about it: its name, how a manifest asks for it, how the config, the command
//! line and a dialog grant it, the words that people read, its imports and its counts in the ledger. A module and its
//! row in [`with_capabilities`] are all that a capability needs; the README of this crate shows how to add one.
//!
//! Three things meet in a call. A component *asks* in its manifest ([`Asks`](table::Asks)). The user *grants* in the config
//! ([`GrantTable`](table::GrantTable), resolved to [`Grants`](table::Grants)). A tool *declares* its effects. The call's authority is the intersection,
//! and every import checks it before it acts: [`CallAuthority`](authority::CallAuthority) is the only place that decides.

pub(crate) mod authority;
pub(crate) mod definition;
pub(crate) mod table;

/// The list of capabilities: one row each, in display order. Hands the rows to a macro: the module, the type that
/// implements [`Capability`](definition::Capability), and the documentation of the fields named after the capability.
macro_rules! with_capabilities {
    ($then:ident) => {
        $then! {
            files: Files, "Directories that it may read or write.";
            process: Process, "Programs of the machine, in the sandbox of the operating system.";
            catalog: Catalog, "What is loaded and spent.";
            agents: Agents, "Sub-agents.";
            ui: Ui, "Dialogs, notices and drawings.";
            invoke: Invoke, "Calls of other tools.";
            model: Model, "Completions by models.";
            session: Session, "The conversation.";
            storage: Storage, "Values that it keeps.";
            secrets: Secrets, "Secrets that it may use.";
            http: Http, "Servers to which it may send requests.";
            mcp: Mcp, "MCP servers that it may use.";
            hooks: Hooks, "Calls before and after what the agent does.";
            #[cfg(test)] echo: Echo, "A capability of the unit tests.";
        }
    };
}
pub(crate) use with_capabilities;

/// Declares the module of each capability.
macro_rules! modules {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        $($(#[$cfg])? pub(crate) mod $name;)+
    };
}
with_capabilities!(modules);
