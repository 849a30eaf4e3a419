//! The built-in slash commands: one file each, and one row each in the table below.
//!
//! The commands read what they display from the host's `catalog` and return actions, which the host carries out. Commands
//! about the conversation name an action of the host in their definition, and have no code here. This crate decides only
//! which command has which action and how the output reads.

mod arguments;
mod complete;
mod table;

use pinion_plugin_sdk::prelude::*;

/// Declares the module of each command, whose `command` creates it.
macro_rules! commands {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        const COMMANDS: &[(&str, fn() -> Command)] = &[$((stringify!($module), $module::command)),*];
    };
}

commands! {
    help,
    tools,
    plugins,
    reload,
    model,
    new,
    clear,
    resume,
    fork,
    compact,
    init,
    cost,
    quit,
    exit,
    agents,
    btw,
    context,
    copy,
    diff,
    edit_plan,
    editor,
    execute,
    export,
    keep,
    keys,
    mcp,
    mode,
    net,
    permissions,
    pin,
    plan,
    redo,
    rewind,
    settings,
    theme,
    thinking,
    undo,
}

/// The plugin.
pub struct Commands;

/// The section `[plugins.commands.config]` of the user's config.
#[derive(Deserialize, Default)]
#[serde(crate = "pinion_plugin_sdk::serde", default, deny_unknown_fields)]
struct Settings {
    /// Names of commands that other plugins offer instead.
    leave_out: Vec<String>,
}

impl Plugin for Commands {
    fn init() -> Result<(), String> {
        config::<Settings>().map(drop)
    }

    fn commands() -> Vec<Command> {
        offered(&config().unwrap_or_default())
    }
}

export!(Commands, exports = [commands, lifecycle], asks = { "catalog": true });

/// Returns the commands that the user did not leave out.
fn offered(settings: &Settings) -> Vec<Command> {
    let is_left_out =
        |name: &str| settings.leave_out.iter().any(|left| left.trim_start_matches('/').replace('-', "_") == name);
    COMMANDS.iter().filter(|(name, _)| !is_left_out(name)).map(|(_, command)| command()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    fn run(name: &str, typed: &str) -> Result<Vec<Action>, String> {
        testing::run_command::<Commands>(name, typed)
    }

    #[test]
    fn commands_have_their_effects() {
        assert!(matches!(run("new", "").unwrap()[..], [Action::NewSession]));
        assert!(matches!(run("clear", "").unwrap()[..], [Action::NewSession]));
        assert!(matches!(run("fork", "").unwrap()[..], [Action::Fork]));
        assert!(matches!(run("resume", "").unwrap()[..], [Action::Resume(None)]));
        assert!(matches!(&run("resume", "5c25").unwrap()[..], [Action::Resume(Some(id))] if id == "5c25"));
        assert!(matches!(run("reload", " ").unwrap()[..], [Action::ReloadPlugins]));
        assert!(matches!(run("quit", "").unwrap()[..], [Action::Quit]));
        assert!(matches!(run("exit", "").unwrap()[..], [Action::Quit]));
        assert!(matches!(&run("model", " a/b ").unwrap()[..], [Action::SetModel(name)] if name == "a/b"));
    }

    #[test]
    fn compact_takes_optional_instructions() {
        assert!(matches!(run("compact", " ").unwrap()[..], [Action::Compact(None)]));
        let effects = run("compact", " keep the plan ").unwrap();
        assert!(matches!(&effects[..], [Action::Compact(Some(text))] if text == "keep the plan"));
    }

    #[test]
    fn init_submits_the_task_with_the_wishes_of_the_user() {
        let task = |typed: &str| match &run("init", typed).unwrap()[..] {
            [Action::Submit(task)] => task.clone(),
            actions => panic!("{actions:?}"),
        };
        assert!(task("").contains("`AGENTS.md`") && !task(" ").contains("user"));
        assert!(task(" name the simulator ").ends_with("\n\nThe user adds: name the simulator"));
    }

    #[test]
    fn unexpected_arguments_are_rejected() {
        assert_eq!(run("quit", "now").unwrap_err(), "`/quit` takes no arguments");
        assert_eq!(run("model", "a b").unwrap_err(), "`/model` takes one word");
    }

    #[test]
    fn command_of_an_action_asks_the_host_for_it() {
        let actions = run("undo", " 2 --force ").unwrap();
        let [Action::Other(action)] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!((action.name.as_str(), action.argument.as_deref()), ("undo", Some("2 --force")));
    }

    #[test]
    fn settings_leave_commands_out() {
        let all = offered(&Settings::default()).len();
        let settings = Settings { leave_out: vec!["undo".to_owned(), "/cost".to_owned()] };
        let left: Vec<Command> = offered(&settings);
        assert_eq!(left.len(), all - 2);
    }
}
