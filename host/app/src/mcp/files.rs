//! The files of MCP servers: the user's `mcp.json`, the lock file of packages, and the files of a trusted project.
//!
//! The user's servers win: a project cannot replace one by its name. Variables in the user's file come from the
//! environment. A project's files get only variables that the user names under `[mcp]`, and a few that contain no
//! secret.

use crate::files::paths::PROJECT_SERVERS;
use crate::mcp::lazy_servers::McpConfig;
use crate::mcp::written::WORKSPACE;
use crate::process::hardening;
use crate::workspace_base::Base;
use pinion_mcp::config::{ConfigScope, ConfigSource, Lookup, ServerFile, ServerTransport};
use std::path::{Path, PathBuf};

/// Variables that a project may use without being allowed to.
const HARMLESS: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"];
impl Base {
    /// Reads the servers of the user and of a trusted project. Starts nothing.
    pub fn read_mcp_config(&self) -> McpConfig {
        let mut config = McpConfig::default();
        let path = self.paths.mcp_file();
        let source = ConfigSource { scope: ConfigScope::User, path: path.clone() };
        match crate::files::private::read_settings(&path) {
            Ok(Some(text)) => {
                let file = ServerFile::parse(&text, &source, &|name| self.users_variable(name));
                config.add(file, text, &source);
            }
            Ok(None) => {}
            Err(error) => config.notices.push(format!("could not read `{}`: {error}", path.display())),
        }
        self.add_package_servers(&mut config);
        for path in PROJECT_SERVERS {
            let Some(text) = self.config.project.text(path) else { continue };
            let source = ConfigSource { scope: ConfigScope::Project, path: PathBuf::from(path) };
            let mut file = ServerFile::parse(text, &source, &|name| self.projects_variable(name));
            file.servers.iter_mut().for_each(|server| self.bind(&mut server.transport));
            config.add(file, text.to_owned(), &source);
        }
        config
    }

    /// Binds a project's server to its workspace. The same command in two projects is two servers: each runs other files, so
    /// that neither has a directory or a catalogue of the other.
    fn bind(&self, transport: &mut ServerTransport) {
        if let ServerTransport::Stdio { cwd, .. } = transport {
            *cwd = Some(self.workspace.join(cwd.take().unwrap_or_default()));
        }
    }

    fn users_variable(&self, name: &str) -> Lookup {
        if let Some(workspace) = self.workspace_variable(name) {
            return workspace;
        }
        hardening::variable(name).map_or(Lookup::NotSet, Lookup::Value)
    }

    fn projects_variable(&self, name: &str) -> Lookup {
        if let Some(workspace) = self.workspace_variable(name) {
            return workspace;
        }
        let is_named = HARMLESS.contains(&name) || self.config.mcp.environment.iter().any(|named| named == name);
        match is_named {
            true => hardening::variable(name).map_or(Lookup::NotSet, Lookup::Value),
            false => Lookup::NotNamed,
        }
    }

    fn workspace_variable(&self, name: &str) -> Option<Lookup> {
        let workspace = || Lookup::Value(self.workspace.to_string_lossy().into_owned());
        WORKSPACE.contains(&name).then(workspace)
    }
}

/// Returns the file of a scope that commands change.
pub fn file_of(base: &Base, scope: ConfigScope) -> PathBuf {
    match scope {
        ConfigScope::User => base.paths.mcp_file(),
        ConfigScope::Package => base.paths.plugin_lock_file(),
        ConfigScope::Project => base.workspace.join(PROJECT_SERVERS[1]),
    }
}

/// Returns the file that contains a server, for changes.
pub fn file_with(base: &Base, source: &ConfigSource) -> PathBuf {
    match source.scope {
        ConfigScope::User => source.path.clone(),
        ConfigScope::Package => base.paths.plugin_lock_file(),
        ConfigScope::Project => base.workspace.join(Path::new(&source.path)),
    }
}
