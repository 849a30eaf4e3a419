//! Lists the rules about calls, or removes one.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::permission_rules;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChangePermissions = ChangePermissions;

/// The action `permissions`.
pub(super) struct ChangePermissions;

impl ConversationAction for ChangePermissions {
    fn name(&self) -> &'static str {
        "permissions"
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        let removable = permission_rules::removable(&base.permissions).into_iter();
        Some(removable.map(|(number, rule)| choice(&format!("remove {number}"), &rule)).collect())
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        Some(permission_rules::in_conversation(&scene.base.permissions, arguments))
    }
}
