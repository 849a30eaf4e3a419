//! Actions on the choices of a conversation: the approval mode, how much the model thinks, and keeping a choice for all
//! conversations.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::modes::{describe, set_thinking};
use pinion_agent::Agent;
use pinion_agent::approval::ApprovalMode;
use pinion_agent::provider::ThinkingLevel;
use pinion_app::config::edit;
use pinion_app::options::THINKING_LEVELS;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// Shows or changes the approval mode.
pub(super) const MODE: ChangeMode = ChangeMode;

/// Shows or changes how much the model thinks.
pub(super) const THINKING: ChangeThinking = ChangeThinking;

/// Writes a choice of this conversation to the user's config, so that all others begin with it.
pub(super) const KEEP: KeepChoice = KeepChoice;

/// The action `mode`.
pub(super) struct ChangeMode;

/// The action `thinking`.
pub(super) struct ChangeThinking;

/// The action `keep`.
pub(super) struct KeepChoice;

impl ConversationAction for ChangeMode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Mode)
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(ApprovalMode::every().map(|mode| choice(mode.name(), describe(mode))).into())
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        Some(mode(arguments, scene.agent))
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
        format!("{mark} {:<7} {}\n", mode.name(), describe(*mode))
    };
    let kept = if name.is_empty() { "" } else { "\n`/keep mode` keeps it for all conversations." };
    format!("```\n{}```{kept}", modes.iter().map(row).collect::<String>())
}

impl ConversationAction for ChangeThinking {
    fn name(&self) -> &'static str {
        "thinking"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(THINKING_LEVELS.map(|(name, _)| choice(name, "")).into())
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        Some(thinking(arguments, scene.agent))
    }
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

impl ConversationAction for KeepChoice {
    fn name(&self) -> &'static str {
        "keep"
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(CHOICES.map(|name| choice(name, "")).into())
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        Some(keep(arguments, scene.agent, scene.base, scene.theme))
    }
}

/// The choices that can be kept.
const CHOICES: [&str; 4] = ["mode", "model", "theme", "thinking"];

/// Keeps a choice and returns Markdown about that. `theme` is the one that the user has chosen in this conversation.
fn keep(kept: &str, agent: &Agent, base: &Base, theme: Option<&str>) -> String {
    let config = agent.config();
    let (key, value) = match kept {
        "mode" => ("approve", config.ports.approval.mode().name().to_owned()),
        "model" if base.exchanges.is_scripted() => return "a script replaces the model".to_owned(),
        "model" => ("model", format!("{}/{}", config.ports.provider.name(), config.policy.model.name)),
        "theme" => match theme {
            Some(theme) => ("tui.theme", theme.to_owned()),
            None => return "choose a theme first, with `/theme`".to_owned(),
        },
        "thinking" => {
            let now = config.policy.options.thinking;
            let name = THINKING_LEVELS.iter().find(|(_, level)| *level == now).map_or("off", |(name, _)| *name);
            ("thinking", name.to_owned())
        }
        _ => return format!("`/keep` takes one of: {}", CHOICES.join(", ")),
    };
    match edit::change(&base.paths, key, Some(&value)) {
        Ok(()) => format!("`{key} = \"{value}\"` is in `{}` now", base.paths.config_file().display()),
        Err(failure) => failure.to_string(),
    }
}
