//! Completions of the arguments of slash commands: from the action that a command names, or else from its plugin.

use crate::actions::definition::{ActionTable, find_action};
use pinion_agent::text::find_unsafe;
use pinion_app::workspace_base::Base;
use pinion_plugin_runtime::{Completion, Runtime};
use pinion_tui::{PickChoice, matching};

/// Maximum bytes of a completion.
const MAX_INSERT: usize = 4_000;

/// Completes the argument of a slash command. Values that cannot be shown unchanged are skipped.
pub(super) async fn complete_argument(
    base: &Base,
    runtime: &Runtime,
    actions: ActionTable,
    command: &str,
    argument: &str,
) -> Vec<PickChoice> {
    if let Some(action) = runtime.completed_action(command).and_then(|name| find_action(actions, &name)) {
        let base = base.clone();
        let listed = tokio::task::spawn_blocking(move || action.arguments(&base)).await;
        if let Ok(Some(choices)) = listed {
            return matching(argument, choices.into_iter().filter(|choice| is_plain(&choice.value)).collect());
        }
    }
    let values = runtime.complete(command, argument).await;
    let values = values.into_iter().filter(|completion| is_plain(&completion.value));
    let choice = |completion: Completion| PickChoice {
        label: completion.value.clone(),
        value: completion.value,
        detail: completion.description.unwrap_or_default(),
    };
    values.map(choice).collect()
}

fn is_plain(value: &str) -> bool {
    value.len() <= MAX_INSERT && find_unsafe(value, false).is_none()
}
