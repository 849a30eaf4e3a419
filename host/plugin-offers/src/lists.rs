//! The tools and commands that a plugin offers, checked.
//!
//! A plugin lists them when it is loaded, without authority. One that exports `offers` may replace them while it runs:
//! the runtime asks it, and checks the answer under the ceiling of its grants.

use crate::names::{FoldedNames, is_name};
use crate::offer::{CommandDefinition, Description, OfferedCommand, OfferedTool};
use crate::tool_extra::Served;
use crate::wording::{self, ListBounds};
use pinion_protocol::text::{clip, exposed};
use pinion_protocol::{Authority, Execution, Instructions, ToolDefinition, ToolSource, check_schema};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The tools and commands that a plugin offers.
#[derive(Default, Clone)]
pub struct Lists {
    /// The tools.
    pub tools: Vec<ListedTool>,
    /// The commands.
    pub commands: Vec<CommandDefinition>,
    /// Sentences for the system prompt.
    pub instructions: Option<Instructions>,
    /// The names of the tools.
    pub tool_names: FoldedNames,
    /// The names of the commands.
    pub command_names: FoldedNames,
}

/// The plugin whose lists are checked.
pub struct ListingPlugin<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// The number of its generation.
    pub generation: u32,
    /// The digest of its component.
    pub digest: &'a blake3::Hash,
    /// Cuts the effects of a tool to those that the plugin's grants make possible.
    pub granted: &'a dyn Fn(Authority) -> Authority,
}

/// A tool, with its effects before those that no grant makes possible were removed.
#[derive(Clone, PartialEq)]
pub struct ListedTool {
    /// The definition for the model.
    pub definition: Arc<ToolDefinition>,
    /// The effects that its author declared.
    pub declared: Authority,
    /// The declared effects that the ceiling covers.
    pub effects: Authority,
    /// JSON that each call gets back.
    pub route: Option<Arc<str>>,
    /// The properties that only clients of a server see.
    pub served: Served,
}

impl Lists {
    /// Checks lists. `covered` limits the declared effects of the tool with this name to the permitted ones.
    ///
    /// # Errors
    /// Something in the lists is invalid; the text names the mistake of the plugin.
    pub fn checked(
        description: Description,
        bounds: ListBounds,
        plugin: &ListingPlugin<'_>,
        covered: impl Fn(&str, Authority) -> Authority,
    ) -> Result<Self, String> {
        wording::check_lists(&description, bounds)?;
        let instructions = description.instructions.filter(|text| !text.trim().is_empty());
        let mut lists = Self {
            instructions: instructions.map(|text| Instructions { plugin: plugin.name.clone(), text: text.into() }),
            ..Self::default()
        };
        let digest: Arc<str> = plugin.digest.to_hex().as_str().into();
        for tool in description.tools {
            let effects = covered(&tool.name, tool.effects);
            let tool = checked_tool(tool, effects, plugin, &digest)?;
            if !lists.tool_names.insert(&tool.definition.name) {
                return Err(twice("tool", &tool.definition.name));
            }
            lists.tools.push(tool);
        }
        for command in description.commands {
            check_name("command", &command.name)?;
            wording::check_command(&command).map_err(|problem| format!("command `{}` {problem}", command.name))?;
            if !lists.command_names.insert(&command.name) {
                return Err(twice("command", &command.name));
            }
            lists.commands.push(command_from(command));
        }
        Ok(lists)
    }

    /// Finds a tool by its name.
    pub fn tool(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|tool| tool.definition.name == name)
    }

    /// Returns whether both offer the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.tools == other.tools && self.commands == other.commands && self.instructions == other.instructions
    }

    /// Removes tools and commands whose names a predicate takes. Returns phrases for the removed items.
    pub fn remove_taken(
        &mut self,
        tool_owner: impl Fn(&str) -> Option<String>,
        command_owner: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut removed = Vec::new();
        self.tools.retain(|tool| {
            let owner = tool_owner(&tool.definition.name);
            removed.extend(owner.iter().map(|owner| taken("tool", &tool.definition.name, owner)));
            owner.is_none()
        });
        self.commands.retain(|command| {
            let owner = command_owner(&command.name);
            removed.extend(owner.iter().map(|owner| taken("command", &command.name, owner)));
            owner.is_none()
        });
        if !removed.is_empty() {
            (self.tool_names, self.command_names) = (FoldedNames::default(), FoldedNames::default());
            for tool in &self.tools {
                self.tool_names.insert(&tool.definition.name);
            }
            for command in &self.commands {
                self.command_names.insert(&command.name);
            }
        }
        removed
    }

    /// Puts tools and commands into the order that they have in `before`, new ones last, and keeps equal definitions.
    /// Every change of a request before its end costs the vendor's cache of the rest.
    pub fn in_order_of(mut self, before: &Self) -> Self {
        let places = |names: Vec<String>| -> HashMap<String, usize> {
            names.into_iter().enumerate().map(|(at, name)| (name, at)).collect()
        };
        let tools = places(before.tools.iter().map(|tool| tool.definition.name.clone()).collect());
        let commands = places(before.commands.iter().map(|command| command.name.clone()).collect());
        let last = usize::MAX;
        self.tools.sort_by_key(|tool| tools.get(&tool.definition.name).copied().unwrap_or(last));
        self.commands.sort_by_key(|command| commands.get(&command.name).copied().unwrap_or(last));
        for tool in &mut self.tools {
            if let Some(old) = tools.get(&tool.definition.name).map(|at| &before.tools[*at])
                && old.definition == tool.definition
            {
                tool.definition = old.definition.clone();
            }
        }
        self
    }
}

fn taken(what: &str, name: &str, owner: &str) -> String {
    format!("{what} `{name}`, whose name plugin `{owner}` uses, or one like it")
}

/// Builds a tool whose effects are covered by the ceiling.
fn checked_tool(
    tool: OfferedTool,
    effects: Authority,
    plugin: &ListingPlugin<'_>,
    digest: &Arc<str>,
) -> Result<ListedTool, String> {
    check_name("tool", &tool.name)?;
    let offer = |problem: &str| format!("tool `{}` {problem}", tool.name);
    wording::check_tool(&tool).map_err(|problem| offer(&problem))?;
    let mut input_schema: Value = serde_json::from_str(&tool.input_schema)
        .map_err(|e| offer(&format!("has an input schema that is not JSON: {e}")))?;
    if input_schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(offer("has an input schema that is not of type `object`"));
    }
    wording::check_schema(&input_schema).map_err(|problem| offer(&problem))?;
    check_schema(&input_schema).map_err(|e| offer(&format!("has an input schema that cannot be used: {e}")))?;
    required_first(&mut input_schema);
    let served = Served::checked(&tool, &input_schema).map_err(|problem| offer(&problem))?;
    let (declared, bound_to, route) = (tool.effects, tool.bound_to, tool.route);
    let approved_by = tool.approved_by.iter().map(|name| name.as_str().into()).collect();
    let mut definition = ToolDefinition {
        name: tool.name,
        label: tool.label,
        description: tool.description,
        input_schema,
        guidelines: tool.guidelines,
        authority: (plugin.granted)(effects),
        execution: if tool.is_sequential { Execution::Sequential } else { Execution::Parallel },
        source: ToolSource {
            plugin: plugin.name.clone(),
            digest: digest.clone(),
            generation: plugin.generation,
            definition: "".into(),
            approved_by,
        },
    };
    let digest = digest_of(&definition, bound_to.as_deref(), route.as_deref());
    definition.source.definition = digest.to_hex().as_str().into();
    Ok(ListedTool { definition: Arc::new(definition), declared, effects, route: route.map(Into::into), served })
}

/// Hashes everything about a tool that an approval depends on.
fn digest_of(tool: &ToolDefinition, bound_to: Option<&str>, route: Option<&str>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let schema = tool.input_schema.to_string();
    let effects = format!("{:?} {} {:?}", tool.authority, tool.authority.destructive, tool.execution);
    let guidelines = tool.guidelines.iter().map(String::as_str);
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    [&*tool.name, &*tool.label, &*tool.description, &*schema, &*effects]
        .into_iter()
        .chain(guidelines)
        .for_each(&mut add);
    for (what, text) in [("bound-to", bound_to), ("route", route)] {
        if let Some(text) = text {
            [what, text].into_iter().for_each(&mut add);
        }
    }
    tool.source.approved_by.iter().for_each(|name| ["approved-by", name].into_iter().for_each(&mut add));
    hasher.finalize()
}

/// Puts required properties first, in the order of `required`: models write arguments in the order of the schema, and a
/// path that comes before a long text can be shown while the text is still being streamed.
fn required_first(schema: &mut Value) {
    let required: Vec<String> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut ordered = serde_json::Map::new();
    for name in required {
        if let Some(property) = properties.shift_remove(&name) {
            ordered.insert(name, property);
        }
    }
    ordered.append(properties);
    *properties = ordered;
}

fn twice(what: &str, name: &str) -> String {
    format!("offers the {what} `{name}` twice, or another one whose name looks like it")
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    let shown = clip(&exposed(&clip(name, 80)).replace('\n', "⏎"), 160);
    Err(format!("{what} name `{shown}` is not 1 to 64 of `a-z A-Z 0-9 _ -`"))
}

fn command_from(command: OfferedCommand) -> CommandDefinition {
    let OfferedCommand { name, description, argument_hint, action, bare_action } = command;
    CommandDefinition { name, description, argument_hint, action, bare_action }
}
