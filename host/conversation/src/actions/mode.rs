//! Shows or changes what needs approval.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::modes::describe;
use pinion_agent::Agent;
use pinion_agent::approval::ApprovalMode;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChangeMode = ChangeMode;

/// The action `mode`.
pub(super) struct ChangeMode;

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
