//! Component binaries: adding a manifest and removing sections that only tools read.

use crate::base::Base;
use crate::commands::plugin::project::Project;
use crate::commands::plugin::{build, consent, link, sections, show};
use crate::failure::{Failure, Result};
use crate::files::repository::{Located, Make, Refusal};
use crate::output::{json, print, text, written};
use pinion_plugin_runtime::{
    API_VERSION, Asks, Inspection, Lifetime, MANIFEST_SECTION, Manifest, PartialLimits, read_component,
};
use serde_json::json;
use std::path::{Path, PathBuf};

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
    let component = link::component(bytes, &base.workspace.join(&pack.wit), pack.world.as_deref())?;
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
    /// Name of its world; none if there is only one.
    pub(crate) world: Option<String>,
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
    let packed = sections::replaced(component, MANIFEST_SECTION, &json)?;
    Inspection::of(&packed).map_err(|error| crate::failure::with_causes(&error))?;
    Ok(packed)
}

/// Replaces a file that the user named in one step, through no link that leads out of the repository.
pub(crate) fn write(workspace: &Path, file: &Path, bytes: &[u8]) -> std::result::Result<(), Refusal> {
    let located =
        Located::find(workspace, crate::files::paths::home().as_deref(), file, Make::Nothing).map_err(Refusal::Io)?;
    located.repository.replace(&located.path, bytes)
}

/// Returns the component without the sections that only tools read, and with its manifest where the runtime finds it.
pub(crate) fn stripped(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let manifest = Inspection::of(bytes).map_err(|error| error.to_string())?.manifest;
    let json = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let mut slim = sections::without(bytes, |_| true)?;
    sections::append(&mut slim, MANIFEST_SECTION, &json);
    Ok(slim)
}
