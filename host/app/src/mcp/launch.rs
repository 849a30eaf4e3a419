//! Starting the programs of MCP servers, in the sandbox unless the user turned it off.
//!
//! A server gets the usual environment of programs plus the variables of its entry, and a network only if its entry
//! says so. It has a separate directory as `/tmp`, where package managers also keep their downloads.

use crate::approve::audit::Audit;
use crate::mcp::first_start::{FirstBytes, FirstStart};
use crate::mcp::packages::PackageDirectories;
use crate::process::confinement::{Planned, SandboxedPrograms};
use crate::process::hardening;
use crate::process::own_command::guard_command;
use crate::process::running_programs::RunningProgram;
use crate::workspace_base::Base;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::serde_json::json;
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::{LaunchedServer, Launcher, ServerProcess};
use pinion_plugin_runtime::{ProgramGroup, guard_programs};
use pinion_sandbox::{Network, Program, Repository};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::process::{Child, Command};

/// Directories of package managers below the server's own one, by the variables that name them.
const CACHES: &[(&str, &str)] = &[
    ("npm_config_cache", "npm"),
    ("UV_CACHE_DIR", "uv"),
    ("UV_TOOL_DIR", "uv-tools"),
    ("UV_PYTHON_INSTALL_DIR", "uv-python"),
    ("PIP_CACHE_DIR", "pip"),
    ("DENO_DIR", "deno"),
    ("XDG_CACHE_HOME", "cache"),
];

/// Starts servers for one workspace.
pub(crate) struct ServerLauncher {
    sandbox: Option<SandboxedPrograms>,
    workspace: PathBuf,
    /// The environment of every server.
    environment: BTreeMap<String, String>,
    /// Directory with one directory for each server.
    directories: PathBuf,
    /// Directory with one directory of data for each package.
    packages: PathBuf,
    removed: PathBuf,
    audit: Arc<Audit>,
}

impl ServerLauncher {
    pub(crate) fn new(base: &Base) -> Self {
        let usual = |name: &String| {
            base.config.process_environment.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == pattern,
            })
        };
        Self {
            sandbox: base.sandbox(),
            workspace: base.workspace.clone(),
            environment: hardening::variables()
                .into_iter()
                .filter(|(name, _)| usual(name) && !base.network.credentials().hides(name))
                .collect(),
            directories: base.paths.mcp_directories(),
            packages: base.paths.packages_data(),
            removed: base.paths.removed(),
            audit: base.permissions.audit.clone(),
        }
    }

    /// Returns the environment of a server whose own directory is at `temporary`.
    fn environment(
        &self,
        env: &BTreeMap<String, String>,
        directory: &Path,
        temporary: Option<&Path>,
    ) -> Vec<(String, String)> {
        let mut all = self.environment.clone();
        if let Some(temporary) = temporary {
            for (variable, below) in CACHES {
                all.insert((*variable).to_owned(), temporary.join(below).to_string_lossy().into_owned());
            }
            // A server without a network runs from the downloads of an earlier start.
            all.insert("npm_config_prefer_offline".to_owned(), "true".to_owned());
            all.insert("npm_config_update_notifier".to_owned(), "false".to_owned());
        }
        all.insert("PWD".to_owned(), directory.to_string_lossy().into_owned());
        all.extend(env.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.into_iter().collect()
    }

    /// Returns the directory of a server, which contains its `/tmp`. It belongs to the data and not to the cache, which
    /// may be deleted: servers keep data of their users there, such as a memory or a database.
    fn directory(&self, server: &ServerConfig) -> PathBuf {
        let identity = server.identity();
        self.directories.join(identity.get(..32).unwrap_or_default())
    }

    fn package_of(&self, server: &ServerConfig) -> Option<PackageDirectories> {
        PackageDirectories::of_server(&server.name, &server.source, &self.packages)
    }

    /// Returns the policy of a server.
    fn plan(&self, sandbox: &SandboxedPrograms, server: &ServerConfig) -> io::Result<Planned> {
        let own = self.directory(server);
        crate::files::private::create_directory(&own)?;
        let mut planned = sandbox.policy(&own).map_err(io::Error::other)?;
        let policy = &mut planned.policy;
        policy.network = if server.network { Network::On } else { Network::Off };
        if let Some(package) = self.package_of(server) {
            policy.visible.extend(package.root.canonicalize());
            policy.writable.extend(package.data.canonicalize());
        }
        if !server.write {
            let repository = match Repository::for_workspace(&self.workspace) {
                Repository::Elsewhere(repository) => Some(repository),
                Repository::Inside => None,
            };
            let is_project = |path: &PathBuf| {
                path.starts_with(&self.workspace)
                    || self.workspace.starts_with(path)
                    || repository.as_ref().is_some_and(|repository| repository.starts_with(path))
            };
            policy.writable.retain(|path| !is_project(path));
            // It reads the project, wherever that lies.
            policy.visible.push(self.workspace.clone());
        }
        Ok(planned)
    }
}

impl Launcher for ServerLauncher {
    fn launch(&self, server: &ServerConfig) -> io::Result<LaunchedServer> {
        let launched = self.start(server);
        let command = match &server.transport {
            ServerTransport::Stdio { command, args, .. } => std::iter::once(command).chain(args).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        let grants = json!({
            "network": server.network, "write": server.write, "sandbox": self.sandbox.is_some()
        });
        let refused = launched.as_ref().err().map(ToString::to_string);
        self.audit.started(
            &describe_launch(server),
            &json!({ "argv": command, "blake3": server.identity() }),
            &grants,
            refused.as_deref(),
        );
        launched
    }
}

/// Names a server in the log.
fn describe_launch(server: &ServerConfig) -> String {
    format!("MCP server `{}`", server.name)
}

impl ServerLauncher {
    fn start(&self, server: &ServerConfig) -> io::Result<LaunchedServer> {
        let ServerTransport::Stdio { command, args, env, cwd } = &server.transport else {
            return Err(io::Error::other("it has no command"));
        };
        if let Some(package) = self.package_of(server) {
            package.prepare()?;
        }
        let directory = cwd.as_ref().map_or_else(|| self.workspace.clone(), |cwd| self.workspace.join(cwd));
        if !directory.is_dir() {
            return Err(io::Error::other(format!("no such working directory: `{}`", directory.display())));
        }
        let mut start = None;
        let (program, protection) = match &self.sandbox {
            Some(sandbox) => {
                let Planned { policy, protected, found } = self.plan(sandbox, server)?;
                let support = sandbox.support(&policy).map_err(io::Error::other)?;
                let temporary = match support.namespaces {
                    Ok(()) => Some(Path::new("/tmp")),
                    Err(_) => policy.temporary.as_deref(),
                };
                let environment = self.environment(env, &directory, temporary);
                exists(command, &directory, &environment)?;
                let program =
                    Program { program: command, arguments: args, directory: &directory, environment: &environment };
                let program = sandbox.command(program, &policy).map_err(io::Error::other)?;
                start = policy.temporary.as_deref().and_then(|tmp| FirstStart::begin(&self.directory(server), tmp));
                (program, Some(sandbox.running(&protected, &found, &describe_launch(server))))
            }
            None => {
                let environment = self.environment(env, &directory, None);
                exists(command, &directory, &environment)?;
                let mut program = std::process::Command::new(command);
                program.args(args).current_dir(&directory).env_clear().envs(environment);
                (program, None)
            }
        };
        if let Some((guard, arguments)) = guard_command(&self.removed) {
            guard_programs(guard, arguments);
        }
        let mut program = Command::from(program);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        program.process_group(0);
        let (mut child, group) = ProgramGroup::spawn(&mut program)?;
        let (Some(stdin), Some(stdout), stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let process = LaunchedProcess { child, _group: group, protection };
        Ok(LaunchedServer {
            stdin: Box::new(stdin),
            stdout: Box::new(FirstBytes::new(stdout, start)),
            stderr: stderr.map(|stderr| Box::new(stderr) as _),
            process: Box::new(process),
        })
    }
}

/// Fails if there is no such program. The sandbox could not tell.
fn exists(command: &str, directory: &Path, environment: &[(String, String)]) -> io::Result<()> {
    let is_there = match command.contains('/') {
        true => directory.join(command).is_file(),
        false => environment
            .iter()
            .find(|(name, _)| name == "PATH")
            .is_none_or(|(_, path)| std::env::split_paths(path).any(|place| place.join(command).is_file())),
    };
    match is_there {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::NotFound, format!("no such program: `{command}`"))),
    }
}

/// The process of a server. Dropping it kills the whole group.
struct LaunchedProcess {
    child: Child,
    /// Dropped after the child, whose process is its first.
    _group: ProgramGroup,
    protection: Option<RunningProgram>,
}

impl ServerProcess for LaunchedProcess {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        async move {
            match self.child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            }
        }
        .boxed()
    }
}

impl Drop for LaunchedProcess {
    fn drop(&mut self) {
        self._group.kill();
        if let Some(protection) = self.protection.take() {
            for line in protection.revert() {
                tracing::warn!("an MCP server: {line}");
            }
        }
    }
}
