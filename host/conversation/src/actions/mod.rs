//! The actions that slash commands name, one row each in the table below.

pub(crate) mod definition;

use crate::actions::definition::ActionTable;

/// Declares the modules of actions: first modules with one action, whose `ACTION` is a row of the table, then modules with
/// several, each with its rows.
macro_rules! actions {
    ($($module:ident),* $(,)?; $($several:ident: [$($action:ident),* $(,)?]),* $(,)?) => {
        $(mod $module;)*
        $(mod $several;)*
        /// All actions.
        pub(crate) const ACTIONS: ActionTable = &[$(&$module::ACTION,)* $($(&$several::$action,)*)*];
    };
}

actions! {
    btw,
    compaction,
    cost,
    export,
    mcp,
    network,
    permissions,
    pin;
    choices: [KEEP, MODE, THINKING],
    pages: [AGENTS, CONTEXT, DIFF, KEYS],
    rewind: [REDO, REWIND, UNDO],
    screen_only: [CHOOSE_MODEL, CHOOSE_SESSION, COPY, EDIT_PLAN, EDITOR, EXECUTE, PLAN, QUIT, SETTINGS, THEME],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn only_harmless_actions_are_for_all_plugins() {
        let open: BTreeSet<&str> =
            ACTIONS.iter().filter(|action| action.is_for_all_plugins()).map(|action| action.name()).collect();
        let expected = BTreeSet::from([
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
        ]);
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
        let names: BTreeSet<&str> = ACTIONS.iter().map(|action| action.name()).collect();
        assert_eq!(names.len(), ACTIONS.len());
    }

    #[test]
    fn action_of_the_screen_alone_has_its_way_there() {
        for action in ACTIONS.iter().filter(|action| action.is_only_on_screen()) {
            assert!(action.on_screen().is_some(), "{}", action.name());
        }
    }
}
