//! `/keep`: writes a choice of this conversation to the user's config, so that all others begin with it.

use pinion_agent::Agent;
use pinion_app::base::Base;
use pinion_app::config::edit;
use pinion_app::options::THINKING_LEVELS;

/// Name of the command.
pub(super) const NAME: &str = "keep";
/// The choices that can be kept.
pub(super) const CHOICES: [&str; 4] = ["mode", "model", "theme", "thinking"];

/// Keeps a choice and returns Markdown about that. `theme` is the one that the user has chosen in this conversation.
pub(super) fn keep(choice: &str, agent: &Agent, base: &Base, theme: Option<&str>) -> String {
    let config = agent.config();
    let (key, value) = match choice {
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
        _ => return format!("`/{NAME}` takes one of: {}", CHOICES.join(", ")),
    };
    match edit::change(&base.paths, key, Some(&value)) {
        Ok(()) => format!("`{key} = \"{value}\"` is in `{}` now", base.paths.config_file().display()),
        Err(failure) => failure.to_string(),
    }
}
