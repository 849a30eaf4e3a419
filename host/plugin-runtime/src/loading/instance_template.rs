//! Compiled and linked code, with the authority and the limits of its instances.

use crate::calls::idle::IdleInstances;
use crate::calls::state::State;
use crate::capability::authority::PluginAuthority;
use crate::load_error::LoadError;
use crate::loading::code::HeldCode;
use crate::manifest::Exports;
use pinion_plugin_contract::version::{API_VERSION, HOOKS_PACKAGE};
use pinion_plugin_functions::functions::PlainFunctions;
use pinion_plugin_limits::{GuestError, Limits, Share};
use pinion_protocol::HookPoint;
use std::sync::Arc;
use tokio::sync::Notify;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

/// The beginning of the interfaces of the contract.
const PLUGIN_PACKAGE: &str = "pinion:plugin/";

/// The code and settings that the instances of a generation are created from.
#[derive(Clone)]
pub(crate) struct InstanceTemplate {
    pub(crate) name: Arc<str>,
    /// The number of the generation.
    pub(crate) number: u32,
    /// The digest of the component.
    pub(crate) digest: blake3::Hash,
    pub(crate) authority: Arc<PluginAuthority>,
    pub(crate) limits: Arc<Limits>,
    /// The plugin's own section of the config, as JSON.
    pub(crate) config: Arc<str>,
    /// The plugin's share of the resources that all plugins need.
    pub(crate) share: Arc<Share>,
    /// Notified when `offers.list` would return something else.
    pub(crate) changed: Arc<Notify>,
    /// The instances that wait for the next call; `None` where each call gets a fresh one.
    pub(crate) idle: Option<Arc<IdleInstances>>,
    /// The code; `None` while only the description of the component was read.
    pub(crate) code: Option<Arc<HeldCode>>,
}

/// The compiled and linked code of a component.
pub(crate) struct Code {
    pub(crate) pre: InstancePre<State>,
    pub(crate) exported: Exported,
    /// The functions of a plain component.
    pub(crate) functions: Option<Arc<PlainFunctions>>,
}

/// A function that a component exports.
#[derive(Clone, Copy)]
pub(crate) struct ExportedFunction {
    pub(crate) index: ComponentExportIndex,
    package: &'static str,
    interface: &'static str,
    function: &'static str,
}

impl ExportedFunction {
    /// Its name in a journal.
    pub(crate) fn journal_name(&self) -> String {
        format!("{}{}#{}", self.package, self.interface, self.function)
    }
}

/// The functions that a component exports, looked up once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exported {
    pub(crate) tools: Option<ToolsExport>,
    pub(crate) commands: Option<CommandsExport>,
    pub(crate) lifecycle: Option<LifecycleExport>,
    pub(crate) state: Option<StateExport>,
    pub(crate) offers: Option<OffersExport>,
    pub(crate) hooks: HookExports,
}

/// The functions of the hooks, by the position of their points in [`HookPoint::ALL`].
#[derive(Clone, Copy, Default)]
pub(crate) struct HookExports([Option<ExportedFunction>; HookPoint::ALL.len()]);

impl HookExports {
    /// The function of a hook.
    pub(crate) fn at(&self, point: HookPoint) -> Option<ExportedFunction> {
        self.0[point as usize]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ToolsExport {
    pub(crate) list_tools: ExportedFunction,
    pub(crate) call_tool: ExportedFunction,
}

#[derive(Clone, Copy)]
pub(crate) struct CommandsExport {
    pub(crate) list_commands: ExportedFunction,
    pub(crate) complete_argument: ExportedFunction,
    pub(crate) run_command: ExportedFunction,
}

#[derive(Clone, Copy)]
pub(crate) struct LifecycleExport {
    pub(crate) init: ExportedFunction,
    pub(crate) self_test: ExportedFunction,
}

#[derive(Clone, Copy)]
pub(crate) struct StateExport {
    pub(crate) save_state: ExportedFunction,
    pub(crate) restore_state: ExportedFunction,
}

#[derive(Clone, Copy)]
pub(crate) struct OffersExport {
    pub(crate) list: ExportedFunction,
}

impl InstanceTemplate {
    /// The code, to create instances. Blocks if the file must be read again.
    ///
    /// # Errors
    /// Only the description of the component was read, or the code is no longer in the cache.
    pub(crate) fn code(&self) -> Result<Arc<Code>, GuestError> {
        self.code.as_ref().ok_or(GuestError::NotLoaded)?.get()
    }

    /// Copies the program with other limits, for calls on fresh instances.
    pub(crate) fn under(&self, limits: &Limits) -> Arc<Self> {
        Arc::new(Self { limits: Arc::new(limits.clone()), idle: None, ..self.clone() })
    }
}

impl Code {
    /// Looks up everything that the plugin of this name exports.
    pub(crate) fn new(
        pre: InstancePre<State>,
        component: &Component,
        exports: &Exports,
        plugin: &str,
    ) -> Result<Self, LoadError> {
        let exported = Exported::from_component(component, exports)?;
        let functions = exports.functions.then(|| Arc::new(PlainFunctions::from_component(component, plugin)));
        Ok(Self { pre, exported, functions })
    }
}

impl Exported {
    /// Looks up the functions of each interface that the component exports.
    pub(crate) fn from_component(component: &Component, exports: &Exports) -> Result<Self, LoadError> {
        let find_in = |package: &'static str, interface: &'static str, function: &'static str| {
            // Finds the interface in each patch version of the series.
            let name = format!("{package}{interface}@{API_VERSION}");
            let instance = component.get_export_index(None, &*name);
            let index = instance.and_then(|instance| component.get_export_index(Some(&instance), function));
            index.map(|index| ExportedFunction { index, package, interface, function }).ok_or_else(|| LoadError::Link {
                message: format!("`{interface}` has no function `{function}`"),
                source: None,
            })
        };
        let find = |interface, function| find_in(PLUGIN_PACKAGE, interface, function);
        let mut exported = Self::default();
        if exports.tools {
            let (list_tools, call_tool) = (find("tools", "list-tools")?, find("tools", "call-tool")?);
            exported.tools = Some(ToolsExport { list_tools, call_tool });
        }
        if exports.commands {
            exported.commands = Some(CommandsExport {
                list_commands: find("commands", "list-commands")?,
                complete_argument: find("commands", "complete-argument")?,
                run_command: find("commands", "run-command")?,
            });
        }
        if exports.lifecycle {
            let (init, self_test) = (find("lifecycle", "init")?, find("lifecycle", "self-test")?);
            exported.lifecycle = Some(LifecycleExport { init, self_test });
        }
        if exports.state {
            let (save_state, restore_state) = (find("state", "save-state")?, find("state", "restore-state")?);
            exported.state = Some(StateExport { save_state, restore_state });
        }
        if exports.offers {
            exported.offers = Some(OffersExport { list: find("offers", "list")? });
        }
        for point in HookPoint::ALL.into_iter().filter(|point| exports.has_hook(*point)) {
            let (package, function) = function(point);
            exported.hooks.0[point as usize] = Some(find_in(package, point.name(), function)?);
        }
        Ok(exported)
    }
}

/// The package of a hook's interface, and its function.
const fn function(point: HookPoint) -> (&'static str, &'static str) {
    match point {
        HookPoint::BeforeToolCall | HookPoint::BeforePrompt => (PLUGIN_PACKAGE, "check"),
        HookPoint::AfterToolCall => (PLUGIN_PACKAGE, "revise"),
        HookPoint::BeforeCompaction => (PLUGIN_PACKAGE, "instructions"),
        HookPoint::SessionEvents => (PLUGIN_PACKAGE, "on-events"),
        HookPoint::BeforeStop => (HOOKS_PACKAGE, "check"),
        HookPoint::SessionStart => (HOOKS_PACKAGE, "started"),
        HookPoint::SessionEnd => (HOOKS_PACKAGE, "ended"),
        HookPoint::AfterReply => (HOOKS_PACKAGE, "revise"),
    }
}
