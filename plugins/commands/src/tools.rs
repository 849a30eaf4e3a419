//! `/tools`: lists tools and their authority.

use crate::arguments::plain;
use crate::table::table;
use pinion_plugin_sdk::catalog::{self, Effects, ToolInfo};
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("tools", "List tools and their authority", || Action::Print(tools(&catalog::tools())))
}

/// Lists tools.
fn tools(tools: &[ToolInfo]) -> String {
    if tools.is_empty() {
        return "No tools are loaded.".to_owned();
    }
    let row = |tool: &ToolInfo| {
        [tool.name.clone(), tool.plugin.clone(), describe_effects(tool.effects), tool.description.clone()]
    };
    table(["tool", "plugin", "authority", "description"], &tools.iter().map(row).collect::<Vec<_>>())
}

/// Puts effects into words.
fn describe_effects(effects: Effects) -> String {
    let has = |effect| effects.contains(effect);
    let words = [
        (has(Effects::READS) && !has(Effects::WRITES), "reads files"),
        (has(Effects::WRITES), "writes files"),
        (has(Effects::EXECUTES), "runs programs"),
        (has(Effects::NETWORK), "uses the network"),
        (has(Effects::DELEGATES), "asks models or starts agents"),
    ];
    words.into_iter().filter_map(|(has, word)| has.then_some(word)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
