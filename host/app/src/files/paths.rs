//! The paths of the user's files and of a project's files. Only this module looks them up in the environment.

use crate::failure::{Failure, Result};
use pinion_sandbox::GitUser;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Settings of git in the environment that are read.
const MAX_SETTINGS: usize = 1_000;

// Files of a project that take effect, relative to its directory.

/// Config of a project.
pub const CONFIG: &str = ".pinion/config.toml";
/// Replaces the system prompt.
pub const PROJECT_SYSTEM: &str = ".pinion/SYSTEM.md";
/// Appended to the system prompt.
pub const PROJECT_APPEND: &str = ".pinion/APPEND_SYSTEM.md";
/// MCP servers of a project, in order of precedence.
pub const PROJECT_SERVERS: [&str; 2] = [".pinion/mcp.json", ".mcp.json"];
/// Packages of a project.
pub const PROJECT_PLUGINS: &str = ".pinion/plugins.toml";

/// The user's directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Directory of the config, the grants and the keys.
    pub config: PathBuf,
    /// Directory of sessions and other data.
    pub data: PathBuf,
    /// Directory of files that can be made again.
    pub cache: PathBuf,
}

impl Paths {
    /// Uses `PINION_HOME` for everything, or else the XDG base directories, which default to directories below `HOME`.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self> {
        if let Some(home) = variable("PINION_HOME") {
            return Ok(Self { config: home.clone(), cache: home.join("cache"), data: home });
        }
        let directory = |name: &str, below_home: &str| {
            let directory =
                variable(name).or_else(|| Some(variable("HOME").or_else(|| variable("USERPROFILE"))?.join(below_home)));
            directory
                .map(|directory| directory.join("pinion"))
                .ok_or_else(|| Failure::usage("no home directory").hint("set HOME or PINION_HOME to an absolute path"))
        };
        Ok(Self {
            config: directory("XDG_CONFIG_HOME", ".config")?,
            data: directory("XDG_DATA_HOME", ".local/share")?,
            cache: directory("XDG_CACHE_HOME", ".cache")?,
        })
    }

    /// The user's config.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    pub(crate) fn models_file(&self) -> PathBuf {
        self.config.join("models.toml")
    }

    /// Keys of providers, mode 0600.
    pub fn auth_file(&self) -> PathBuf {
        self.config.join("auth.toml")
    }

    /// MCP servers of the user, mode 0600.
    pub fn mcp_file(&self) -> PathBuf {
        self.config.join("mcp.json")
    }

    /// Tokens of MCP servers, mode 0600.
    pub fn mcp_tokens_file(&self) -> PathBuf {
        self.config.join("mcp-auth.json")
    }

    /// Held while a file of MCP servers is changed.
    pub fn mcp_lock(&self) -> PathBuf {
        self.data.join("mcp.lock")
    }

    /// Directory of the catalogues that MCP servers last sent.
    pub fn mcp_catalogues(&self) -> PathBuf {
        self.cache.join("mcp")
    }

    /// Directory of handles of tasks at MCP servers that have not ended.
    pub fn mcp_tasks(&self) -> PathBuf {
        self.data.join("mcp-tasks")
    }

    /// Directories of MCP servers. Each server sees its own as `/tmp`. Some servers keep their users' data there.
    pub fn mcp_directories(&self) -> PathBuf {
        self.data.join("mcp-servers")
    }

    /// The directory of installed plugins.
    pub fn plugins(&self) -> PathBuf {
        self.data.join("plugins")
    }

    /// The directory of models that run in this process.
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// The kept versions of installed packages.
    pub fn package_store(&self) -> PathBuf {
        self.data.join("packages/store")
    }

    /// The directory that the programs of a package may write to. Updates keep it.
    pub fn package_data(&self, package: &str) -> PathBuf {
        self.packages_data().join(package)
    }

    pub(crate) fn packages_data(&self) -> PathBuf {
        self.data.join("packages/data")
    }

    /// The secret that seals the lock file of packages.
    pub(crate) fn package_key_file(&self) -> PathBuf {
        self.data.join("packages/seal-key")
    }

    /// The versions of packages that are installed, mode 0600.
    pub fn plugin_lock_file(&self) -> PathBuf {
        self.data.join("plugins.lock")
    }

    /// The user's rules for installations of packages.
    pub fn plugin_rules_file(&self) -> PathBuf {
        self.config.join("plugin-rules.toml")
    }

    /// The key that this user signs packages with, mode 0600.
    pub fn author_key_file(&self) -> PathBuf {
        self.config.join("author-key")
    }

    /// Grants of plugin files, mode 0600.
    pub fn grants_file(&self) -> PathBuf {
        self.data.join("grants.toml")
    }

    /// Rules that answers to questions have added, mode 0600.
    pub fn permissions_file(&self) -> PathBuf {
        self.data.join("permissions.toml")
    }

    /// The log of decisions about calls, mode 0600.
    pub fn audit_file(&self) -> PathBuf {
        self.data.join("audit.jsonl")
    }

    /// Values that plugins store.
    pub fn plugin_storage(&self) -> PathBuf {
        self.data.join("plugin-storage")
    }

    /// The directory of sessions.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Digests of the content that the user trusts in each project.
    pub fn trust_file(&self) -> PathBuf {
        self.data.join("trust.toml")
    }

    /// Digests of each workspace's context files when they were last read.
    pub fn context(&self) -> PathBuf {
        self.data.join("context")
    }

    /// The prompts that the user typed.
    pub fn history_file(&self) -> PathBuf {
        self.data.join("history")
    }

    /// Messages that were not sent yet, one file for each conversation.
    pub fn drafts(&self) -> PathBuf {
        self.data.join("drafts")
    }

    /// Secret that seals the cache. It is deliberately not stored in the cache.
    pub fn cache_key_file(&self) -> PathBuf {
        self.data.join("cache.key")
    }

    /// The cache of compiled plugins.
    pub fn components(&self) -> PathBuf {
        self.cache.join("components")
    }

    /// Context windows that servers told.
    pub fn windows(&self) -> PathBuf {
        self.cache.join("windows")
    }

    /// Output of programs that was too long for a tool result.
    pub fn output(&self) -> PathBuf {
        self.cache.join("output")
    }

    /// Files that programs created at protected paths, and that were moved away.
    pub fn removed(&self) -> PathBuf {
        self.data.join("removed")
    }

    /// Results of evaluations, by set.
    pub fn evaluations(&self) -> PathBuf {
        self.data.join("evaluations")
    }

    /// Copies of workspaces in which sub-agents work.
    pub(crate) fn agent_copies(&self) -> PathBuf {
        self.data.join("agent-copies")
    }

    /// Snapshots of workspaces, by project.
    pub fn checkpoints(&self) -> PathBuf {
        self.data.join("checkpoints")
    }
}

/// Returns a directory as people write it: below `~` if it is there.
pub fn shown_directory(directory: &Path) -> String {
    let below_home = home().and_then(|home| directory.strip_prefix(home).ok().map(Path::to_owned));
    match below_home {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => directory.display().to_string(),
    }
}

/// Returns the user's home directory without links, if there is one.
pub fn home() -> Option<PathBuf> {
    let home = env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.canonicalize().unwrap_or(home))
}

/// Returns where git finds the user's settings, as described in `git help config`.
pub fn git_user() -> GitUser {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = home();
    let below = |name: &str| home.as_ref().map(|home| home.join(name));
    let xdg = variable("XDG_CONFIG_HOME").or_else(|| below(".config")).map(|directory| directory.join("git/config"));
    let configs = match variable("GIT_CONFIG_GLOBAL") {
        Some(config) => vec![config],
        None => xdg.into_iter().chain(below(".gitconfig")).collect(),
    };
    let of_system = match variable("GIT_CONFIG_SYSTEM") {
        Some(config) => vec![config],
        None => std::iter::once(PathBuf::from("/etc/gitconfig")).chain(config_of_git()).collect(),
    };
    let configs = of_system.into_iter().chain(configs).collect();
    GitUser { configs, home, environment: settings_of_git(|name| env::var_os(name)) }
}

/// Returns the system's config of a git that is not installed at the usual place.
fn config_of_git() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let git = env::split_paths(&path).map(|directory| directory.join("git")).find(|git| git.is_file())?;
    // `PREFIX/bin/git` has `PREFIX/etc/gitconfig`.
    let prefix = git.canonicalize().ok()?.parent()?.parent()?.to_owned();
    Some(prefix.join("etc/gitconfig")).filter(|_| prefix != Path::new("/usr"))
}

/// Returns the settings in the environment, as a config.
fn settings_of_git(variable: impl Fn(&str) -> Option<OsString>) -> Vec<u8> {
    let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
    let count = text("GIT_CONFIG_COUNT").and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    let mut config = String::new();
    for number in 0..count.min(MAX_SETTINGS) {
        let Some(key) = text(&format!("GIT_CONFIG_KEY_{number}")) else { continue };
        let Some((section, name)) = key.rsplit_once('.') else { continue };
        let (section, subsection) = section.split_once('.').map_or((section, None), |(a, b)| (a, Some(b)));
        let subsection = subsection.map(|text| format!(" \"{}\"", quoted(text))).unwrap_or_default();
        let value = quoted(&text(&format!("GIT_CONFIG_VALUE_{number}")).unwrap_or_default());
        config.push_str(&format!("[{section}{subsection}]\n\t{name} = \"{value}\"\n"));
    }
    config.into_bytes()
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the directory to work in, absolute and without links.
pub fn workspace(directory: Option<&Path>) -> Result<PathBuf> {
    let directory = directory.unwrap_or(Path::new("."));
    let failed =
        |error: std::io::Error| Failure::usage(format!("cannot work in `{}`", directory.display())).because(error);
    let workspace = directory.canonicalize().map_err(failed)?;
    // Plugins, sessions and models know paths as text.
    if workspace.to_str().is_none() {
        let named = Failure::usage(format!("cannot work in `{}`: the path is not UTF-8 text", workspace.display()));
        return Err(named.hint("rename the directory"));
    }
    if !workspace.is_dir() {
        return Err(Failure::usage(format!("cannot work in `{}`: not a directory", directory.display())));
    }
    Ok(workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Result<Paths> {
        Paths::from_variables(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value)))
    }

    #[test]
    fn paths_default_to_directories_below_home() {
        let paths = paths(&[("HOME", "/h")]).unwrap();
        assert_eq!(paths.config_file(), Path::new("/h/.config/pinion/config.toml"));
        assert_eq!(paths.sessions(), Path::new("/h/.local/share/pinion/sessions"));
        assert_eq!(paths.components(), Path::new("/h/.cache/pinion/components"));
    }

    #[test]
    fn pinion_home_replaces_all_directories() {
        let paths = paths(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d"), ("PINION_HOME", "/p")]).unwrap();
        assert_eq!(paths.config_file(), Path::new("/p/config.toml"));
        assert_eq!(paths.plugins(), Path::new("/p/plugins"));
        assert_eq!(paths.components(), Path::new("/p/cache/components"));
    }

    #[test]
    fn cache_key_is_never_in_the_cache() {
        for variables in [&[("HOME", "/h")][..], &[("PINION_HOME", "/p")]] {
            let paths = paths(variables).unwrap();
            assert!(!paths.cache_key_file().starts_with(&paths.cache));
        }
    }

    #[test]
    fn settings_of_the_environment_are_a_config() {
        let variables = [
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_KEY_0", "core.hooksPath"),
            ("GIT_CONFIG_VALUE_0", "a \"b\\"),
            ("GIT_CONFIG_KEY_1", "filter.a.b.clean"),
            ("GIT_CONFIG_VALUE_1", "x"),
        ];
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        let text = String::from_utf8(settings_of_git(variable)).unwrap();
        assert_eq!(text, "[core]\n\thooksPath = \"a \\\"b\\\\\"\n[filter \"a.b\"]\n\tclean = \"x\"\n");
        assert!(settings_of_git(|_| None).is_empty());
    }

    #[test]
    fn missing_home_is_reported() {
        assert!(paths(&[]).unwrap_err().to_string().contains("set HOME or PINION_HOME"));
    }
}
