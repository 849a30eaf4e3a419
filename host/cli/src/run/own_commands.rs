//! Slash commands of pinion itself, which act on the conversation. All others come from plugins.

use crate::run::context_report::context_report;
use pinion_agent::Agent;
use pinion_plugin_runtime::HostCommand;

/// The commands of every conversation.
pub(crate) const COMMANDS: &[HostCommand] =
    &[HostCommand { name: "context", hint: "", description: "Show what fills the context" }];

/// Runs a command of pinion itself and returns the Markdown that it prints; `None` if there is none with this name.
pub(crate) fn run(name: &str, agent: &Agent) -> Option<String> {
    (name == "context").then(|| context_report(agent))
}
