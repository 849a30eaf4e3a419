//! `pinion plugin build`: builds a project in any language, then packs, checks and installs the component.

use crate::commands::plugin::{binary, consent, packages, show};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::create_directory;
use pinion_app::screen::Screen;
use pinion_app::workspace_base::Base;
use pinion_console::output::{bytes, json, note, print, text, written};
use pinion_devkit::project::{self, Project};
use pinion_devkit::steps::Steps;
use pinion_devkit::{cargo, link, steps};
use pinion_files::AtomicWrite;
use pinion_plugin_runtime::{Inspection, read_component};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The destination of a built component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The project's own build directory.
    Project,
    /// A file.
    File(PathBuf),
    /// The user's plugin directory.
    Installed,
}

/// A component that was built, checked and written.
pub(crate) struct Built {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) file: PathBuf,
    pub(crate) size: u64,
    pub(crate) checked: show::Checked,
    /// Milliseconds that all of it took.
    pub(crate) duration_ms: u128,
}

pub(crate) async fn run(
    base: &Base,
    directory: &Path,
    destination: Destination,
    steps: Steps,
    as_json: bool,
) -> Result<()> {
    let is_installed = destination == Destination::Installed;
    let built = build(base, directory, destination, steps).await?;
    if as_json {
        written(json(&built.as_json()))?;
    } else {
        print(&text!("{}, {}\n{}", built.file, bytes(built.size), built.checked.warnings()))?;
    }
    if is_installed {
        remind_of_grants(base, &built.name).await?;
    }
    Ok(())
}

/// Reports the command that grants an installed plugin its missing capabilities.
pub(crate) async fn remind_of_grants(base: &Base, name: &str) -> Result<()> {
    let (_, info) = show::find(base, name).await?;
    if let Some(command) = show::grant_command(&info) {
        note(&text!("plugin `{}` is not granted what it asks for; to grant it: {}", name, command));
    }
    Ok(())
}

impl Built {
    pub(crate) fn as_json(&self) -> serde_json::Value {
        let duration_ms = u64::try_from(self.duration_ms).unwrap_or(u64::MAX);
        json!({
            "name": self.name,
            "version": self.version,
            "file": self.file,
            "bytes": self.size,
            "warnings": self.checked.warnings,
            "duration_ms": duration_ms,
        })
    }
}

/// Builds the project in a directory and writes its component to its destination, once it is known to load.
pub(crate) async fn build(base: &Base, directory: &Path, destination: Destination, steps: Steps) -> Result<Built> {
    let started = Instant::now();
    let directory = project_directory(base, directory);
    let (component, own) = component(&directory, steps, &*base.screen).await?;
    let inspection = Inspection::from_component(&component).map_err(|error| in_directory(&directory).because(error))?;
    let manifest = inspection.manifest;
    let (name, size) = (manifest.name, component.len() as u64);
    let write = |file: &Path| {
        replace_file(file, &component)
            .map_err(|e| Failure::failed(format!("could not write `{}`: {e}", file.display())))?;
        packages::release_built(base, file, &name)?;
        consent::follow(base, file, &name, &blake3::hash(&component).to_hex())
    };
    // Checked before it gets to where a running pinion loads it.
    let own = directory.join(own).join(format!("{name}.wasm"));
    write(&own)?;
    let checked = show::examine(base, &own).await?;
    let file = match destination {
        Destination::Installed => base.paths.plugins().join(format!("{name}.wasm")),
        Destination::File(out) => base.workspace.join(out),
        Destination::Project => own.clone(),
    };
    if file != own {
        write(&file)?;
    }
    let duration_ms = started.elapsed().as_millis();
    Ok(Built { name, version: manifest.version, file, size, checked, duration_ms })
}

/// Finds the component of the last build of a project.
///
/// # Errors
/// The project has not been built.
pub(crate) fn existing(base: &Base, directory: &Path) -> Result<PathBuf> {
    let directory = project_directory(base, directory);
    let not_built =
        || Failure::usage(format!("no component of `{}` to test", directory.display())).hint("pinion plugin build");
    if let Some(project) = Project::read(&directory)? {
        let file = directory.join("build").join(format!("{}.wasm", project.name));
        return if file.is_file() { Ok(file) } else { Err(not_built()) };
    }
    let entries = std::fs::read_dir(directory.join("target/pinion")).into_iter().flatten().flatten();
    let components =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|name| name == "wasm"));
    // Of several, those with other names are older.
    components.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok()).ok_or_else(not_built)
}

fn project_directory(base: &Base, directory: &Path) -> PathBuf {
    if directory == Path::new(".") { base.workspace.clone() } else { base.workspace.join(directory) }
}

fn in_directory(directory: &Path) -> Failure {
    Failure::failed(format!("`{}`", directory.display()))
}

/// Builds the component of a project. Returns it with its manifest, and the project's directory for it.
async fn component(directory: &Path, when: Steps, screen: &dyn Screen) -> Result<(Vec<u8>, &'static str)> {
    let read = |file: &Path| {
        read_component(file).map_err(|error| Failure::failed(format!("`{}`", file.display())).because(error))
    };
    if let Some(project) = Project::read(directory)? {
        steps::run(directory, &project.build, when, screen).await?;
        let (output, wit) = (directory.join(&project.build.output), directory.join(&project.build.wit));
        let component = link::component(read(&output)?, &wit, project.build.world.as_deref())?;
        let packed = binary::packed(&component, &project.into()).map_err(Failure::failed)?;
        return Ok((packed, "build"));
    }
    if !directory.join("Cargo.toml").is_file() {
        return Err(no_project(directory));
    }
    let component = binary::stripped(&read(&cargo::build(directory)?)?).map_err(Failure::failed)?;
    Ok((component, "target/pinion"))
}

fn no_project(directory: &Path) -> Failure {
    let failure = Failure::usage(format!("no {} and no Cargo.toml in `{}`", project::FILE, directory.display()));
    match projects_in(directory).as_slice() {
        [] => failure.hint("create a plugin with: pinion plugin new NAME"),
        names => failure.hint(format!("name the directory of the plugin: pinion plugin build {}", names.join("|"))),
    }
}

/// Returns the names of the directories in `directory` that have a project.
fn projects_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let has_project = |path: PathBuf| [project::FILE, "Cargo.toml"].iter().any(|file| path.join(file).is_file());
    let projects = entries.filter(|entry| has_project(entry.path()));
    let mut names: Vec<String> = projects.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Replaces a file in one step, so that a running pinion never loads half of it.
pub(crate) fn replace_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    AtomicWrite::shared().replace_through(directory, file, bytes)
}
