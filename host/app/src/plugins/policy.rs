//! The grants of each component: from the config for built-in plugins, from the config and `grants.toml` for files.
//!
//! Default grants exist only for built-in plugins, whose names no file may claim. A file never has grants by its name
//! alone. Grants of `[plugins.NAME.grants]` are bound to the first file of that name that the user installed or named;
//! `pinion plugin grant` binds others. A bound grant applies to this path and digest. While a process runs, the binding
//! follows the file from one generation to the next; between two processes it does not. The plugins of a project have
//! only the grants that the user gave them with `pinion plugin grant`.

use crate::config::Config;
use crate::config::file::FilePlugin;
use crate::plugins::builtin::{BUILT_IN, SKILL_READER};
use crate::plugins::file_stamp::Stamp;
use crate::plugins::grants::{GrantsFile, Pin, Pins};
use crate::plugins::installed;
use crate::plugins::package_lock::LockView;
use crate::plugins::project_packages::ProjectComponents;
use crate::workspace_base::Base;
pub use pinion_plugin_runtime::shell_word as shown;
use pinion_plugin_runtime::{
    Asks, Ceiling, Component, FileAccess, FileOrigin, GrantTable, Grants, Likeness, LikenessMap, LoadError,
    PluginPolicy, PluginSettings, PluginSource, is_alike, without_links,
};
use serde_json::Value;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The names of built-in plugins, which no file may claim.
static RESERVED: LazyLock<Vec<(&str, Likeness)>> =
    LazyLock::new(|| BUILT_IN.iter().map(|built_in| (built_in.name, Likeness::from_name(built_in.name))).collect());

/// The effect of loading a component on the grants of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The component will run, so grants are bound to it.
    Bind,
    /// The component is only inspected, so nothing is bound.
    LookOnly,
}

/// Grants from the command line for one call, on top of those that the user gave otherwise.
#[derive(Debug, Clone)]
pub struct CallGrants {
    /// The component that receives them.
    pub target: GrantTarget,
    /// The grants of the call.
    pub grants: Grants,
    /// Replaces its section of the config.
    pub config: Option<Value>,
}

/// The component that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantTarget {
    /// The plugin that a run loads under this name.
    Name(String),
    /// The plugin in this file.
    File(PathBuf),
}

/// The policy of one runtime.
pub struct RuntimePolicy {
    base: Base,
    binding: Binding,
    call: Option<CallGrants>,
    file: GrantsFile,
    /// The names of plugins that the config disables, which stays as it is.
    disabled: LikenessMap<()>,
    /// The components that the project loads from the store.
    project: ProjectComponents,
    state: Mutex<PolicyState>,
}

#[derive(Default)]
struct PolicyState {
    /// The digest that this process loaded last, by path.
    last: HashMap<PathBuf, String>,
    /// True if the component received grants before it was compiled, by path and digest.
    given: HashMap<(PathBuf, String), bool>,
    /// The names in the manifests of the user's plugin directory, by path.
    names: HashMap<PathBuf, (Stamp, Option<String>)>,
    /// The plugins in the user's config as they were read last, with the state of the file at that time.
    config: Option<(Option<Stamp>, Arc<UserPlugins>)>,
}

/// The sections for plugins in the user's config, and the defaults below it.
type UserPlugins = BTreeMap<String, FilePlugin>;

/// The config and the grants that decisions depend on, as they are in their files now.
struct View {
    plugins: Arc<UserPlugins>,
    pins: io::Result<Arc<Pins>>,
    lock: Arc<LockView>,
    /// The user's plugin directory without links.
    directory: Option<PathBuf>,
    /// The files in it by their names, once a decision needs them.
    files: OnceCell<LikenessMap<PathBuf>>,
}

/// Returns the user's section for files of this name. A project's plugin has no section, because the section may
/// contain secrets.
fn section<'a>(plugins: &'a UserPlugins, name: &str, origin: FileOrigin) -> Option<&'a FilePlugin> {
    plugins.get(name).filter(|_| origin != FileOrigin::Project)
}

/// The relation of a file to the existing grants.
enum GrantStanding {
    /// This pin contains its grants.
    Pinned(Box<Pin>),
    /// Nothing is bound to the file, and the config's grants for its name are not bound to another file.
    Free,
    /// No grants are meant for it.
    Stranger,
    /// Grants exist for its name or path but do not apply. The text states the reason, with a hint.
    HeldBack(String),
}

impl RuntimePolicy {
    /// The policy of a workspace; `call` replaces the grants of one plugin.
    pub fn new(base: &Base, binding: Binding, call: Option<CallGrants>) -> Self {
        let file = GrantsFile::new(base.paths.grants_file());
        let config = Some((Stamp::from_path(&base.paths.config_file()), Arc::new(base.config.user_plugins.clone())));
        Self {
            base: base.clone(),
            binding,
            call,
            file,
            disabled: base.disabled_names(),
            project: base.project_components(),
            state: Mutex::new(PolicyState { config, ..PolicyState::default() }),
        }
    }

    /// Returns the plugins in the user's config, reading it again only if it has changed. An invalid file changes nothing.
    fn user_plugins(&self) -> Arc<UserPlugins> {
        let stamp = Stamp::from_path(&self.base.paths.config_file());
        let known = self.state().config.clone();
        if let Some((_, plugins)) = known.as_ref().filter(|(known, _)| *known == stamp) {
            return plugins.clone();
        }
        let plugins = match (Config::plugins_of_user(&self.base.paths), known) {
            (Ok(plugins), _) => Arc::new(plugins),
            (Err(failure), known) => {
                tracing::error!(%failure, "the config cannot be read again");
                known.map(|(_, plugins)| plugins).unwrap_or_default()
            }
        };
        self.state().config = Some((stamp, plugins.clone()));
        plugins
    }

    /// Reads the files that decisions depend on, if they have changed.
    fn view(&self) -> View {
        self.view_with(self.base.pins())
    }

    fn view_with(&self, pins: io::Result<Arc<Pins>>) -> View {
        View {
            plugins: self.user_plugins(),
            pins,
            lock: self.base.installed_packages(),
            directory: self.base.paths.plugins().canonicalize().ok(),
            files: OnceCell::new(),
        }
    }

    /// Returns the settings of a built-in plugin. A project cannot grant anything.
    fn built_in(&self, name: &str, view: &View) -> PluginSettings {
        let granted = view.plugins.get(name).map(|plugin| self.base.grants(&plugin.grants));
        let plugin = self.base.config.plugins.get(name);
        let mut grants = granted.unwrap_or_default();
        // The model may read the output of a program, wherever `bash` had to put it.
        let output = self.base.output.directory();
        if name == "fs" && !grants.files.is_empty() && output.is_dir() {
            grants.files.insert(output.to_owned(), FileAccess::Read);
        }
        let mut config = plugin.map(config_of).unwrap_or_default();
        if name == SKILL_READER {
            let skills = self.base.skills();
            config = skills.config();
            grants.files.extend(skills.grants().clone());
        }
        PluginSettings {
            grants,
            limits: plugin.map(|plugin| plugin.limits.clone()).unwrap_or_default(),
            config,
            ..PluginSettings::default()
        }
    }

    fn of_file(&self, component: &Component<'_>, path: &Path, origin: FileOrigin, view: &View) -> PluginSettings {
        let name = &component.manifest.name;
        let section = section(&view.plugins, name, origin);
        let pinned = view.pins.as_ref().ok().and_then(|pins| pins.at(path));
        let agreed = pinned.is_none_or(|pin| pin.digest != component.digest);
        let agreed = agreed.then(|| installed::agreed(&view.lock, component, path, origin, pinned, None)).flatten();
        let is_first = agreed.as_ref().is_some_and(|(_, is_first)| *is_first);
        let standing = match (&view.pins, agreed) {
            (Ok(_), Some((pin, _))) => GrantStanding::Pinned(Box::new(pin)),
            (Ok(pins), None) => match pinned {
                Some(pin) => self.pinned(component, origin, pin),
                None => self.unpinned(component, path, origin, section, pins.of_config(name), view),
            },
            (Err(error), _) => GrantStanding::HeldBack(self.unusable(error)),
        };
        let project = self.base.config.project_plugins.get(name).filter(|_| origin == FileOrigin::Project);
        let mut settings = PluginSettings { hint: grant_hint(path, &standing, component), ..PluginSettings::default() };
        match &standing {
            GrantStanding::Pinned(pin) => {
                settings.grants = self.base.grants(&pin.grants);
                if let Some(section) = section {
                    (settings.limits, settings.config) = (section.limits.clone(), config_of(section));
                    if pin.config {
                        settings.grants.widen(self.base.grants(&section.grants));
                    }
                }
                settings.ceiling = (!is_first).then(|| pin.granted_for.clone());
            }
            GrantStanding::Free => {
                if let Some(section) = section {
                    (settings.limits, settings.config) = (section.limits.clone(), config_of(section));
                    settings.grants = self.base.grants(&section.grants);
                }
            }
            GrantStanding::Stranger => {}
            GrantStanding::HeldBack(why) => settings.held_back = Some(why.clone()),
        }
        if let Some(project) = project {
            settings.config = config_of(project);
        }
        self.state().given.insert((path.to_owned(), component.digest.to_owned()), settings.grants != Grants::default());
        settings
    }

    /// Returns the standing of a file that no pin names. `of_config` has the grants of the config for its name.
    fn unpinned(
        &self,
        component: &Component<'_>,
        path: &Path,
        origin: FileOrigin,
        section: Option<&FilePlugin>,
        of_config: Option<&Pin>,
        view: &View,
    ) -> GrantStanding {
        let name = &component.manifest.name;
        let Some(section) = section else { return GrantStanding::Stranger };
        let withheld = |why: String| match section.grants == GrantTable::default()
            || component.manifest.capabilities == Asks::default()
        {
            true => GrantStanding::Stranger,
            false => {
                let asked = component.manifest.capabilities.spell_asks().join(" ");
                let hint = format!("hint: pinion plugin grant {} {asked}", shown(path));
                GrantStanding::HeldBack(format!("{why}\n{}", hint.trim_end()))
            }
        };
        if let Some(pin) = of_config {
            return withheld(format!("the grants of [plugins.{name}.grants] are for {}", shown(&pin.path)));
        }
        let files = view.files.get_or_init(|| self.installed_files(&view.lock));
        match files.values_like(name).find(|other| *other != path) {
            Some(other) if origin == FileOrigin::Named => {
                withheld(format!("the grants of [plugins.{name}.grants] are for {}", shown(other)))
            }
            Some(other) => {
                withheld(format!("{} has the same name, and [plugins.{name}.grants] can mean either", shown(other)))
            }
            None => GrantStanding::Free,
        }
    }

    fn pinned(&self, component: &Component<'_>, origin: FileOrigin, pin: &Pin) -> GrantStanding {
        let is_empty = !pin.config && pin.grants == GrantTable::default();
        let path = shown(&pin.path);
        let held_back = |why: String| match is_empty || component.manifest.capabilities == Asks::default() {
            true => GrantStanding::Stranger,
            false => GrantStanding::HeldBack(format!("{why}\nhint: pinion plugin grant {path}")),
        };
        if origin == FileOrigin::Project && !self.base.is_trusted_plugin(&pin.path) {
            return GrantStanding::HeldBack(format!("{path} is not in a trusted project\nhint: pinion trust add"));
        }
        if pin.name != component.manifest.name || pin.source != origin {
            return held_back(format!("{path} was granted as plugin `{}`, {}", pin.name, pin.source.describe_origin()));
        }
        let is_followed = self.state().last.get(&pin.path) == Some(&pin.digest) && !pin.path.is_symlink();
        if pin.digest == component.digest || is_followed {
            return GrantStanding::Pinned(Box::new(pin.clone()));
        }
        held_back(format!("{path} has changed since it was granted"))
    }

    /// Returns the files of the user's plugin directory by the names in their manifests. A file of a package has the
    /// name of its component, or is not loaded, so it is not read.
    fn installed_files(&self, lock: &LockView) -> LikenessMap<PathBuf> {
        let mut state = self.state();
        let is_in_place = |path: &Path| path.parent() == Some(&*self.base.paths.plugins());
        let packaged = |path: &Path| {
            let stem = path.file_stem().filter(|_| is_in_place(path))?.to_str()?;
            lock.as_ref().is_ok_and(|installed| installed.has_component(stem)).then(|| stem.to_owned())
        };
        let mut manifest = |source: &PluginSource, path: &Path| {
            let stamp = Stamp::from_path(path)?;
            if let Some((_, name)) = state.names.get(path).filter(|(known, _)| *known == stamp) {
                return name.clone();
            }
            let name = source.inspect().ok().map(|(inspection, _)| inspection.manifest.name);
            state.names.insert(path.to_owned(), (stamp, name.clone()));
            name
        };
        let sources = self.base.installed().into_iter();
        let named = sources.filter_map(|source| {
            let PluginSource::File { path, .. } = &source else { return None };
            Some((packaged(path).or_else(|| manifest(&source, path))?, without_links(path)))
        });
        named.collect()
    }

    /// Records that grants now belong to the component. Called under the lock of the file.
    fn bind(
        &self,
        component: &Component<'_>,
        path: &Path,
        origin: FileOrigin,
        offered: &Ceiling,
        pins: &mut Vec<Pin>,
    ) -> bool {
        // `pins` come from the file that is being changed.
        let view = self.view_with(Ok(Arc::default()));
        let before = pins.iter().find(|pin| pin.path == path);
        if before.is_none_or(|pin| pin.digest != component.digest)
            && let Some((pin, _)) = installed::agreed(&view.lock, component, path, origin, before, Some(offered))
        {
            pins.retain(|pin| pin.path != path);
            pins.push(pin);
            return true;
        }
        let section = section(&view.plugins, &component.manifest.name, origin);
        let standing = match pins.iter().find(|pin| pin.path == path) {
            Some(pin) => self.pinned(component, origin, pin),
            None => {
                let name = &component.manifest.name;
                let of_config = pins.iter().find(|pin| pin.config && is_alike(&pin.name, name));
                self.unpinned(component, path, origin, section, of_config, &view)
            }
        };
        match standing {
            GrantStanding::Pinned(pin) => {
                let same = pins.iter_mut().filter(|other| other.path == pin.path);
                same.for_each(|pin| component.digest.clone_into(&mut pin.digest));
                true
            }
            GrantStanding::Free => {
                if section.is_some_and(|section| section.grants != GrantTable::default()) {
                    pins.push(Pin {
                        name: component.manifest.name.clone(),
                        source: origin,
                        path: path.to_owned(),
                        digest: component.digest.to_owned(),
                        config: true,
                        grants: GrantTable::default(),
                        granted_for: offered.clone(),
                    });
                }
                true
            }
            GrantStanding::Stranger | GrantStanding::HeldBack(_) => false,
        }
    }

    fn unusable(&self, error: &io::Error) -> String {
        let path = shown(self.file.path());
        format!("no grants of plugin files apply, because {path} is unusable: {error}\nhint: fix or remove {path}")
    }

    fn state(&self) -> MutexGuard<'_, PolicyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginPolicy for RuntimePolicy {
    fn settings(&self, component: &Component<'_>) -> Result<PluginSettings, LoadError> {
        self.decide(component, &self.view())
    }

    fn settings_of_all(&self, components: &[Component<'_>]) -> Vec<Result<PluginSettings, LoadError>> {
        let view = self.view();
        components.iter().map(|component| self.decide(component, &view)).collect()
    }

    fn loaded(&self, component: &Component<'_>, offered: &Ceiling) -> Result<(), LoadError> {
        let PluginSource::File { path, origin } = component.source else { return Ok(()) };
        let path = component.path.unwrap_or(path);
        let was_given = self.state().given.remove(&(path.to_owned(), component.digest.to_owned())).unwrap_or_default();
        if was_given && self.binding == Binding::Bind {
            self.record(component, path, *origin, offered)?;
        }
        self.state().last.insert(path.to_owned(), component.digest.to_owned());
        Ok(())
    }

    fn files(&self) -> Vec<PathBuf> {
        let paths = &self.base.paths;
        let mut files = vec![self.file.path().to_owned(), paths.config_file(), paths.trust_file()];
        files.push(paths.plugin_lock_file());
        files.extend(self.base.skills().watched());
        files
    }
}

impl RuntimePolicy {
    /// Decides on a component.
    fn decide(&self, component: &Component<'_>, view: &View) -> Result<PluginSettings, LoadError> {
        let name = &component.manifest.name;
        if self.disabled.values_like(name).next().is_some() {
            return Err(LoadError::Disabled(name.clone()));
        }
        let by_name = Some(GrantTarget::Name(name.clone()));
        let (mut settings, targets) = match component.source {
            PluginSource::BuiltIn { name, .. } => (self.built_in(name, view), [by_name, None]),
            PluginSource::File { path, origin } => {
                let path = component.path.unwrap_or(path);
                let likeness = Likeness::from_name(name);
                if let Some((built_in, _)) = RESERVED.iter().find(|(_, reserved)| reserved.is_like(&likeness)) {
                    return Err(LoadError::Reserved { name: name.clone(), built_in: (*built_in).to_owned() });
                }
                installed::check(&view.lock, view.directory.as_deref(), &self.project, component, path, *origin)?;
                if let Some(problem) = self.base.config.project.refuses_now(&self.base.paths, path, component.digest) {
                    return Err(LoadError::Policy(problem));
                }
                // A name never selects a project's plugin; the user must name the file.
                let by_name = by_name.filter(|_| *origin != FileOrigin::Project);
                (self.of_file(component, path, *origin, view), [by_name, Some(GrantTarget::File(path.to_owned()))])
            }
        };
        if let Some(call) = &self.call
            && targets.iter().flatten().any(|target| call.target == *target)
        {
            settings.grants.widen(call.grants.clone());
            call.config.iter().for_each(|config| settings.config.clone_from(config));
            // The user named the component, the call and the capabilities.
            settings.ceiling = None;
        }
        Ok(settings)
    }

    /// Binds grants to a component that received them, unless they are bound already.
    fn record(
        &self,
        component: &Component<'_>,
        path: &Path,
        origin: FileOrigin,
        offered: &Ceiling,
    ) -> Result<(), LoadError> {
        if self.base.pins().is_ok_and(|pins| pins.at(path).is_some_and(|pin| pin.digest == component.digest)) {
            return Ok(());
        }
        let bound = self.file.update(|pins| self.bind(component, path, origin, offered, pins));
        match bound {
            Ok(true) => Ok(()),
            Ok(false) => Err(LoadError::Policy("its grants changed while it loaded".to_owned())),
            Err(error) => {
                Err(LoadError::Policy(format!("could not record its grants in {}: {error}", shown(self.file.path()))))
            }
        }
    }
}

/// Returns the command that grants more to a file, if editing the config is not the way.
fn grant_hint(path: &Path, standing: &GrantStanding, component: &Component<'_>) -> Option<String> {
    let asks = component.manifest.capabilities.spell_asks().join(" ");
    match standing {
        GrantStanding::Pinned(pin) if pin.config => Some(format!("pinion plugin grant {}", shown(path))),
        GrantStanding::Stranger
            if !matches!(component.source, PluginSource::File { origin: FileOrigin::Project, .. }) =>
        {
            None
        }
        GrantStanding::Pinned(_) | GrantStanding::Stranger | GrantStanding::HeldBack(_) => {
            Some(format!("pinion plugin grant {} {asks}", shown(path)).trim_end().to_owned())
        }
        GrantStanding::Free => None,
    }
}

fn config_of(plugin: &FilePlugin) -> serde_json::Value {
    serde_json::to_value(&plugin.config).unwrap_or_default()
}
