//! The bindings of the SDKs for Rust, C and Go are generated from the contract. `PINION_UPDATE=1` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::Resolve;

/// The interfaces that plugins export: one module and one world each, so that a plugin exports only the interfaces that
/// it has. The linker merges the worlds.
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
    // The types that an exported interface uses are in `types`, which the module of the imports defines.
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

#[test]
fn c_bindings_match_the_contract() {
    // `pinion plugin build` embeds the world, so no object file with it is needed.
    let options = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    for (name, text) in generate_for(options.build(), true, EXPORTS) {
        // The reference to that object file.
        let mut text = text.split("// Ensure that the *_component_type.o").next().unwrap().to_owned();
        if name == "plugin.c" {
            split_adapters(&mut text);
        }
        assert_current(&format!("plugin-sdk/c/{name}"), &text);
    }
}

/// Moves the functions that the host calls to a file for each exported interface, because a linker keeps all of them: a plugin
/// compiles those that its world exports.
fn split_adapters(text: &mut String) {
    let area = taken(text, "__attribute__((__aligned__(sizeof(void*))))\nstatic uint8_t RET_AREA", ";\n").concat();
    for export in EXPORTS {
        taken(text, &format!("// Exported Functions from `pinion:plugin/{export}@0.1.0`"), "\n\n");
        let start = |attributes: &str, name: &str| {
            format!("__attribute__(({attributes}__export_name__(\"{name}pinion:plugin/{export}@0.1.0#")
        };
        let functions =
            [taken(text, &start("", ""), "\n}\n"), taken(text, &start("__weak__, ", "cabi_post_"), "\n}\n")];
        let functions = functions.concat().join("\n");
        let header = text.lines().next().unwrap();
        let adapter = format!("{header}\n#include \"plugin.h\"\n#include <stdlib.h>\n\n{area}\n{functions}");
        assert_current(&format!("plugin-sdk/c/adapters/{export}.h"), &adapter);
    }
    assert!(!text.contains("RET_AREA") && !text.contains("exports_pinion_plugin_tools_call_tool("));
}

/// Takes all parts that begin and end with these out of a text, with the empty line after each.
fn taken(text: &mut String, start: &str, end: &str) -> Vec<String> {
    let mut parts = Vec::new();
    while let Some(from) = text.find(start) {
        let to = from + text[from..].find(end).unwrap() + end.len();
        parts.push(text[from..to].to_owned());
        let rest = text[to..].strip_prefix('\n').unwrap_or(&text[to..]).to_owned();
        text.truncate(from);
        text.push_str(&rest);
    }
    parts
}

/// The exports of each plugin in Go; a plugin imports a package for any other.
const ALWAYS: &[&str] = &["tools", "commands"];

#[test]
fn go_bindings_match_the_contract() {
    for (name, text) in generate_for(go(), true, ALWAYS) {
        let place = match name.as_str() {
            "go.mod" => continue,
            "wit_exports.go" => "wit_exports/wit_exports.go",
            name => name,
        };
        let text = ALWAYS.iter().fold(text, |text, export| {
            let (own, ours) = (format!("export_pinion_plugin_{export}"), format!("project/pinion/exports/{export}"));
            text.replace(&format!("\"wit_component/{own}\""), &format!("{own} \"{ours}\""))
        });
        let text = copying(&in_project(&text).replace("package main", "package wit_exports"));
        assert_current(&format!("plugin-sdk/go/pinion/contract/{place}"), &text);
    }
}

/// The functions that the host calls are in the package that the author fills: `exports/before_tool_call` calls its own
/// `exportedCheck`.
#[test]
fn go_exports_match_the_contract() {
    for export in EXPORTS.iter().filter(|export| !ALWAYS.contains(export)) {
        let module = module(Some(export));
        let own = format!("export_pinion_plugin_{module}");
        for (name, text) in generate_for(go(), false, &[export]) {
            let text = in_project(&text.replace(&format!("\"wit_component/{own}\"\n"), ""));
            if name == "wit_exports.go" {
                let text = text.replace("package main", &format!("package {module}"));
                let text = text
                    .replace(&format!("{own}."), "exported")
                    .split("// Unused, but present")
                    .next()
                    .unwrap()
                    .to_owned();
                assert_current(&format!("plugin-sdk/go/pinion/exports/{module}/{name}"), &copying(&text));
            } else if name.starts_with(&format!("pinion_plugin_{module}/")) {
                assert_current(&format!("plugin-sdk/go/pinion/contract/{name}"), &copying(&text));
            }
        }
    }
}

fn go() -> Box<dyn WorldGenerator> {
    wit_bindgen_go::Opts { format: wit_bindgen_go::Format::False, ..Default::default() }.build()
}

/// Places packages in a directory of the author's module instead of in a separate module, so that nothing is
/// downloaded: the packages below `contract/wit` come from `go.bytecodealliance.org/pkg`.
fn in_project(text: &str) -> String {
    let text = text.replace("\"wit_component/", "\"project/pinion/contract/");
    text.replace("\"go.bytecodealliance.org/pkg/", "\"project/pinion/contract/")
}

/// Makes bindings for Go copy data that the host passes in, which `wit/runtime/runtime.go` overwrites once it was read.
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

/// Generates bindings of a world with these exports, and of all imports of the contract, which linkers drop when a plugin does
/// not use them.
fn generate_for(mut generator: Box<dyn WorldGenerator>, imports: bool, exports: &[&str]) -> Vec<(String, String)> {
    let mut resolve = Resolve::default();
    resolve.push_path(root().join("wit")).unwrap();
    let mut world = "package plugin:project;\nworld plugin {\n".to_owned();
    if imports {
        world.push_str("include pinion:plugin/imports@0.1.0;\n");
    }
    exports.iter().for_each(|export| world.push_str(&format!("export pinion:plugin/{export}@0.1.0;\n")));
    let package = resolve.push_str("world.wit", &(world + "}\n")).unwrap();
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
