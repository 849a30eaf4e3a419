//! The MCP servers of a command: their files are read at once, the servers started when something asks for them.

use crate::mcp::elicitation_dialogs::ServersUser;
use crate::mcp::written::{programs, unexpanded};
use crate::screen::Screen;
use pinion_mcp::Servers;
use pinion_mcp::config::{ConfigProblem, ConfigScope, ConfigSource, ServerConfig, ServerFile};
use pinion_permissions::ToolName;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

/// The servers of the files, and who answers their questions.
pub struct LazyServers {
    config: Mutex<Option<KnownServers>>,
    pub(super) servers: OnceLock<Arc<Servers>>,
    pub(super) user: Arc<ServersUser>,
    /// Set if first starts may take long.
    pub(super) is_patient: OnceLock<()>,
}

/// The content of the files, and the states of the files that are read again when they were read.
struct KnownServers {
    config: Arc<McpConfig>,
    states: Vec<Option<FileState>>,
}

/// Time of the last change, length and identity of a file.
type FileState = (Option<SystemTime>, u64, u64);

fn states(paths: &[PathBuf]) -> Vec<Option<FileState>> {
    paths.iter().map(|path| state(path)).collect()
}

fn state(path: &Path) -> Option<FileState> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok(), metadata.len(), inode))
}

impl LazyServers {
    /// Servers whose files were not read yet.
    pub fn new(screen: Arc<dyn Screen>) -> Self {
        Self {
            config: Mutex::default(),
            servers: OnceLock::new(),
            user: Arc::new(ServersUser::new(screen)),
            is_patient: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<KnownServers>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the content of the files, which the first call reads.
    pub(super) fn config(&self, paths: &[PathBuf], read: impl FnOnce() -> McpConfig) -> Arc<McpConfig> {
        let mut known = self.lock();
        let known = known.get_or_insert_with(|| {
            // A change between the two is read twice rather than never.
            let states = states(paths);
            KnownServers { config: Arc::new(read()), states }
        });
        known.config.clone()
    }

    /// Returns the content of the files, if something has read them.
    pub fn known(&self) -> Option<Arc<McpConfig>> {
        self.lock().as_ref().map(|known| known.config.clone())
    }

    /// Reads the files again if one of `paths` changed since. Returns `None` otherwise, and else the new content and
    /// whether the first one of `paths` changed.
    pub(super) fn reload(&self, paths: &[PathBuf], read: impl FnOnce() -> McpConfig) -> Option<(Arc<McpConfig>, bool)> {
        let now = states(paths);
        let mut known = self.lock();
        let before = known.as_ref().filter(|known| known.states != now)?;
        let is_first = before.states.first() != now.first();
        let config = Arc::new(read());
        *known = Some(KnownServers { config: config.clone(), states: now });
        Some((config, is_first))
    }

    /// Gives servers the time of a first start, which may download a program. Must be called before the servers are made.
    pub fn be_patient(&self) {
        let _ = self.is_patient.set(());
    }

    /// Notes that there is a conversation, whose user servers may ask.
    pub fn set_present(&self) {
        self.user.set_present();
    }

    /// Returns the servers, if something has asked for them.
    pub fn made(&self) -> Option<&Arc<Servers>> {
        self.servers.get()
    }
}

/// The servers of all files.
#[derive(Debug, Default)]
pub struct McpConfig {
    /// The servers that can be used, by files in order.
    pub servers: Vec<ServerConfig>,
    /// The files as they were read.
    texts: Vec<(String, ConfigSource)>,
    /// The servers with their variables not expanded, for display: the values of variables are often secrets.
    written: OnceLock<Vec<ServerConfig>>,
    /// Mistakes in the files.
    pub problems: Vec<FileProblem>,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// A mistake in one of the files.
#[derive(Debug, Clone)]
pub struct FileProblem {
    /// The file.
    pub source: ConfigSource,
    /// The mistake and its line.
    pub problem: ConfigProblem,
}

impl FileProblem {
    /// Describes the mistake with its place and its remedy.
    pub fn text(&self) -> String {
        let (path, at) = (self.source.path.display(), self.problem.line);
        let what = match &self.problem.server {
            Some(server) => format!("MCP server `{server}` (`{path}` line {at}): {}", self.problem.message),
            None => format!("`{path}` line {at}: {}", self.problem.message),
        };
        match &self.problem.hint {
            Some(hint) => format!("{what}\nhint: {hint}"),
            None => what,
        }
    }
}

impl McpConfig {
    /// Adds the servers of a file with this text, except those whose name an earlier file has. A package's server is left
    /// out, too, if rules about its tools would be about the tools of another server.
    pub(super) fn add(&mut self, file: ServerFile, text: String, source: &ConfigSource) {
        let rule = |name: &str| ToolName::of_server(name, "").rule();
        for server in file.servers {
            let is_taken = |other: &&ServerConfig| match source.scope {
                ConfigScope::Package => rule(&other.name) == rule(&server.name),
                _ => other.name == server.name,
            };
            match self.servers.iter().find(is_taken) {
                Some(other) => self.notices.push(format!(
                    "MCP server `{}` of `{}` is not used: `{}` has one {}",
                    server.name,
                    source.path.display(),
                    other.source.path.display(),
                    match other.name == server.name {
                        true => "of this name".to_owned(),
                        false => format!("with a similar name, `{}`", other.name),
                    }
                )),
                None => self.servers.push(server),
            }
        }
        let problems = file.problems.into_iter().map(|problem| FileProblem { source: source.clone(), problem });
        self.problems.extend(problems);
        self.notices.extend(file.notices.into_iter().map(|notice| format!("`{}` {notice}", source.path.display())));
        self.texts.push((text, source.clone()));
    }

    /// Returns the files of the workspace that the programs of servers are, or get as arguments.
    pub fn programs(&self, workspace: &Path) -> Vec<PathBuf> {
        let files = self.servers.iter().flat_map(|server| programs(&server.transport, workspace));
        files.filter(|path| path.starts_with(workspace) && path != workspace).collect()
    }

    /// Returns a server by its name.
    pub fn find(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Returns a server as it is written, with its variables not expanded. None if the entry makes sense only with their
    /// values, such as an address that is one variable.
    pub fn as_written(&self, name: &str) -> Option<&ServerConfig> {
        let is_used =
            |written: &ServerConfig| self.find(&written.name).is_some_and(|server| server.source == written.source);
        let written = self.written.get_or_init(|| {
            let servers = self.texts.iter().flat_map(|(text, source)| unexpanded(text, source).servers);
            servers.filter(is_used).collect()
        });
        written.iter().find(|server| server.name == name)
    }

    /// Returns everything that the user should know before a run.
    pub fn all_notices(&self) -> Vec<String> {
        self.problems.iter().map(FileProblem::text).chain(self.notices.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::NoScreen;
    use std::fs;

    #[test]
    fn only_a_changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.json");
        let paths = [path.clone(), directory.path().join("plugins.lock")];
        let lazy = LazyServers::new(Arc::new(NoScreen));
        let read = |notice: &str| McpConfig { notices: vec![notice.to_owned()], ..McpConfig::default() };
        assert!(lazy.reload(&paths, || read("never read before")).is_none());
        assert_eq!(lazy.config(&paths, || read("one")).notices, ["one"]);
        assert!(lazy.reload(&paths, || read("same")).is_none());
        fs::write(&path, "{}").unwrap();
        assert_eq!(lazy.reload(&paths, || read("two")).unwrap().0.notices, ["two"]);
        assert!(lazy.reload(&paths, || read("same")).is_none());
        // An editor replaces the file.
        fs::write(directory.path().join("new"), "[]").unwrap();
        fs::rename(directory.path().join("new"), &path).unwrap();
        assert_eq!(lazy.reload(&paths, || read("three")).unwrap().0.notices, ["three"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(lazy.reload(&paths, || read("four")).unwrap().0.notices, ["four"]);
        assert_eq!(lazy.config(&paths, || read("no")).notices, ["four"]);
        fs::write(&paths[1], "").unwrap();
        let (config, is_first) = lazy.reload(&paths, || read("five")).unwrap();
        assert_eq!((&config.notices[..], is_first), (&["five".to_owned()][..], false));
    }
}
