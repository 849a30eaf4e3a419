//! The difference of two versions: only additions, in the words of grants.

use super::fetch::fetch;
use super::review;
use super::store_failure::store_failure;
use crate::commands::plugin::show::describe;
use pinion_agent::ToolDefinition;
use pinion_app::failure::Result;
use pinion_app::plugins::installed::HostReader;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, json, print, text, written};
use pinion_packages::{Package, PackageFiles};
use pinion_plugin_runtime::{Ceiling, Inspection, PluginInfo};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Returns the additions of a package's binaries to an earlier version. Runs nothing.
pub(super) fn growth(old: &Package, new: &Package) -> Vec<String> {
    let mut grown = Vec::new();
    for component in &new.components {
        let name = &component.facts.name;
        let before = old.components.iter().find(|before| before.facts.name == *name);
        let Some(inspection) = inspected(new, &component.path) else { continue };
        let earlier = before.and_then(|before| inspected(old, &before.path));
        if earlier.is_none() {
            grown.push(format!("plugin `{name}` is new"));
        }
        let ceiling = |inspection: &Inspection| Ceiling {
            asks: inspection.manifest.capabilities.clone(),
            lifetime: inspection.manifest.lifetime,
            ..Ceiling::default()
        };
        let known = earlier.as_ref().map(ceiling).unwrap_or_default();
        grown
            .extend(known.excess(&ceiling(&inspection)).into_iter().map(|phrase| format!("`{name}` asks to {phrase}")));
        let imports = |inspection: Option<&Inspection>| -> BTreeSet<String> {
            let imports = inspection.into_iter().flat_map(|inspection| &inspection.imports);
            imports.map(|import| import.split('@').next().unwrap_or_default().to_owned()).collect()
        };
        let (now, then) = (imports(Some(&inspection)), imports(earlier.as_ref()));
        grown.extend(
            now.difference(&then).filter(|_| earlier.is_some()).map(|import| format!("`{name}` imports {import}")),
        );
        if inspection.exports.has_hooks() && !earlier.as_ref().is_some_and(|earlier| earlier.exports.has_hooks()) {
            grown.push(format!("`{name}` has hooks"));
        }
    }
    let known: BTreeSet<String> =
        review::content(old).into_iter().map(|(kind, value)| format!("{kind}: {value}")).collect();
    let content = review::content(new).into_iter().map(|(kind, value)| format!("{kind}: {value}"));
    grown.extend(content.filter(|part| !known.contains(part)));
    grown
}

fn inspected(package: &Package, path: &str) -> Option<Inspection> {
    Inspection::from_file(package.files.get(path)?, Path::new(path)).ok()
}

/// Returns the package of a source, or an installed version as `NAME` or `NAME@VERSION`.
async fn resolve(base: &Base, text: &str) -> Result<Package> {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    if base.paths.plugin_lock_file().exists() {
        let store = base.package_store()?;
        let lock = store.read().map_err(store_failure)?;
        if let Some(package) = lock.package(name) {
            let is_meant = |release: &&pinion_packages::LockedRelease| match version {
                Some(version) => release.version == version,
                None => release.digest == package.active,
            };
            if let Some(release) = package.releases.iter().find(is_meant) {
                let files = PackageFiles::read_directory(&store.directory(&release.digest));
                let package = files.and_then(|files| Package::read(files, name, &HostReader));
                return package
                    .map_err(|error| pinion_app::failure::Failure::failed(format!("`{text}`")).because(error));
            }
        }
    }
    fetch(base, text).await.map(|fetched| fetched.package)
}

/// Prints the additions of one package to another.
pub(super) async fn diff(base: &Base, old: &str, new: &str, as_json: bool) -> Result<()> {
    let (old, new) = (resolve(base, old).await?, resolve(base, new).await?);
    let mut grown = growth(&old, &new);
    for component in &new.components {
        let before = old.components.iter().find(|before| before.facts.name == component.facts.name);
        let Some(before) = before.filter(|before| before.digest != component.digest) else { continue };
        let bytes = |package: &Package, path: &str| package.files.get(path).unwrap_or_default().to_owned();
        let earlier = describe(base, &bytes(&old, &before.path), &before.path).await?;
        let later = describe(base, &bytes(&new, &component.path), &component.path).await?;
        grown.extend(tools(&earlier, &later));
        if before.facts.description != component.facts.description {
            grown.push(format!("`{}` describes itself differently", component.facts.name));
        }
    }
    if as_json {
        return written(json(&json!({ "from": old.version, "to": new.version, "grown": grown })));
    }
    let mut text = text!("{} {} -> {}\n", new.name, old.version, new.version);
    if grown.is_empty() {
        text.line(text!("  nothing grew"));
    }
    grown.iter().for_each(|part| text.line(text!("  + {}", Text::block(part))));
    print(&text)
}

/// A component with its tools, as the runtime loaded it without grants.
type DescribedTools = (PluginInfo, Vec<Arc<ToolDefinition>>);

/// Returns the tools that are new, declare more effects, or changed their schema or description.
fn tools((old_info, old): &DescribedTools, (new_info, new): &DescribedTools) -> Vec<String> {
    let declared =
        |info: &PluginInfo, name: &str| info.offered.tools.get(name).copied().unwrap_or_default().effect_names();
    let mut grown = Vec::new();
    for tool in new {
        let name = &tool.name;
        let Some(before) = old.iter().find(|before| before.name == *name) else {
            let effects = declared(new_info, name).join(", ");
            grown.push(format!("tool `{name}` is new ({})", if effects.is_empty() { "no effects" } else { &effects }));
            continue;
        };
        let known = declared(old_info, name);
        let more: Vec<&str> = declared(new_info, name).into_iter().filter(|effect| !known.contains(effect)).collect();
        if !more.is_empty() {
            grown.push(format!("tool `{name}` declares {}", more.join(", ")));
        }
        if before.input_schema != tool.input_schema {
            grown.push(format!("tool `{name}` takes other arguments"));
        }
        if before.description != tool.description {
            grown.push(format!("tool `{name}` is described differently"));
        }
    }
    grown
}
