//! One loaded version of a plugin.
//!
//! Loading is: read what the component says of itself, compile it or take it from the cache, link it, and ask it what it
//! offers. Nothing of the last generation is touched meanwhile.

use crate::bindings::exports::pinion::plugin::{commands as wit_commands, tools as wit_tools};
use crate::bindings::pinion::plugin::types as wit;
use crate::cache::Origin;
use crate::capability::{Grants, PluginAuthority};
use crate::compiler;
use crate::component_file::ReadError;
use crate::fault::PluginFault;
use crate::instance::{self, Description};
use crate::limits::{Limits, PartialLimits};
use crate::manifest::{Inspection, ManifestError, is_name};
use crate::program::{Exported, Program};
use crate::registry::Source;
use crate::runtime::Shared;
use crate::shares::Share;
use pinion_agent::{Authority, Execution, ToolDefinition, ToolSource};
use serde_json::Value;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use wasmtime::component::Component;

/// Descriptions that are longer would cost the model more than they tell it.
const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;
/// Tools, or commands, of one plugin.
const MAX_ENTRIES: usize = 512;

/// What the user's config says of one plugin.
#[derive(Debug, Clone, Default)]
pub struct PluginSettings {
    /// What it may do.
    pub grants: Grants,
    /// Limits that the user set for it.
    pub limits: PartialLimits,
    /// Its own section, an object.
    pub config: Value,
}

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) program: Arc<Program>,
    pub(crate) inspection: Inspection,
    pub(crate) digest: blake3::Hash,
    pub(crate) origin: Origin,
    pub(crate) tools: Vec<Tool>,
    pub(crate) commands: Vec<CommandDefinition>,
    /// What the user granted it.
    pub(crate) grants: Grants,
}

/// A tool, with the effects that its author declared.
pub(crate) struct Tool {
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) effects: Authority,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDefinition {
    /// Without the slash.
    pub name: String,
    /// One line.
    pub description: String,
    /// Shown after the name.
    pub argument_hint: Option<String>,
}

/// A component was not loaded. What was loaded before stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is no plugin for this host.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// It cannot be compiled, or wants imports that do not exist.
    #[error("{0}")]
    Link(String),
    /// It broke down, or failed its self-test, when it was asked what it offers.
    #[error(transparent)]
    Fault(PluginFault),
    /// It ran into a limit of loading.
    #[error(
        "{0}\nhint: the limits of loading are fixed: do less in `init`, `self-test` and the lists of tools and commands"
    )]
    Limit(String),
    /// What it offers makes no sense.
    #[error("{0}")]
    Offer(String),
    /// What it offers has a name that another plugin already uses.
    #[error("{what} `{name}` is already there, from plugin `{other}`\nhint: load only one of the two plugins")]
    Collision {
        /// `plugin`, `tool` or `command`.
        what: &'static str,
        /// The name.
        name: String,
        /// Who has it.
        other: String,
    },
}

impl Generation {
    /// Loads a component. Reading, compiling and linking happen on threads that may block; dropping the future gives the
    /// load up.
    pub(crate) async fn load(
        shared: &Arc<Shared>,
        source: &Source,
        number: u32,
        share: &Arc<Share>,
    ) -> Result<Arc<Self>, LoadError> {
        let component = {
            let (permit, source) = (shared.permits.reading().await, source.clone());
            blocking(move || {
                let _permit = permit;
                inspect(&source)
            })
            .await?
        };
        let Inspected { bytes, digest, inspection } = component;
        let is_built_in = matches!(source, Source::BuiltIn(_));
        let (component, origin) = compiler::compiled(shared, bytes, digest, is_built_in).await?;
        let linked = {
            let (shared, share) = (shared.clone(), share.clone());
            blocking(move || link(&shared, &component, inspection, number, share)).await?
        };
        let Linked { program, inspection, grants } = linked;
        let description = instance::describe(shared, &program).await.map_err(load_error)?;
        let (tools, commands) = (Vec::new(), Vec::new());
        let mut generation = Self { program, inspection, digest, origin, tools, commands, grants };
        generation.take(description)?;
        Ok(Arc::new(generation))
    }

    /// One of its tools.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.definition.name == name)
    }

    fn take(&mut self, description: Description) -> Result<(), LoadError> {
        if description.tools.len().max(description.commands.len()) > MAX_ENTRIES {
            return Err(LoadError::Offer(format!("offers more than {MAX_ENTRIES} tools or commands")));
        }
        let source = ToolSource {
            plugin: self.program.name.clone(),
            digest: self.digest.to_hex().as_str().into(),
            generation: self.program.number,
        };
        for tool in description.tools {
            let tool = self.tool_from(tool, &source)?;
            if self.tool(&tool.definition.name).is_some() {
                return Err(LoadError::Offer(format!("offers the tool `{}` twice", tool.definition.name)));
            }
            self.tools.push(tool);
        }
        for command in description.commands {
            check_name("command", &command.name)?;
            if self.commands.iter().any(|other| other.name == command.name) {
                return Err(LoadError::Offer(format!("offers the command `{}` twice", command.name)));
            }
            self.commands.push(command_from(command));
        }
        Ok(())
    }

    fn tool_from(&self, tool: wit_tools::ToolDefinition, source: &ToolSource) -> Result<Tool, LoadError> {
        check_name("tool", &tool.name)?;
        let offer = |problem: &str| LoadError::Offer(format!("tool `{}` {problem}", tool.name));
        if tool.description.len() > MAX_DESCRIPTION_BYTES {
            return Err(offer(&format!("has a description of more than {MAX_DESCRIPTION_BYTES} bytes")));
        }
        let mut input_schema: Value = serde_json::from_str(&tool.input_schema)
            .map_err(|e| offer(&format!("has no JSON as input schema: {e}")))?;
        if input_schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(offer("has an input schema that is not of type `object`"));
        }
        required_first(&mut input_schema);
        let effects = effects(tool.effects);
        let definition = ToolDefinition {
            name: tool.name,
            label: tool.label,
            description: tool.description,
            input_schema,
            guidelines: tool.guidelines,
            authority: self.program.authority.of_tool(effects),
            execution: match tool.execution {
                wit::Execution::Parallel => Execution::Parallel,
                wit::Execution::Sequential => Execution::Sequential,
            },
            source: source.clone(),
        };
        Ok(Tool { definition: Arc::new(definition), effects })
    }
}

/// A component that was read.
struct Inspected {
    bytes: Arc<[u8]>,
    digest: blake3::Hash,
    inspection: Inspection,
}

/// Reads a component, and what it says of itself. Blocks.
fn inspect(source: &Source) -> Result<Inspected, LoadError> {
    let bytes = source.bytes()?;
    let inspection = Inspection::of(&bytes)?;
    Ok(Inspected { digest: blake3::hash(&bytes), bytes: bytes.into(), inspection })
}

/// A component that can be instantiated.
struct Linked {
    program: Arc<Program>,
    inspection: Inspection,
    grants: Grants,
}

/// Runs a step of loading on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    spawn_blocking(step).await.unwrap_or_else(|error| Err(LoadError::Link(error.to_string())))
}

/// Links a component. Blocks.
fn link(
    shared: &Arc<Shared>,
    component: &Component,
    inspection: Inspection,
    number: u32,
    share: Arc<Share>,
) -> Result<Linked, LoadError> {
    let manifest = &inspection.manifest;
    let settings = shared.settings(&manifest.name);
    let pre = shared.linker.instantiate_pre(component).map_err(link_error)?;
    let limits = Limits::effective(&shared.limits, &manifest.limits, &settings.limits);
    let authority = PluginAuthority::new(&manifest.name, &shared.workspace, &manifest.capabilities, &settings.grants);
    let config = if settings.config.is_object() { settings.config.to_string() } else { "{}".to_owned() };
    let program = Arc::new(Program {
        name: manifest.name.as_str().into(),
        number,
        authority: Arc::new(authority),
        limits: Arc::new(limits),
        config: config.into(),
        exported: Exported::of(component, &inspection)?,
        share,
        pre,
    });
    Ok(Linked { program, inspection, grants: settings.grants })
}

pub(crate) fn link_error(error: wasmtime::Error) -> LoadError {
    LoadError::Link(format!("{error:#}"))
}

/// The error of a load whose description went wrong. Limits are those of loading, which nobody can raise.
fn load_error(fault: PluginFault) -> LoadError {
    let (plugin, limit) = match fault {
        PluginFault::Fuel { plugin, limit } => (plugin, format!("more than {limit} fuel")),
        PluginFault::Deadline { plugin, limit_ms } => (plugin, format!("more than {limit_ms} ms")),
        PluginFault::Memory { plugin, limit, .. } => (plugin, format!("more than {limit} bytes of memory")),
        PluginFault::Table { plugin, limit, .. } => (plugin, format!("more than {limit} table elements")),
        PluginFault::Output { plugin, limit } => (plugin, format!("more than {limit} bytes of output")),
        PluginFault::HostCalls { plugin, limit } => (plugin, format!("more than {limit} calls of the host")),
        PluginFault::Handles { plugin, limit } => (plugin, format!("more than {limit} open handles")),
        other => return LoadError::Fault(other),
    };
    LoadError::Limit(format!("plugin `{plugin}` needs {limit} to say what it offers"))
}

/// Puts required properties first, in the order in which they are required: models write arguments in the order of the
/// schema, and a path that comes before the text for it can be shown while the text is still on its way.
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

fn check_name(what: &str, name: &str) -> Result<(), LoadError> {
    if is_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    Err(LoadError::Offer(format!("{what} name `{shown}` is not 1 to 64 of `a-z A-Z 0-9 _ -`")))
}

fn effects(flags: wit::Effects) -> Authority {
    Authority {
        reads: flags.contains(wit::Effects::READS),
        writes: flags.contains(wit::Effects::WRITES),
        executes: flags.contains(wit::Effects::EXECUTES),
        network: flags.contains(wit::Effects::NETWORK),
        destructive: flags.contains(wit::Effects::DESTRUCTIVE),
        // There is no flag for it: what counts is the grant.
        delegates: true,
    }
}

fn command_from(command: wit_commands::CommandDefinition) -> CommandDefinition {
    CommandDefinition { name: command.name, description: command.description, argument_hint: command.argument_hint }
}
