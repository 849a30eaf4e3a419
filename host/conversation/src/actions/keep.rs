//! `/keep`: writes a choice of this conversation to the user's config, so that all others begin with it.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use pinion_agent::Agent;
use pinion_app::workspace_base::Base;
use pinion_app::config::edit;
use pinion_app::options::THINKING_LEVELS;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: KeepChoice = KeepChoice;

/// The action `keep`.
pub(super) struct KeepChoice;

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
