//! Component binaries: adding a manifest and removing sections that only tools read.

use crate::commands::plugin::{build, consent, packages, show};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::repository::{Located, Make, Refusal};
use pinion_app::workspace_base::Base;
use pinion_console::output::{json, print, text, written};
use pinion_devkit::project::Project;
use pinion_devkit::{link, sections};
use pinion_plugin_runtime::{
    API_VERSION, Asks, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError, PartialLimits, read_component,
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

/// Members of a manifest to set. Others stay as they are, or get their defaults in a component without a manifest.
pub(crate) struct ManifestChanges {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    /// Each capability replaces the ask of the same name.
    pub(crate) asks: Asks,
    /// Each limit replaces the one of the same name.
    pub(crate) limits: PartialLimits,
    pub(crate) lifetime: Option<Lifetime>,
    /// Ignores the manifest that the component has.
    pub(crate) is_fresh: bool,
}

impl ManifestChanges {
    /// Returns the manifest of a component after the changes, as JSON.
    ///
    /// # Errors
    /// The component has an unreadable manifest, or has no manifest and nothing names the plugin.
    fn apply(&self, component: &[u8]) -> Result<serde_json::Value> {
        let mut manifest = match self.present(component)? {
            Some(manifest) => manifest,
            None => json!({ "manifest": 1, "api": API_VERSION, "version": "0.1.0", "description": "" }),
        };
        if self.name.is_none() && manifest.get("name").is_none() {
            return Err(
                Failure::usage("the component has no manifest, so the plugin has no name").hint("add --name NAME")
            );
        }
        let texts = [("name", &self.name), ("version", &self.version), ("description", &self.description)];
        for (member, text) in texts {
            text.iter().for_each(|text| manifest[member] = json!(text));
        }
        self.lifetime.iter().for_each(|lifetime| manifest["lifetime"] = json!(lifetime));
        for (member, changes) in [("capabilities", json!(self.asks)), ("limits", json!(self.limits))] {
            let serde_json::Value::Object(changes) = changes else { continue };
            if changes.is_empty() {
                continue;
            }
            match manifest.get_mut(member).and_then(serde_json::Value::as_object_mut) {
                Some(members) => members.extend(changes),
                None => manifest[member] = serde_json::Value::Object(changes),
            }
        }
        Ok(manifest)
    }

    /// Returns the manifest that a component has, with all of its members.
    fn present(&self, component: &[u8]) -> Result<Option<serde_json::Value>> {
        if self.is_fresh {
            return Ok(None);
        }
        let unreadable = |error: String| {
            Failure::usage("the component has a manifest that cannot be kept")
                .because(error)
                .hint("ignore it with --no-manifest, and name what it asks for again")
        };
        match Inspection::from_component(component) {
            Err(ManifestError::Missing) => return Ok(None),
            // Problems of the component are reported once it has its manifest.
            Err(
                error @ (ManifestError::Unreadable(_) | ManifestError::Wording(_) | ManifestError::ApiVersion { .. }),
            ) => {
                return Err(unreadable(error.to_string()));
            }
            Err(_) | Ok(_) => {}
        }
        let Some(section) = sections::find(component, MANIFEST_SECTION).map_err(unreadable)? else { return Ok(None) };
        serde_json::from_slice(section).map(Some).map_err(|error| unreadable(error.to_string()))
    }
}

/// Makes a plugin of a component or of a core module: adds a manifest, or changes the one that it has, and checks that the
/// result loads before it is written.
pub(crate) async fn pack(base: &Base, pack: Pack, changes: ManifestChanges, as_json: bool) -> Result<()> {
    let file = base.workspace.join(&pack.file);
    let named = || format!("`{}`", file.display());
    let bytes = read_component(&file).map_err(|error| Failure::usage(named()).because(error))?;
    let component = link::component(bytes, &base.workspace.join(&pack.wit), pack.world.as_deref())?;
    let manifest = changes.apply(&component)?;
    let packed =
        with_manifest(&component, &manifest).map_err(|error| Failure::usage(format!("{}: {error}", named())))?;
    let manifest =
        Inspection::from_component(&packed).map_err(|error| Failure::usage(named()).because(error))?.manifest;
    let (name, version) = (manifest.name, manifest.version);
    let checked = show::examine_bytes(base, &packed, &file).await?;
    let out = match (pack.install, pack.out) {
        (true, _) => base.paths.plugins().join(format!("{name}.wasm")),
        (false, out) => base.workspace.join(out.unwrap_or(pack.file)),
    };
    let failed = || Failure::failed(format!("could not write `{}`", out.display()));
    match pack.install {
        true => build::replace_file(&out, &packed).map_err(|error| failed().because(error))?,
        false => write(&base.workspace, &out, &packed).map_err(|error| failed().because(error))?,
    }
    packages::release_built(base, &out, &name)?;
    consent::follow(base, &out, &name, &blake3::hash(&packed).to_hex())?;
    match as_json {
        true => written(json(&json!({
            "name": name, "version": version, "file": out, "bytes": packed.len(), "warnings": checked.warnings,
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
    /// Name of its world; `None` if there is only one.
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
    with_manifest(component, &serde_json::to_value(&manifest).map_err(|error| error.to_string())?)
}

/// Returns the component with this manifest in place of the one that it may have.
fn with_manifest(component: &[u8], manifest: &serde_json::Value) -> std::result::Result<Vec<u8>, String> {
    let packed = sections::replaced(component, MANIFEST_SECTION, manifest.to_string().as_bytes())?;
    Inspection::from_component(&packed).map_err(|error| pinion_app::failure::with_causes(&error))?;
    Ok(packed)
}

/// Replaces a file that the user named in one step, through no link that leads out of the repository.
pub(crate) fn write(workspace: &Path, file: &Path, bytes: &[u8]) -> std::result::Result<(), Refusal> {
    let located = Located::find(workspace, pinion_app::files::paths::home().as_deref(), file, Make::Nothing)
        .map_err(Refusal::Io)?;
    located.repository.replace(&located.path, bytes)
}

/// Returns the component without the sections that only tools read, and with its manifest where the runtime finds it.
pub(crate) fn stripped(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let manifest = Inspection::from_component(bytes).map_err(|error| error.to_string())?.manifest;
    let json = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let mut slim = sections::without(bytes, |_| true)?;
    sections::append(&mut slim, MANIFEST_SECTION, &json);
    Ok(slim)
}
