//! The approval mode and the thinking level of a conversation.

use pinion_agent::Agent;
use pinion_agent::approval::ApprovalMode;
use pinion_agent::provider::ThinkingLevel;
use pinion_app::options::THINKING_LEVELS;

/// Sets the thinking level. The budgets of all levels are among the options.
pub(crate) fn set_thinking(agent: &Agent, level: ThinkingLevel) {
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
        ApprovalMode::Confirm => "reads, and asks before edits and programs",
        ApprovalMode::Smart => "asks before calls that leave the sandbox",
        ApprovalMode::Edits => "edits files of the project and asks before programs",
        ApprovalMode::Plan => "only reads",
        ApprovalMode::All => "runs every call without asking",
    }
}
