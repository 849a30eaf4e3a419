//! Core modules become components: the world of the project and the adapter for WASI preview 1 are added.

use crate::commands::plugin::sections;
use crate::failure::{Failure, Result};
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// Returns the component of a file's bytes: themselves, or the component made of a core module and the WIT in a
/// directory. `world` names its world, where the WIT has several.
///
/// # Errors
/// The directory has no such world, or the module does not have the imports and exports of that world.
pub(crate) fn component(bytes: Vec<u8>, wit: &Path, world: Option<&str>) -> Result<Vec<u8>> {
    if !Parser::is_core_wasm(&bytes) {
        return Ok(bytes);
    }
    let mut module = without_debug_info(&bytes)?;
    if !has_world(&module) {
        embed(&mut module, wit, world)?;
    }
    encode(&module).map_err(|error| Failure::failed("the core module does not fit its world").because(error))
}

/// Removes debug information, which no host reads. The names of functions stay, for backtraces.
fn without_debug_info(module: &[u8]) -> Result<Vec<u8>> {
    sections::without(module, |section| section.starts_with(".debug_"))
        .map_err(|error| Failure::failed("the file is not a core module").because(error))
}

fn embed(module: &mut Vec<u8>, wit: &Path, world: Option<&str>) -> Result<()> {
    let failed = |error: String| Failure::usage("the file is a core module without a world").because(error);
    let no_wit = "name the directory of its WIT: --wit DIR; `pinion plugin wit` writes one";
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| failed(format!("{error:#}")).hint(no_wit))?;
    let world = resolve.select_world(&[package], world).map_err(|error| {
        let worlds: Vec<&str> = resolve.packages[package].worlds.keys().map(String::as_str).collect();
        failed(error.to_string()).hint(format!(
            "name one with --world, or as `world` below [build] in pinion-plugin.toml: {}",
            worlds.join(", ")
        ))
    })?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| failed(format!("{error:#}")))
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
