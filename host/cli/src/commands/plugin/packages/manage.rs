//! Changes of installed packages: removal, other versions, verification.

use super::store_failure::store_failure;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::plugins::grants::GrantsFile;
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, count, json, note, print, stdout_failure, text, written};
use pinion_packages::{LockedPackage, LockedRelease, LockedServer, PackageStore, PackagedServer, shown_source};
use pinion_plugin_runtime::without_links;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Removes a package.
pub(super) fn remove(base: &Base, name: &str, as_json: bool) -> Result<()> {
    let store = base.package_store()?;
    let lock = store.read().map_err(store_failure)?;
    let releases = lock.package(name).into_iter().flat_map(|package| &package.releases);
    let components = releases.flat_map(|release| &release.components);
    let files: Vec<PathBuf> = components.map(|component| without_links(&store.plugin_file(&component.name))).collect();
    store.remove(name).map_err(store_failure)?;
    forget_grants(base, &files)?;
    match as_json {
        true => written(json(&json!({ "removed": name }))),
        false => print(&text!("removed {}\n", name)),
    }
}

/// Removes the grants of components, so that a later installation begins without them.
fn forget_grants(base: &Base, files: &[PathBuf]) -> Result<()> {
    let grants = GrantsFile::new(base.paths.grants_file());
    if !grants.path().exists() {
        return Ok(());
    }
    let forgotten = grants.update(|pins| pins.retain(|pin| !files.contains(&pin.path)));
    let failed = || Failure::failed(format!("could not use `{}`", grants.path().display()));
    forgotten.map_err(|error| failed().because(error))
}

/// Activates a kept version.
pub(super) fn use_version(base: &Base, package: &str) -> Result<()> {
    let Some((name, version)) = package.split_once('@') else {
        return Err(Failure::usage(format!("`{package}` names no version")).hint("for example greet@1.0.0"));
    };
    switch(base, name, Some(version))
}

/// Activates the other version.
pub(super) fn rollback(base: &Base, name: &str) -> Result<()> {
    switch(base, name, None)
}

fn switch(base: &Base, name: &str, version: Option<&str>) -> Result<()> {
    let store = base.package_store()?;
    let lock = store.read().map_err(store_failure)?;
    let active = lock.package(name).and_then(LockedPackage::active_release);
    let current = active.map(|active| current_grants(base, &store, active)).transpose()?.unwrap_or_default();
    let version = store.switch(name, version, &current).map_err(store_failure)?;
    print(&text!("{} {} is active\n", name, version))
}

/// Reports files that differ from the lock file.
pub(super) fn verify(base: &Base, as_json: bool) -> Result<()> {
    let store = base.package_store()?;
    let problems: Vec<String> = store.verify().map_err(store_failure)?.iter().map(ToString::to_string).collect();
    let number = store.read().map_err(store_failure)?.packages.len();
    if as_json {
        written(json(&json!({ "packages": number, "problems": problems })))?;
    }
    if !problems.is_empty() {
        let failure = Failure::failed(format!("installed packages were changed: {}", problems.join("; ")));
        return Err(failure.hint("remove the package, then install it again"));
    }
    if as_json { Ok(()) } else { print(&text!("{} verified\n", count(number as u64, "package"))) }
}

/// Shows a lock file whose seal is void, and seals it as it is.
pub(super) fn accept(base: &Base, yes: bool) -> Result<()> {
    let store = base.package_store()?;
    let lock = store.read_unsealed().map_err(store_failure)?;
    let mut list = Text::default();
    for package in &lock.packages {
        for release in &package.releases {
            let state = if release.digest == package.active { "active" } else { "kept" };
            let source = shown_source(&release.source);
            list.line(text!("{} {} ({}) from {}", package.name, release.version, state, source));
            for component in &release.components {
                let granted =
                    if component.granted.is_empty() { "nothing".to_owned() } else { component.granted.join(" ") };
                list.line(text!("  {} is granted {}", component.name, granted));
            }
            for server in release.servers.iter().filter(|server| server.enabled) {
                let LockedServer { name, entry, variables, .. } = server.clone();
                let summary = PackagedServer { name, entry, variables }.summary();
                list.line(text!("  MCP server {}:{} is enabled: {}", package.name, server.name, Text::block(&summary)));
            }
        }
    }
    note(&list);
    if !yes {
        if !is_interactive() {
            return Err(Failure::new(Status::Denied, "nothing was accepted: no terminal to ask on").hint("add --yes"));
        }
        if !confirm(&text!("Use the lock file as it is?")).map_err(stdout_failure)? {
            return Err(Failure::new(Status::Denied, "nothing was accepted"));
        }
    }
    store.accept(&lock).map_err(store_failure)?;
    print(&text!("accepted\n"))
}

/// Takes a plugin whose file its author built out of the package that installed it.
pub(crate) fn release_built(base: &Base, file: &Path, name: &str) -> Result<()> {
    if file.parent() != Some(base.paths.plugins().as_path()) || !base.paths.plugin_lock_file().exists() {
        return Ok(());
    }
    if base.package_store()?.release(name).map_err(store_failure)? {
        note(&text!("`{}` no longer belongs to the package that installed it", name));
    }
    Ok(())
}

/// Returns the grants that the components of the active release have now, after `pinion plugin grant` and `revoke`, as words
/// of the command line: of each component that `grants.toml` knows.
pub(super) fn current_grants(
    base: &Base,
    store: &PackageStore,
    active: &LockedRelease,
) -> Result<BTreeMap<String, Vec<String>>> {
    let file = GrantsFile::new(base.paths.grants_file());
    let failed = |error| Failure::failed(format!("could not use `{}`", file.path().display())).because(error);
    let pins = file.read().map_err(failed)?;
    let grants = active.components.iter().filter_map(|component| {
        let path = without_links(&store.plugin_file(&component.name));
        let pin = pins.iter().find(|pin| pin.path == path && pin.digest == component.digest)?;
        Some((component.name.clone(), pin.grants.spell_grants()))
    });
    Ok(grants.collect())
}
