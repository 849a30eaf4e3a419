//! The MCP servers of installed packages, `PACKAGE:SERVER`.
//!
//! The entries come from the sealed lock file, as the user agreed to them. No name of another server has a colon, so that
//! a package cannot take the place of a server. Its programs see the directory of their version, which is compared with
//! its digest first, and write to the package's data directory.

use crate::failure::{Failure, Result};
use crate::mcp::lazy_servers::McpConfig;
use crate::mcp::written::WORKSPACE;
use crate::process::hardening;
use crate::workspace_base::Base;
use pinion_agent::serde_json::{self, Value, json};
use pinion_mcp::config::{ConfigScope, ConfigSource, Lookup, ServerFile};
use pinion_packages::{LockedServer, StoreError};
use std::path::{Path, PathBuf};

/// Names of the package's own directories in an entry.
const ROOT: &str = "PLUGIN_ROOT";
const DATA: &str = "PLUGIN_DATA";

impl Base {
    /// Adds the servers of the active versions of packages. Starts nothing.
    pub(super) fn add_package_servers(&self, config: &mut McpConfig) {
        if !self.paths.plugin_lock_file().exists() {
            return;
        }
        let store = match self.package_store() {
            Ok(store) if store.may_have_servers() => store,
            _ => return,
        };
        let lock = match store.read() {
            Ok(lock) => lock,
            Err(error) => {
                let why = format!("the MCP servers of packages are off: {error}");
                return config.notices.push(format!("{why}\nhint: look at it with: pinion plugin verify --accept"));
            }
        };
        for package in &lock.packages {
            let Some(active) = package.active_release() else { continue };
            let root = store.directory(&active.digest);
            let data = self.paths.package_data(&package.name);
            for server in &active.servers {
                let name = format!("{}:{}", package.name, server.name);
                let source = ConfigSource { scope: ConfigScope::Package, path: root.clone() };
                let text = entry_text(&name, server);
                let file = ServerFile::parse(&text, &source, &|name| {
                    let of_workspace =
                        || WORKSPACE.contains(&name).then(|| self.workspace.to_string_lossy().into_owned());
                    lookup(server, (&root, &data), name, of_workspace, hardening::variable)
                });
                config.add(file, text, &source);
            }
        }
    }

    /// Switches a server of a package on or off. Returns whether the package has it.
    ///
    /// # Errors
    /// The lock file cannot be used, or only a tool is meant.
    pub(super) fn switch_package_server(&self, name: &str, tool: Option<&str>, enabled: bool) -> Result<bool> {
        let Some((package, server)) = name.split_once(':') else { return Ok(false) };
        if let Some(tool) = tool {
            let failure = Failure::usage(format!("the tools of `{name}` cannot be switched one by one"));
            return Err(failure.hint(format!("a rule denies it: deny = [\"mcp:{name}/{tool}\"] under [permissions]")));
        }
        match self.package_store()?.switch_server(package, server, enabled) {
            Err(StoreError::Unknown(_)) => Ok(false),
            switched => switched.map_err(Failure::failed),
        }
    }
}

/// Returns an entry as a file of servers.
fn entry_text(name: &str, server: &LockedServer) -> String {
    let mut entry: Value = serde_json::from_str(&server.entry).unwrap_or_default();
    if let Some(members) = entry.as_object_mut().filter(|_| !server.enabled) {
        members.insert("disabled".to_owned(), true.into());
    }
    json!({ "mcpServers": { name: entry } }).to_string()
}

/// Returns the value of a variable in an entry. Only variables that the user agreed to come from the environment; others
/// stay as they are written.
fn lookup(
    server: &LockedServer,
    (root, data): (&Path, &Path),
    name: &str,
    of_workspace: impl Fn() -> Option<String>,
    of_environment: impl Fn(&str) -> Option<String>,
) -> Lookup {
    let path = |path: &Path| Lookup::Value(path.to_string_lossy().into_owned());
    match name {
        ROOT => path(root),
        DATA => path(data),
        _ if server.variables.iter().any(|agreed| agreed == name) => {
            of_environment(name).map_or(Lookup::NotSet, Lookup::Value)
        }
        _ => Lookup::Value(of_workspace().unwrap_or_else(|| format!("${{{name}}}"))),
    }
}

/// The directories of a server of a package: of its version, which it reads, and of its data, which it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageDirectories {
    pub(super) root: PathBuf,
    pub(super) data: PathBuf,
}

impl PackageDirectories {
    /// Returns the directories of a server; `None` if no package has it.
    pub(super) fn of_server(name: &str, source: &ConfigSource, all: &Path) -> Option<Self> {
        let (package, _) = name.split_once(':').filter(|_| source.scope == ConfigScope::Package)?;
        Some(Self { root: source.path.clone(), data: all.join(package) })
    }

    /// Checks the content of the version and creates the data directory.
    ///
    /// # Errors
    /// A file of the version differs from its digest, or the system refuses.
    pub(super) fn prepare(&self) -> std::io::Result<()> {
        pinion_packages::check_directory(&self.root).map_err(std::io::Error::other)?;
        crate::files::private::create_directory(&self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_mcp::config::ServerTransport;

    fn server(entry: Value, variables: &[&str], enabled: bool) -> LockedServer {
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        LockedServer { name: "db".to_owned(), entry: entry.to_string(), variables, enabled }
    }

    fn parse(server: &LockedServer) -> ServerFile {
        let source = ConfigSource { scope: ConfigScope::Package, path: "/store/1".into() };
        ServerFile::parse(&entry_text("kit:db", server), &source, &|name| {
            let workspace = || WORKSPACE.contains(&name).then(|| "/work".to_owned());
            lookup(server, (Path::new("/store/1"), Path::new("/data/kit")), name, workspace, |name| {
                Some(format!("value of {name}"))
            })
        })
    }

    #[test]
    fn only_agreed_variables_come_from_the_environment() {
        let entry = json!({
            "command": "${PLUGIN_ROOT}/run", "args": ["${PWD}", "${SECRET}"], "cwd": "${PLUGIN_ROOT}",
            "env": { "A": "${AGREED}", "S": "${SECRET}", "D": "${PLUGIN_DATA}/x" }, "write": false,
        });
        let file = parse(&server(entry, &["AGREED"], true));
        assert!(file.problems.is_empty() && file.notices.is_empty(), "{file:?}");
        let config = &file.servers[0];
        assert!(config.enabled && !config.write && !config.network && config.name == "kit:db");
        let ServerTransport::Stdio { command, args, env, cwd } = &config.transport else { panic!("{config:?}") };
        assert_eq!((command.as_str(), &args[..]), ("/store/1/run", &["/work".to_owned(), "${SECRET}".to_owned()][..]));
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(env, [("A", "value of AGREED"), ("D", "/data/kit/x"), ("S", "${SECRET}")]);
        assert_eq!(cwd.as_deref(), Some(Path::new("/store/1")));
    }

    #[test]
    fn server_without_agreement_is_off() {
        let file = parse(&server(json!({ "command": "run" }), &[], false));
        assert!(!file.servers[0].enabled);
    }

    #[test]
    fn only_servers_of_packages_have_directories_of_one() {
        let source = |scope| ConfigSource { scope, path: "/store/1".into() };
        let directories = |name: &str, scope| PackageDirectories::of_server(name, &source(scope), Path::new("/data"));
        let found = directories("kit:db", ConfigScope::Package).unwrap();
        assert_eq!((found.root, found.data), ("/store/1".into(), "/data/kit".into()));
        assert_eq!(directories("kit:db", ConfigScope::User), None);
        assert_eq!(directories("kit", ConfigScope::Package), None);
    }

    #[test]
    fn changed_version_starts_no_program() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("0".repeat(64));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("run"), "other").unwrap();
        let directories = PackageDirectories { root, data: home.path().join("data") };
        assert!(directories.prepare().unwrap_err().to_string().contains("digest"));
    }
}
