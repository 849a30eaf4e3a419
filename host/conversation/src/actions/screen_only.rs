//! Actions that exist only on the full screen, which carries each of them out by a command of its own.

use crate::actions::definition::ConversationAction;
use crate::full::{lists, themes};
use crate::plan::list_plans;
use pinion_app::workspace_base::Base;
use pinion_tui::{Pick, PickChoice, UiCommand};

/// Chooses the model in a list.
pub(super) const CHOOSE_MODEL: ScreenAction =
    ScreenAction { is_for_all_plugins: true, ..ScreenAction::new("choose-model", UiCommand::ChooseModel) };

/// Chooses the session to resume in a list.
pub(super) const CHOOSE_SESSION: ScreenAction = ScreenAction {
    is_for_all_plugins: true,
    arguments: Some(|base| lists::sessions(base, Pick::Session)),
    ..ScreenAction::new("choose-session", UiCommand::ChooseSession)
};

/// Copies an answer or a code block.
pub(super) const COPY: ScreenAction =
    ScreenAction { is_for_all_plugins: true, ..ScreenAction::new("copy", UiCommand::Copy) };

/// Opens a plan in the external editor.
pub(super) const EDIT_PLAN: ScreenAction = ScreenAction {
    arguments: Some(|base| list_plans(&base.workspace)),
    ..ScreenAction::new("edit-plan", UiCommand::EditPlan)
};

/// Opens the external editor.
pub(super) const EDITOR: ScreenAction =
    ScreenAction { is_for_all_plugins: true, ..ScreenAction::new("editor", UiCommand::Edit) };

/// Executes a plan in a new session.
pub(super) const EXECUTE: ScreenAction = ScreenAction {
    arguments: Some(|base| list_plans(&base.workspace)),
    ..ScreenAction::new("execute", UiCommand::Execute)
};

/// Writes a plan, or switches plan mode.
pub(super) const PLAN: ScreenAction = ScreenAction::new("plan", UiCommand::Plan);

/// Ends the conversation, also while the agent works.
pub(super) const QUIT: ScreenAction =
    ScreenAction { is_for_all_plugins: true, ..ScreenAction::new("quit", UiCommand::Quit) };

/// Lists the settings of the UI.
pub(super) const SETTINGS: ScreenAction =
    ScreenAction { is_for_all_plugins: true, ..ScreenAction::new("settings", UiCommand::Settings) };

/// Changes the colours.
pub(super) const THEME: ScreenAction = ScreenAction {
    is_for_all_plugins: true,
    arguments: Some(themes::list),
    ..ScreenAction::new("theme", UiCommand::Theme)
};

/// An action that exists only on the full screen.
pub(super) struct ScreenAction {
    name: &'static str,
    command: UiCommand,
    is_for_all_plugins: bool,
    /// Values for its arguments. Blocks.
    arguments: Option<fn(&Base) -> Vec<PickChoice>>,
}

impl ScreenAction {
    /// Creates an action for commands of built-in plugins, whose arguments the command's plugin completes.
    const fn new(name: &'static str, command: UiCommand) -> Self {
        Self { name, command, is_for_all_plugins: false, arguments: None }
    }
}

impl ConversationAction for ScreenAction {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_for_all_plugins(&self) -> bool {
        self.is_for_all_plugins
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(self.command)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        self.arguments.map(|list| list(base))
    }
}
