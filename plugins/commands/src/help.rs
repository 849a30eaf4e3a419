//! `/help`: lists commands, or describes one.

use crate::complete::matching;
use crate::table::table;
use pinion_plugin_sdk::catalog::{self, CommandInfo};
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("help", "List commands, or describe one", |typed, _call| {
        Ok(vec![Action::Print(help(&catalog::commands(), typed.trim())?)])
    })
    .argument("[command]")
    .complete(|typed| {
        let commands = catalog::commands();
        matching(commands.iter().map(|command| (command.name.as_str(), Some(command.description.as_str()))), typed)
    })
}

/// The end of the list of commands.
const MORE: &str = "`/help COMMAND` describes a command, `/keys` shows the keys.";

/// Lists all commands, or describes the one called `name`; a leading slash is optional.
///
/// # Errors
/// No command has this name.
fn help(commands: &[CommandInfo], name: &str) -> Result<String, String> {
    let name = name.trim_start_matches('/');
    if !name.is_empty() {
        let command = commands.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| format!("no command `/{name}`; `/help` lists all commands"))?;
        return Ok(format!("`{}`: {} (plugin {})", usage_of(command), command.description, command.plugin));
    }
    let mut rows: Vec<[String; 3]> = commands
        .iter()
        .map(|command| [usage_of(command), command.description.clone(), command.plugin.clone()])
        .collect();
    rows.sort();
    Ok(format!("{}\n\n{MORE}", table(["command", "description", "plugin"], &rows)))
}

fn usage_of(command: &CommandInfo) -> String {
    let hint = command.argument_hint.iter().map(|hint| format!(" {hint}"));
    format!("/{}{}", command.name, hint.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, hint: Option<&str>) -> CommandInfo {
        CommandInfo {
            name: name.into(),
            description: format!("Does {name}"),
            argument_hint: hint.map(Into::into),
            plugin: "commands".into(),
        }
    }

    #[test]
    fn help_lists_the_commands_by_name() {
        let help = help(&[command("model", Some("[name]")), command("help", None)], "").unwrap();
        let expected = "\
| command | description | plugin |
|---|---|---|
| /help | Does help | commands |
| /model [name] | Does model | commands |";
        assert_eq!(help, format!("{expected}\n\n{MORE}"));
    }

    #[test]
    fn help_describes_one_command() {
        let commands = [command("model", Some("[name]"))];
        assert_eq!(help(&commands, "/model").unwrap(), "`/model [name]`: Does model (plugin commands)");
        assert_eq!(help(&commands, "x").unwrap_err(), "no command `/x`; `/help` lists all commands");
    }
}
