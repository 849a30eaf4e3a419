//! The servers in a file as they are written, before anything is expanded or started; and the files that their programs
//! are, or get as arguments.

use crate::files::paths;
use crate::files::private::open_file;
use crate::output::line;
use crate::process::hardening;
use pinion_agent::text::exposed;
use pinion_mcp::config::{ConfigScope, ConfigSource, Lookup, ServerConfig, ServerFile, ServerTransport};
use std::io::Read as _;
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

/// Looks at files for the words of one server.
const LOOKS: usize = 2_000;
/// First bytes of a database of SQLite.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Returns the files that the program of a server is, or gets as arguments, without links; they need not exist. Databases are
/// left out: nothing runs them, and a server has to write its own.
pub(crate) fn programs(transport: &ServerTransport, workspace: &Path) -> Vec<PathBuf> {
    let ServerTransport::Stdio { command, args, cwd, .. } = transport else { return Vec::new() };
    let directory = workspace.join(cwd.as_deref().unwrap_or(Path::new("")));
    let home = paths::home();
    let place = pinion_sandbox::CommandPlace { tree: &directory, git: &directory, home: home.as_deref() };
    let mut look = pinion_sandbox::LookBudget::new(LOOKS);
    let words: Vec<Vec<u8>> = args.iter().map(|word| without_variables(word)).collect();
    let (program, words) = (without_variables(command), words.iter().map(Vec::as_slice));
    let files = pinion_sandbox::files_of_arguments(&program, words, place, &mut look).unwrap_or_default();
    let files = files.iter().filter_map(|file| look.resolve(file).ok()).flatten();
    files.filter(|file| !is_database(file)).collect()
}

fn is_database(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = open_file(path).and_then(|file| file.take(DATABASE.len() as u64).read_to_end(&mut begin));
    read.is_ok() && begin == DATABASE
}

/// Returns a word with the mark of unknown text in place of each variable.
fn without_variables(word: &str) -> Vec<u8> {
    let mut parts = word.split("${");
    let mut text = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        text.push(pinion_sandbox::UNKNOWN);
        text.extend(part.split_once('}').map_or(part, |(_, rest)| rest).as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn scripts_and_texts_are_programs_and_databases_are_not() {
        let workspace = tempfile::tempdir().unwrap();
        let workspace = workspace.path().canonicalize().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = workspace.join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let database = file("store.db", &[DATABASE, &[4; 100]].concat());
        let (script, text) = (file("serve.py", b"print(1)"), file("settings", b"run: x"));
        let args = [&script, &database, &text].map(|path| path.to_string_lossy().into_owned());
        let transport = ServerTransport::Stdio {
            command: "python3".into(),
            args: args.to_vec(),
            env: Default::default(),
            cwd: None,
        };
        assert_eq!(programs(&transport, &workspace), [script, text]);
    }
}
