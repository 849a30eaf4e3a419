//! Lists of the loaded plugins, for people and for plugins with the capability `catalog`.

use crate::bindings::pinion::plugin::catalog as wit;
use crate::convert;
use crate::loading::code::CodeOrigin;
use crate::loading::source::PluginSource;
use crate::manifest::Lifetime;
use crate::policy::Ceiling;
use crate::registry::loaded::Loaded;
use crate::registry::plugin_set::PluginSet;
use pinion_plugin_offers::offer::CommandDefinition;
use pinion_protocol::HookPoint;

/// A loaded plugin, as `pinion plugin list` and `info` show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// The name in its manifest.
    pub name: String,
    /// The version in its manifest.
    pub version: String,
    /// A description of one line.
    pub description: String,
    /// The number of the generation, counted from 1.
    pub generation: u32,
    /// The source for people: `built-in`, or the path of the file.
    pub source: String,
    /// The source that was passed to the runtime.
    pub component_source: PluginSource,
    /// The BLAKE3 digest of the component, in hexadecimal.
    pub digest: String,
    /// The origin of the compiled code.
    pub origin: CodeOrigin,
    /// The lifetime of its instances.
    pub lifetime: Lifetime,
    /// The capabilities that it asks for, with the grants.
    pub capabilities: Vec<Capability>,
    /// The interfaces that it imports, versions included.
    pub imports: Vec<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Names of its commands, without the slash.
    pub commands: Vec<String>,
    /// Phrases for the tools and commands that were left out, because other plugins have their names.
    pub left_out: Vec<String>,
    /// Phrases for the functions of a plain component that are no tools, with the reasons.
    pub skipped: Vec<String>,
    /// Phrases for members of `extra` of its tools and commands that this host does not know.
    pub remarks: Vec<String>,
    /// Its hooks, whether they are called or not.
    pub hooks: Vec<Hook>,
    /// Its asks and declarations, whether granted or not.
    pub offered: Ceiling,
    /// The grants that are held back, and the reason, with a hint.
    pub held_back: Option<String>,
    /// The error of its last reload, if that was refused.
    pub problem: Option<String>,
}

/// Something that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The name in manifests and in the config, such as `files`.
    pub name: &'static str,
    /// The request in words, such as `write files`.
    pub asks: String,
    /// The granted extent in words; `None` if nothing was granted.
    pub granted: Option<String>,
}

/// A hook that a plugin exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// The point that calls it.
    pub point: HookPoint,
    /// The reason why it is not called; `None` if it is.
    pub not_called: Option<&'static str>,
}

impl PluginSet {
    /// The plugins that answer calls.
    pub(crate) fn infos(&self) -> Vec<PluginInfo> {
        let problem = |name: &str| {
            let (_, problem) = self.problems().iter().find(|(plugin, _)| plugin == name)?;
            Some(problem.clone())
        };
        self.loaded()
            .iter()
            .map(|loaded| PluginInfo { problem: problem(&loaded.program().name), ..info(loaded) })
            .collect()
    }

    pub(super) fn tool_infos(&self) -> Vec<wit::ToolInfo> {
        let tools = self.loaded().iter().flat_map(|loaded| loaded.lists.tools.iter().map(move |tool| (loaded, tool)));
        tools
            .filter(|(_, tool)| tool.served.is_callable())
            .map(|(loaded, tool)| wit::ToolInfo {
                name: tool.definition.name.clone(),
                description: tool.definition.description.clone(),
                plugin: loaded.program().name.to_string(),
                effects: convert::effects(tool.definition.authority),
            })
            .collect()
    }

    pub(super) fn command_infos(&self, is_offered: &dyn Fn(&CommandDefinition) -> bool) -> Vec<wit::CommandInfo> {
        let commands =
            self.loaded().iter().flat_map(|loaded| loaded.lists.commands.iter().map(move |command| (loaded, command)));
        commands
            .filter(|(_, command)| is_offered(command))
            .map(|(loaded, command)| wit::CommandInfo {
                name: command.name.clone(),
                description: command.description.clone(),
                argument_hint: command.argument_hint.clone(),
                plugin: loaded.program().name.to_string(),
            })
            .collect()
    }

    pub(super) fn plugin_infos(&self) -> Vec<wit::PluginInfo> {
        let capability = |capability: Capability| wit::CapabilityInfo {
            name: capability.name.to_owned(),
            description: capability.asks,
            granted: capability.granted,
        };
        self.infos()
            .into_iter()
            .map(|plugin| wit::PluginInfo {
                name: plugin.name,
                version: plugin.version,
                description: plugin.description,
                generation: plugin.generation,
                source: plugin.source,
                capabilities: plugin.capabilities.into_iter().map(capability).collect(),
                problem: plugin.problem,
            })
            .collect()
    }
}

fn info(loaded: &Loaded) -> PluginInfo {
    let generation = &loaded.generation;
    let manifest = &generation.inspection.manifest;
    PluginInfo {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        description: manifest.description.clone(),
        generation: generation.program.number,
        source: loaded.source().to_string(),
        component_source: loaded.source().clone(),
        digest: generation.digest.to_hex().to_string(),
        origin: generation.origin,
        lifetime: manifest.lifetime,
        capabilities: capabilities(loaded),
        imports: generation.inspection.imports.iter().cloned().collect(),
        tools: loaded.lists.tools.iter().map(|tool| tool.definition.name.clone()).collect(),
        commands: loaded.lists.commands.iter().map(|command| command.name.clone()).collect(),
        left_out: loaded.left_out.clone(),
        skipped: generation.skipped.clone(),
        remarks: generation.remarks.clone(),
        hooks: HookPoint::ALL
            .into_iter()
            .filter(|point| generation.inspection.exports.has_hook(*point))
            .map(|point| Hook { point, not_called: generation.missing_for_hook(point) })
            .collect(),
        offered: generation.offered.clone(),
        held_back: generation.held_back.clone(),
        problem: None,
    }
}

fn capabilities(loaded: &Loaded) -> Vec<Capability> {
    let asks = &loaded.generation.inspection.manifest.capabilities;
    let extents = loaded.generation.grants.clone().cut_to(asks).extents(asks);
    extents.into_iter().map(|(name, phrase, granted)| Capability { name, asks: phrase, granted }).collect()
}
