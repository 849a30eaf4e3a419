//! The message for a component that does not link.

use crate::capability::storage::keyvalue;
use crate::host::{open_interfaces, wasi_config};
use pinion_plugin_contract::version::other_version;
use std::collections::BTreeSet;

/// The beginnings of the interfaces that a component may import.
const PACKAGES: [&str; 8] = [
    "pinion:plugin/",
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:http/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];
/// Interfaces of drafts, whose versions are compared exactly.
const DRAFTS: [&[&str]; 3] = [&keyvalue::INTERFACES, &wasi_config::INTERFACES, &open_interfaces::LOGGING_INTERFACES];
/// Interfaces that the message names.
const MAX_NAMED: usize = 8;

/// Describes a component with these imports that does not link: they may be of packages or versions that this host does not have.
pub(crate) fn link_problem(imports: &BTreeSet<String>) -> String {
    let is_known = |name: &str| {
        let is_draft = DRAFTS.iter().any(|interfaces| interfaces.contains(&name));
        (is_draft || PACKAGES.iter().any(|package| name.starts_with(package))) && other_version(name).is_none()
    };
    let is_unknown = |name: &&String| !is_known(name);
    let unknown: Vec<String> =
        imports.iter().filter(is_unknown).take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    match unknown.is_empty() {
        true => "could not link the component".to_owned(),
        false => format!("could not link the component: this host has no {}", unknown.join(", ")),
    }
}
