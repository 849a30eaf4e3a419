//! The actions that slash commands name: one file each, and one row each in the table below.

pub(crate) mod definition;

use crate::actions::definition::ActionTable;

/// Declares the module of each action, whose `ACTION` is a row of the table.
macro_rules! actions {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        /// All actions.
        pub(crate) const ACTIONS: ActionTable = &[$(&$module::ACTION),*];
    };
}

actions! {
    agents,
    btw,
    choose_model,
    choose_session,
    compaction,
    context,
    copy,
    cost,
    diff,
    edit_plan,
    editor,
    execute,
    export,
    keep,
    keys,
    mcp,
    mode,
    network,
    permissions,
    pin,
    plan,
    quit,
    redo,
    rewind,
    settings,
    theme,
    thinking,
    undo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_actions_are_for_all_plugins() {
        let open: Vec<&str> =
            ACTIONS.iter().filter(|action| action.is_for_all_plugins()).map(|action| action.name()).collect();
        let expected = [
            "agents",
            "btw",
            "choose-model",
            "choose-session",
            "context",
            "copy",
            "cost",
            "diff",
            "editor",
            "keys",
            "quit",
            "settings",
            "theme",
            "thinking",
        ];
        assert_eq!(open, expected);
    }

    #[test]
    fn every_action_is_documented_for_authors() {
        let page = include_str!("../../../../docs/plugins/commands.md");
        for action in ACTIONS {
            let name = format!("`{}`", action.name());
            let row = page.lines().find(|line| line.split('|').nth(1).is_some_and(|cell| cell.contains(&name)));
            let readers = if action.is_for_all_plugins() { "| all plugins |" } else { "| built-in plugins |" };
            assert!(row.is_some_and(|row| row.ends_with(readers)), "{name}: {row:?}");
        }
    }

    #[test]
    fn names_of_actions_differ() {
        let names: std::collections::HashSet<&str> = ACTIONS.iter().map(|action| action.name()).collect();
        assert_eq!(names.len(), ACTIONS.len());
    }

    #[test]
    fn action_of_the_screen_alone_has_its_way_there() {
        for action in ACTIONS.iter().filter(|action| action.is_only_on_screen()) {
            assert!(action.on_screen().is_some(), "{}", action.name());
        }
    }
}
