//! Packages of the user and of projects, with components that are only lines of text: versions, sources, and the files
//! that a start opens.

use crate::config::Config;
use crate::files::output_directories::SpillDirectory;
use crate::files::paths::{PROJECT_PLUGINS, Paths};
use crate::options::RunOptions;
use crate::plugins::policy::{Binding, RuntimePolicy};
use crate::plugins::project_packages::PackageStanding;
use crate::plugins::sources::Purpose;
use crate::screen::NoScreen;
use crate::trust::ProjectContent;
use crate::workspace_base::Base;
use pinion_agent::secrets::Secrets;
use pinion_packages::{ComponentFacts, ComponentReader, InstallRequest, Package, PackageFiles, ProjectPackage};
use pinion_plugin_runtime::{Component, FileOrigin, LoadError, Manifest, PluginPolicy, PluginSource, without_links};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Reads `NAME VERSION ASK…` after the magic number of WebAssembly.
struct TextReader;

impl ComponentReader for TextReader {
    fn read(&self, _path: &str, bytes: &[u8]) -> Result<ComponentFacts, String> {
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\0asm").ok_or("no component")?).into_owned();
        let mut words = text.split_whitespace().map(str::to_owned);
        let (name, version) = (words.next().ok_or("no name")?, words.next().unwrap_or_default());
        let asks: Vec<String> = words.collect();
        Ok(ComponentFacts { name, version, description: String::new(), grants: asks.clone(), asks })
    }

    fn is_alike(&self, one: &str, other: &str) -> bool {
        pinion_plugin_runtime::is_alike(one, other)
    }

    fn is_reserved(&self, _name: &str) -> bool {
        false
    }
}

/// A home directory, and projects next to it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(TempDir::new().unwrap());
        fs::create_dir(home.path().join("home")).unwrap();
        home
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn paths(&self) -> Paths {
        let home = self.path().join("home");
        Paths { config: home.clone(), data: home.clone(), cache: home }
    }

    fn project(&self, name: &str) -> PathBuf {
        let project = self.path().join(name);
        fs::create_dir_all(project.join(".pinion")).unwrap();
        project
    }

    fn open(&self, workspace: &Path) -> Base {
        let paths = self.paths();
        let config = Config::load(&paths, workspace, &RunOptions::default()).unwrap();
        let output = Arc::new(SpillDirectory::new(paths.output()));
        Base::new(paths, workspace.to_owned(), config, Secrets::default(), output, Arc::new(NoScreen))
    }

    fn trust(&self, workspace: &Path) {
        ProjectContent::read(workspace).trust(workspace, &self.paths(), false, BTreeSet::new()).unwrap();
    }
}

fn package(text: &str, skills: bool) -> Package {
    let mut files = PackageFiles::single("plugin.wasm", [b"\0asm", text.as_bytes()].concat()).unwrap();
    if skills {
        let name = text.split(' ').next().unwrap();
        let skill = format!("---\nname: {name}\ndescription: Helps\n---\nHelp.\n");
        files.insert(&format!("skills/{name}/SKILL.md"), skill.into_bytes()).unwrap();
    }
    Package::read(files, text.split(' ').next().unwrap(), &TextReader).unwrap()
}

fn request(package: &Package, seen: Option<String>) -> InstallRequest<'_> {
    let granted = package.components.iter().map(|part| (part.facts.name.clone(), part.facts.grants.clone()));
    InstallRequest {
        package,
        source: "/somewhere/plugin.wasm".to_owned(),
        source_digest: None,
        signer: None,
        granted: granted.collect(),
        current: BTreeMap::new(),
        servers: Vec::new(),
        seen,
        now: 1,
    }
}

fn install(base: &Base, package: &Package) {
    let store = base.package_store().unwrap();
    let lock = store.read().unwrap();
    let seen = lock.package(&package.name).and_then(|known| known.active_release()).map(|active| active.digest.clone());
    store.install(&request(package, seen), &TextReader).unwrap();
}

fn keep(base: &Base, package: &Package) {
    base.package_store().unwrap().keep(&request(package, None), &TextReader).unwrap();
}

fn row(package: &Package) -> ProjectPackage {
    ProjectPackage {
        name: package.name.clone(),
        source: "oci://ghcr.io/acme/greet:1".to_owned(),
        version: package.version.clone(),
        digest: package.digest.clone(),
    }
}

/// Returns the files that a run loads from the user's directories.
fn files(base: &Base) -> Vec<PathBuf> {
    let options = RunOptions::default();
    let path = |source| match source {
        PluginSource::File { path, origin: FileOrigin::User } => Some(path),
        _ => None,
    };
    base.sources(&options, Purpose::Run).into_iter().filter_map(path).collect()
}

fn in_store(home: &Home, package: &Package) -> PathBuf {
    home.paths().package_store().join(&package.digest).join("plugin.wasm")
}

/// Decides on a component that asks to read files. Returns whether it may.
fn decide(base: &Base, path: &Path, name: &str, bytes: &[u8]) -> Result<bool, LoadError> {
    let about = serde_json::json!({
        "manifest": 1, "api": "0.1.0", "name": name, "version": "1.0.0", "capabilities": { "files": "read" },
    });
    let manifest: Manifest = serde_json::from_value(about).unwrap();
    let source = PluginSource::File { path: path.to_owned(), origin: FileOrigin::User };
    let (digest, path) = (blake3::hash(bytes).to_hex(), without_links(path));
    let component = Component { manifest: &manifest, source: &source, digest: &digest, path: Some(&path) };
    let settings = RuntimePolicy::new(base, Binding::LookOnly, None).settings(&component)?;
    Ok(!settings.grants.files.is_empty())
}

#[test]
fn untrusted_or_changed_project_names_no_packages() {
    let home = Home::new();
    let project = home.project("one");
    let one = package("greet 1.0.0", false);
    home.open(&project).name_project_package(row(&one)).unwrap();
    let base = home.open(&project);
    keep(&base, &one);
    assert!(base.config.project.is_untrusted() && base.project_packages().unwrap().is_empty());
    assert!(files(&base).is_empty());
    home.trust(&project);
    assert_eq!(files(&home.open(&project)), [in_store(&home, &one)]);
    let file = project.join(PROJECT_PLUGINS);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("1.0.0", "1.0.1")).unwrap();
    let changed = home.open(&project);
    assert!(changed.config.project.is_changed() && files(&changed).is_empty());
}

#[test]
fn missing_package_is_reported_with_the_command_to_run() {
    let home = Home::new();
    let project = home.project("one");
    let base = home.open(&project);
    base.name_project_package(row(&package("greet 1.0.0", false))).unwrap();
    home.trust(&project);
    let notices = home.open(&project).project_notices();
    assert!(notices.iter().any(|it| it.contains("`greet` 1.0.0\nhint:") && it.contains("pinion plugin install")));
    // Another version is active, and stays in use.
    let active = package("greet 2.0.0", false);
    install(&base, &active);
    let base = home.open(&project);
    let missing = PackageStanding::Missing { active: Some("2.0.0".to_owned()) };
    assert_eq!(base.project_standings().unwrap()[0].1, missing);
    assert!(base.project_notices().iter().any(|it| it.contains("`greet` 1.0.0 (2.0.0 is used instead)")));
    assert_eq!(files(&base), [home.paths().plugins().join("greet.wasm")]);
}

#[test]
fn two_projects_load_two_versions_and_others_the_active_one() {
    let home = Home::new();
    let [one, two, three] = ["greet 1.0.0", "greet 2.0.0", "greet 3.0.0"].map(|text| package(text, false));
    let projects = ["one", "two", "three"].map(|name| home.project(name));
    for (project, package) in projects.iter().zip([&one, &two, &three]) {
        let base = home.open(project);
        base.name_project_package(row(package)).unwrap();
        home.trust(project);
    }
    let elsewhere = home.open(&home.project("elsewhere"));
    install(&elsewhere, &three);
    keep(&elsewhere, &one);
    keep(&elsewhere, &two);
    let active = home.paths().plugins().join("greet.wasm");
    let found = projects.each_ref().map(|project| files(&home.open(project)));
    assert_eq!(found, [vec![in_store(&home, &one)], vec![in_store(&home, &two)], vec![active.clone()]]);
    assert_eq!(files(&elsewhere), [active]);
}

#[test]
fn version_of_a_project_has_its_grants_and_replaces_the_active_one() {
    let home = Home::new();
    let project = home.project("one");
    let (one, two) = (package("greet 1.0.0 files=read", false), package("greet 2.0.0", false));
    home.open(&project).name_project_package(row(&one)).unwrap();
    home.trust(&project);
    install(&home.open(&project), &two);
    keep(&home.open(&project), &one);
    let (base, stored, active) =
        (home.open(&project), in_store(&home, &one), home.paths().plugins().join("greet.wasm"));
    assert!(decide(&base, &stored, "greet", b"\0asmgreet 1.0.0 files=read").unwrap());
    // Neither other bytes nor another name in the store are loaded, nor the version that is active elsewhere.
    for (name, bytes) in [("greet", &b"\0asmgreet 1.0.0 evil"[..]), ("other", b"\0asmgreet 1.0.0 files=read")] {
        let refused = decide(&base, &stored, name, bytes).unwrap_err();
        assert!(matches!(refused, LoadError::Policy(_)), "{refused}");
    }
    let replaced = decide(&base, &active, "greet", b"\0asmgreet 2.0.0").unwrap_err();
    assert!(matches!(replaced, LoadError::Disabled(_)), "{replaced}");
    // Elsewhere, the file in the store is no plugin.
    let elsewhere = home.open(&home.project("elsewhere"));
    assert!(decide(&elsewhere, &stored, "greet", b"\0asmgreet 1.0.0 files=read").is_err());
    assert!(decide(&elsewhere, &active, "greet", b"\0asmgreet 2.0.0").is_ok());
}

#[test]
fn invalid_file_is_a_notice_that_names_the_row() {
    let home = Home::new();
    let project = home.project("one");
    fs::write(project.join(PROJECT_PLUGINS), "[[plugin]]\nname = 'a'\nsource = 'a'\nversion = '1'\ndigest = '0'\n")
        .unwrap();
    home.trust(&project);
    let base = home.open(&project);
    assert!(base.project_packages().is_err() && files(&base).is_empty());
    let notices = base.project_notices();
    assert!(notices.iter().any(|it| it.contains("row 1: `digest` of `a`") && it.contains("\nhint: ")), "{notices:?}");
}

#[test]
fn row_of_a_command_keeps_the_trust_of_everything_else() {
    let home = Home::new();
    let project = home.project("one");
    fs::write(project.join(".pinion/config.toml"), "thinking = 'low'\n").unwrap();
    home.trust(&project);
    home.open(&project).name_project_package(row(&package("greet 1.0.0", false))).unwrap();
    assert!(home.open(&project).config.project.is_trusted());
    let base = home.open(&project);
    fs::write(project.join(".pinion/config.toml"), "thinking = 'high'\n").unwrap();
    base.name_project_package(row(&package("kit 1.0.0", false))).unwrap();
    assert!(home.open(&project).config.project.is_changed());
}

#[test]
fn refused_installation_is_remembered_until_the_file_changes() {
    let home = Home::new();
    let project = home.project("one");
    home.open(&project).name_project_package(row(&package("greet 1.0.0", false))).unwrap();
    home.trust(&project);
    let base = home.open(&project);
    assert!(!base.config.project.has_refused_packages(&base.paths));
    base.config.project.refuse_packages(&base.paths).unwrap();
    assert!(base.config.project.has_refused_packages(&base.paths));
    assert!(home.open(&project).config.project.is_trusted());
    base.name_project_package(row(&package("greet 1.1.0", false))).unwrap();
    let base = home.open(&project);
    assert!(base.config.project.is_trusted() && !base.config.project.has_refused_packages(&base.paths));
}

#[test]
fn skills_come_from_the_version_of_the_project() {
    let home = Home::new();
    let project = home.project("one");
    let (one, two) = (package("greet 1.0.0", true), package("greet 2.0.0", true));
    home.open(&project).name_project_package(row(&one)).unwrap();
    home.trust(&project);
    let base = home.open(&project);
    install(&base, &two);
    keep(&base, &one);
    let skills = |package: &Package| home.paths().package_store().join(&package.digest).join("skills");
    let named = |base: &Base| base.skills().grants().keys().cloned().collect::<Vec<_>>();
    assert_eq!(named(&base), [skills(&one)]);
    assert_eq!(named(&home.open(&home.project("elsewhere"))), [skills(&two)]);
}

#[cfg(target_os = "linux")]
mod opened {
    use super::*;
    use rustix::fs::inotify;
    use std::mem::MaybeUninit;

    /// Returns the names of files in a directory that `work` opens, once for each time.
    fn opened_in(directory: &Path, work: impl FnOnce()) -> Vec<String> {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, directory, inotify::WatchFlags::OPEN).unwrap();
        work();
        let mut buffer = [MaybeUninit::uninit(); 1 << 16];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        names
    }

    /// Reads the lock, the grants and the plugin directory as a start does.
    fn start(base: &Base, names: &[String]) {
        let options = RunOptions::default();
        base.sources(&options, Purpose::Run);
        drop(base.host_directories());
        assert!(base.has_skills() && !base.grants_hooks());
        let policy = RuntimePolicy::new(base, Binding::LookOnly, None);
        drop((policy.files(), policy.files(), base.project_notices(), base.sources(&options, Purpose::Run)));
        for name in names {
            let path = base.paths.plugins().join(format!("{name}.wasm"));
            let bytes = format!("\0asm{name} 1.0.0 files=read");
            decide(base, &path, name, bytes.as_bytes()).unwrap();
        }
    }

    #[test]
    fn start_reads_the_lock_and_the_grants_once_and_no_component() {
        let home = Home::new();
        let project = home.project("one");
        let names: Vec<String> = (0..30).map(|number| format!("package{number:02}")).collect();
        let base = home.open(&project);
        names.iter().for_each(|name| install(&base, &package(&format!("{name} 1.0.0 files=read"), true)));
        let sections = names.iter().map(|name| format!("[plugins.{name}.config]\nkey = 1\n"));
        fs::write(base.paths.config_file(), sections.collect::<String>()).unwrap();
        crate::plugins::grants::GrantsFile::new(base.paths.grants_file()).update(|pins| pins.clear()).unwrap();
        crate::files::private::replace(&base.paths.grants_file(), b"version = 1\n").unwrap();
        let base = home.open(&project);
        let opened = opened_in(&base.paths.data, || start(&base, &names));
        let count = |name: &str| opened.iter().filter(|opened| *opened == name).count();
        assert_eq!((count("plugins.lock"), count("grants.toml")), (1, 1), "{opened:?}");
        let components = opened_in(&base.paths.plugins(), || start(&base, &names));
        assert!(components.iter().all(|name| !name.ends_with(".wasm")), "{components:?}");
    }
}
