//! The difference of two versions: only additions, in the words of grants, and changed texts.

use super::described_tools::DescribedVersion;
use super::fetch::fetch;
use super::review;
use super::store_failure::store_failure;
use pinion_agent::hook::HookPoint;
use pinion_app::failure::Result;
use pinion_app::plugins::installed::HostReader;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, json, print, text, written};
use pinion_packages::{Package, PackageFiles, PackagedComponent};
use pinion_plugin_runtime::{Ceiling, Inspection};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// Interfaces of the contract that give a component no authority.
const WITHOUT_AUTHORITY: [&str; 4] =
    ["pinion:plugin/types", "pinion:plugin/log", "pinion:plugin/progress", "pinion:plugin/cancellation"];

/// The changes of a later version that the user sees.
#[derive(Debug, Default)]
pub(super) struct VersionChanges {
    /// Additions, which need an agreement.
    pub(super) grown: Vec<String>,
    /// Texts that changed, which need none.
    pub(super) reworded: Vec<String>,
}

impl VersionChanges {
    /// Returns one line for each change, additions first.
    pub(super) fn lines(&self) -> impl Iterator<Item = Text> + '_ {
        let grown = self.grown.iter().map(|part| text!("  + {}", Text::block(part)));
        grown.chain(self.reworded.iter().map(|part| text!("  ~ {}", Text::block(part))))
    }
}

/// Returns the changes of a package's binaries and other content since an earlier version. Runs nothing.
pub(super) fn changes(old: &Package, new: &Package) -> VersionChanges {
    let mut changes = VersionChanges::default();
    for component in &new.components {
        let Some(inspection) = inspected(new, component) else { continue };
        let earlier = component_of(old, component).and_then(|before| inspected(old, before));
        changes.grown.extend(component_growth(&component.facts.name, earlier.as_ref(), &inspection));
    }
    let known = review::parts(old);
    for part in review::parts(new) {
        let before = known.iter().find(|known| (known.kind, &known.name) == (part.kind, &part.name));
        match before {
            None => changes.grown.push(format!("{} is new{}", part.label(), part.about())),
            Some(before) if before.content == part.content => {}
            Some(_) if part.runs => changes.grown.push(format!("{} is another one{}", part.label(), part.about())),
            Some(_) => changes.reworded.push(format!("{} has other content", part.label())),
        }
    }
    changes
}

/// Returns the additions of a component to its earlier version, if there is one.
fn component_growth(name: &str, earlier: Option<&Inspection>, inspection: &Inspection) -> Vec<String> {
    let mut grown = Vec::new();
    if earlier.is_none() {
        grown.push(format!("plugin `{name}` is new"));
    }
    let ceiling = |inspection: &Inspection| Ceiling {
        asks: inspection.manifest.capabilities.clone(),
        lifetime: inspection.manifest.lifetime,
        ..Ceiling::default()
    };
    let known = earlier.map(ceiling).unwrap_or_default();
    grown.extend(known.excess(&ceiling(inspection)).into_iter().map(|phrase| format!("`{name}` asks to {phrase}")));
    if let Some(earlier) = earlier {
        let then = imports(earlier);
        let new = imports(inspection).into_iter().filter(|import| !then.contains(import));
        grown.extend(new.map(|import| format!("`{name}` imports {import}")));
    }
    for point in HookPoint::ALL {
        if inspection.exports.has_hook(point) && !earlier.is_some_and(|earlier| earlier.exports.has_hook(point)) {
            grown.push(format!("`{name}` has the hook `{}`", point.name()));
        }
    }
    grown
}

/// Returns the imports that can give a component authority, without their versions.
fn imports(inspection: &Inspection) -> BTreeSet<String> {
    let notable = inspection.imports.iter().filter(|import| review::is_notable(import));
    let names = notable.map(|import| import.split('@').next().unwrap_or_default().to_owned());
    names.filter(|name| !WITHOUT_AUTHORITY.contains(&name.as_str())).collect()
}

fn inspected(package: &Package, component: &PackagedComponent) -> Option<Inspection> {
    Inspection::from_file(package.files.get(&component.path)?, Path::new(&component.path)).ok()
}

/// Returns the component of another version that has the same name.
fn component_of<'a>(package: &'a Package, component: &PackagedComponent) -> Option<&'a PackagedComponent> {
    package.components.iter().find(|other| other.facts.name == component.facts.name)
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

/// Prints the changes from one package to another.
pub(super) async fn diff(base: &Base, old: &str, new: &str, as_json: bool) -> Result<()> {
    let (old, new) = (resolve(base, old).await?, resolve(base, new).await?);
    let mut changes = changes(&old, &new);
    for component in &new.components {
        let before = component_of(&old, component);
        if before.is_some_and(|before| before.digest == component.digest) {
            continue;
        }
        let earlier = match before {
            Some(before) => DescribedVersion::load(base, &old, before).await?,
            None => DescribedVersion::default(),
        };
        if before.is_some_and(|before| before.facts.description != component.facts.description) {
            changes.reworded.push(format!("`{}` describes itself differently", component.facts.name));
        }
        DescribedVersion::load(base, &new, component).await?.compare(&earlier, &mut changes);
    }
    if as_json {
        let VersionChanges { grown, reworded } = changes;
        return written(json(&json!({ "from": old.version, "to": new.version, "grown": grown, "reworded": reworded })));
    }
    let mut text = text!("{} {} -> {}\n", new.name, old.version, new.version);
    if changes.grown.is_empty() {
        text.line(text!("  nothing grew"));
    }
    changes.lines().for_each(|line| text.line(line));
    print(&text)
}
