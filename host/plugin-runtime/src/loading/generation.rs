//! One loaded version of a plugin.
//!
//! Loading reads the manifest of a component, compiles the component or takes it from the cache, links it, and asks it for
//! its tools and commands. The previous generation is not touched.

use crate::capability::authority::PluginAuthority;
use crate::capability::hooks::Hooks;
use crate::capability::table::Grants;
use crate::load_error::LoadError;
use crate::loading::blocking;
use crate::loading::code::{CachedCode, CodeOrigin, HeldCode};
use crate::loading::compile::{self, CompileJob};
use crate::loading::describe::describe;
use crate::loading::description_cache::{ComponentFileState, Described};
use crate::loading::instance_template::{Code, InstanceTemplate};
use crate::loading::link_problem::link_problem;
use crate::loading::source::PluginSource;
use crate::loading::source_metadata::SourceMetadata;
use crate::manifest::{Exports, Inspection, Lifetime, Manifest};
use crate::policy::{self, Ceiling, PluginSettings};
use crate::runtime_shared::Shared;
use pinion_plugin_limits::{Limits, PartialLimits, Share};
use pinion_plugin_offers::lists::{ListedTool, ListingPlugin, Lists};
use pinion_plugin_offers::names::FoldedNames;
use pinion_plugin_offers::offer::Description;
use pinion_plugin_offers::wording::{self, ListBounds};
use pinion_plugin_storage::PluginIdentity;
use pinion_protocol::{Authority, HookPoint};
use serde_json::Value;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use wasmtime::component::Component;

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) program: Arc<InstanceTemplate>,
    pub(crate) inspection: Inspection,
    pub(crate) digest: blake3::Hash,
    pub(crate) origin: CodeOrigin,
    /// The tools and commands that it listed when it was loaded.
    pub(crate) lists: Arc<Lists>,
    pub(crate) plugin_name: FoldedNames,
    /// The settings that the policy decided on.
    pub(crate) settings: PluginSettings,
    /// The path that identified its file when it was loaded; `None` if it is built in.
    path: Option<PathBuf>,
    /// The granted capabilities.
    pub(crate) grants: Grants,
    /// Its asks and declarations, before anything was held back.
    pub(crate) offered: Ceiling,
    /// The asks and declarations that its grants cover.
    pub(crate) ceiling: Arc<Ceiling>,
    /// The grants that are held back, and the reason, with a hint.
    pub(crate) held_back: Option<String>,
    /// Phrases for the functions of a plain component that are no tools.
    pub(crate) skipped: Vec<String>,
    /// Phrases for members of `extra` that this host does not know.
    pub(crate) remarks: Vec<String>,
}

impl Generation {
    /// Loads a component. Reading, compiling and linking run on threads that may block; dropping the future gives up
    /// the load. The identity belongs to the bytes that were read, even if `source` has changed since. `before` is the
    /// ceiling of the generation that this one replaces; `ahead` is the code of its file, if that is compiled already;
    /// `announce` is called with the plugin's name when compiling takes long.
    pub(crate) async fn load(
        shared: &Arc<Shared>,
        source: &PluginSource,
        number: u32,
        before: Option<Arc<Ceiling>>,
        share: &Arc<Share>,
        ahead: Option<CompiledAhead>,
        announce: &Announce,
    ) -> Result<Arc<Self>, LoadError> {
        let (linked, origin) = program_of(shared, source, number, before, share, ahead, announce).await?;
        // A component without its grants or its config may fail for that reason alone.
        let explained = |error: LoadError| match &linked.settings.held_back {
            Some(why) => LoadError::Policy(format!("{error:#}\n{why}")),
            None => error,
        };
        let described = describe(shared, &linked.program, &linked.inspection).await;
        let description = described.map_err(LoadError::from_fault).map_err(explained)?;
        let (shared, source) = (shared.clone(), source.clone());
        // Checking schemas may take a while.
        blocking(move || {
            let seen = linked.seen;
            let generation = Self::offering(linked, origin, description.clone())?;
            generation.let_code_go();
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

    /// Creates the first generation of a source from its description, without code, with the settings that the policy
    /// decided on. `None` when the description is not for them, or a check refuses it, so that a load has to tell.
    pub(crate) fn described(
        shared: &Arc<Shared>,
        source: &PluginSource,
        path: Option<PathBuf>,
        share: &Arc<Share>,
        described: Described,
        settings: PluginSettings,
    ) -> Option<Arc<Self>> {
        let settings = CutSettings::with_ceiling(settings, None, source, path, &described.inspection.manifest);
        if !described.is_for_config(&config_text(&settings)) {
            return None;
        }
        let description = described.description?;
        let digest = blake3::Hash::from_hex(&described.digest).ok()?;
        let inspected = Inspected { digest, inspection: described.inspection, settings, seen: None };
        let linked = linked(shared, inspected, 1, share.clone(), None);
        Self::offering(linked, CodeOrigin::Described, description).ok().map(Arc::new)
    }

    /// Puts a generation together, and checks its offer.
    fn offering(linked: Linked, origin: CodeOrigin, mut description: Description) -> Result<Self, LoadError> {
        let skipped = std::mem::take(&mut description.skipped);
        let remarks = std::mem::take(&mut description.remarks);
        let Linked { program, digest, inspection, settings, .. } = linked;
        let CutSettings { decided, grants, ceiling, held_back, hint, path, .. } = settings;
        let covered =
            |tool: &str, declared| ceiling.as_ref().map_or(declared, |ceiling| ceiling.effects(tool, declared));
        let lists = checked_lists(description, wording::LOADED, &program, covered)?;
        let declared = |tool: &ListedTool| (tool.definition.name.clone(), tool.declared);
        let mut generation = Self {
            plugin_name: FoldedNames::of_plugin(&program.name),
            offered: Ceiling {
                asks: inspection.manifest.capabilities.clone(),
                lifetime: inspection.manifest.lifetime,
                tools: lists.tools.iter().map(declared).collect(),
                commands: lists.commands.iter().map(|command| command.name.clone()).collect(),
            },
            lists: Arc::new(lists),
            program,
            inspection,
            digest,
            origin,
            settings: decided,
            path,
            grants,
            ceiling: ceiling.clone().unwrap_or_default(),
            held_back,
            skipped,
            remarks,
        };
        generation.settle_ceiling(ceiling.is_some(), hint);
        Ok(generation)
    }

    /// Allows the code to be dropped in favour of other plugins' code, unless an instance that stays needs it, or its
    /// calls run on the threads of their callers, which must not wait for a file.
    fn let_code_go(&self) {
        let stays = self.inspection.manifest.lifetime == Lifetime::Session || self.program.authority.only_waits();
        if let Some(code) = self.program.code.as_ref().filter(|_| !stays) {
            code.may_go();
        }
    }

    /// Returns whether this generation has no code yet, or lost it.
    pub(crate) fn is_described(&self) -> bool {
        self.program.code.as_ref().is_none_or(|code| !code.is_there())
    }

    /// Returns whether a hook is called.
    pub(crate) fn has_hook(&self, point: HookPoint) -> bool {
        self.inspection.exports.has_hook(point) && self.missing_for_hook(point).is_none()
    }

    /// Returns why an exported hook is not called.
    pub(crate) fn missing_for_hook(&self, point: HookPoint) -> Option<&'static str> {
        let Manifest { capabilities, lifetime, .. } = &self.inspection.manifest;
        if point == HookPoint::SessionEvents && *lifetime != Lifetime::Session {
            return Some("the plugin does not have the lifetime `session`");
        }
        if !capabilities.hooks {
            return Some("the manifest does not ask for `hooks`");
        }
        let is_granted = self.program.authority.held::<Hooks>().is_some_and(|points| points.contains(&point));
        (!is_granted).then_some(match point.needs_its_name() {
            true => "not granted by its name",
            false => "not granted",
        })
    }

    /// Returns whether a generation with code matches `described`, so that it can take its place unnoticed.
    pub(crate) fn is_as(&self, described: &Self) -> bool {
        self.digest == described.digest
            && self.lists.is_same(&described.lists)
            && self.offered == described.offered
            && self.ceiling == described.ceiling
            && self.held_back == described.held_back
    }

    /// The identity of the component, for a policy.
    pub(crate) fn identity<'a>(&'a self, source: &'a PluginSource, digest: &'a str) -> policy::Component<'a> {
        policy::Component { manifest: &self.inspection.manifest, source, digest, path: self.path.as_deref() }
    }

    /// Returns whether a command is newer than the grants, so that it runs without grants. Commands that appear while
    /// the plugin runs are covered if it had commands when it was granted.
    pub(crate) fn holds_back_command(&self, name: &str) -> bool {
        let appeared = self.has_offers() && !self.offered.commands.contains(name);
        !self.ceiling.commands.contains(name) && (!appeared || self.ceiling.commands.is_empty())
    }

    /// Returns whether its tools and commands may change while it runs.
    pub(crate) fn has_offers(&self) -> bool {
        self.inspection.exports.offers
    }

    /// Checks the plugin's offer while it runs. Also returns phrases for the effects that its ceiling does not cover.
    /// Blocks for as long as checking schemas takes.
    ///
    /// # Errors
    /// Something in the lists is invalid.
    pub(crate) fn running_lists(&self, description: Description) -> Result<(Lists, Vec<String>), LoadError> {
        let exports = &self.inspection.exports;
        for (what, is_exported, is_empty) in [
            ("tools", exports.tools, description.tools.is_empty()),
            ("commands", exports.commands, description.commands.is_empty()),
        ] {
            if !is_exported && !is_empty {
                return Err(LoadError::Offer(format!("offers {what} and does not export `{what}`")));
            }
        }
        let covered = |tool: &str, declared| self.ceiling.running_effects(tool, declared);
        let lists = checked_lists(description, wording::RUNNING, &self.program, covered)?;
        let held_back = |tool: &ListedTool| {
            let words = policy::beyond(tool.declared, tool.effects);
            (!words.is_empty()).then(|| format!("tool `{}`: {}", tool.definition.name, words.join(", ")))
        };
        let held_back = lists.tools.iter().filter_map(held_back).collect();
        Ok((lists, held_back))
    }

    /// Sets the ceiling for the first generation; notes the parts of a later generation's offer beyond it.
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
    /// The owner of stored values.
    path: Option<PathBuf>,
    identity: PluginIdentity,
}

impl CutSettings {
    /// Prefers the policy's ceiling to the earlier generation's ceiling. A component without grants needs no ceiling.
    fn with_ceiling(
        settings: PluginSettings,
        before: Option<Arc<Ceiling>>,
        source: &PluginSource,
        path: Option<PathBuf>,
        manifest: &Manifest,
    ) -> Self {
        let identity = source.identity(path.as_deref(), &manifest.name);
        let decided = settings.clone();
        let PluginSettings { grants, limits, config, ceiling, held_back, hint } = settings;
        let ceiling = ceiling.map(Arc::new).or(before).filter(|_| grants != Grants::default());
        let grants = match &ceiling {
            Some(ceiling) => ceiling.cut(manifest, grants),
            None => grants,
        };
        Self { decided, grants, limits, config, ceiling, held_back, hint, path, identity }
    }
}

/// Reads, compiles and links a component.
async fn program_of(
    shared: &Arc<Shared>,
    source: &PluginSource,
    number: u32,
    before: Option<Arc<Ceiling>>,
    share: &Arc<Share>,
    ahead: Option<CompiledAhead>,
    announce: &Announce,
) -> Result<(Linked, CodeOrigin), LoadError> {
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
        Read::Linked(linked) => Ok((linked, CodeOrigin::Cached)),
        Read::New(bytes, inspected) => {
            let name = &inspected.inspection.manifest.name;
            let job = CompileJob { source, bytes, digest: inspected.digest, number };
            let component = compile::compiled(shared, job, || announce(name)).await?;
            let (shared, share) = (shared.clone(), share.clone());
            let linked = blocking(move || link(&shared, &component, inspected, number, share)).await?;
            Ok((linked, CodeOrigin::Compiled))
        }
    }
}

/// Says that the plugin of this name takes long to compile.
pub(crate) type Announce = dyn Fn(&str) + Send + Sync;

/// The code of a file that may still change.
pub(crate) struct CompiledAhead {
    digest: blake3::Hash,
    component: Component,
}

/// Compiles a file that may still be written to, unless its code is in the cache. `None` when it cannot be loaded, now.
pub(crate) async fn compile_ahead(
    shared: Arc<Shared>,
    source: PluginSource,
    number: u32,
    announce: Box<Announce>,
) -> Option<CompiledAhead> {
    let (looking, read) = (shared.clone(), source.clone());
    let (bytes, digest, name) = blocking(move || {
        // A component that the policy refuses is not compiled.
        let (bytes, inspected) = inspect(&looking, &read, None)?;
        Ok((bytes, inspected.digest, inspected.inspection.manifest.name))
    })
    .await
    .ok()?;
    let job = CompileJob { source: &source, bytes, digest, number };
    let component = compile::compiled(&shared, job, || announce(&name)).await.ok()?;
    Some(CompiledAhead { digest, component })
}

/// A component that was read.
struct Inspected {
    digest: blake3::Hash,
    inspection: Inspection,
    settings: CutSettings,
    /// The state of its file before it was read.
    seen: Option<ComponentFileState>,
}

/// A component that was read, and its program: with code if it was compiled and linked, too.
struct Linked {
    program: Arc<InstanceTemplate>,
    digest: blake3::Hash,
    inspection: Inspection,
    settings: CutSettings,
    seen: Option<ComponentFileState>,
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
    source: &PluginSource,
    before: Option<Arc<Ceiling>>,
) -> Result<(Cow<'static, [u8]>, Inspected), LoadError> {
    let SourceMetadata { path, seen, .. } = SourceMetadata::at(source, &shared.surroundings.protected);
    let bytes = source.bytes()?;
    let inspection = source.inspect_bytes(&bytes)?;
    let digest = source.digest(&bytes);
    let (manifest, hex) = (&inspection.manifest, digest.to_hex());
    let component = policy::Component { manifest, source, digest: &hex, path: path.as_deref() };
    let settings = shared.policy.settings(&component);
    if let (Err(LoadError::Disabled(_)), Some(cache), Some(seen)) = (&settings, &shared.cache, seen) {
        Described::refused(&inspection, &digest).store(cache, shared.engine.compatibility(), source, seen);
    }
    let settings = CutSettings::with_ceiling(settings?, before, source, path, manifest);
    Ok((bytes, Inspected { digest, inspection, settings, seen }))
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
        .map_err(|error| LoadError::link(&link_problem(&inspected.inspection.imports), error))?;
    let Inspection { manifest, exports, .. } = &inspected.inspection;
    let code = Code::new(pre, component, exports, &manifest.name)?;
    Ok(linked(shared, inspected, number, share, Some(code)))
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
    .with_hint(settings.hint.clone())
    .with_identity(settings.identity.clone());
    let idle = (manifest.lifetime == Lifetime::Reused).then(Arc::default);
    let code = code.map(|code| {
        let name = manifest.name.as_str().into();
        let cached = CodeCacheEntry { shared: Arc::downgrade(shared), digest, exports: inspection.exports, name };
        HeldCode::new(code, Box::new(cached), shared.code_in_memory.clone(), idle.clone())
    });
    let program = InstanceTemplate {
        name: manifest.name.as_str().into(),
        number,
        digest,
        authority: Arc::new(authority),
        limits: Arc::new(limits),
        config: config_text(&settings).into(),
        share,
        changed: Arc::default(),
        idle,
        code,
    };
    Linked { program: Arc::new(program), digest, inspection, settings, seen }
}

/// Checks the lists of a plugin. `covered` cuts the declared effects of a tool of that name to those that it may have.
fn checked_lists(
    description: Description,
    bounds: ListBounds,
    program: &InstanceTemplate,
    covered: impl Fn(&str, Authority) -> Authority,
) -> Result<Lists, LoadError> {
    let granted = |effects| program.authority.of_tool(effects);
    let plugin =
        ListingPlugin { name: &program.name, generation: program.number, digest: &program.digest, granted: &granted };
    Lists::checked(description, bounds, &plugin, covered).map_err(LoadError::Offer)
}

/// The entry of a component's code in the cache.
struct CodeCacheEntry {
    shared: Weak<Shared>,
    digest: blake3::Hash,
    exports: Exports,
    /// The name of the plugin.
    name: Arc<str>,
}

impl CachedCode for CodeCacheEntry {
    fn exists(&self) -> bool {
        let is_in = |shared: Arc<Shared>| shared.cache.as_ref().is_some_and(|c| c.has(&shared.engine, &self.digest));
        self.shared.upgrade().is_some_and(is_in)
    }

    fn read(&self) -> Option<Code> {
        let shared = self.shared.upgrade()?;
        let component = shared.cache.as_ref()?.load(&shared.engine, &self.digest)?;
        let pre = shared.linker.instantiate_pre(&component).ok()?;
        Code::new(pre, &component, &self.exports, &self.name).ok()
    }
}

/// The plugin's own section of the config, as JSON.
fn config_text(settings: &CutSettings) -> String {
    if settings.config.is_object() { settings.config.to_string() } else { "{}".to_owned() }
}
