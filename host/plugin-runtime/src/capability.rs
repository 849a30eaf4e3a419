//! The one place that decides what a plugin may do.
//!
//! Three things meet here. What a component *asks* for stands in its manifest. What the user *granted* comes from the
//! config. What a tool *declares* as its effects cuts it down once more for each call. The least of the three is the
//! call's [`CallAuthority`], and every host import asks it before it does anything: [`CallAuthority::place`],
//! [`CallAuthority::access`], [`CallAuthority::process`], [`CallAuthority::catalog`], [`CallAuthority::agents`].
//!
//! For files there are two steps. [`roots`] holds the granted directories, each opened once; everything is found beneath
//! their handles. [`policy`] says what may be done at the location that was found.

mod policy;
mod roots;

pub(crate) use self::policy::Policy;
pub(crate) use self::roots::{Opened, Root, Workspace, find};
use crate::limits::descriptors::Share;
use crate::manifest::{Access, Asks};
use crate::paths::protected::Protected;
use pinion_protocol::Authority;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

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

/// A granted directory was not opened.
pub(crate) enum Unopened {
    /// The grant does not hold.
    Denied(Denied),
    /// The directory is missing.
    Failed(io::Error),
}

/// What a plugin may do at most: what it asks for, cut to what it was granted.
#[derive(Debug)]
pub(crate) struct PluginAuthority {
    plugin: String,
    workspace: Arc<Workspace>,
    asks: Asks,
    roots: Vec<Root>,
    policy: Policy,
    process: Option<Arc<ProcessGrant>>,
    catalog: bool,
    agents: Option<Arc<AgentsGrant>>,
    descriptors: Arc<Share>,
    /// The command that grants it more, where the config does not.
    hint: Option<String>,
}

/// What all plugins of a runtime have in common, as far as their authority goes.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) protected: Arc<Protected>,
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

/// A place in a granted directory.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The granted directory.
    pub(crate) root: &'a Root,
    /// The path in it; empty for the directory itself. Only the letters lie inside: opening must not follow links out.
    pub(crate) relative: PathBuf,
}

impl PluginAuthority {
    pub(crate) fn new(
        plugin: &str,
        surroundings: &Surroundings,
        asks: &Asks,
        grants: &Grants,
        descriptors: Arc<Share>,
    ) -> Self {
        let Surroundings { workspace, protected } = surroundings.clone();
        let cut = |asked: Access| {
            grants.files.iter().map(|(path, granted)| Root::new(&workspace, path, asked.min(*granted))).collect()
        };
        let roots: Vec<Root> = asks.files.map(cut).unwrap_or_default();
        for root in &roots {
            match root.open(&workspace, &protected) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(plugin, directory = %root.path.display(), %error, "granted directory is not used");
                }
                _ => {}
            }
        }
        let locations = roots.iter().map(|root| (root.real.clone(), root.access)).collect();
        Self {
            plugin: plugin.to_owned(),
            asks: *asks,
            policy: Policy::new(locations, protected),
            roots,
            workspace,
            process: grants.process.clone().filter(|_| asks.process).map(Arc::new),
            catalog: asks.catalog && grants.catalog,
            agents: grants.agents.clone().filter(|_| asks.agents).map(Arc::new),
            descriptors,
            hint: None,
        }
    }

    /// The granted directories.
    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// One of them, open.
    pub(crate) fn open<'a>(&self, root: &'a Root) -> io::Result<&'a Arc<Opened>> {
        root.open(&self.workspace, self.policy.protected())
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The plugin's share of the descriptors of this process.
    pub(crate) fn descriptors(&self) -> &Arc<Share> {
        &self.descriptors
    }

    /// What a call of a tool with these effects can do to the world.
    pub(crate) fn of_tool(&self, declared: Authority) -> Authority {
        let most = self.roots.iter().map(|root| root.access).max();
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
            Asks { files: Some(access), .. } if (declared.reads || declared.writes) && self.roots.is_empty() => {
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

    /// Everything that the plugin has: for what the user calls directly.
    pub(crate) fn whole(self: &Arc<Self>) -> CallAuthority {
        let files = self.roots.iter().map(|root| root.access).max();
        CallAuthority { plugin: self.clone(), files, process: self.process.is_some(), declared: Authority::default() }
    }

    /// Reading alone: for what runs while the user types.
    pub(crate) fn reading(self: &Arc<Self>) -> CallAuthority {
        let files = (!self.roots.is_empty()).then_some(Access::Read);
        CallAuthority { plugin: self.clone(), files, process: false, declared: Authority::default() }
    }

    /// Nothing: for what is no call, such as loading, `init` and the hand-over of state.
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

    /// Finds the granted directory that a path lies in. `path` is absolute, or relative to the workspace root.
    ///
    /// # Errors
    /// The call may not use files so, or the path lies in no granted directory. The location still has to be checked with
    /// [`CallAuthority::access`] once it is known.
    pub(crate) fn place(&self, path: &str, access: Access) -> Result<Place<'_>, Denied> {
        let absolute = lexically_normal(&self.plugin.workspace.path().join(path));
        let verb = access.verb();
        let what = format!("{verb} `{path}`");
        if self.files < Some(access) && !self.plugin.roots.is_empty() {
            return Err(self.denied(&what, &format!("this tool does not declare that it {verb}s files, or may not")));
        }
        let places = self.plugin.roots.iter().filter_map(|root| Some((root, root.relative(&absolute)?)));
        let Some((root, relative)) = places.max_by_key(|(root, _)| root.real.as_os_str().len()) else {
            let directory = if self.plugin.roots.is_empty() { Path::new(".") } else { &absolute };
            return Err(
                self.denied(&format!("{what}, which is in no granted folder"), &self.files_hint(directory, access))
            );
        };
        if root.access < access {
            let hint = self.files_hint(&root.path, access);
            return Err(self.denied(&format!("{what}, which it may only read"), &hint));
        }
        Ok(Place { root, relative })
    }

    /// The open directory of a place.
    pub(crate) fn open<'a>(&self, path: &str, place: &Place<'a>) -> Result<&'a Arc<Opened>, Unopened> {
        self.plugin.open(place.root).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unopened::Failed(error),
            _ => {
                let what = format!("use `{path}`: {error}");
                Unopened::Denied(self.denied(&what, "grant the directory that is meant, by its own path"))
            }
        })
    }

    /// The access that this call has at a location.
    pub(crate) fn access(&self, location: &Path) -> Option<Access> {
        self.files.and_then(|at_most| Some(at_most.min(self.plugin.policy.access(location)?)))
    }

    /// The refusal of an access that [`CallAuthority::access`] does not give.
    pub(crate) fn refusal(&self, path: &str, access: Access) -> Denied {
        let hint = "a narrower grant or the list of protected paths decides there, and no wider grant changes that";
        self.denied(&format!("{} `{path}`", access.verb()), hint)
    }

    /// The access to files that this call has anywhere.
    pub(crate) fn files(&self) -> Option<Access> {
        self.files
    }

    /// No authority, of the same plugin.
    pub(crate) fn none(&self) -> Self {
        self.plugin.none()
    }

    /// The plugin's own authority.
    pub(crate) fn plugin(&self) -> &Arc<PluginAuthority> {
        &self.plugin
    }

    /// The workspace root.
    pub(crate) fn workspace(&self) -> &Path {
        self.plugin.workspace.path()
    }

    fn files_hint(&self, path: &Path, access: Access) -> String {
        self.plugin.grant_hint(&format!("files = {{ {path:?} = \"{}\" }}", access.verb()))
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
        let surroundings = Surroundings { workspace: Workspace::new(Path::new("/w")), protected: Arc::default() };
        Arc::new(PluginAuthority::new("p", &surroundings, &asks, &grants, Arc::default()))
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
        let found = |path: &str| {
            let place = call.place(path, Access::Read).unwrap();
            format!("{} {}", place.root.path.display(), place.relative.display())
        };
        assert_eq!(found("src/./a/../b.rs"), "/w/src b.rs");
        assert_eq!(found("/w/other"), "/w other");
        assert_eq!(found("."), "/w ");
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
