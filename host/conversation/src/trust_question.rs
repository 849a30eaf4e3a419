//! The question whether to trust a project, and the description of the content that it is about.

use pinion_agent::hook::HookPoint;
use pinion_app::config::Config;
use pinion_app::failure::Result;
use pinion_app::files::paths::{CONFIG, PROJECT_APPEND, PROJECT_PLUGINS, PROJECT_SERVERS, PROJECT_SYSTEM, Paths};
use pinion_app::plugins::project_packages::describe_packages;
use pinion_app::trust::ProjectContent;
use pinion_app::trust::records::Records;
use pinion_console::approve::confirm::confirm_all;
use pinion_console::output::{count, line, stdout_failure};
use std::collections::BTreeSet;
use std::path::Path;

/// Asks on the terminal if the project brings content that the user has not decided on, or trusted content has changed.
/// Returns whether the user trusts the current content.
///
/// # Errors
/// The terminal cannot be used, or the answer cannot be recorded.
pub(crate) fn ask_at_start(paths: &Paths, workspace: &Path, config: &Config) -> Result<bool> {
    let project = &config.project;
    if project.is_untrusted() {
        return ask_first(paths, workspace);
    }
    if !project.is_changed() {
        return Ok(false);
    }
    let changes: String = project.changes().iter().map(|change| format!("  {change}\n")).collect();
    let now = described(paths, workspace, project.content());
    let listed = format!("This project changed since you trusted it:\n{changes}It now brings:\n{now}");
    if !ask(workspace, project.content(), &listed)? {
        return Ok(false);
    }
    project.trust(paths)?;
    Ok(true)
}

/// Asks about content that was never trusted, once for each version of it.
fn ask_first(paths: &Paths, workspace: &Path) -> Result<bool> {
    let content = ProjectContent::read(workspace);
    let has_nothing = content.digests().next().is_none() || content.unbounded().is_some();
    if has_nothing || Records::read(paths)?.find_record(workspace).is_some_and(|record| record.declines(&content)) {
        return Ok(false);
    }
    let described = described(paths, workspace, &content);
    let listed = format!("This project brings files that have no effect until you trust it:\n{described}");
    match ask(workspace, &content, &listed)? {
        true => content.trust(workspace, paths, false, BTreeSet::new()).map(|()| true),
        false => content.decline(workspace, paths).map(|()| false),
    }
}

/// Describes content: each file with its digest, and the programs, requests or settings in it.
pub fn described(paths: &Paths, workspace: &Path, content: &ProjectContent) -> String {
    let plugins: Vec<&str> = content.plugins().collect();
    content.describe(|path, digest| match path {
        _ if plugins.contains(&path) => plugin(workspace, path, digest),
        _ if path == CONFIG => settings(paths, content),
        _ => match PROJECT_SERVERS.iter().find(|servers| **servers == path) {
            Some(servers) => {
                pinion_app::mcp::written::describe([(*servers, content.text(servers).unwrap_or_default().to_owned())])
            }
            None if path == PROJECT_PLUGINS => describe_packages(content.text(path).unwrap_or_default()),
            None if path == PROJECT_SYSTEM => vec!["replaces the instructions of the agent".to_owned()],
            None if path == PROJECT_APPEND => vec!["adds to the instructions of the agent".to_owned()],
            None if !path.starts_with(".pinion/") => vec!["an MCP server runs or reads it".to_owned()],
            None => Vec::new(),
        },
    })
}

/// Describes a plugin by its manifest and its imports, without running it.
fn plugin(workspace: &Path, path: &str, digest: &str) -> Vec<String> {
    let inspection = match ProjectContent::plugin(workspace, path, digest) {
        Ok(inspection) => inspection,
        Err(problem) => return vec![format!("not a usable plugin: {problem}")],
    };
    let manifest = &inspection.manifest;
    let asks = manifest.capabilities.spell_asks();
    let asks = if asks.is_empty() { "nothing".to_owned() } else { asks.join(" ") };
    let hooks = HookPoint::ALL.into_iter().filter(|point| inspection.exports.has_hook(*point));
    let hooks: Vec<&str> = hooks.map(HookPoint::name).collect();
    let named = format!("plugin `{}` {}", manifest.name, manifest.version);
    let hooks = (!hooks.is_empty()).then(|| format!("hooks: {}", hooks.join(" ")));
    [named, format!("asks for {asks}")].into_iter().chain(hooks).map(|text| line(&text)).collect()
}

/// Shows the content and asks whether to trust it. The question counts the files, because a long list may have scrolled away.
///
/// # Errors
/// The terminal cannot be used.
pub fn ask(directory: &Path, content: &ProjectContent, listed: &str) -> Result<bool> {
    let (files, plugins) = (content.digests().count() as u64, content.plugins().count() as u64);
    let shown = line(&directory.to_string_lossy());
    let these = if files == 1 { "this file".to_owned() } else { format!("these {files} files") };
    let question = format!("Trust exactly {these} in `{shown}`, with {}?", count(plugins, "plugin"));
    confirm_all(listed, &question).map_err(stdout_failure)
}

/// Describes the settings of the project's config, and which of them are ignored.
fn settings(paths: &Paths, content: &ProjectContent) -> Vec<String> {
    let Some(text) = content.config() else { return Vec::new() };
    match Config::preview(paths, text) {
        Ok(restricted) => {
            let sets = restricted.table.to_string();
            sets.lines().filter(|text| !text.is_empty()).map(line).chain(restricted.notices).collect()
        }
        Err(failure) => vec![line(&failure.to_string())],
    }
}
