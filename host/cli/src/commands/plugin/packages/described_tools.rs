//! Tools and commands that two versions of a component list when they are loaded.

use super::compare::VersionChanges;
use crate::commands::plugin::show::describe;
use pinion_agent::{Authority, ToolDefinition};
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_packages::{Package, PackagedComponent};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keywords of schemas that only describe.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];
/// Keywords of schemas whose members have names of the author.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords of schemas whose values are no schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "required"];

/// The lists of a loaded component.
#[derive(Default)]
pub(super) struct DescribedVersion {
    tools: Vec<Arc<ToolDefinition>>,
    declared: BTreeMap<String, Authority>,
    commands: BTreeSet<String>,
}

impl DescribedVersion {
    /// Loads a component of a package without granting it anything.
    ///
    /// # Errors
    /// It does not load.
    pub(super) async fn load(base: &Base, package: &Package, component: &PackagedComponent) -> Result<Self> {
        let bytes = package.files.get(&component.path).unwrap_or_default();
        let (info, tools) = describe(base, bytes, &component.path).await?;
        Ok(Self { tools, declared: info.offered.tools, commands: info.offered.commands })
    }

    fn declared(&self, tool: &str) -> Authority {
        self.declared.get(tool).copied().unwrap_or_default()
    }

    /// Adds the changes since an earlier version.
    pub(super) fn compare(&self, earlier: &Self, changes: &mut VersionChanges) {
        for tool in &self.tools {
            let (name, declared) = (&tool.name, self.declared(&tool.name));
            match earlier.tools.iter().find(|before| before.name == *name) {
                Some(before) => {
                    changes.grown.extend(grown_effects(name, earlier.declared(name), declared));
                    compare_definitions(before, tool, changes);
                }
                None => {
                    let effects = declared.effect_names().join(", ");
                    let effects = if effects.is_empty() { "no effects" } else { &effects };
                    changes.grown.push(format!("tool `{name}` is new ({effects})"));
                }
            }
        }
        let new = self.commands.difference(&earlier.commands);
        changes.grown.extend(new.map(|command| format!("command `/{command}` is new")));
    }
}

/// Returns a sentence for each kind of effects that a tool declares beyond those that it declared before. A tool that was
/// destructive and no longer says so is asked about less often.
fn grown_effects(tool: &str, before: Authority, now: Authority) -> Vec<String> {
    let more = Authority {
        reads: now.reads && !(before.reads || before.writes),
        writes: now.writes && !before.writes,
        executes: now.executes && !before.executes,
        network: now.network && !before.network,
        destructive: false,
        delegates: now.delegates && !before.delegates,
    };
    let effects = more.effect_names();
    let mut grown = Vec::new();
    if !effects.is_empty() {
        grown.push(format!("tool `{tool}` also {}", effects.join(", ")));
    }
    if before.destructive && !now.destructive {
        grown.push(format!("tool `{tool}` no longer declares itself destructive"));
    }
    grown
}

fn compare_definitions(before: &ToolDefinition, tool: &ToolDefinition, changes: &mut VersionChanges) {
    let name = &tool.name;
    if without_texts(&before.input_schema) != without_texts(&tool.input_schema) {
        changes.grown.push(format!("tool `{name}` takes other arguments"));
    } else if before.input_schema != tool.input_schema {
        changes.reworded.push(format!("tool `{name}` describes its arguments differently"));
    }
    if (&before.description, &before.label) != (&tool.description, &tool.label) {
        changes.reworded.push(format!("tool `{name}` is described differently"));
    }
    if before.guidelines != tool.guidelines {
        changes.reworded.push(format!("tool `{name}` adds other sentences to the system prompt"));
    }
}

/// Returns a schema without its texts, which do not affect the accepted arguments.
fn without_texts(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| !(TEXTS.contains(&name.as_str()) && value.is_string()));
            kept.map(|(name, value)| (name.clone(), member_without_texts(name, value))).collect()
        }
        Value::Array(items) => items.iter().map(without_texts).collect(),
        other => other.clone(),
    }
}

fn member_without_texts(keyword: &str, value: &Value) -> Value {
    match value {
        Value::Object(named) if NAMED.contains(&keyword) => {
            named.iter().map(|(name, schema)| (name.clone(), without_texts(schema))).collect()
        }
        value if VALUES.contains(&keyword) => value.clone(),
        value => without_texts(value),
    }
}
