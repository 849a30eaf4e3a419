//! The servers in a file as they are written, before anything is expanded or started.

use crate::mcp::programs::programs;
use crate::output::line;
use crate::process::hardening;
use pinion_agent::text::exposed;
use pinion_mcp::config::{ConfigScope, ConfigSource, Lookup, ServerConfig, ServerFile, ServerTransport};
use std::path::{Path, PathBuf};

/// Names of the workspace in files that editors and other agents share.
pub(super) const WORKSPACE: &[&str] = &["workspaceFolder", "PWD", "CLAUDE_PROJECT_DIR"];

/// Parses a file without expanding anything: every variable stands for itself, so that the user sees the text as it is.
pub(super) fn unexpanded(text: &str, source: &ConfigSource) -> ServerFile {
    ServerFile::parse(text, source, &|name| Lookup::Value(format!("${{{name}}}")))
}

/// Describes the servers in a project's files for the question whether to trust them, without expanding anything: a program
/// with its arguments and variables, or an address with the data that it gets.
pub fn describe(texts: impl IntoIterator<Item = (&'static str, String)>) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in texts {
        let source = ConfigSource { scope: ConfigScope::Project, path: PathBuf::from(path) };
        let file = unexpanded(&text, &source);
        for server in &file.servers {
            let state = if server.enabled { "" } else { " (disabled)" };
            lines.push(format!("MCP server `{}`{state}: {}", server.name, whole(&what(server))));
            lines.extend(extras(&server.transport).map(|extra| format!("  {}", whole(&extra))));
            let grants = [(server.write, "writes the workspace"), (server.network, "uses the network")];
            let is_program = matches!(server.transport, ServerTransport::Stdio { .. });
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
    let source = ConfigSource { scope: ConfigScope::Project, path: PathBuf::from(path) };
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

/// Returns a text as one line with nothing hidden and nothing cut, so that every command is visible to its end.
fn whole(text: &str) -> String {
    exposed(text).replace('\n', "⏎")
}

/// Returns the variables and the directory of a program, or the headers that an address gets.
fn extras(transport: &ServerTransport) -> impl Iterator<Item = String> {
    let (sets, directory) = match transport {
        ServerTransport::Stdio { env, cwd, .. } => {
            (env.iter().map(|(name, value)| format!("sets {name}={value}")).collect(), cwd.clone())
        }
        ServerTransport::Http { headers, .. } => {
            (headers.keys().map(|name| format!("sends the header {name}")).collect(), None)
        }
    };
    let sets: Vec<String> = sets;
    sets.into_iter().chain(directory.map(|directory| format!("in {}", directory.display())))
}

/// Returns the command line or the address of a server.
pub fn what(server: &ServerConfig) -> String {
    match &server.transport {
        ServerTransport::Stdio { command, args, .. } => {
            let words = std::iter::once(command).chain(args);
            words.map(|word| pinion_plugin_runtime::shell_word(Path::new(word))).collect::<Vec<_>>().join(" ")
        }
        // Braces of variables that stand for themselves are percent-encoded in paths.
        ServerTransport::Http { url, .. } => url.as_str().replace("$%7B", "${").replace("%7D", "}"),
    }
}
