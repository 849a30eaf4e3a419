//! `pinion plugin grant` and `pinion plugin revoke`: grants bound to a component; and capabilities on the command line, such
//! as `files=read` and `process`.

use crate::commands::plugin::show::{find, is_name};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::plugins::grants::{GrantsFile, Pin};
use pinion_app::plugins::policy::shown;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, left, print, text};
use pinion_plugin_runtime::{
    Asks, FileOrigin, GrantTable, PluginInfo, PluginSource, UnknownCapability, capability_forms, is_alike,
    without_links,
};
use std::io;
use std::path::{Path, PathBuf};

/// Grants capabilities to the component in its current version. Without capabilities, confirms a changed component: it
/// keeps the grants of its earlier version and those that the config has for its name.
pub(crate) async fn grant(base: &Base, plugin: &str, words: &[String]) -> Result<()> {
    let (_, info) = find(base, plugin).await?;
    let (path, origin) = file_of(base, &info)?;
    if origin == FileOrigin::Project && is_name(plugin) {
        let asks = info.offered.asks.spell_asks().join(" ");
        return Err(Failure::usage(format!("plugin `{plugin}` belongs to the project"))
            .hint(format!("name its file: pinion plugin grant {} {asks}", shown(&path))));
    }
    let more = parse_grants(base, words)?;
    check_asked(&info, &more)?;
    print(&about(&info, &path, origin))?;
    let file = GrantsFile::new(base.paths.grants_file());
    let pin = file.update(|pins| pin(pins, &info, &path, origin, &more)).map_err(|error| unusable(&file, &error))??;
    print(&text!("granted: {}\n", listed(base, &pin)))
}

/// Revokes capabilities of a component, or all of them.
pub(crate) async fn revoke(base: &Base, plugin: &str, words: &[String]) -> Result<()> {
    let file = GrantsFile::new(base.paths.grants_file());
    let less = parse_grants(base, words)?;
    let pins = file.read().map_err(|error| unusable(&file, &error))?;
    let path = match pins.iter().find(|pin| is_meant(base, pin, plugin)) {
        Some(pin) => pin.path.clone(),
        // Nothing is recorded yet; record that nothing is granted.
        None => {
            let (_, info) = find(base, plugin).await?;
            let (path, origin) = file_of(base, &info)?;
            let none = GrantTable::default();
            let pinned = file.update(|pins| pin(pins, &info, &path, origin, &none));
            pinned.map_err(|error| unusable(&file, &error))??;
            path
        }
    };
    let left = file.update(|pins| {
        let pin = pins.iter_mut().find(|pin| pin.path == path)?;
        remove_grants(base, pin, &less, words.is_empty());
        Some(pin.clone())
    });
    match left.map_err(|error| unusable(&file, &error))? {
        Some(pin) => print(&text!("{}: still granted: {}\n", shown(&pin.path), listed(base, &pin))),
        None => Err(Failure::failed(format!("another process changed the grants of `{plugin}`"))),
    }
}

/// Moves grants to a component that `pinion plugin build` wrote over an earlier version, because the user built it. New
/// requests and effects stay withheld.
pub(crate) fn follow(base: &Base, built: &Path, name: &str, digest: &str) -> Result<()> {
    let file = GrantsFile::new(base.paths.grants_file());
    if !file.path().exists() {
        return Ok(());
    }
    let path = without_links(built);
    let followed = file.update(|pins| {
        if let Some(pin) = pins.iter_mut().find(|pin| pin.path == path && pin.name == name) {
            digest.clone_into(&mut pin.digest);
        }
    });
    followed.map_err(|error| unusable(&file, &error))
}

/// Returns the file and origin of a component, if it can have separate grants.
fn file_of(base: &Base, info: &PluginInfo) -> Result<(PathBuf, FileOrigin)> {
    let PluginSource::File { path, origin } = &info.component_source else {
        return Err(Failure::usage(format!("the grants of the built-in plugin `{}` are in the config", info.name))
            .hint(format!("set [plugins.{}.grants] in {}", info.name, shown(&base.paths.config_file()))));
    };
    let path = without_links(path);
    if *origin == FileOrigin::Project && !base.is_trusted_plugin(&path) {
        return Err(Failure::new(Status::Denied, format!("`{}` is not in a trusted project", path.display()))
            .hint("in the project's directory, run: pinion trust add"));
    }
    Ok((path, *origin))
}

fn check_asked(info: &PluginInfo, more: &GrantTable) -> Result<()> {
    let asks = &info.offered.asks;
    if asks.covers(&more.asks()) {
        return Ok(());
    }
    Err(Failure::usage(format!("plugin `{}` does not ask for all of this", info.name))
        .hint(format!("it asks for {}", or_nothing(asks.spell_asks()))))
}

/// Replaces the pin of this path with the current component and adds to its grants.
fn pin(pins: &mut Vec<Pin>, info: &PluginInfo, path: &Path, origin: FileOrigin, more: &GrantTable) -> Result<Pin> {
    let old = pins.iter().position(|pin| pin.path == path).map(|at| pins.remove(at));
    // A different plugin at the same path starts without grants.
    let old = old.filter(|old| old.name == info.name && old.source == origin);
    let is_confirming = *more == GrantTable::default();
    let others = pins.iter().any(|pin| pin.config && is_alike(&pin.name, &info.name));
    let config = match (origin, &old) {
        (FileOrigin::Project, None) if is_confirming => {
            let hint = format!("pinion plugin grant {} {}", shown(path), info.offered.asks.spell_asks().join(" "));
            return Err(Failure::usage("no capability to grant").hint(hint));
        }
        (FileOrigin::Project, _) => false,
        (_, Some(old)) => old.config || is_confirming,
        (FileOrigin::User, None) => is_confirming || !others,
        (FileOrigin::Named, None) => is_confirming,
    };
    if config {
        pins.iter_mut().filter(|pin| is_alike(&pin.name, &info.name)).for_each(|pin| pin.config = false);
    }
    let mut grants = old.map(|old| old.grants).unwrap_or_default();
    grants.merge(more);
    let pin = Pin {
        name: info.name.clone(),
        source: origin,
        path: path.to_owned(),
        digest: info.digest.clone(),
        config,
        grants,
        granted_for: info.offered.clone(),
    };
    pins.push(pin.clone());
    Ok(pin)
}

/// Removes grants. Those that come from the config are recorded first, except for the removed ones.
fn remove_grants(base: &Base, pin: &mut Pin, less: &GrantTable, is_all: bool) {
    if is_all {
        (pin.grants, pin.config) = (GrantTable::default(), false);
        return;
    }
    if let Some(section) = base.config.user_plugins.get(&pin.name).filter(|_| pin.config) {
        pin.grants.merge(&section.grants);
    }
    pin.config = false;
    pin.grants.remove(less);
}

fn is_meant(base: &Base, pin: &Pin, plugin: &str) -> bool {
    match is_name(plugin) {
        false => without_links(&base.workspace.join(plugin)) == pin.path,
        true => pin.name == plugin && (pin.source != FileOrigin::Project || base.is_trusted_plugin(&pin.path)),
    }
}

/// Describes the component that is about to receive grants.
fn about(info: &PluginInfo, path: &Path, origin: FileOrigin) -> Text {
    let lines = [
        ("plugin", format!("{} {}", info.name, info.version)),
        ("source", format!("{} ({})", shown(path), origin.describe_origin())),
        ("digest", info.digest.clone()),
        ("asks for", or_nothing(info.offered.asks.spell_asks())),
    ];
    let mut text = Text::default();
    lines.iter().for_each(|(name, value)| text.line(text!("{} {}", left(name, 9), value)));
    text
}

/// Lists the grants of a component in the form that `pinion plugin grant` accepts.
fn listed(base: &Base, pin: &Pin) -> String {
    let mut grants = pin.grants.clone();
    if let Some(section) = base.config.user_plugins.get(&pin.name).filter(|_| pin.config) {
        grants.merge(&section.grants);
    }
    or_nothing(grants.spell_grants())
}

fn or_nothing(words: Vec<String>) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

fn unusable(file: &GrantsFile, error: &io::Error) -> Failure {
    let path = shown(file.path());
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on the disk",
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files: `ulimit -f unlimited`",
        _ => "it must belong to you and have mode 0600 (remove it to start over)",
    };
    Failure::failed(format!("could not use {path}: {error}")).hint(hint)
}

/// Parses capabilities. Relative directories begin at the workspace.
pub(crate) fn parse_grants(base: &Base, words: &[String]) -> Result<GrantTable> {
    let mut table = GrantTable::default();
    table.add(words, &base.workspace).map_err(unknown)?;
    Ok(table)
}

/// Parses the capabilities that a plugin asks for.
pub(crate) fn parse_asks(base: &Base, words: &[String]) -> Result<Asks> {
    Asks::parse(words, &base.workspace).map_err(unknown)
}

fn unknown(error: UnknownCapability) -> Failure {
    Failure::usage(error).hint(format!("the capabilities are {}", capability_forms().join(", ")))
}

/// Names all capabilities at the end of a help text.
pub(crate) fn capabilities(about: &str) -> String {
    format!("{about}: {}", pinion_plugin_runtime::capability_forms().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_remedy_for_what_failed() {
        let file = GrantsFile::new(PathBuf::from("/data/grants.toml"));
        for (kind, remedy) in [
            (io::ErrorKind::StorageFull, "free some space on the disk"),
            (io::ErrorKind::QuotaExceeded, "free some space on the disk"),
            (io::ErrorKind::FileTooLarge, "raise the limit on the size of files: `ulimit -f unlimited`"),
            (io::ErrorKind::PermissionDenied, "it must belong to you and have mode 0600 (remove it to start over)"),
        ] {
            assert_eq!(unusable(&file, &kind.into()).remedy(), Some(remedy));
        }
    }
}
