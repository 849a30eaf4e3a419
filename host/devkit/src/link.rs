//! Core modules become components: the world of the project and the adapter for WASI preview 1 are added.

use crate::sections;
use pinion_app::failure::{Failure, Result};
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// Returns the component of a file's bytes: themselves, or the component made of a core module and the WIT in a
/// directory. `world` names its world, where the WIT has several.
///
/// # Errors
/// The directory has no such world, or the module does not have the imports and exports of that world.
pub fn component(bytes: Vec<u8>, wit: &Path, world: Option<&str>) -> Result<Vec<u8>> {
    if !Parser::is_core_wasm(&bytes) {
        return Ok(bytes);
    }
    let mut module = without_debug_info(&bytes)?;
    if !has_world(&module) {
        embed(&mut module, wit, world)?;
    }
    encode(&module).map_err(|error| {
        let hint = world_hint(&error, wit);
        let failure = Failure::failed("the core module does not fit its world").because(error);
        hint.into_iter().fold(failure, Failure::hint)
    })
}

/// Returns whether bytes are a core module, not a component.
pub fn is_core_module(bytes: &[u8]) -> bool {
    Parser::is_core_wasm(bytes)
}

/// Returns the line of the world that is missing or too much, where the error of the encoder names an interface.
fn world_hint(error: &str, wit: &Path) -> Option<String> {
    let file = wit.file_name().map_or_else(|| "wit".to_owned(), |name| name.to_string_lossy().into_owned());
    let interface = error.split(|c: char| c.is_whitespace() || "`'\"".contains(c)).find_map(|word| {
        let name = word.split("::").next()?.split('#').next()?;
        (name.contains(':') && name.contains('/')).then(|| name.to_owned())
    })?;
    // The function belongs to the interface, which the module lacks as an export or has as an import beyond the world.
    let is_export = error.contains("export");
    Some(match is_export {
        true => format!("export it from the module, or remove from {file}/world.wit: export {interface};"),
        false => format!("add to {file}/world.wit: import {interface};"),
    })
}

/// Removes debug information, which no host reads. The names of functions stay, for backtraces.
fn without_debug_info(module: &[u8]) -> Result<Vec<u8>> {
    sections::without(module, |section| section.starts_with(".debug_"))
        .map_err(|error| Failure::failed("the file is not a core module").because(error))
}

fn embed(module: &mut Vec<u8>, wit: &Path, world: Option<&str>) -> Result<()> {
    let failed = |error: String| Failure::usage("the file is a core module without a world").because(error);
    let no_wit = "name the directory of its WIT: --wit DIR; `pinion plugin wit` writes one";
    let (resolve, world) = read_world(wit, world, failed, no_wit)?;
    refuse_left_out(module, &exported(&resolve, world))?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| failed(format!("{error:#}")))
}

/// Returns the interfaces of the contract that a world exports, such as `tools`.
///
/// # Errors
/// The directory has no such world.
pub fn contract_exports(wit: &Path, world: Option<&str>) -> Result<Vec<String>> {
    let failed = |error: String| Failure::usage("could not read what the plugin exports").because(error);
    let (resolve, world) =
        read_world(wit, world, failed, "to write the contract into the project: pinion plugin wit .")?;
    let names = exported(&resolve, world).into_iter();
    Ok(names.filter_map(|name| Some(name.strip_prefix(CONTRACT)?.split('@').next()?.to_owned())).collect())
}

/// The beginning of the names of the contract's interfaces.
const CONTRACT: &str = "pinion:plugin/";

fn read_world(
    wit: &Path,
    world: Option<&str>,
    failed: impl Fn(String) -> Failure,
    no_wit: &str,
) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| failed(format!("{error:#}")).hint(no_wit))?;
    let world = resolve.select_world(&[package], world).map_err(|error| {
        let worlds: Vec<&str> = resolve.packages[package].worlds.keys().map(String::as_str).collect();
        failed(error.to_string()).hint(format!(
            "name one with --world, or as `world` below [build] in pinion-plugin.toml: {}",
            worlds.join(", ")
        ))
    })?;
    Ok((resolve, world))
}

/// Returns the full names of a world's exports.
fn exported(resolve: &Resolve, world: WorldId) -> Vec<String> {
    resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect()
}

/// Refuses a module with a hook or another export that its world leaves out, because the component would silently lack it. The
/// bindings have `tools` and `commands` in any case.
fn refuse_left_out(module: &[u8], world: &[String]) -> Result<()> {
    for payload in Parser::new(0).parse_all(module).map_while(std::result::Result::ok) {
        let Payload::ExportSection(exports) = payload else { continue };
        for export in exports.into_iter().map_while(std::result::Result::ok) {
            let Some((interface, _)) = export.name.split_once('#') else { continue };
            let Some(name) = interface.strip_prefix(CONTRACT) else { continue };
            let is_usual = ["tools@", "commands@"].iter().any(|usual| name.starts_with(usual));
            if !is_usual && !world.iter().any(|known| known == interface) {
                return Err(Failure::usage(format!("the core module exports `{interface}`, and its world does not"))
                    .hint(format!("add to wit/world.wit: export {interface};")));
            }
        }
    }
    Ok(())
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    let encoder = ComponentEncoder::default().module(module).map_err(|error| format!("{error:#}"))?;
    let adapter = (WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER);
    let encoder = encoder.adapter(adapter.0, adapter.1).map_err(|error| format!("{error:#}"))?;
    encoder.validate(true).encode().map_err(|error| format!("{error:#}"))
}

/// Returns whether a binding generator or `jco embed` has put a world into a module.
fn has_world(module: &[u8]) -> bool {
    let payloads = Parser::new(0).parse_all(module).map_while(Result::ok);
    payloads.into_iter().any(|payload| match payload {
        Payload::CustomSection(section) => section.name().starts_with("component-type"),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

    fn wit(worlds: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("world.wit"), format!("package a:b;\n{worlds}")).unwrap();
        directory
    }

    #[test]
    fn world_is_named_where_there_are_several() {
        let (one, two) = (wit("world only {}"), wit("world small {}\nworld large {}"));
        let made = |wit: &tempfile::TempDir, world| component(EMPTY.to_vec(), wit.path(), world);
        assert!(Parser::is_component(&made(&one, None).unwrap()));
        assert!(Parser::is_component(&made(&two, Some("large")).unwrap()));
        for world in [None, Some("huge")] {
            let failure = made(&two, world).unwrap_err();
            assert!(failure.remedy().unwrap().ends_with("pinion-plugin.toml: small, large"), "{failure}");
        }
    }

    #[test]
    fn line_of_the_world_that_does_not_fit_is_named() {
        let hint = |error: &str| world_hint(error, Path::new("/p/wit"));
        let import = "failed to resolve import `pinion:plugin/workspace@0.1.0::resolve`: module requires an import \
                      interface named `pinion:plugin/workspace@0.1.0`";
        assert_eq!(hint(import).unwrap(), "add to wit/world.wit: import pinion:plugin/workspace@0.1.0;");
        let export = "failed to find export of interface `pinion:plugin/commands@0.1.0` function `list-commands`";
        assert!(hint(export).unwrap().ends_with("remove from wit/world.wit: export pinion:plugin/commands@0.1.0;"));
        assert_eq!(hint("no memory"), None);
    }

    /// Writes the world of a new project and the contract, as `pinion plugin new` does.
    fn write_contract(directory: &Path) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::copy(root.join("host/cli/templates/world.wit"), directory.join("world.wit")).unwrap();
        let package = directory.join("deps/pinion-plugin");
        std::fs::create_dir_all(&package).unwrap();
        let entries = std::fs::read_dir(root.join("wit")).unwrap().map(std::result::Result::unwrap);
        for entry in entries.filter(|entry| entry.path().is_file()) {
            std::fs::copy(entry.path(), package.join(entry.file_name())).unwrap();
        }
    }

    /// The messages come from a crate, whose words may change.
    #[test]
    fn module_without_an_export_of_its_world_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        write_contract(directory.path());
        let failure = component(EMPTY.to_vec(), directory.path(), None).unwrap_err();
        assert!(failure.remedy().is_some_and(|hint| hint.contains("world.wit: export pinion:plugin/")), "{failure}");
    }

    #[test]
    fn hook_that_the_world_leaves_out_is_refused() {
        let export = |name: &str| {
            let mut exports = wasm_encoder::ExportSection::new();
            exports.export(name, wasm_encoder::ExportKind::Func, 0);
            let mut types = wasm_encoder::TypeSection::new();
            types.ty().function([], []);
            let mut functions = wasm_encoder::FunctionSection::new();
            functions.function(0);
            let mut code = wasm_encoder::CodeSection::new();
            code.function(wasm_encoder::Function::new([]).instruction(&wasm_encoder::Instruction::End));
            let mut module = wasm_encoder::Module::new();
            module.section(&types).section(&functions).section(&exports).section(&code);
            module.finish()
        };
        let wit = wit("world only {}");
        let hook = export("pinion:plugin/before-tool-call@0.1.0#check");
        let failure = component(hook, wit.path(), None).unwrap_err();
        let hint = "add to wit/world.wit: export pinion:plugin/before-tool-call@0.1.0;";
        assert_eq!(failure.remedy(), Some(hint), "{failure}");
        assert!(component(export("cabi_post_pinion:plugin/tools@0.1.0#list-tools"), wit.path(), None).is_ok());
        assert!(component(export("pinion:plugin/tools@0.1.0#list-tools"), wit.path(), None).is_ok());
    }

    #[test]
    fn exports_of_the_contract_are_those_of_the_world() {
        let directory = tempfile::tempdir().unwrap();
        write_contract(directory.path());
        assert_eq!(contract_exports(directory.path(), None).unwrap(), ["tools", "commands"]);
        let failure = contract_exports(&directory.path().join("nowhere"), None).unwrap_err();
        assert!(failure.remedy().unwrap().ends_with("pinion plugin wit ."), "{failure}");
    }

    #[test]
    fn names_of_functions_stay_and_debug_information_goes() {
        let mut module = EMPTY.to_vec();
        for name in ["name", ".debug_info", ".debug_line"] {
            wasm_encoder::Section::append_to(
                &wasm_encoder::CustomSection { name: name.into(), data: (&[][..]).into() },
                &mut module,
            );
        }
        let slim = without_debug_info(&module).unwrap();
        assert!(
            slim.ends_with(b"\x05\x04name") && slim.len() < module.len() && without_debug_info(&slim).unwrap() == slim
        );
    }
}
