//! The contract of an action that slash commands name, and completions of their arguments.

use crate::chat::Chat;
use crate::conversation_output::Voice;
use crate::perform::NextPrompt;
use pinion_agent::Agent;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_agent::text::find_unsafe;
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_plugin_runtime::{ActionInfo, Completion, Runtime};
use pinion_tui::{PickChoice, UiCommand, matching};

/// Maximum bytes of a completion.
const MAX_INSERT: usize = 4_000;

/// Actions, one row each.
pub(crate) type ActionTable = &'static [&'static dyn ConversationAction];

/// An action on the conversation. Commands of plugins name it; the user's input after the command's name is its arguments.
pub(crate) trait ConversationAction: Sync {
    /// Returns the name by which commands know it.
    fn name(&self) -> &'static str;

    /// Returns whether commands of all plugins may cause it. Only if it changes neither authority nor files nor the config.
    fn is_for_all_plugins(&self) -> bool {
        false
    }

    /// Returns whether it exists only on the full screen.
    fn is_only_on_screen(&self) -> bool {
        false
    }

    /// Returns the way in which the full screen performs it: at once. `None` if it waits for its turn, like a message.
    fn on_screen(&self) -> Option<UiCommand> {
        None
    }

    /// Returns values for its arguments; `None` if the command's plugin completes them. Blocks.
    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        None
    }

    /// Performs it at once, also while the agent works, and returns the Markdown to show; `None` if it has to wait.
    fn perform_at_once(&self, _scene: &ActionScene<'_>, _arguments: &str) -> Option<String> {
        None
    }

    /// Performs it between two runs.
    ///
    /// # Errors
    /// It failed, or needs the full screen.
    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let scene = ActionScene { agent: &chat.ready.agent, base: chat.base, theme: None };
            match self.perform_at_once(&scene, arguments) {
                Some(page) => chat.page(&page),
                None if matches!(chat.voice, Voice::Lines { .. }) => {
                    let failure = Failure::usage(format!("`{}` works only on the full screen", self.name()));
                    return Err(failure.hint("start `pinion --ui full`"));
                }
                None => {
                    let failure = format!("`{}` works only for a command whose definition names it", self.name());
                    return Err(Failure::usage(failure));
                }
            }
            Ok(NextPrompt::default())
        })
    }
}

/// The parts of a conversation that an action can use while the agent works.
pub(crate) struct ActionScene<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) base: &'a Base,
    /// The theme that the user has chosen in this conversation.
    pub(crate) theme: Option<&'a str>,
}

/// Finds an action by its name.
pub(crate) fn find_action(actions: ActionTable, name: &str) -> Option<&'static dyn ConversationAction> {
    actions.iter().find(|action| action.name() == name).copied()
}

/// Describes actions for the runtime of plugins, in a form of conversation.
pub(crate) fn describe_actions(actions: ActionTable, is_screen: bool) -> Vec<ActionInfo> {
    let info = |action: &&dyn ConversationAction| ActionInfo {
        name: action.name(),
        is_reserved: !action.is_for_all_plugins(),
        is_available: is_screen || !action.is_only_on_screen(),
    };
    actions.iter().map(info).collect()
}

/// Creates a value of an argument.
pub(crate) fn choice(value: &str, detail: &str) -> PickChoice {
    PickChoice { value: value.to_owned(), label: value.to_owned(), detail: detail.to_owned() }
}

/// Completes the argument of a slash command: from the action that it names, or else from its plugin. Values that cannot be shown unchanged are skipped.
pub(crate) async fn complete_argument(
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
