//! The parts of an installed package that are not components, for `pinion plugin info`.

use super::add::read_active;
use super::review::parts;
use super::store_failure::store_failure;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, left, text};
use pinion_packages::{LockedPackage, PackagedHook, shown_source};
use serde_json::{Value, json};

/// An installed package as text and for programs.
pub(crate) struct InstalledParts {
    pub(crate) text: Text,
    pub(crate) report: Value,
}

/// Describes the package of this name, or the package with the plugin of this name; `None` if there is no such one.
pub(crate) fn installed_parts(base: &Base, name: &str) -> Result<Option<InstalledParts>> {
    if !base.paths.plugin_lock_file().exists() {
        return Ok(None);
    }
    let store = base.package_store()?;
    let lock = store.read().map_err(store_failure)?;
    let has_plugin =
        |package: &&LockedPackage| package.active_release().is_some_and(|active| active.component(name).is_some());
    let package = lock.package(name).or_else(|| lock.packages.iter().find(has_plugin));
    let Some((package, active)) = package.and_then(|package| Some((package, package.active_release()?))) else {
        return Ok(None);
    };
    let content = read_active(&store, active)?;
    let mut text = Text::default();
    let mut line = |name: &str, value: &str| text.line(text!("  {} {}", left(name, 12), Text::block(value)));
    line("package", &format!("{} {} from {}", package.name, active.version, shown_source(&active.source)));
    let mut reports = Vec::new();
    for part in parts(&content) {
        let server = part.name.split_once(':').filter(|_| part.runs).and_then(|(_, server)| active.server(server));
        let state = match server {
            Some(server) if server.enabled => " (enabled)",
            _ if part.runs => " (disabled)",
            _ => "",
        };
        line(part.kind, &format!("{}{state}{}", part.name, part.about()));
        let enabled = part.runs.then(|| server.is_some_and(|server| server.enabled));
        reports.push(json!({ "kind": part.kind, "name": part.name, "about": part.place, "enabled": enabled }));
    }
    let hooks: Vec<String> = content.hooks.iter().map(PackagedHook::summary).collect();
    hooks.iter().for_each(|hook| line("not used", &format!("hook {hook}")));
    let report = json!({
        "name": package.name, "version": active.version, "source": shown_source(&active.source), "parts": reports,
        "hooks_left_out": hooks,
    });
    Ok(Some(InstalledParts { text, report }))
}
