//! Output of the commands, in Markdown.

use crate::table::table;
use pinion_plugin_sdk::catalog::{CapabilityInfo, CommandInfo, Effects, ModelInfo, PluginInfo, ToolInfo, UsageInfo};

/// The end of the list of commands.
const MORE: &str = "`/help COMMAND` describes a command, `/keys` shows the keys.";

/// Lists all commands, or describes the one called `name`; a leading slash is optional.
///
/// # Errors
/// No command has this name.
pub(crate) fn help(commands: &[CommandInfo], name: &str) -> Result<String, String> {
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

/// Lists tools.
pub(crate) fn tools(tools: &[ToolInfo]) -> String {
    if tools.is_empty() {
        return "No tools are loaded.".to_owned();
    }
    let row = |tool: &ToolInfo| [tool.name.clone(), tool.plugin.clone(), words(tool.effects), tool.description.clone()];
    table(["tool", "plugin", "authority", "description"], &tools.iter().map(row).collect::<Vec<_>>())
}

/// Puts effects into words.
fn words(effects: Effects) -> String {
    let has = |effect| effects.contains(effect);
    let words = [
        (has(Effects::READS) && !has(Effects::WRITES), "reads files"),
        (has(Effects::WRITES), "writes files"),
        (has(Effects::EXECUTES), "runs programs"),
        (has(Effects::NETWORK), "uses the network"),
        (has(Effects::DELEGATES), "starts agents"),
    ];
    words.into_iter().filter_map(|(has, word)| has.then_some(word)).collect::<Vec<_>>().join(", ")
}

/// Lists plugins.
pub(crate) fn plugins(plugins: &[PluginInfo]) -> String {
    if plugins.is_empty() {
        return "No plugins are loaded.".to_owned();
    }
    plugins.iter().map(plugin).collect::<Vec<_>>().join("\n")
}

fn plugin(plugin: &PluginInfo) -> String {
    let PluginInfo { name, version, description, generation, source, .. } = plugin;
    let mut lines = vec![format!("- `{name}` {version}: {description}")];
    lines.push(format!("  - generation {generation}, {source}"));
    if !plugin.capabilities.is_empty() {
        let granted = |capability: &CapabilityInfo| match &capability.granted {
            Some(extent) => format!("{}: granted{extent}", capability.description),
            None => format!("{}: not granted", capability.description),
        };
        lines.push(format!("  - {}", plugin.capabilities.iter().map(granted).collect::<Vec<_>>().join(", ")));
    }
    if let Some(problem) = &plugin.problem {
        lines.push(format!("  - last reload failed: {}", problem.replace('\n', "\n    ")));
    }
    lines.join("\n")
}

/// Lists the known models.
pub(crate) fn models(models: &[ModelInfo]) -> String {
    if models.is_empty() {
        return "No known models. `/model PROVIDER/NAME` accepts any.".to_owned();
    }
    let line = |model: &ModelInfo| format!("- {}{}", model.name, if model.current { " (in use)" } else { "" });
    models.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Summarizes the spending of the session.
pub(crate) fn usage(usage: &UsageInfo) -> String {
    if usage.requests == 0 {
        return "Nothing spent in this session yet.".to_owned();
    }
    let cost = usage.cost.map_or_else(|| "unknown: no prices for this model".to_owned(), dollars);
    let rows = [
        ("requests", grouped(usage.requests)),
        ("input tokens", grouped(usage.input_tokens)),
        ("output tokens", grouped(usage.output_tokens)),
        ("tokens read from cache", grouped(usage.cache_read_tokens)),
        ("tokens written to cache", grouped(usage.cache_write_tokens)),
        ("cost", cost),
    ];
    table(["this session", "spent"], &rows.map(|(name, value)| [name.to_owned(), value]))
}

/// Formats US dollars, with more digits below one dollar because most sessions cost less.
fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Formats a number with thousands separators.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

    #[test]
    fn tools_show_their_authority() {
        let tool = ToolInfo {
            name: "read".into(),
            description: "Reads a file. ".repeat(20),
            plugin: "fs".into(),
            effects: Effects::READS,
        };
        let text = tools(&[tool]);
        assert!(text.lines().last().unwrap().starts_with("| read | fs | reads files | Reads a file. Reads"), "{text}");
        assert_eq!(tools(&[]), "No tools are loaded.");
    }

    #[test]
    fn plugins_show_grants_and_problems() {
        let plugin = PluginInfo {
            name: "fs".into(),
            version: "0.1.0".into(),
            description: "Files".into(),
            generation: 2,
            source: "built-in".into(),
            capabilities: vec![
                CapabilityInfo {
                    name: "files".into(),
                    description: "write files".into(),
                    granted: Some(" in .".into()),
                },
                CapabilityInfo { name: "process".into(), description: "run programs".into(), granted: None },
            ],
            problem: Some("cannot load".into()),
        };
        let expected = "\
- `fs` 0.1.0: Files
  - generation 2, built-in
  - write files: granted in ., run programs: not granted
  - last reload failed: cannot load";
        assert_eq!(plugins(&[plugin]), expected);
    }

    #[test]
    fn model_in_use_is_marked() {
        let model = |name: &str, current| ModelInfo { name: name.into(), current };
        assert_eq!(models(&[model("a", false), model("b", true)]), "- a\n- b (in use)");
    }

    #[test]
    fn usage_is_formatted_for_people() {
        let spent = UsageInfo {
            requests: 3,
            input_tokens: 1_234_567,
            output_tokens: 89,
            cache_read_tokens: 1_000,
            cache_write_tokens: 0,
            cost: Some(0.01234),
        };
        let text = usage(&spent);
        assert!(text.contains("| input tokens | 1,234,567 |"), "{text}");
        assert!(text.contains("| $0.0123 |"), "{text}");
        assert!(usage(&UsageInfo { cost: None, ..spent }).contains("unknown"));
        assert!(usage(&UsageInfo { requests: 0, ..spent }).starts_with("Nothing"));
    }
}
