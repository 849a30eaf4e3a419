//! Slash commands of pinion itself, which act on the conversation. All others come from plugins.

use crate::commands::permissions;
use crate::run::context_report::context_report;
use crate::run::{aside, export, keep, mcp_command, net_command};
use pinion_agent::Agent;
use pinion_agent::approval::ApprovalMode;
use pinion_agent::provider::ThinkingLevel;
use pinion_app::base::Base;
use pinion_app::options::THINKING_LEVELS;
use pinion_plugin_runtime::HostCommand;

/// The commands of every conversation.
pub(crate) const COMMANDS: &[HostCommand] = &[
    HostCommand {
        name: aside::NAME,
        hint: "<question>",
        description: "Ask beside the conversation, which does not learn of it",
    },
    HostCommand { name: "context", hint: "", description: "Show what fills the context" },
    HostCommand { name: "diff", hint: "[turn|session]", description: "Show what the agent changed" },
    HostCommand {
        name: export::NAME,
        hint: "[file.md|file.html]",
        description: "Write the session to a file as a document",
    },
    HostCommand {
        name: keep::NAME,
        hint: "<mode|model|theme|thinking>",
        description: "Keep a choice for all conversations",
    },
    HostCommand {
        name: mcp_command::NAME,
        hint: mcp_command::HINT,
        description: "Show MCP servers, or reconnect, switch or log in to one",
    },
    HostCommand { name: "mode", hint: "[ask|smart|edits|plan|all]", description: "Show or change what needs approval" },
    HostCommand { name: "net", hint: "[on|off|allow <host>]", description: "Show or change the network of programs" },
    HostCommand { name: "permissions", hint: "[remove <n>]", description: "List the rules about calls, or remove one" },
    HostCommand { name: "redo", hint: "", description: "Undo the last undo" },
    HostCommand { name: "rewind", hint: "[n]", description: "List turns, or undo the last N: files and conversation" },
    HostCommand {
        name: "thinking",
        hint: "[off|minimal|low|medium|high|xhigh]",
        description: "Show or change how much the model thinks",
    },
    HostCommand { name: "undo", hint: "", description: "Undo the last turn: files and conversation" },
];

/// Returns whether [`run`] has a command, which then takes effect at once, also while the agent works.
pub(crate) fn is_immediate(name: &str) -> bool {
    matches!(name, "context" | keep::NAME | "mode" | "net" | "permissions" | "thinking")
}

/// Runs a command of pinion itself and returns the Markdown that it prints; `None` if pinion has no command with this
/// name.
pub(crate) fn run(name: &str, arguments: &str, agent: &Agent, base: &Base) -> Option<String> {
    match name {
        "context" => Some(context_report(agent)),
        aside::NAME if arguments.trim().is_empty() => Some("`/btw` takes a question".to_owned()),
        keep::NAME => Some(keep::keep(arguments.trim(), agent, base, None)),
        "mode" => Some(mode(arguments.trim(), agent)),
        "net" => Some(net_command::run(arguments.trim(), base)),
        "thinking" => Some(thinking(arguments.trim(), agent)),
        "permissions" => Some(permissions::in_conversation(&base.permissions, arguments.trim())),
        _ => None,
    }
}

/// Shows the mode, or changes it for the rest of the conversation.
fn mode(name: &str, agent: &Agent) -> String {
    let approval = agent.config().ports.approval;
    let modes = ApprovalMode::every();
    if !name.is_empty() {
        let Some(mode) = modes.iter().find(|mode| mode.name() == name) else {
            let names: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
            return format!("unknown mode; the modes are: {}", names.join(", "));
        };
        approval.set_mode(*mode);
    }
    let now = approval.mode();
    let row = |mode: &ApprovalMode| {
        let mark = if *mode == now { "→" } else { " " };
        format!("{mark} {:<6} {}\n", mode.name(), describe(*mode))
    };
    let kept = if name.is_empty() { "" } else { "\n`/keep mode` keeps it for all conversations." };
    format!("```\n{}```{kept}", modes.iter().map(row).collect::<String>())
}

/// Shows the thinking level, or changes it for the rest of the conversation.
fn thinking(name: &str, agent: &Agent) -> String {
    if !name.is_empty() {
        let Some((_, level)) = THINKING_LEVELS.iter().find(|(known, _)| *known == name) else {
            return format!("unknown level; the levels are: {}", THINKING_LEVELS.map(|(known, _)| known).join(", "));
        };
        set_thinking(agent, *level);
    }
    let now = agent.config().policy.options.thinking;
    let row = |(name, level): &(&str, ThinkingLevel)| format!("{} {name}\n", if *level == now { "→" } else { " " });
    let rows: String = THINKING_LEVELS.iter().map(row).collect();
    let kept = if name.is_empty() { "" } else { " `/keep thinking` keeps it for all conversations." };
    format!("```\n{rows}```\nThe level applies from the next message on, to models that think.{kept}")
}

/// The budgets of all levels are among the options.
fn set_thinking(agent: &Agent, level: ThinkingLevel) {
    agent.configure(|config| config.policy.options.thinking = level);
}

/// Switches to the next thinking level, after the highest one to the lowest. Returns its name.
pub(crate) fn next_thinking(agent: &Agent) -> &'static str {
    let now = agent.config().policy.options.thinking;
    let at = THINKING_LEVELS.iter().position(|(_, level)| *level == now).unwrap_or_default();
    let (name, level) = THINKING_LEVELS[(at + 1) % THINKING_LEVELS.len()];
    set_thinking(agent, level);
    name
}

/// Returns the name of the thinking level, unless it is off.
pub(crate) fn thinking_level(agent: &Agent) -> Option<&'static str> {
    let now = agent.config().policy.options.thinking;
    let named = THINKING_LEVELS.iter().find(|(_, level)| *level == now && now != ThinkingLevel::Off);
    named.map(|(name, _)| *name)
}

/// Changes the mode for the rest of the conversation, and for the calls of a run in progress that are not decided on yet.
pub(crate) fn set_mode(agent: &Agent, name: &str) {
    if let Some(mode) = ApprovalMode::every().into_iter().find(|mode| mode.name() == name) {
        agent.config().ports.approval.set_mode(mode);
    }
}

/// Describes the questions of a mode.
pub(crate) fn describe(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Ask => "asks before every call",
        ApprovalMode::Smart => "asks before calls that leave the sandbox",
        ApprovalMode::Edits => "edits files of the project and asks before programs",
        ApprovalMode::Plan => "only reads",
        ApprovalMode::All => "runs every call without asking",
    }
}
