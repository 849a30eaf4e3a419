//! One loaded version of a plugin.
//!
//! Loading reads the manifest of a component, compiles the component or takes it from the cache, links it, and asks it for
//! its tools and commands. The previous generation is not touched.

use crate::capability::{Grants, PluginAuthority};
use crate::errors::load::LoadError;
use crate::limits::shares::Share;
use crate::limits::{Limits, PartialLimits};
use crate::loading::cache::Origin;
use crate::loading::describe::describe;
use crate::loading::described::{Described, Seen};
use crate::loading::offer::{Description, OfferedCommand, OfferedTool};
use crate::loading::program::{Code, Exported, Program};
use crate::loading::settings::PluginSettings;
use crate::loading::source::Source;
use crate::loading::wording::{self, FoldedNames};
use crate::loading::{blocking, compile};
use crate::manifest::{Inspection, Manifest, is_name};
use crate::policy::{self, Ceiling};
use crate::shared::Shared;
use pinion_protocol::text::{clip, exposed};
use pinion_protocol::{Authority, Execution, ToolDefinition, ToolSource, check_schema};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use wasmtime::component::Component;

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) program: Arc<Program>,
    pub(crate) inspection: Inspection,
    pub(crate) digest: blake3::Hash,
    pub(crate) origin: Origin,
    pub(crate) tools: Vec<Tool>,
    pub(crate) commands: Vec<CommandDefinition>,
    pub(crate) plugin_name: FoldedNames,
    pub(crate) tool_names: FoldedNames,
    pub(crate) command_names: FoldedNames,
    /// The settings that the policy decided on.
    pub(crate) settings: PluginSettings,
    /// The granted capabilities.
    pub(crate) grants: Grants,
    /// Its asks and declarations, before anything was held back.
    pub(crate) offered: Ceiling,
    /// The asks and declarations that its grants cover.
    pub(crate) ceiling: Arc<Ceiling>,
    /// The grants that are held back, and the reason, with a hint.
    pub(crate) held_back: Option<String>,
}

/// A tool, with the effects that its author declared.
pub(crate) struct Tool {
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) effects: Authority,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDefinition {
    /// The name without the slash.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// A placeholder for the argument, shown after the name.
    pub argument_hint: Option<String>,
}

impl Generation {
    /// Loads a component. Reading, compiling and linking run on threads that may block; dropping the future gives up the
    /// load. The identity is that of the bytes that were read, whatever `source` holds by now. `before` is the ceiling of
    /// the generation that this one replaces; `ahead` is the code of its file, if that is compiled already.
    pub(crate) async fn load(
        shared: &Arc<Shared>,
        source: &Source,
        number: u32,
        before: Option<Arc<Ceiling>>,
        share: &Arc<Share>,
        ahead: Option<CompiledAhead>,
    ) -> Result<Arc<Self>, LoadError> {
        let (linked, origin) = program_of(shared, source, number, before, share, ahead).await?;
        // A component without its grants or its config may fail for that reason alone.
        let explained = |error: LoadError| match &linked.settings.held_back {
            Some(why) => LoadError::Policy(format!("{error:#}\n{why}")),
            None => error,
        };
        let description = describe(shared, &linked.program).await.map_err(LoadError::from_fault).map_err(explained)?;
        let (shared, source) = (shared.clone(), source.clone());
        // Checking schemas may take a while.
        blocking(move || {
            let seen = linked.seen;
            let generation = Self::offering(linked, origin, description.clone())?;
            if let (Some(cache), Some(seen)) = (&shared.cache, seen) {
                let inspection = generation.inspection.clone();
                Described::new(inspection, &generation.digest, &generation.program.config, description).store(
                    cache,
                    shared.engine.compatibility(),
                    &source,
                    seen,
                );
            }
            Ok(Arc::new(generation))
        })
        .await
    }

    /// Creates the first generation of a source from its description in the cache, or from the one that a built-in plugin
    /// brings, without code. None when there is no valid one, or the policy or a check refuses it, so that a load has to tell. Blocks for about 50 µs.
    pub(crate) fn described(shared: &Arc<Shared>, source: &Source, share: &Arc<Share>) -> Option<Arc<Self>> {
        if let Source::File { path, .. } = source {
            shared.surroundings.protected.add_plugin(path);
        }
        let cached = Described::read(shared.cache.as_ref()?, shared.engine.compatibility(), source);
        let described = cached.or_else(|| Described::embedded(source))?;
        let settings = settings(shared, source, &described.inspection.manifest, &described.digest, None).ok()?;
        if !described.is_for_config(&config_text(&settings)) {
            return None;
        }
        let digest = blake3::Hash::from_hex(&described.digest).ok()?;
        let inspected = Inspected { digest, inspection: described.inspection, settings, seen: None };
        let linked = linked(shared, inspected, 1, share.clone(), None);
        Self::offering(linked, Origin::Described, described.description).ok().map(Arc::new)
    }

    /// Puts a generation together, and checks what it offers.
    fn offering(linked: Linked, origin: Origin, description: Description) -> Result<Self, LoadError> {
        let Linked { program, digest, inspection, settings, .. } = linked;
        let CutSettings { decided, grants, ceiling, held_back, hint, .. } = settings;
        let mut generation = Self {
            plugin_name: FoldedNames::of_plugin(&program.name),
            tool_names: FoldedNames::default(),
            command_names: FoldedNames::default(),
            offered: Ceiling {
                asks: inspection.manifest.capabilities.clone(),
                lifetime: inspection.manifest.lifetime,
                ..Ceiling::default()
            },
            program,
            inspection,
            digest,
            origin,
            tools: Vec::new(),
            commands: Vec::new(),
            settings: decided,
            grants,
            ceiling: ceiling.clone().unwrap_or_default(),
            held_back,
        };
        generation.take(description, ceiling.as_deref())?;
        generation.settle_ceiling(ceiling.is_some(), hint);
        Ok(generation)
    }

    /// Returns whether this generation has no code yet.
    pub(crate) fn is_described(&self) -> bool {
        self.program.code.is_none()
    }

    /// Returns whether a generation with code is what `described` said it would be, so that it can take its place
    /// unnoticed.
    pub(crate) fn is_as(&self, described: &Self) -> bool {
        let tools = |generation: &Self| -> Vec<(Arc<ToolDefinition>, Authority)> {
            generation.tools.iter().map(|tool| (tool.definition.clone(), tool.effects)).collect()
        };
        self.digest == described.digest
            && tools(self) == tools(described)
            && self.commands == described.commands
            && self.offered == described.offered
            && self.ceiling == described.ceiling
            && self.held_back == described.held_back
    }

    /// The identity of the component, for a policy.
    pub(crate) fn identity<'a>(&'a self, source: &'a Source, digest: &'a str) -> policy::Component<'a> {
        policy::Component { manifest: &self.inspection.manifest, source, digest }
    }

    /// Returns whether a command is newer than the grants, so that it runs with none of them.
    pub(crate) fn holds_back_command(&self, name: &str) -> bool {
        !self.ceiling.commands.contains(name)
    }

    /// Sets the ceiling for the first generation; notes what a later one offers beyond it.
    fn settle_ceiling(&mut self, is_set: bool, hint: Option<String>) {
        if !is_set {
            self.ceiling = Arc::new(self.offered.clone());
            return;
        }
        let excess = self.ceiling.excess(&self.offered);
        if !excess.is_empty() && self.held_back.is_none() {
            let hint = hint.unwrap_or_else(|| "restart pinion to grant what is new".to_owned());
            self.held_back =
                Some(format!("new since it was granted, and held back: {}\nhint: {hint}", excess.join("; ")));
        }
    }

    /// Finds a tool by its name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.definition.name == name)
    }

    fn take(&mut self, description: Description, ceiling: Option<&Ceiling>) -> Result<(), LoadError> {
        wording::check_lists(&description.tools, &description.commands).map_err(LoadError::Offer)?;
        let source = ToolSource {
            plugin: self.program.name.clone(),
            digest: self.digest.to_hex().as_str().into(),
            generation: self.program.number,
        };
        for tool in description.tools {
            let (tool, declared) = self.tool_from(tool, &source, ceiling)?;
            self.offered.tools.insert(tool.definition.name.clone(), declared);
            if !self.tool_names.insert(&tool.definition.name) {
                return Err(twice("tool", &tool.definition.name));
            }
            self.tools.push(tool);
        }
        for command in description.commands {
            check_name("command", &command.name)?;
            wording::check_command(&command)
                .map_err(|problem| LoadError::Offer(format!("command `{}` {problem}", command.name)))?;
            if !self.command_names.insert(&command.name) {
                return Err(twice("command", &command.name));
            }
            self.offered.commands.insert(command.name.clone());
            self.commands.push(command_from(command));
        }
        Ok(())
    }

    /// Builds a tool with the effects that it may have. Returns the effects that it declares, too.
    fn tool_from(
        &self,
        tool: OfferedTool,
        source: &ToolSource,
        ceiling: Option<&Ceiling>,
    ) -> Result<(Tool, Authority), LoadError> {
        check_name("tool", &tool.name)?;
        let offer = |problem: &str| LoadError::Offer(format!("tool `{}` {problem}", tool.name));
        wording::check_tool(&tool).map_err(|problem| offer(&problem))?;
        let mut input_schema: Value = serde_json::from_str(&tool.input_schema)
            .map_err(|e| offer(&format!("has an input schema that is not JSON: {e}")))?;
        if input_schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(offer("has an input schema that is not of type `object`"));
        }
        wording::check_schema(&input_schema).map_err(|problem| offer(&problem))?;
        check_schema(&input_schema).map_err(|e| offer(&format!("has an input schema that cannot be used: {e}")))?;
        required_first(&mut input_schema);
        let declared = tool.effects;
        let effects = ceiling.map_or(declared, |ceiling| ceiling.effects(&tool.name, declared));
        let definition = ToolDefinition {
            name: tool.name,
            label: tool.label,
            description: tool.description,
            input_schema,
            guidelines: tool.guidelines,
            authority: self.program.authority.of_tool(effects),
            execution: if tool.is_sequential { Execution::Sequential } else { Execution::Parallel },
            source: source.clone(),
        };
        Ok((Tool { definition: Arc::new(definition), effects }, declared))
    }
}

/// The settings of a component, cut to its ceiling.
struct CutSettings {
    decided: PluginSettings,
    grants: Grants,
    limits: PartialLimits,
    config: Value,
    ceiling: Option<Arc<Ceiling>>,
    held_back: Option<String>,
    hint: Option<String>,
}

impl CutSettings {
    /// Prefers the policy's ceiling to that of the earlier generation. A component without grants needs none.
    fn of(settings: PluginSettings, before: Option<Arc<Ceiling>>, manifest: &Manifest) -> Self {
        let decided = settings.clone();
        let PluginSettings { grants, limits, config, ceiling, held_back, hint } = settings;
        let ceiling = ceiling.map(Arc::new).or(before).filter(|_| grants != Grants::default());
        let grants = match &ceiling {
            Some(ceiling) => ceiling.cut(manifest, grants),
            None => grants,
        };
        Self { decided, grants, limits, config, ceiling, held_back, hint }
    }
}

/// Reads, compiles and links a component.
async fn program_of(
    shared: &Arc<Shared>,
    source: &Source,
    number: u32,
    before: Option<Arc<Ceiling>>,
    share: &Arc<Share>,
    ahead: Option<CompiledAhead>,
) -> Result<(Linked, Origin), LoadError> {
    let is_built_in = matches!(source, Source::BuiltIn { .. });
    let read = {
        let (permit, shared, source) = (shared.permits.reading().await, shared.clone(), source.clone());
        let share = share.clone();
        blocking(move || {
            let _permit = permit;
            let (bytes, inspected) = inspect(&shared, &source, before)?;
            // Linked on the same thread: handing over to another one costs more than most steps.
            let ahead = ahead.filter(|ahead| ahead.digest == inspected.digest).map(|ahead| ahead.component);
            match ahead.or_else(|| compile::cached(&shared, &inspected.digest)) {
                Some(component) => link(&shared, &component, inspected, number, share).map(Read::Linked),
                None => Ok(Read::New(bytes, inspected)),
            }
        })
        .await?
    };
    match read {
        Read::Linked(linked) => Ok((linked, Origin::Cached)),
        Read::New(bytes, inspected) => {
            let component = compile::compiled(shared, bytes, inspected.digest, is_built_in).await?;
            let (shared, share) = (shared.clone(), share.clone());
            let linked = blocking(move || link(&shared, &component, inspected, number, share)).await?;
            Ok((linked, Origin::Compiled))
        }
    }
}

/// The code of a file that may still change.
pub(crate) struct CompiledAhead {
    digest: blake3::Hash,
    component: Component,
}

/// Compiles a file that may still be written to, unless its code is in the cache. None when it cannot be loaded, now.
pub(crate) async fn compile_ahead(shared: Arc<Shared>, source: Source) -> Option<CompiledAhead> {
    let looking = shared.clone();
    let (bytes, digest) = blocking(move || {
        // A component that the policy refuses is not compiled.
        let (bytes, inspected) = inspect(&looking, &source, None)?;
        Ok((bytes, inspected.digest))
    })
    .await
    .ok()?;
    let component = compile::compiled(&shared, bytes, digest, false).await.ok()?;
    Some(CompiledAhead { digest, component })
}

/// A component that was read.
struct Inspected {
    digest: blake3::Hash,
    inspection: Inspection,
    settings: CutSettings,
    /// The state of its file before it was read.
    seen: Option<Seen>,
}

/// A component that was read, and its program: with code if it was compiled and linked, too.
struct Linked {
    program: Arc<Program>,
    digest: blake3::Hash,
    inspection: Inspection,
    settings: CutSettings,
    seen: Option<Seen>,
}

enum Read {
    /// The compiled code was in the cache.
    Linked(Linked),
    /// The component must be compiled.
    New(Cow<'static, [u8]>, Inspected),
}

/// Reads a component and its manifest, and asks the policy for its settings. Blocks.
fn inspect(
    shared: &Shared,
    source: &Source,
    before: Option<Arc<Ceiling>>,
) -> Result<(Cow<'static, [u8]>, Inspected), LoadError> {
    if let Source::File { path, .. } = source {
        shared.surroundings.protected.add_plugin(path);
    }
    let seen = Seen::of(source);
    let bytes = source.bytes()?;
    let inspection = Inspection::of(&bytes)?;
    let digest = blake3::hash(&bytes);
    let settings = settings(shared, source, &inspection.manifest, &digest.to_hex(), before)?;
    Ok((bytes, Inspected { digest, inspection, settings, seen }))
}

/// Asks the policy for the settings of a component. Blocks.
fn settings(
    shared: &Shared,
    source: &Source,
    manifest: &Manifest,
    digest: &str,
    before: Option<Arc<Ceiling>>,
) -> Result<CutSettings, LoadError> {
    let settings = shared.policy.settings(&policy::Component { manifest, source, digest })?;
    Ok(CutSettings::of(settings, before, manifest))
}

/// Links a component. Blocks.
fn link(
    shared: &Arc<Shared>,
    component: &Component,
    inspected: Inspected,
    number: u32,
    share: Arc<Share>,
) -> Result<Linked, LoadError> {
    let pre = shared
        .linker
        .instantiate_pre(component)
        .map_err(|error| LoadError::link("could not link the component", error))?;
    let exported = Exported::of(component, &inspected.inspection)?;
    Ok(linked(shared, inspected, number, share, Some(Code { pre, exported })))
}

/// Creates the program of a component.
fn linked(shared: &Arc<Shared>, inspected: Inspected, number: u32, share: Arc<Share>, code: Option<Code>) -> Linked {
    let Inspected { digest, inspection, settings, seen } = inspected;
    let manifest = &inspection.manifest;
    let limits = Limits::effective(&shared.limits, &manifest.limits, &settings.limits);
    let authority = PluginAuthority::new(
        &manifest.name,
        &shared.surroundings,
        &manifest.capabilities,
        &settings.grants,
        shared.descriptors.share(&manifest.name),
    )
    .with_hint(settings.hint.clone());
    let program = Program {
        name: manifest.name.as_str().into(),
        number,
        authority: Arc::new(authority),
        limits: Arc::new(limits),
        config: config_text(&settings).into(),
        share,
        code,
    };
    Linked { program: Arc::new(program), digest, inspection, settings, seen }
}

/// The plugin's own section of the config, as JSON.
fn config_text(settings: &CutSettings) -> String {
    if settings.config.is_object() { settings.config.to_string() } else { "{}".to_owned() }
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

fn twice(what: &str, name: &str) -> LoadError {
    LoadError::Offer(format!("offers the {what} `{name}` twice, or another one whose name looks like it"))
}

fn check_name(what: &str, name: &str) -> Result<(), LoadError> {
    if is_name(name) {
        return Ok(());
    }
    let shown = clip(&exposed(&clip(name, 80)).replace('\n', "⏎"), 160);
    Err(LoadError::Offer(format!("{what} name `{shown}` is not 1 to 64 of `a-z A-Z 0-9 _ -`")))
}

fn command_from(command: OfferedCommand) -> CommandDefinition {
    CommandDefinition { name: command.name, description: command.description, argument_hint: command.argument_hint }
}
