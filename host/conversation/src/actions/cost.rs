//! Shows the cost of the conversation, by turn, tool, server or file, and the reasons.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::cost::{CostGroup, cost_table, reasons};
use clap::ValueEnum as _;
use pinion_agent::Event;
use pinion_app::model::attribution::conversation_id;
use pinion_app::workspace_base::Base;
use pinion_session_store::{History, SessionDirectory};
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ShowCost = ShowCost;

/// The action `cost`.
pub(super) struct ShowCost;

/// The argument that asks for reasons.
const WHY: &str = "why";

impl ConversationAction for ShowCost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(vec![
            choice("turn", "the cost of each of your turns"),
            choice(WHY, "lost caches, the next request, and the largest parts"),
            choice("tool", "the cost of the results of each tool"),
            choice("server", "the cost of the results of each MCP server"),
            choice("file", "the cost of each file that was read"),
        ])
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        let conversation = conversation_id(scene.agent);
        Some(match arguments.trim() {
            WHY => reasons(scene.base, &conversation),
            "" => format!("{}\n`/cost why` names reasons.", cost_table(CostGroup::Turn, &events(scene, &conversation))),
            named => match CostGroup::from_str(named, true) {
                Ok(group) => cost_table(group, &events(scene, &conversation)),
                Err(_) => "`/cost` takes `turn`, `why`, `tool`, `server` or `file`".to_owned(),
            },
        })
    }
}

/// Returns the events of a conversation: from its file, or else of the messages that the model sees.
fn events(scene: &ActionScene<'_>, conversation: &str) -> Vec<Event> {
    let file = SessionDirectory::new(scene.base.paths.sessions()).find(conversation).ok();
    let stored = file.and_then(|file| Some((History::read(&file).ok()?, file)));
    match stored {
        Some((history, file)) => history.into_events(Some(&file)),
        None => History { messages: scene.agent.history(), records: Vec::new() }.into_events(None),
    }
}
