//! The bindings of the SDKs for Rust, C and Go are generated from the contract. `PINION_UPDATE=1` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::Resolve;

/// The interfaces that plugins export: one module and one world each, so that a plugin exports only what it has. The linker
/// merges the worlds.
const EXPORTS: &[&str] = &[
    "tools",
    "commands",
    "offers",
    "lifecycle",
    "state",
    "before-tool-call",
    "after-tool-call",
    "before-prompt",
    "before-compaction",
    "session-events",
];

#[test]
fn sdk_bindings_match_the_contract() {
    let exports = EXPORTS.iter().map(|interface| Some(*interface));
    for export in exports.chain([None]) {
        let name = format!("plugin-sdk/src/bindings/{}.rs", module(export));
        let (file, expected) = (root().join(&name), generate(export));
        if std::env::var_os("PINION_UPDATE").is_some() {
            fs::write(&file, &expected).unwrap();
        }
        let found = fs::read_to_string(file).unwrap_or_default();
        assert!(found == expected, "`{name}` is out of date: run `plugins/build.sh`");
    }
}

/// The name of the module for an exported interface, or for the imports.
fn module(export: Option<&str>) -> String {
    export.unwrap_or("imports").replace('-', "_")
}

/// Generates the bindings of an exported interface, or of the imports.
fn generate(export: Option<&str>) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit")).unwrap();
    let module = module(export);
    let world = match export {
        None => resolve.select_world(&[package], Some("imports")).unwrap(),
        Some(interface) => {
            let text =
                format!("package pinion:sdk;\nworld sdk-{interface} {{ export pinion:plugin/{interface}@0.1.0; }}\n");
            let package = resolve.push_str("sdk.wit", &text).unwrap();
            resolve.select_world(&[package], Some(&format!("sdk-{interface}"))).unwrap()
        }
    };
    // What an exported interface uses is in `types`, which the module of the imports defines.
    let uses_types = export.is_some() && !resolve.worlds[world].imports.is_empty();
    let types = ("pinion:plugin/types@0.1.0", "crate::bindings::imports::pinion::plugin::types");
    let with = uses_types.then(|| (types.0.to_owned(), WithOption::Path(types.1.to_owned())));
    let options = Opts {
        generate_all: true,
        generate_unused_types: export.is_none(),
        runtime_path: Some("::wit_bindgen::rt".into()),
        bitflags_path: Some("::wit_bindgen::rt::bitflags".into()),
        with: with.into_iter().collect(),
        export_macro_name: export.map(|_| format!("__export_{module}")),
        pub_export_macro: export.is_some(),
        default_bindings_module: export.map(|_| format!("$crate::bindings::{module}")),
        type_section_suffix: Some(format!("pinion-{module}")),
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, contents) = files.iter().next().unwrap();
    String::from_utf8(contents.to_vec()).unwrap()
}

/// The world of the bindings for C and Go, whose linkers drop what a plugin does not use.
const WORLD: &str = "package plugin:project;
world plugin {
  include pinion:plugin/imports@0.1.0;
  export pinion:plugin/tools@0.1.0;
  export pinion:plugin/commands@0.1.0;
}
";

#[test]
fn c_bindings_match_the_contract() {
    // `pinion plugin build` embeds the world, so no object file with it is needed.
    let options = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    for (name, text) in generate_for(options.build()) {
        // The reference to that object file.
        let text = text.split("// Ensure that the *_component_type.o").next().unwrap();
        assert_current(&format!("plugin-sdk/c/{name}"), text);
    }
}

#[test]
fn go_bindings_match_the_contract() {
    let options = wit_bindgen_go::Opts { format: wit_bindgen_go::Format::False, ..Default::default() };
    for (name, text) in generate_for(options.build()) {
        let place = match name.as_str() {
            "go.mod" => continue,
            "wit_exports.go" => "wit_exports/wit_exports.go",
            name => name,
        };
        // In a directory of the author's module instead of in a module of its own, so that nothing is downloaded: the
        // packages below `contract/wit` are those of `go.bytecodealliance.org/pkg`.
        let text = ["tools", "commands"].iter().fold(text, |text, export| {
            let (own, ours) = (format!("export_pinion_plugin_{export}"), format!("project/pinion/exports/{export}"));
            text.replace(&format!("\"wit_component/{own}\""), &format!("{own} \"{ours}\""))
        });
        let text = text.replace("\"wit_component/", "\"project/pinion/contract/");
        let text = text.replace("\"go.bytecodealliance.org/pkg/", "\"project/pinion/contract/");
        let text = copying(&text.replace("package main", "package wit_exports"));
        assert_current(&format!("plugin-sdk/go/pinion/contract/{place}"), &text);
    }
}

/// Makes bindings for Go copy what the host passes in, which `wit/runtime/runtime.go` overwrites once it was read.
fn copying(text: &str) -> String {
    if !text.contains("witRuntime \"") {
        return text.to_owned(); // Nothing is passed in.
    }
    let text = text.replace("unsafe.String(", "witRuntime.String(").replace("unsafe.Slice(", "witRuntime.Slice(");
    // Calls of imports, and then exports with arguments.
    let keep = "pinner := &runtime.Pinner{}\ndefer pinner.Unpin()\n";
    let text = text.replace(keep, &format!("{keep}witRuntime.Receive()\ndefer witRuntime.Received()\n"));
    let start = "\n//go:wasmexport ";
    let exports = text.split(start).map(|export| match export.contains("witRuntime.Unpin()") {
        true => export
            .replace("pinner := &syncExportPinner\n", "pinner := &syncExportPinner\nwitRuntime.Receive()\n")
            .replace("witRuntime.Unpin()", "witRuntime.Received()"),
        false => export.to_owned(),
    });
    exports.collect::<Vec<_>>().join(start)
}

fn generate_for(mut generator: Box<dyn WorldGenerator>) -> Vec<(String, String)> {
    let mut resolve = Resolve::default();
    resolve.push_path(root().join("wit")).unwrap();
    let package = resolve.push_str("world.wit", WORLD).unwrap();
    let world = resolve.select_world(&[package], Some("plugin")).unwrap();
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files).unwrap();
    files.iter().map(|(name, bytes)| (name.to_owned(), String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

fn assert_current(name: &str, expected: &str) {
    let file = root().join(name);
    if std::env::var_os("PINION_UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(found == expected, "`{name}` is out of date: run `plugins/build.sh`");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
