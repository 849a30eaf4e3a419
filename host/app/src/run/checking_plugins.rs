//! Plugins that the user lets check calls or prompts. A run does not start if one of them is missing: calls and prompts
//! that it denies would be allowed.

use crate::failure::{Failure, Result};
use crate::options::RunOptions;
use crate::plugins::grants::Pins;
use crate::plugins::sources::Purpose;
use crate::workspace_base::Base;
use pinion_agent::hook::HookPoint;
use pinion_plugin_runtime::{
    FileOrigin, GrantTable, LikenessMap, PluginInfo, PluginSource, Runtime, is_alike, without_links,
};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The points where a failing hook denies.
const CHECKS: [HookPoint; 2] = [HookPoint::BeforeToolCall, HookPoint::BeforePrompt];

/// A plugin that is meant to check calls or prompts.
struct Check {
    /// The name that the hooks were granted to, or the name of the file.
    name: String,
    points: BTreeSet<HookPoint>,
    /// Grants were bound to its file.
    is_pinned: bool,
}

/// The grants and settings that decide which plugins have to check, by names and files.
struct HookGrants<'a> {
    /// `None` if they cannot be read.
    pins: Option<Arc<Pins>>,
    sections: LikenessMap<&'a GrantTable>,
    disabled: LikenessMap<()>,
}

impl<'a> HookGrants<'a> {
    fn from_base(base: &'a Base) -> Self {
        let sections = base.config.user_plugins.iter().map(|(name, plugin)| (name, &plugin.grants));
        Self { pins: base.pins().ok(), sections: sections.collect(), disabled: base.disabled_names() }
    }
}

/// Returns a plugin with its file; `None` for a built-in one.
fn by_file(plugin: &PluginInfo) -> Option<((&Path, FileOrigin), &PluginInfo)> {
    match &plugin.component_source {
        PluginSource::File { path, origin } => Some(((path, *origin), plugin)),
        PluginSource::BuiltIn { .. } => None,
    }
}

impl Base {
    /// Loads the code of plugins that check calls or prompts, which is read at its first use otherwise, and fails if one of
    /// them is installed and does not check.
    pub async fn require_checks(&self, options: &RunOptions, purpose: Purpose, runtime: &Runtime) -> Result<()> {
        if !self.grants_hooks() {
            return Ok(());
        }
        let checking = runtime.plugins().into_iter().filter(|plugin| checks(plugin).any(|(_, why)| why.is_none()));
        let loads: Vec<_> = checking.map(|plugin| runtime.begin_code(&plugin.name)).collect();
        for load in loads {
            load.settled().await;
        }
        let (plugins, grants) = (runtime.plugins(), HookGrants::from_base(self));
        let by_file: HashMap<(&Path, FileOrigin), &PluginInfo> = plugins.iter().filter_map(by_file).collect();
        for source in self.sources(options, purpose) {
            let PluginSource::File { path, origin } = &source else { continue };
            let plugin = by_file.get(&(path.as_path(), *origin)).copied();
            let Some(check) = self.check_in(path, *origin, plugin, &grants) else { continue };
            if let Some(why) = missing(&check, path, plugin, &plugins, runtime) {
                let name = &check.name;
                let text = format!("the plugin `{name}` has to check what the agent does, and cannot: {why}");
                let without =
                    format!("to run without its checks, set `enabled = false` in [plugins.{name}] of the config");
                return Err(Failure::failed(text).hint(without));
            }
        }
        Ok(())
    }

    /// Returns the check that a file is meant to be; `None` if the user granted it no hook that checks, or disabled it.
    /// Without pins, which cannot be read, any file of the user may be one.
    fn check_in(
        &self,
        path: &Path,
        origin: FileOrigin,
        plugin: Option<&PluginInfo>,
        grants: &HookGrants<'_>,
    ) -> Option<Check> {
        let path = without_links(path);
        let HookGrants { pins, sections, disabled } = grants;
        let pin = pins.as_ref().and_then(|pins| pins.at(&path));
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = pin.map(|pin| pin.name.clone()).or_else(|| plugin.map(|plugin| plugin.name.clone()));
        let name = name.unwrap_or_else(stem);
        if disabled.values_like(&name).next().is_some() {
            return None;
        }
        let granted = |table: &GrantTable| self.grants(table).hooks;
        let section = || {
            let mut sections = sections.values_like(&name).filter(|_| origin != FileOrigin::Project);
            sections.next().map(|table| granted(table))
        };
        let points = match (pins, pin) {
            (None, _) if origin != FileOrigin::Project => CHECKS.into(),
            (_, Some(pin)) if pin.config => &granted(&pin.grants) | &section().unwrap_or_default(),
            (_, Some(pin)) => granted(&pin.grants),
            (_, None) => section().unwrap_or_default(),
        };
        let points: BTreeSet<HookPoint> = points.into_iter().filter(|point| CHECKS.contains(point)).collect();
        (!points.is_empty()).then_some(Check { name, points, is_pinned: pin.is_some() })
    }
}

/// The hooks of a plugin that check, each with the reason why it is not called.
fn checks(plugin: &PluginInfo) -> impl Iterator<Item = (HookPoint, Option<&'static str>)> {
    plugin.hooks.iter().map(|hook| (hook.point, hook.not_called)).filter(|(point, _)| CHECKS.contains(point))
}

/// Returns the reason why a check is not in force; `None` if it is.
fn missing(
    check: &Check,
    path: &Path,
    plugin: Option<&PluginInfo>,
    plugins: &[PluginInfo],
    runtime: &Runtime,
) -> Option<String> {
    let Some(plugin) = plugin else {
        // One that the user named comes before an installed one of the same name.
        let mut namesakes = plugins.iter().filter(|plugin| is_alike(&plugin.name, &check.name));
        if namesakes.any(|plugin| checks(plugin).any(|(point, why)| why.is_none() && check.points.contains(&point))) {
            return None;
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let problem = runtime.problems().into_iter().find(|(name, _)| *name == check.name || *name == file);
        return Some(problem.map_or_else(|| "it was not loaded".to_owned(), |(_, problem)| problem));
    };
    let held_back = plugin.held_back.clone().filter(|_| check.is_pinned || checks(plugin).next().is_some());
    if held_back.is_some() {
        return held_back;
    }
    let mut reasons = checks(plugin).filter(|(point, _)| check.points.contains(point));
    reasons.find_map(|(point, why)| Some(format!("`{point}` is not called: {}", why?)))
}
