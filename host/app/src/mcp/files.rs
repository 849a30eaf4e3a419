//! The files of MCP servers: the user's `mcp.json`, and those of a trusted project.
//!
//! The user's servers win: a project cannot replace one by its name. Variables in the user's file are those of the
//! environment. A project's files get only variables that the user names under `[mcp]`, and a few that contain no secret.

use crate::base::Base;
use crate::mcp::lazy::{McpConfig, unexpanded};
use crate::mcp::programs::programs;
use crate::output::line;
use crate::process::hardening;
use crate::trust::PROJECT_SERVERS;
use pinion_agent::text::exposed;
use pinion_mcp::config::{ConfigSource, Lookup, Scope, ServerConfig, ServerFile, Transport};
use std::path::{Path, PathBuf};

/// Variables that a project may use without being allowed to.
const HARMLESS: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"];
/// Names of the workspace in files that editors and other agents share.
const WORKSPACE: &[&str] = &["workspaceFolder", "PWD", "CLAUDE_PROJECT_DIR"];

impl Base {
    /// Reads the servers of the user and of a trusted project. Starts nothing.
    pub fn read_mcp_config(&self) -> McpConfig {
        let mut config = McpConfig::default();
        let path = self.paths.mcp_file();
        let source = ConfigSource { scope: Scope::User, path: path.clone() };
        match crate::files::private::read_settings(&path) {
            Ok(Some(text)) => {
                let file = ServerFile::parse(&text, &source, &|name| self.users_variable(name));
                config.add(file, text, &source);
            }
            Ok(None) => {}
            Err(error) => config.notices.push(format!("could not read `{}`: {error}", path.display())),
        }
        for path in PROJECT_SERVERS {
            let Some(text) = self.config.project.text(path) else { continue };
            let source = ConfigSource { scope: Scope::Project, path: PathBuf::from(path) };
            let mut file = ServerFile::parse(text, &source, &|name| self.projects_variable(name));
            file.servers.iter_mut().for_each(|server| self.bind(&mut server.transport));
            config.add(file, text.to_owned(), &source);
        }
        config
    }

    /// Binds a project's server to its workspace. The same command in two projects is two servers: each runs other files, so
    /// that neither has a directory or a catalogue of the other.
    fn bind(&self, transport: &mut Transport) {
        if let Transport::Stdio { cwd, .. } = transport {
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

/// Describes the servers in a project's files for the question whether to trust them, without expanding anything: a program
/// with its arguments and variables, or an address with what it gets.
pub fn describe(texts: impl IntoIterator<Item = (&'static str, String)>) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in texts {
        let source = ConfigSource { scope: Scope::Project, path: PathBuf::from(path) };
        let file = unexpanded(&text, &source);
        for server in &file.servers {
            let state = if server.enabled { "" } else { " (disabled)" };
            lines.push(format!("MCP server `{}`{state}: {}", server.name, whole(&what(server))));
            lines.extend(extras(&server.transport).map(|extra| format!("  {}", whole(&extra))));
            let grants = [(server.write, "writes the workspace"), (server.network, "uses the network")];
            let is_program = matches!(server.transport, Transport::Stdio { .. });
            lines.extend(grants.iter().filter(|(has, _)| *has && is_program).map(|(_, what)| format!("  {what}")));
        }
        for problem in &file.problems {
            lines.push(format!("{path} line {}: {}", problem.line, line(&problem.message)));
        }
    }
    lines
}

/// Returns the files of a workspace that servers in a file of it run, relative to the workspace. Its names in the text are
/// replaced; behind other variables, the rest of a path counts.
pub fn programs_in(text: &str, path: &str, workspace: &Path) -> Vec<PathBuf> {
    let source = ConfigSource { scope: Scope::Project, path: PathBuf::from(path) };
    let filled = |name: &str| match (name, hardening::variable("HOME")) {
        _ if WORKSPACE.contains(&name) => Lookup::Value(workspace.to_string_lossy().into_owned()),
        ("HOME", Some(home)) => Lookup::Value(home),
        _ => Lookup::Value(format!("${{{name}}}")),
    };
    let file = ServerFile::parse(text, &source, &filled);
    let files = file.servers.iter().flat_map(|server| programs(&server.transport, workspace));
    let mut found: Vec<PathBuf> =
        files.filter_map(|file| Some(file.strip_prefix(workspace).ok()?.to_owned())).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns a text as one line with nothing hidden and nothing cut, so that no command has an end that nobody sees.
fn whole(text: &str) -> String {
    exposed(text).replace('\n', "⏎")
}

/// Returns the variables and the directory of a program, or the headers that an address gets.
fn extras(transport: &Transport) -> impl Iterator<Item = String> {
    let (sets, directory) = match transport {
        Transport::Stdio { env, cwd, .. } => {
            (env.iter().map(|(name, value)| format!("sets {name}={value}")).collect(), cwd.clone())
        }
        Transport::Http { headers, .. } => {
            (headers.keys().map(|name| format!("sends the header {name}")).collect(), None)
        }
    };
    let sets: Vec<String> = sets;
    sets.into_iter().chain(directory.map(|directory| format!("in {}", directory.display())))
}

/// Returns the command line or the address of a server.
pub fn what(server: &ServerConfig) -> String {
    match &server.transport {
        Transport::Stdio { command, args, .. } => {
            let words = std::iter::once(command).chain(args);
            words.map(|word| pinion_plugin_runtime::shell_word(Path::new(word))).collect::<Vec<_>>().join(" ")
        }
        // Braces of variables that stand for themselves are percent-encoded in paths.
        Transport::Http { url, .. } => url.as_str().replace("$%7B", "${").replace("%7D", "}"),
    }
}

/// Returns the file of a scope that commands change.
pub fn file_of(base: &Base, scope: Scope) -> PathBuf {
    match scope {
        Scope::User => base.paths.mcp_file(),
        Scope::Project => base.workspace.join(PROJECT_SERVERS[1]),
    }
}

/// Returns the file in which a server stands, for changes.
pub fn file_with(base: &Base, source: &ConfigSource) -> PathBuf {
    match source.scope {
        Scope::User => source.path.clone(),
        Scope::Project => base.workspace.join(Path::new(&source.path)),
    }
}
