//! The plugins that a command loads: built-in ones, those in directories, and files that the user names.

use crate::options::RunOptions;
use crate::plugins::builtin::{BUILT_IN, BuiltIn, OPENAPI_BRIDGE};
use crate::workspace_base::Base;
use pinion_plugin_runtime::{FileOrigin, LikenessMap, PluginDirectory, PluginSource, plugins_in, without_links};
use std::path::Path;

/// The use of a runtime, which decides on the plugins to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A non-interactive run.
    Run,
    /// A conversation, or an inspection of all plugins.
    Conversation,
}

impl Base {
    /// Returns the plugins that a run loads, in their order of precedence in name collisions. Disabled files are among
    /// them, because only the runtime reads the names in their manifests.
    pub fn sources(&self, options: &RunOptions, purpose: Purpose) -> Vec<PluginSource> {
        self.recover_packages();
        let built_in = self.built_in(options, purpose);
        let mut sources: Vec<PluginSource> = built_in.map(BuiltIn::source).collect();
        sources.extend(options.plugins.iter().map(|path| self.named(path)));
        let files = plugins_in(&self.plugin_directories(options));
        let files = if options.no_plugins { files } else { self.with_project_components(files) };
        // With `PINION_HOME` in the workspace, the user's directory can be the project's.
        let users = self.paths.plugins().canonicalize().ok();
        let is_left_out = options.no_plugins || self.workspace.join(".pinion/plugins").canonicalize().ok() == users;
        let project = if is_left_out { Vec::new() } else { self.config.project.plugins() };
        let project =
            project.into_iter().map(|plugin| PluginSource::File { path: plugin.path, origin: FileOrigin::Project });
        let new: Vec<PluginSource> = files.into_iter().chain(project).filter(|file| !sources.contains(file)).collect();
        sources.extend(new);
        sources
    }

    /// Returns the built-in plugins that a run loads.
    pub fn built_in(&self, options: &RunOptions, purpose: Purpose) -> impl Iterator<Item = &'static BuiltIn> {
        let disabled = self.disabled_names();
        BUILT_IN.iter().filter(move |plugin| {
            !options.no_builtin_plugins
                && disabled.values_like(plugin.name).next().is_none()
                && (purpose == Purpose::Conversation || !plugin.is_for_conversations)
                && (!plugin.is_for_servers || self.has_mcp_servers())
                && (!plugin.is_for_skills || self.has_skills())
                && (!plugin.is_for_apis || self.has_apis())
        })
    }

    /// Returns whether the config names HTTP interfaces.
    pub fn has_apis(&self) -> bool {
        self.config.plugins.get(OPENAPI_BRIDGE).is_some_and(|plugin| plugin.config.contains_key("apis"))
    }

    /// Returns the names of plugins that the user or a trusted project disabled. Plugins of names that look like one of
    /// them are disabled, too. A project cannot enable a plugin that the user disabled.
    pub(crate) fn disabled_names(&self) -> LikenessMap<()> {
        let layers = [&self.config.user_plugins, &self.config.plugins];
        let disabled = layers.into_iter().flatten().filter(|(_, plugin)| plugin.enabled == Some(false));
        disabled.map(|(section, _)| (section, ())).collect()
    }

    /// Returns the source for a file that the user named. Its location decides its origin, so naming a project's plugin
    /// does not make it the user's.
    pub fn named(&self, path: &Path) -> PluginSource {
        let path = self.workspace.join(path);
        let identity = without_links(&path);
        let users = self.paths.plugins().canonicalize().ok();
        let users = users.and_then(|users| identity.strip_prefix(users).ok().filter(|place| is_place(place)));
        let is_projects = is_in_project(&identity) || path.canonicalize().is_ok_and(|path| is_in_project(&path));
        match (users, is_projects) {
            (Some(place), _) => PluginSource::File { path: self.paths.plugins().join(place), origin: FileOrigin::User },
            (_, true) => PluginSource::File { path: identity, origin: FileOrigin::Project },
            _ => PluginSource::File { path, origin: FileOrigin::Named },
        }
    }

    /// Returns the directories to watch for plugins: only the user's. Plugins of a project are single files whose
    /// digests the user trusts.
    pub fn plugin_directories(&self, options: &RunOptions) -> Vec<PluginDirectory> {
        let users = || PluginDirectory { path: self.paths.plugins(), origin: FileOrigin::User };
        if options.no_plugins { Vec::new() } else { vec![users()] }
    }

    /// Returns a notice if the user's plugin directory is there and cannot be read, for example because it is a file.
    pub fn directory_notice(&self, options: &RunOptions) -> Option<String> {
        let path = self.paths.plugins();
        let is_wanted = !options.no_plugins && path.symlink_metadata().is_ok();
        let error = path.read_dir().err().filter(|_| is_wanted)?;
        Some(format!("no plugin was loaded from `{}`: {error}", path.display()))
    }

    /// Returns the files in the user's plugin directory.
    pub fn installed(&self) -> Vec<PluginSource> {
        plugins_in(&[PluginDirectory { path: self.paths.plugins(), origin: FileOrigin::User }])
    }

    /// Returns whether a file is a plugin of this project and the user trusts it.
    pub fn is_trusted_plugin(&self, path: &Path) -> bool {
        self.config.project.plugins().iter().any(|plugin| plugin.path == path)
    }
}

/// Returns whether a path below the user's plugin directory is one of a plugin: `NAME.wasm` or `NAME/NAME.wasm`.
fn is_place(path: &Path) -> bool {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.is_none_or(|directory| Some(directory.as_os_str()) == path.file_stem())
}

/// Returns whether a file is in the plugin directory of any project.
fn is_in_project(path: &Path) -> bool {
    let names: Vec<_> = path.components().map(|part| part.as_os_str().to_ascii_lowercase()).collect();
    names.windows(2).any(|pair| pair[0] == ".pinion" && pair[1] == "plugins")
}
