//! Core modules become components: the world of the project and the adapter for WASI preview 1 are added.

use crate::failure::{Failure, Result};
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// Returns the component of a file's bytes: themselves, or the component made of a core module and the WIT in a
/// directory.
///
/// # Errors
/// The directory has no WIT with one world, or the module does not have the imports and exports of that world.
pub(crate) fn component(bytes: Vec<u8>, wit: &Path) -> Result<Vec<u8>> {
    if !Parser::is_core_wasm(&bytes) {
        return Ok(bytes);
    }
    let mut module = bytes;
    if !has_world(&module) {
        let hint = "name the directory of its WIT: --wit DIR; `pinion plugin wit` writes one";
        embed(&mut module, wit)
            .map_err(|error| Failure::usage("the file is a core module without a world").because(error).hint(hint))?;
    }
    encode(&module).map_err(|error| Failure::failed("the core module does not fit its world").because(error))
}

fn embed(module: &mut Vec<u8>, wit: &Path) -> Result<(), String> {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], None).map_err(|error| format!("{error:#}"))?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8).map_err(|error| format!("{error:#}"))
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
