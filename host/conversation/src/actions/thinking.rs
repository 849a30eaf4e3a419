//! Shows or changes how much the model thinks.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::modes::set_thinking;
use pinion_agent::Agent;
use pinion_agent::provider::ThinkingLevel;
use pinion_app::workspace_base::Base;
use pinion_app::options::THINKING_LEVELS;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChangeThinking = ChangeThinking;

/// The action `thinking`.
pub(super) struct ChangeThinking;

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
