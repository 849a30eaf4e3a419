//! Component binaries: adding a manifest and removing sections that only tools read.

use crate::base::Base;
use crate::commands::plugin::project::Project;
use crate::commands::plugin::{build, consent, link, show};
use crate::failure::{Failure, Result};
use crate::files::repository::{Located, Make, Refusal};
use crate::output::{json, print, text, written};
use pinion_plugin_runtime::{
    API_VERSION, Asks, Inspection, Lifetime, MANIFEST_SECTION, Manifest, PartialLimits, read_component,
};
use serde_json::json;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use wasm_encoder::{ComponentSection as _, CustomSection, Encode as _};
use wasmparser::{Parser, Payload};

/// The content of a manifest.
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) asks: Asks,
    pub(crate) limits: PartialLimits,
    pub(crate) lifetime: Lifetime,
}

impl From<Project> for About {
    fn from(project: Project) -> Self {
        let Project { name, version, description, asks, limits, lifetime, build: _ } = project;
        Self { name, version, description, asks, limits, lifetime }
    }
}

/// Makes a plugin of a component or of a core module: adds a manifest, in place of the one that it may have, and checks that
/// the result loads before it is written.
pub(crate) async fn pack(base: &Base, pack: Pack, about: About, as_json: bool) -> Result<()> {
    let file = base.workspace.join(&pack.file);
    let named = || format!("`{}`", file.display());
    let bytes = read_component(&file).map_err(|error| Failure::usage(named()).because(error))?;
    let component = link::component(bytes, &base.workspace.join(&pack.wit))?;
    let name = about.name.clone();
    let packed = packed(&component, &about).map_err(|error| Failure::usage(format!("{}: {error}", named())))?;
    let checked = show::examine_bytes(base, &packed, &file).await?;
    let out = match (pack.install, pack.out) {
        (true, _) => base.paths.plugins().join(format!("{name}.wasm")),
        (false, out) => base.workspace.join(out.unwrap_or(pack.file)),
    };
    let failed = || Failure::failed(format!("could not write `{}`", out.display()));
    match pack.install {
        true => build::put(&out, &packed).map_err(|error| failed().because(error))?,
        false => write(&base.workspace, &out, &packed).map_err(|error| failed().because(error))?,
    }
    consent::follow(base, &out, &name, &blake3::hash(&packed).to_hex())?;
    match as_json {
        true => written(json(&json!({
            "name": name, "version": about.version, "file": out, "bytes": packed.len(), "warnings": checked.warnings,
        })))?,
        false => print(&text!("{}\n{}", out, checked.warnings()))?,
    }
    if pack.install { build::remind_of_grants(base, &name).await } else { Ok(()) }
}

/// The files of [`pack`].
pub(crate) struct Pack {
    pub(crate) file: PathBuf,
    pub(crate) out: Option<PathBuf>,
    pub(crate) install: bool,
    /// Directory with the WIT of a core module.
    pub(crate) wit: PathBuf,
}

/// Parses limits such as `memory-bytes=67108864`.
pub(crate) fn limits(words: &[String]) -> Result<PartialLimits> {
    let wrong = |word: &str| {
        Failure::usage(format!("invalid limit `{word}`")).hint("for example --limit memory-bytes=67108864")
    };
    let mut table = toml::Table::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| wrong(word))?;
        let value: i64 = value.replace('_', "").parse().map_err(|_| wrong(word))?;
        table.insert(name.to_owned(), value.into());
    }
    table.try_into().map_err(|error| Failure::usage("invalid limit").because(error))
}

/// Returns the component with a manifest.
///
/// # Errors
/// The bytes are not a plugin of this contract.
pub(crate) fn packed(component: &[u8], about: &About) -> std::result::Result<Vec<u8>, String> {
    let manifest = Manifest {
        manifest: 1,
        api: API_VERSION.to_owned(),
        name: about.name.clone(),
        version: about.version.clone(),
        description: about.description.clone(),
        capabilities: about.asks.clone(),
        limits: about.limits.clone(),
        lifetime: about.lifetime,
        unknown: Vec::new(),
    };
    let json = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let packed = with_manifest(component, &json)?;
    Inspection::of(&packed).map_err(|error| crate::failure::with_causes(&error))?;
    Ok(packed)
}

/// Replaces a file that the user named in one step, through no link that leads out of the repository.
pub(crate) fn write(workspace: &Path, file: &Path, bytes: &[u8]) -> std::result::Result<(), Refusal> {
    let located =
        Located::find(workspace, crate::files::paths::home().as_deref(), file, Make::Nothing).map_err(Refusal::Io)?;
    located.repository.replace(&located.path, bytes)
}

/// Returns the component with a manifest section at its end.
fn with_manifest(bytes: &[u8], manifest: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let mut packed = without(bytes, |section| section == MANIFEST_SECTION)?;
    append(&mut packed, MANIFEST_SECTION, manifest);
    Ok(packed)
}

/// Returns the component without the sections that only tools read, and with its manifest where the runtime finds it.
pub(crate) fn stripped(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let manifest = Inspection::of(bytes).map_err(|error| error.to_string())?.manifest;
    let json = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let mut slim = without(bytes, |_| true)?;
    append(&mut slim, MANIFEST_SECTION, &json);
    Ok(slim)
}

fn append(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    let section = CustomSection { name: Cow::Borrowed(name), data: Cow::Borrowed(data) };
    bytes.push(section.id());
    section.encode(bytes);
}

/// Returns the component without those of its own custom sections that match a predicate. Sections inside its modules
/// stay.
fn without(bytes: &[u8], goes: impl Fn(&str) -> bool) -> std::result::Result<Vec<u8>, String> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut parser = Parser::new(0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (consumed, payload) = match parser.parse(rest, true).map_err(|error| error.to_string())? {
            wasmparser::Chunk::Parsed { consumed, payload } => (consumed, payload),
            wasmparser::Chunk::NeedMoreData(_) => return Err("unexpected end of file".to_owned()),
        };
        // The parser would descend into a module, which is copied as a whole.
        let nested = match &payload {
            Payload::ModuleSection { unchecked_range, .. } | Payload::ComponentSection { unchecked_range, .. } => {
                unchecked_range.len()
            }
            _ => 0,
        };
        let length = consumed + nested;
        let section = rest.get(..length).ok_or("unexpected end of file")?;
        let is_gone = matches!(&payload, Payload::CustomSection(custom) if goes(custom.name()));
        if !is_gone {
            kept.extend_from_slice(section);
        }
        rest = &rest[length..];
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        let mut component = wasm_encoder::Component::new();
        component.section(&CustomSection { name: "junk".into(), data: (&[1, 2, 3]).into() });
        component.section(&wasm_encoder::ModuleSection(&wasm_encoder::Module::new()));
        component.finish()
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let payloads = Parser::new(0).parse_all(bytes).map(Result::unwrap);
        let customs = payloads.filter_map(|payload| match payload {
            Payload::CustomSection(custom) => Some(custom.name().to_owned()),
            _ => None,
        });
        customs.collect()
    }

    #[test]
    fn packing_twice_keeps_one_manifest() {
        let once = with_manifest(&component(), b"{}").unwrap();
        let twice = with_manifest(&once, b"{ }").unwrap();
        assert_eq!(names(&twice), ["junk", MANIFEST_SECTION]);
        assert!(twice.windows(3).any(|window| window == b"{ }"));
    }

    #[test]
    fn truncated_component_is_an_error() {
        let bytes = component();
        for length in 9..bytes.len() {
            // No panic: a cut between two sections leaves a valid, shorter component.
            let _ = without(&bytes[..length], |_| false);
        }
        assert!(without(&bytes[..bytes.len() - 1], |_| false).is_err());
    }
}
