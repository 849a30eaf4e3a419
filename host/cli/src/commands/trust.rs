//! `pinion trust`, and the question when trusted content has changed.

use crate::approve::confirm::confirm_all;
use crate::invocation::Invocation;
use crate::output::terminal;
use crate::output::{Text, note, print, stdout_failure, text};
use crate::output::{count, line};
use clap::{Args, Subcommand};
use pinion_agent::hook::HookPoint;
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::paths::{self, CONFIG, PROJECT_APPEND, PROJECT_SERVERS, PROJECT_SYSTEM, Paths};
use pinion_app::trust::records::{Records, TrustRecord};
use pinion_app::trust::{ProjectContent, fixed};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The arguments of `pinion trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    #[command(subcommand)]
    command: TrustCommand,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// List trusted directories, and whether their content has changed
    List,
    /// Review a project's `.pinion` directory and trust its current content
    Add {
        /// Directory to trust [default: the working directory]
        dir: Option<PathBuf>,
        /// Also trust every later content of this plugin, by its name or file (repeatable)
        ///
        /// For plugins that you build yourself: each build is loaded without a question, also during a conversation.
        /// Anything that can write the file decides what is loaded. `trust add` without this option ends it.
        #[arg(long, value_name = "PLUGIN")]
        develop: Vec<String>,
        /// Trust it without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Stop trusting a directory
    Remove {
        /// Directory to distrust [default: the working directory]
        dir: Option<PathBuf>,
    },
}

impl Trust {
    /// Reads no config of the workspace, because the user has yet to decide on it.
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let (paths, workspace) = (Paths::from_environment()?, invocation.workspace()?);
        match self.command {
            TrustCommand::List => list(&paths),
            TrustCommand::Add { dir, develop, yes } => {
                add(&paths, &directory(&workspace, dir.as_deref())?, &develop, yes)
            }
            TrustCommand::Remove { dir } => remove(&paths, &workspace, dir.as_deref()),
        }
    }
}

fn directory(workspace: &Path, named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(|| Ok(workspace.to_owned()), |named| paths::workspace(Some(&workspace.join(named))))
}

fn list(paths: &Paths) -> Result<()> {
    let records = Records::read(paths)?;
    let row = |state: &str, path: &str| format!("{state:<18} {}\n", line(path));
    let wished = wished(paths)?;
    let describe = |record: &TrustRecord| record.describe(wished.iter().any(|entry| entry == Path::new(&record.path)));
    let mut text: String = records.all().iter().map(|record| row(describe(record), &record.path)).collect();
    for wished in wished {
        let path = wished.to_string_lossy().into_owned();
        if !records.all().iter().any(|record| record.path == path) {
            text.push_str(&row("not used yet", &path));
        }
    }
    if text.is_empty() {
        note(&text!("no trusted directories (`pinion trust add` trusts this one)"));
    }
    print(&Text::complete(&text))
}

fn add(paths: &Paths, directory: &Path, develop: &[String], yes: bool) -> Result<()> {
    let content = ProjectContent::read(directory);
    let developed = developed_files(&content, develop)?;
    let shown = line(&directory.to_string_lossy());
    let nothing = if content.is_empty() { "  nothing yet\n" } else { "" };
    let coming = developed.iter().map(|file| format!("  every later content of {}, without a question\n", line(file)));
    let coming: String = coming.collect();
    let listed = format!("`{shown}` brings:\n{}{nothing}{coming}", described(paths, directory, &content));
    if yes || !terminal::is_interactive() {
        print(&Text::complete(&listed))?;
    }
    if !yes && !terminal::is_interactive() {
        return Err(Failure::new(Status::Denied, format!("`{shown}` is not trusted: no terminal to ask on"))
            .hint("`pinion trust add --yes` trusts what is listed"));
    }
    if !yes && !ask(directory, &content, &listed)? {
        return Err(Failure::new(Status::Denied, format!("`{shown}` is not trusted")));
    }
    let but = if developed.is_empty() { "any change" } else { "any other change" };
    content.trust(directory, paths, wished(paths)?.iter().any(|entry| entry == directory), developed)?;
    print(&text!("trusted `{}` ({} needs your consent again)\n", shown, but))
}

/// Returns the files of the plugins that the user develops.
fn developed_files(content: &ProjectContent, names: &[String]) -> Result<BTreeSet<String>> {
    let file = |name: &String| {
        content.developed_file(name).ok_or_else(|| {
            Failure::usage(format!("`{}` is no plugin of a project", line(name)))
                .hint("name a plugin, or its file, such as .pinion/plugins/NAME.wasm")
        })
    };
    names.iter().map(file).collect()
}

fn remove(paths: &Paths, workspace: &Path, named: Option<&Path>) -> Result<()> {
    // If the directory is gone, its path has to do.
    let named = named.map_or_else(|| workspace.to_owned(), |named| workspace.join(named));
    let directory = named.canonicalize().unwrap_or_else(|_| pinion_files::normalize_lexically(&named));
    let is_wished = wished(paths)?.contains(&directory);
    Records::remove(paths, &directory, is_wished)?;
    let shown = line(&directory.to_string_lossy());
    let note = match is_wished {
        true => format!(" (`trusted` in `{}` still names it, without effect)", paths.config_file().display()),
        false => String::new(),
    };
    print(&text!("no longer trusting `{}`{}\n", shown, note))
}

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
fn described(paths: &Paths, workspace: &Path, content: &ProjectContent) -> String {
    let plugins: Vec<&str> = content.plugins().collect();
    content.describe(|path, digest| match path {
        _ if plugins.contains(&path) => plugin(workspace, path, digest),
        _ if path == CONFIG => settings(paths, content),
        _ => match PROJECT_SERVERS.iter().find(|servers| **servers == path) {
            Some(servers) => {
                pinion_app::mcp::written::describe([(*servers, content.text(servers).unwrap_or_default().to_owned())])
            }
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
    let asks = manifest.capabilities.words();
    let asks = if asks.is_empty() { "nothing".to_owned() } else { asks.join(" ") };
    let hooks = HookPoint::ALL.into_iter().filter(|point| inspection.exports.has_hook(*point));
    let hooks: Vec<&str> = hooks.map(HookPoint::name).collect();
    let named = format!("plugin `{}` {}", manifest.name, manifest.version);
    let hooks = (!hooks.is_empty()).then(|| format!("hooks: {}", hooks.join(" ")));
    [named, format!("asks for {asks}")].into_iter().chain(hooks).map(|text| line(&text)).collect()
}

/// Shows the content and asks whether to trust it. The question counts the files, because a long list may have scrolled away.
fn ask(directory: &Path, content: &ProjectContent, listed: &str) -> Result<bool> {
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

/// Returns the directories that the user's config trusts, without links if they exist.
fn wished(paths: &Paths) -> Result<Vec<PathBuf>> {
    let entries = Config::trusted(paths)?;
    let canonical = |entry: PathBuf| entry.canonicalize().unwrap_or(entry);
    entries.iter().map(|entry| fixed(entry, paths).map(canonical)).collect()
}
