//! The packages that a trusted project names in `.pinion/plugins.toml`.
//!
//! A run in the project loads exactly these versions, from the store, whether another version is active elsewhere or
//! none. The user agreed to each of them with its capabilities. A version that is not installed is only reported.

use crate::failure::{Failure, Result};
use crate::files::paths::PROJECT_PLUGINS;
use crate::output::line;
use crate::plugins::package_lock::LockView;
use crate::trust::{ProjectContent, replace_shared};
use crate::workspace_base::Base;
use pinion_packages::{LockedPackage, LockedRelease, ProjectPackage, ProjectPackages, shown_source};
use pinion_plugin_runtime::{FileOrigin, PluginSource, without_links};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The state of a package that a project names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageStanding {
    /// Its version is active for the user everywhere.
    Active,
    /// Its version is installed, and active in projects that name it.
    Kept,
    /// Its version is not installed.
    Missing {
        /// The version that is active instead.
        active: Option<String>,
    },
}

/// A kept version that only a project activates.
pub(super) struct ProjectRelease {
    pub(super) release: LockedRelease,
    /// The directory of the version in the store.
    pub(super) directory: PathBuf,
    /// Digest of the version that is active elsewhere; empty if none is.
    pub(super) replaces: String,
}

/// Components of kept versions that a run in a project loads in place of the user's active ones.
#[derive(Debug, Default)]
pub(crate) struct ProjectComponents {
    /// Names by paths in the store, without links.
    by_path: HashMap<PathBuf, String>,
    names: BTreeSet<String>,
}

impl ProjectComponents {
    /// Returns the name of the component in a file of the store, if the project uses that file.
    pub(super) fn name_at(&self, path: &Path) -> Option<&str> {
        self.by_path.get(path).map(String::as_str)
    }

    /// Returns whether a file in the user's plugin directory has another version than the project names.
    pub(super) fn replaces(&self, path: &Path, name: &str) -> bool {
        self.names.contains(name) && !self.by_path.contains_key(path)
    }

    fn replaces_file(&self, path: &Path) -> bool {
        path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| self.names.contains(stem))
    }
}

impl Base {
    /// Returns the packages that the project names; an empty list if it is not trusted.
    ///
    /// # Errors
    /// The project is trusted, and its file is invalid.
    pub fn project_packages(&self) -> Result<Vec<ProjectPackage>> {
        let Some(text) = self.config.project.text(PROJECT_PLUGINS) else { return Ok(Vec::new()) };
        let invalid = |error: String| {
            Failure::failed(format!("`{PROJECT_PLUGINS}` of this project is not used"))
                .because(line(&error))
                .hint("correct it, or write its rows with: pinion plugin add SOURCE --project")
        };
        ProjectPackages::parse(text).map(|packages| packages.packages).map_err(invalid)
    }

    /// Returns the packages that the project names, each with its state.
    ///
    /// # Errors
    /// As of [`Base::project_packages`].
    pub fn project_standings(&self) -> Result<Vec<(ProjectPackage, PackageStanding)>> {
        let packages = self.project_packages()?;
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let lock = self.installed_packages();
        Ok(packages.into_iter().map(|package| (package.clone(), standing(&lock, &package))).collect())
    }

    /// Returns the versions that only the project activates.
    pub(super) fn project_releases(&self) -> Vec<ProjectRelease> {
        let standings = self.project_standings().unwrap_or_default();
        let kept = standings.into_iter().filter(|(_, standing)| *standing == PackageStanding::Kept);
        let lock = self.installed_packages();
        let Ok(installed) = lock.as_ref() else { return Vec::new() };
        let release = |package: ProjectPackage| {
            let known = installed.package(&package.name)?;
            let release = release(known, &package)?.clone();
            let directory = self.paths.package_store().join(&release.digest);
            Some(ProjectRelease { release, directory, replaces: known.active.clone() })
        };
        kept.filter_map(|(package, _)| release(package)).collect()
    }

    /// Returns the components that the project loads from the store.
    pub(crate) fn project_components(&self) -> ProjectComponents {
        let mut components = ProjectComponents::default();
        for ProjectRelease { release, directory, .. } in self.project_releases() {
            for component in release.components {
                components.by_path.insert(without_links(&directory.join(&component.path)), component.name.clone());
                components.names.insert(component.name);
            }
        }
        components
    }

    /// Puts the components that the project loads from the store in the place of files of the user's plugin directory.
    pub(super) fn with_project_components(&self, mut files: Vec<PluginSource>) -> Vec<PluginSource> {
        let components = self.project_components();
        files.retain(|file| match file {
            PluginSource::File { path, origin: FileOrigin::User } => !components.replaces_file(path),
            _ => true,
        });
        let mut paths: Vec<PathBuf> = components.by_path.into_keys().collect();
        paths.sort_unstable();
        files.extend(paths.into_iter().map(|path| PluginSource::File { path, origin: FileOrigin::User }));
        files
    }

    /// Returns a notice about packages that the project names and that are not installed, or about its invalid file.
    pub(crate) fn project_package_notice(&self) -> Option<String> {
        let standings = match self.project_standings() {
            Ok(standings) => standings,
            Err(failure) => {
                let hint = failure.remedy().map(|remedy| format!("\nhint: {remedy}")).unwrap_or_default();
                return Some(failure.message() + &hint);
            }
        };
        let missing: Vec<String> = standings
            .iter()
            .filter_map(|(package, standing)| match standing {
                PackageStanding::Missing { active: None } => Some(format!("`{}` {}", package.name, package.version)),
                PackageStanding::Missing { active: Some(active) } => {
                    Some(format!("`{}` {} ({active} is used instead)", package.name, package.version))
                }
                PackageStanding::Active | PackageStanding::Kept => None,
            })
            .collect();
        (!missing.is_empty()).then(|| {
            format!(
                "this project names plugins that are not installed: {}\nhint: show what they ask for, and install them \
                 with: pinion plugin install",
                line(&missing.join(", "))
            )
        })
    }

    /// Names a package in the project's file. A project that was trusted stays so if nothing else changed.
    ///
    /// # Errors
    /// The file is invalid, or cannot be written.
    pub fn name_project_package(&self, package: ProjectPackage) -> Result<()> {
        let path = self.workspace.join(PROJECT_PLUGINS);
        let failed = |what: &str| Failure::failed(format!("could not {what} `{PROJECT_PLUGINS}`"));
        let before = ProjectContent::read(&self.workspace);
        let text = before.text(PROJECT_PLUGINS).unwrap_or_default();
        let mut packages =
            ProjectPackages::parse(text).map_err(|error| failed("change").because(line(&error).to_string()))?;
        packages.set(package);
        let text = packages.to_text().map_err(|error| failed("change").because(error))?;
        replace_shared(&path, text.as_bytes()).map_err(|error| failed("write").because(error))?;
        self.config.project.keep_trust(&self.paths, &path, &before)
    }
}

/// Describes the file of a project for the question whether to trust it, one line for each package.
pub fn describe_packages(text: &str) -> Vec<String> {
    let row = |package: &ProjectPackage| {
        let ProjectPackage { name, source, version, .. } = package;
        let source = shown_source(source);
        line(&format!("uses the plugin `{name}` {version} from {source}, which needs a separate agreement"))
    };
    match ProjectPackages::parse(text) {
        Ok(packages) => packages.packages.iter().map(row).collect(),
        Err(problem) => vec![line(&format!("not used: {problem}"))],
    }
}

fn standing(lock: &LockView, package: &ProjectPackage) -> PackageStanding {
    let known = lock.as_ref().ok().and_then(|installed| installed.package(&package.name));
    let active = known.and_then(LockedPackage::active_release);
    if active.is_some_and(|active| active.digest == package.digest) {
        return PackageStanding::Active;
    }
    match known.and_then(|known| release(known, package)) {
        Some(_) => PackageStanding::Kept,
        None => PackageStanding::Missing { active: active.map(|active| active.version.clone()) },
    }
}

/// Returns the release that a project names.
fn release<'a>(known: &'a LockedPackage, package: &ProjectPackage) -> Option<&'a LockedRelease> {
    known.releases.iter().find(|release| release.digest == package.digest)
}
