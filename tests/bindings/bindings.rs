//! The SDK's bindings are generated from the contract. `PINION_UPDATE=1` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::Resolve;

/// A module of the SDK's bindings.
struct Module {
    name: &'static str,
    world: &'static str,
    /// The macro that exports it; `None` for the imports.
    export: Option<&'static str>,
    /// Interfaces whose types come from the module of the imports.
    shared: &'static [&'static str],
}

const ALL: &[&str] = &["types", "log", "progress", "cancellation", "workspace", "process", "catalog", "agents"];

/// One small world per export, so that a plugin exports only what it has; the linker merges them.
const MODULES: &[Module] = &[
    Module { name: "imports", world: "imports", export: None, shared: &[] },
    Module { name: "tools", world: "tool-plugin", export: Some("__export_tools"), shared: ALL },
    Module { name: "commands", world: "command-plugin", export: Some("__export_commands"), shared: ALL },
    Module { name: "lifecycle", world: "lifecycle-plugin", export: Some("__export_lifecycle"), shared: &["types"] },
    Module { name: "state", world: "state-plugin", export: Some("__export_state"), shared: &[] },
];

#[test]
fn sdk_bindings_match_the_contract() {
    for module in MODULES {
        let name = format!("plugin-sdk/src/bindings/{}.rs", module.name);
        let (file, expected) = (root().join(&name), generate(module));
        if std::env::var_os("PINION_UPDATE").is_some() {
            fs::write(&file, &expected).unwrap();
        }
        let found = fs::read_to_string(file).unwrap_or_default();
        assert!(found == expected, "`{name}` is out of date: run `plugins/build.sh`");
    }
}

fn generate(module: &Module) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit")).unwrap();
    let world = resolve.select_world(&[package], Some(module.world)).unwrap();
    let with = |interface: &&str| {
        let path = format!("crate::bindings::imports::pinion::plugin::{interface}");
        (format!("pinion:plugin/{interface}@0.1.0"), WithOption::Path(path))
    };
    let options = Opts {
        generate_all: true,
        generate_unused_types: module.export.is_none(),
        runtime_path: Some("::wit_bindgen::rt".into()),
        bitflags_path: Some("::wit_bindgen::rt::bitflags".into()),
        with: module.shared.iter().map(with).collect(),
        export_macro_name: module.export.map(str::to_owned),
        pub_export_macro: module.export.is_some(),
        default_bindings_module: module.export.map(|_| format!("$crate::bindings::{}", module.name)),
        type_section_suffix: Some(format!("pinion-{}", module.name)),
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, contents) = files.iter().next().unwrap();
    String::from_utf8(contents.to_vec()).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
