//! The one place that decides what a plugin may do.
//!
//! Three things meet here. What a component *asks* for stands in its manifest. What the user *granted* comes from the
//! config. What a tool *declares* as its effects cuts it down once more for each call. The least of the three is the
//! call's [`CallAuthority`], and every host import asks it before it does anything: [`CallAuthority::folder`],
//! [`CallAuthority::process`], [`CallAuthority::catalog`], [`CallAuthority::agents`]. WASI sees only the folders that it
//! was built with, and those come from here too.

use crate::manifest::{Access, Asks};
use pinion_agent::Authority;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

/// The user's yes to what a plugin asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Folders by absolute path.
    pub files: BTreeMap<PathBuf, Access>,
    /// To run programs, with this environment.
    pub process: Option<ProcessGrant>,
    /// To see what is loaded and spent.
    pub catalog: bool,
    /// To start sub-agents.
    pub agents: Option<AgentsGrant>,
}

/// Which tools the sub-agents of a plugin may use, of those that the agent has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentsGrant {
    /// By name; none for all of them.
    pub tools: Option<BTreeSet<String>>,
}

impl AgentsGrant {
    /// May they use this one?
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|names| names.contains(tool))
    }
}

/// What the programs that a plugin runs may see.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProcessGrant {
    /// All of their environment, by name.
    pub environment: BTreeMap<String, String>,
    /// The folder for output that is too long to be kept in memory; made when it is needed.
    pub spill_folder: PathBuf,
}

impl std::fmt::Debug for ProcessGrant {
    /// Names only: values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessGrant").field("environment", &self.environment.keys()).finish_non_exhaustive()
    }
}

/// A capability is missing, or does not reach that far.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: {hint}")]
pub(crate) struct Denied {
    what: String,
    hint: String,
}

/// What a plugin may do at most: what it asks for, cut to what it was granted.
#[derive(Debug, Clone)]
pub(crate) struct PluginAuthority {
    plugin: String,
    workspace: PathBuf,
    asks: Asks,
    folders: Vec<Folder>,
    process: Option<Arc<ProcessGrant>>,
    catalog: bool,
    agents: Option<Arc<AgentsGrant>>,
    /// How the user grants it more, where the config is not the way.
    hint: Option<String>,
    preopens: Arc<Preopens>,
}

/// A folder that a plugin may use.
#[derive(Debug, Clone)]
struct Folder {
    /// As the user wrote it, made absolute.
    path: PathBuf,
    /// The same without symbolic links, where that differs.
    real_path: PathBuf,
    access: Access,
}

/// What one call may do.
#[derive(Debug, Clone)]
pub(crate) struct CallAuthority {
    plugin: Arc<PluginAuthority>,
    files: Option<Access>,
    process: bool,
    /// What the tool declares, whatever the plugin itself was granted: its sub-agents get no more.
    declared: Authority,
}

/// A place in a granted folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The granted folder.
    pub(crate) folder: PathBuf,
    /// The place in it; empty for the folder itself. Lexically inside; opening it must still not follow links out.
    pub(crate) relative: PathBuf,
}

impl PluginAuthority {
    pub(crate) fn new(plugin: &str, workspace: &Path, asks: &Asks, grants: &Grants) -> Self {
        let cut = |asked: Access| {
            grants.files.iter().map(move |(path, granted)| Folder {
                path: path.clone(),
                real_path: path.canonicalize().unwrap_or_else(|_| path.clone()),
                access: asked.min(*granted),
            })
        };
        Self {
            plugin: plugin.to_owned(),
            workspace: workspace.to_owned(),
            asks: *asks,
            folders: asks.files.map(|asked| cut(asked).collect()).unwrap_or_default(),
            process: grants.process.clone().filter(|_| asks.process).map(Arc::new),
            catalog: asks.catalog && grants.catalog,
            agents: grants.agents.clone().filter(|_| asks.agents).map(Arc::new),
            hint: None,
            preopens: Arc::default(),
        }
    }

    /// What a call of a tool with these effects can do to the world.
    pub(crate) fn of_tool(&self, declared: Authority) -> Authority {
        let most = self.folders.iter().map(|folder| folder.access).max();
        Authority {
            reads: most.is_some() && (declared.reads || declared.writes),
            writes: most == Some(Access::Write) && declared.writes,
            executes: self.process.is_some() && declared.executes,
            network: false,
            destructive: declared.destructive,
            delegates: self.agents.is_some() && declared.delegates,
        }
    }

    /// Why a tool with these effects cannot work at all: what it is for was asked for, and not granted.
    pub(crate) fn missing(&self, declared: Authority) -> Option<Denied> {
        let denied = |what: &str, line: &str| {
            let what = format!("plugin `{}` may not {what}", self.plugin);
            Some(Denied { what, hint: self.grant_hint(line) })
        };
        match self.asks {
            Asks { files: Some(access), .. } if (declared.reads || declared.writes) && self.folders.is_empty() => {
                let verb = if declared.writes { access.verb() } else { Access::Read.verb() };
                denied(&format!("{verb} files"), &format!("files = {{ \".\" = \"{verb}\" }}"))
            }
            Asks { process: true, .. } if declared.executes && self.process.is_none() => {
                denied("run programs", "process = true")
            }
            _ => None,
        }
    }

    /// The authority of a call of a tool with these effects.
    pub(crate) fn for_tool(self: &Arc<Self>, declared: Authority) -> CallAuthority {
        let authority = self.of_tool(declared);
        let files = match authority {
            Authority { writes: true, .. } => Some(Access::Write),
            Authority { reads: true, .. } => Some(Access::Read),
            _ => None,
        };
        CallAuthority { plugin: self.clone(), files, process: authority.executes, declared }
    }

    /// All that the plugin has: for what the user calls directly, and for instances that outlive a call.
    pub(crate) fn whole(self: &Arc<Self>) -> CallAuthority {
        let files = self.folders.iter().map(|folder| folder.access).max();
        CallAuthority { plugin: self.clone(), files, process: self.process.is_some(), declared: Authority::default() }
    }

    /// Nothing: for what happens while a plugin is loaded.
    pub(crate) fn none(self: &Arc<Self>) -> CallAuthority {
        CallAuthority { plugin: self.clone(), files: None, process: false, declared: Authority::default() }
    }
}

impl CallAuthority {
    /// May programs be run?
    pub(crate) fn process(&self) -> Result<&Arc<ProcessGrant>, Denied> {
        match &self.plugin.process {
            Some(grant) if self.process => Ok(grant),
            Some(_) => Err(self.denied("run programs", "this tool does not declare that it executes")),
            None => Err(self.denied("run programs", &self.plugin.grant_hint("process = true"))),
        }
    }

    /// May it be seen what is loaded and spent?
    pub(crate) fn catalog(&self) -> bool {
        self.plugin.catalog
    }

    /// May sub-agents be started, with which tools, and with how much authority at most?
    pub(crate) fn agents(&self) -> Result<(&Arc<AgentsGrant>, Authority), Denied> {
        match &self.plugin.agents {
            Some(grant) if self.declared.delegates => Ok((grant, self.declared)),
            Some(_) => Err(self.denied("start agents here", "only a tool can, while it is called")),
            None => Err(self.denied("start agents", &self.plugin.grant_hint("agents = true"))),
        }
    }

    /// May it be seen which sub-agents the user has set up?
    pub(crate) fn sees_agents(&self) -> bool {
        self.plugin.agents.is_some()
    }

    /// Where is this path, in which granted folder, and may it be used so? `path` is absolute, or relative to the
    /// workspace root.
    pub(crate) fn place(&self, path: &str, access: Access) -> Result<Place, Denied> {
        let absolute = lexically_normal(&self.plugin.workspace.join(path));
        let verb = access.verb();
        let what = format!("{verb} `{path}`");
        if self.files < Some(access) && !self.plugin.folders.is_empty() {
            return Err(self.denied(&what, &format!("this tool does not declare that it {verb}s files, or may not")));
        }
        let hint = |path: &Path| self.plugin.grant_hint(&format!("files = {{ {path:?} = \"{verb}\" }}"));
        let inside = |folder: &Path| Some((folder.to_owned(), absolute.strip_prefix(folder).ok()?.to_owned()));
        let places = self.plugin.folders.iter().filter_map(|folder| {
            let (path, relative) = inside(&folder.path).or_else(|| inside(&folder.real_path))?;
            Some((path, relative, folder.access))
        });
        let Some((folder, relative, granted)) = places.max_by_key(|(folder, ..)| folder.as_os_str().len()) else {
            let folder = if self.plugin.folders.is_empty() { Path::new(".") } else { &absolute };
            return Err(self.denied(&format!("{what}, which is in no granted folder"), &hint(folder)));
        };
        if granted < access {
            return Err(self.denied(&format!("{what}, which it may only read"), &hint(&folder)));
        }
        Ok(Place { folder, relative })
    }

    /// The folders as WASI sees them.
    pub(crate) fn preopens(&self) -> WasiFilesystemCtx {
        self.plugin.preopens.of(&self.plugin, self.files)
    }

    /// The workspace root.
    pub(crate) fn workspace(&self) -> &Path {
        &self.plugin.workspace
    }

    fn denied(&self, what: &str, hint: &str) -> Denied {
        Denied { what: format!("plugin `{}` may not {what}", self.plugin.plugin), hint: hint.to_owned() }
    }
}

impl PluginAuthority {
    /// Names another way of granting it more than the config.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    fn grant_hint(&self, line: &str) -> String {
        if let Some(hint) = &self.hint {
            return format!("the user can grant it: {hint}");
        }
        format!("the user can grant it in the config: [plugins.{}.grants] {line}", self.plugin)
    }
}

/// Opened folders, made at the first call that needs them and shared by all that follow.
#[derive(Default)]
struct Preopens {
    read: OnceLock<WasiFilesystemCtx>,
    write: OnceLock<WasiFilesystemCtx>,
}

impl std::fmt::Debug for Preopens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Preopens")
    }
}

impl Preopens {
    fn of(&self, plugin: &PluginAuthority, access: Option<Access>) -> WasiFilesystemCtx {
        match access {
            None => WasiFilesystemCtx::default(),
            Some(Access::Read) => self.read.get_or_init(|| open(plugin, Access::Read)).clone(),
            Some(Access::Write) => self.write.get_or_init(|| open(plugin, Access::Write)).clone(),
        }
    }
}

/// Opens each folder under every name that a guest may use for it. A folder that cannot be opened is left out: a guest
/// that looks for it finds nothing there.
fn open(plugin: &PluginAuthority, at_most: Access) -> WasiFilesystemCtx {
    let mut builder = WasiCtxBuilder::new();
    // Guests run on threads that may block, and a hop to another one costs more than most file calls.
    builder.allow_blocking_current_thread(true);
    for folder in &plugin.folders {
        let permissions = match folder.access.min(at_most) {
            Access::Read => FsPerms::ReadOnly,
            Access::Write => FsPerms::ReadWrite,
        };
        for name in guest_names(&plugin.workspace, folder) {
            if let Err(error) = builder.preopened_dir(&folder.real_path, name, permissions) {
                tracing::warn!(plugin = plugin.plugin, folder = %folder.path.display(), %error, "folder left out");
            }
        }
    }
    builder.build().filesystem().clone()
}

/// A folder's own absolute path, the same without links, and what it is from the workspace root.
fn guest_names(workspace: &Path, folder: &Folder) -> Vec<String> {
    let mut names = vec![folder.path.clone()];
    if folder.real_path != folder.path {
        names.push(folder.real_path.clone());
    }
    match folder.path.strip_prefix(workspace) {
        Ok(relative) if relative.as_os_str().is_empty() => names.push(PathBuf::from(".")),
        Ok(relative) => names.push(relative.to_owned()),
        Err(_) => {}
    }
    names.iter().filter_map(|name| name.to_str().map(str::to_owned)).collect()
}

/// Without `.` and `..`, by the letters alone. `..` at the root stays at the root.
fn lexically_normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(asks: Asks, grants: Grants) -> Arc<PluginAuthority> {
        Arc::new(PluginAuthority::new("p", Path::new("/w"), &asks, &grants))
    }

    fn files(path: &str, access: Access) -> Grants {
        Grants { files: BTreeMap::from([(PathBuf::from(path), access)]), ..Grants::default() }
    }

    const READS: Authority = Authority::READ_ONLY;
    const WRITES: Authority = Authority { writes: true, ..Authority::READ_ONLY };

    #[test]
    fn without_a_grant_everything_is_denied() {
        let asks = Asks { files: Some(Access::Write), process: true, catalog: true, agents: true };
        let call = authority(asks, Grants::default()).whole();
        assert!(call.place("a", Access::Read).is_err() && call.process().is_err() && !call.catalog());
    }

    #[test]
    fn a_grant_gives_no_more_than_was_asked_for() {
        let grants = Grants { process: Some(ProcessGrant::default()), catalog: true, ..files("/w", Access::Write) };
        let call = authority(Asks { files: Some(Access::Read), ..Asks::default() }, grants).whole();
        assert_eq!(call.files, Some(Access::Read));
        assert!(call.process().is_err() && !call.catalog());
    }

    #[test]
    fn a_call_gets_no_more_than_its_tool_declares() {
        let plugin = authority(Asks { files: Some(Access::Write), ..Asks::default() }, files("/w", Access::Write));
        assert_eq!(plugin.for_tool(READS).files, Some(Access::Read));
        assert_eq!(plugin.for_tool(WRITES).files, Some(Access::Write));
        assert_eq!(plugin.for_tool(Authority::default()).files, None);
        assert!(plugin.of_tool(READS).is_harmless() && !plugin.of_tool(WRITES).is_harmless());
    }

    #[test]
    fn a_denial_says_what_to_grant() {
        let call = authority(Asks { process: true, ..Asks::default() }, Grants::default()).whole();
        let text = call.process().unwrap_err().to_string();
        assert!(text.contains("`p` may not run programs") && text.contains("[plugins.p.grants] process = true"));
    }

    #[test]
    fn a_place_is_found_in_the_innermost_granted_folder() {
        let mut grants = files("/w", Access::Read);
        grants.files.insert(PathBuf::from("/w/src"), Access::Read);
        let call = authority(Asks { files: Some(Access::Read), ..Asks::default() }, grants).whole();
        let place = |folder: &str, relative: &str| Place { folder: folder.into(), relative: relative.into() };
        let found = |path: &str| call.place(path, Access::Read).unwrap();
        assert_eq!(found("src/./a/../b.rs"), place("/w/src", "b.rs"));
        assert_eq!(found("/w/other"), place("/w", "other"));
        assert_eq!(found("."), place("/w", ""));
    }

    #[test]
    fn a_place_that_may_be_read_may_not_be_written_for_that() {
        let mut grants = files("/w", Access::Write);
        grants.files.insert(PathBuf::from("/w/docs"), Access::Read);
        let plugin = authority(Asks { files: Some(Access::Write), ..Asks::default() }, grants);
        assert!(plugin.whole().place("a", Access::Write).is_ok());
        assert!(plugin.whole().place("docs/a", Access::Write).is_err());
        assert!(plugin.for_tool(READS).place("a", Access::Write).is_err());
    }

    #[test]
    fn a_place_outside_is_denied_whatever_the_path_looks_like() {
        let asks = Asks { files: Some(Access::Read), ..Asks::default() };
        let call = authority(asks, files("/w/src", Access::Read)).whole();
        for path in ["..", "../x", "src/../../etc", "/etc/passwd", "/", "/w/srcx", "/w", "src/../srcx"] {
            assert!(call.place(path, Access::Read).is_err(), "{path}");
        }
    }
}
