//! `pinion mcp import`: servers of other programs.

use super::add::check;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::paths;
use pinion_app::files::private::read_settings;
use pinion_app::mcp::edit::edit;
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::{Text, count, print, stdout_failure, terminal, text};
use pinion_mcp::config::{ConfigScope, ImportFormat, ImportedServer, import};
use std::path::{Path, PathBuf};

/// A file that may have servers.
struct ImportCandidate {
    program: &'static str,
    path: PathBuf,
    format: ImportFormat,
}

/// Servers found in a file.
struct ImportSource {
    candidate: ImportCandidate,
    found: Vec<ImportedServer>,
}

pub(super) fn run(base: &Base, from: Option<&Path>, only: Option<&[String]>, yes: bool) -> Result<()> {
    let candidates = match from {
        Some(path) => vec![named(base, path)],
        None => known(base),
    };
    let mut sources = Vec::new();
    for candidate in candidates {
        let failed = || Failure::failed(format!("could not import from `{}`", candidate.path.display()));
        let text = match read_settings(&candidate.path) {
            Ok(Some(text)) => text,
            Ok(None) if from.is_some() => return Err(failed().because("no such file")),
            Ok(None) => continue,
            Err(error) => return Err(failed().because(error)),
        };
        let project = base.workspace.to_str();
        let found = import(&text, candidate.format, project).map_err(|error| failed().because(error))?;
        let is_wanted = |found: &ImportedServer| only.is_none_or(|only| only.contains(&found.name));
        let found: Vec<ImportedServer> = found.into_iter().filter(is_wanted).collect();
        if !found.is_empty() {
            sources.push(ImportSource { candidate, found });
        }
    }
    if sources.is_empty() {
        return print(&text!("found no MCP servers of other programs\n"));
    }
    let new = show(base, &sources)?;
    if new.is_empty() {
        return print(&text!("nothing to add\n"));
    }
    if !yes && !terminal::is_interactive() {
        return Err(Failure::new(Status::Denied, "nothing was added: no terminal to ask on")
            .hint("`pinion mcp import --yes` adds what is listed"));
    }
    let question = format!("Add {} to `{}`?", count(new.len() as u64, "server"), base.paths.mcp_file().display());
    if !yes && !confirm(&text!("{}", question)).map_err(stdout_failure)? {
        return Err(Failure::new(Status::Denied, "nothing was added"));
    }
    let path = base.paths.mcp_file();
    edit(base, ConfigScope::User, &path, |editor| {
        for found in &new {
            if editor.get(&found.name).is_none() {
                let set = editor.set(&found.name, found.entry.clone());
                set.map_err(|error| Failure::failed(error.to_string()))?;
            }
        }
        Ok(((), true))
    })?;
    print(&text!("added {} to `{}`\n", count(new.len() as u64, "MCP server"), path))
}

/// Shows the servers that were found, and returns the servers that can be added: the first of each name.
fn show(base: &Base, sources: &[ImportSource]) -> Result<Vec<ImportedServer>> {
    let config = base.read_mcp_config();
    let is_there = |name: &str| {
        let broken = config.problems.iter().any(|problem| problem.problem.server.as_deref() == Some(name));
        config.find(name).is_some() || broken
    };
    let mut text = Text::default();
    let mut new: Vec<ImportedServer> = Vec::new();
    for source in sources {
        text.line(text!("{} (`{}`)", source.candidate.program, source.candidate.path));
        for found in &source.found {
            let state = match check(&found.name, &found.entry) {
                _ if is_there(&found.name) => "there already".to_owned(),
                _ if new.iter().any(|other| other.name == found.name) => "found above".to_owned(),
                Err(failure) => failure.message(),
                Ok(_) => {
                    new.push(found.clone());
                    "new".to_owned()
                }
            };
            text.line(text!("  {} ({}): {}", found.name, state, summary(found)));
            found.notes.iter().for_each(|note| text.line(text!("    ! {}", note)));
        }
    }
    print(&text)?;
    Ok(new)
}

/// Returns the command line or the address of a server that was found. Variables and headers stay hidden.
fn summary(found: &ImportedServer) -> String {
    let text = |member: &str| found.entry.get(member).and_then(|value| value.as_str()).map(str::to_owned);
    let args = found.entry.get("args").and_then(|args| args.as_array()).into_iter().flatten();
    let args: Vec<String> = args.filter_map(|arg| arg.as_str()).map(str::to_owned).collect();
    let address = text("url").or_else(|| text("httpUrl")).or_else(|| text("serverUrl"));
    match text("command") {
        Some(command) => std::iter::once(command).chain(args).collect::<Vec<_>>().join(" "),
        None => address.unwrap_or_default(),
    }
}

/// Returns the files of known programs.
fn known(base: &Base) -> Vec<ImportCandidate> {
    let mut candidates = Vec::new();
    let mut add = |program, path: PathBuf, format| candidates.push(ImportCandidate { program, path, format });
    if let Some(home) = paths::home() {
        add("Claude Code", home.join(".claude.json"), ImportFormat::McpServers);
        let desktop = match cfg!(target_os = "macos") {
            true => "Library/Application Support/Claude/claude_desktop_config.json",
            false => ".config/Claude/claude_desktop_config.json",
        };
        add("Claude Desktop", home.join(desktop), ImportFormat::McpServers);
        add("Codex", home.join(".codex/config.toml"), ImportFormat::Codex);
        add("Cursor", home.join(".cursor/mcp.json"), ImportFormat::McpServers);
        let code = match cfg!(target_os = "macos") {
            true => "Library/Application Support/Code/User/mcp.json",
            false => ".config/Code/User/mcp.json",
        };
        add("VS Code", home.join(code), ImportFormat::VsCode);
    }
    add("Cursor", base.workspace.join(".cursor/mcp.json"), ImportFormat::McpServers);
    add("VS Code", base.workspace.join(".vscode/mcp.json"), ImportFormat::VsCode);
    candidates
}

/// Tells the form of a file by its name.
fn named(base: &Base, path: &Path) -> ImportCandidate {
    let path = base.workspace.join(path);
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => ImportFormat::Codex,
        _ if path.parent().is_some_and(|parent| parent.ends_with(".vscode") || parent.ends_with("Code/User")) => {
            ImportFormat::VsCode
        }
        // A file with `servers` instead of `mcpServers` is one of VS Code, wherever it is.
        _ if read_settings(&path).ok().flatten().is_some_and(|text| !text.contains("\"mcpServers\"")) => {
            ImportFormat::VsCode
        }
        _ => ImportFormat::McpServers,
    };
    ImportCandidate { program: "file", path, format }
}
