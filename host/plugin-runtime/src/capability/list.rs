//! The list of capabilities: one row each, in display order.

/// Hands the rows to a macro: the module, the type that implements
/// [`Capability`](super::definition::Capability), and the documentation of the fields named after the capability.
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
