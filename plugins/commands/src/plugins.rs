//! `/plugins`: lists plugins, grants and failed reloads.

use crate::arguments::plain;
use pinion_plugin_sdk::catalog::{self, CapabilityInfo, PluginInfo};
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("plugins", "List plugins, grants and failed reloads", || Action::Print(plugins(&catalog::plugins())))
}

/// Lists plugins.
fn plugins(plugins: &[PluginInfo]) -> String {
    if plugins.is_empty() {
        return "No plugins are loaded.".to_owned();
    }
    plugins.iter().map(plugin_lines).collect::<Vec<_>>().join("\n")
}

fn plugin_lines(plugin: &PluginInfo) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
