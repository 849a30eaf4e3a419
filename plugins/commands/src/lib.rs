//! The built-in slash commands.
//!
//! The commands read what they display from the host's `catalog` and return effects, which the host carries out. This
//! crate decides only which command has which effect and how the output reads.

mod complete;
mod init;
mod show;
mod table;

use complete::matching;
use pinion_plugin_sdk::catalog;
use pinion_plugin_sdk::prelude::*;

/// The plugin.
pub struct Commands;

impl Plugin for Commands {
    fn commands() -> Vec<Command> {
        vec![
            Command::new("help", "List commands, or describe one", |typed, _call| {
                Ok(vec![Action::Print(show::help(&catalog::commands(), typed.trim())?)])
            })
            .argument("[command]")
            .complete(|typed| {
                let commands = catalog::commands();
                let names = commands.iter().map(|command| (command.name.as_str(), Some(command.description.as_str())));
                matching(names, typed)
            }),
            plain("tools", "List tools and their authority", || Action::Print(show::tools(&catalog::tools()))),
            plain("plugins", "List plugins, grants and failed reloads", || {
                Action::Print(show::plugins(&catalog::plugins()))
            }),
            plain("reload", "Reload changed plugins", || Action::ReloadPlugins),
            Command::new("model", "Switch the model, or list models", |typed, _call| {
                Ok(vec![match one_word("model", typed)? {
                    Some(name) => Action::SetModel(name),
                    None => Action::Print(show::models(&catalog::models())),
                }])
            })
            .argument("[name]")
            .complete(|typed| {
                let models = catalog::models();
                matching(models.iter().map(|model| (model.name.as_str(), model.current.then_some("in use"))), typed)
            }),
            plain("new", "Start a new session", || Action::NewSession),
            plain("clear", "Start a new session", || Action::NewSession),
            Command::new("resume", "Resume a session, or list sessions", |typed, _call| {
                Ok(vec![Action::Resume(one_word("resume", typed)?)])
            })
            .argument("[id]"),
            plain("fork", "Continue in a copy of the session", || Action::Fork),
            Command::new("compact", "Replace the conversation with a summary", |typed, _call| {
                let instructions = typed.trim();
                Ok(vec![Action::Compact((!instructions.is_empty()).then(|| instructions.to_owned()))])
            })
            .argument("[focus]"),
            Command::new("init", "Have the agent write AGENTS.md, or improve it", |typed, _call| {
                Ok(vec![Action::Submit(init::prompt(typed.trim()))])
            })
            .argument("[wishes]"),
            plain("cost", "Show tokens and money spent", || Action::Print(show::usage(&catalog::usage()))),
            plain("quit", "Quit Pinion", || Action::Quit),
            plain("exit", "Quit Pinion", || Action::Quit),
        ]
    }
}

export!(Commands, exports = [commands], asks = { "catalog": true });

/// Creates a command that takes no arguments and has one action.
fn plain(name: &'static str, description: &str, action: impl Fn() -> Action + 'static) -> Command {
    Command::new(name, description, move |typed, _call| {
        if !typed.trim().is_empty() {
            return Err(format!("`/{name}` takes no arguments"));
        }
        Ok(vec![action()])
    })
}

fn one_word(command: &str, typed: &str) -> Result<Option<String>, String> {
    let mut words = typed.split_whitespace();
    match (words.next(), words.next()) {
        (_, Some(_)) => Err(format!("`/{command}` takes one word")),
        (word, None) => Ok(word.map(str::to_owned)),
    }
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
}
