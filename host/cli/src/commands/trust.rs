//! `pinion trust`, and the question when trusted content has changed.

use crate::approve::confirm::confirm;
use crate::config::Config;
use crate::failure::{Failure, Result, Status};
use crate::files::paths::{self, Paths};
use crate::invocation::Invocation;
use crate::output::line;
use crate::output::terminal;
use crate::output::{Text, print, stdout_failure, text};
use crate::trust::records::{Record, Records};
use crate::trust::{Content, fixed};
use clap::{Args, Subcommand};
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
    /// Show what a directory brings in `.pinion`, and trust exactly that content
    Add {
        /// Directory to trust [default: the working directory]
        dir: Option<PathBuf>,
        /// Trust it without asking
        #[arg(long)]
        yes: bool,
    },
    /// Stop trusting a directory
    Remove {
        /// Directory to distrust [default: the working directory]
        dir: Option<PathBuf>,
    },
}

impl Trust {
    /// Reads no config of the workspace, because that is what the user decides on.
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let (paths, workspace) = (Paths::from_environment()?, invocation.workspace()?);
        match self.command {
            TrustCommand::List => list(&paths),
            TrustCommand::Add { dir, yes } => add(&paths, &directory(&workspace, dir.as_deref())?, yes),
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
    let describe = |record: &Record| record.describe(wished.iter().any(|entry| entry == Path::new(&record.path)));
    let mut text: String = records.all().iter().map(|record| row(describe(record), &record.path)).collect();
    for wished in wished {
        let path = wished.to_string_lossy().into_owned();
        if !records.all().iter().any(|record| record.path == path) {
            text.push_str(&row("not used yet", &path));
        }
    }
    print(&Text::complete(&text))
}

fn add(paths: &Paths, directory: &Path, yes: bool) -> Result<()> {
    let content = Content::read(directory);
    let shown = line(&directory.to_string_lossy());
    let nothing = if content.is_empty() { "  nothing yet\n" } else { "" };
    let listed = Text::complete(&format!("{}{nothing}{}", content.describe(), settings(paths, &content)));
    print(&text!("`{}` brings:\n{}", shown, listed))?;
    if !yes && !terminal::is_interactive() {
        return Err(Failure::new(Status::Denied, format!("`{shown}` is not trusted: no terminal to ask on"))
            .hint("`pinion trust add --yes` trusts what is listed"));
    }
    if !yes && !ask(directory, &content)? {
        return Err(Failure::new(Status::Denied, format!("`{shown}` is not trusted")));
    }
    content.trust(directory, paths, wished(paths)?.iter().any(|entry| entry == directory))?;
    print(&text!("trusted `{}` (any change needs your consent again)\n", shown))
}

fn remove(paths: &Paths, workspace: &Path, named: Option<&Path>) -> Result<()> {
    // The directory may be gone, in which case its path has to do.
    let named = named.map_or_else(|| workspace.to_owned(), |named| workspace.join(named));
    let directory = named.canonicalize().unwrap_or_else(|_| crate::files::repository::normal(&named));
    let is_wished = wished(paths)?.contains(&directory);
    Records::remove(paths, &directory, is_wished)?;
    let shown = line(&directory.to_string_lossy());
    let note = match is_wished {
        true => format!(" (`trusted` in `{}` still names it, without effect)", paths.config_file().display()),
        false => String::new(),
    };
    print(&text!("no longer trusting `{}`{}\n", shown, note))
}

/// Asks on the terminal if trusted content has changed. Returns whether the user trusts the current content.
///
/// # Errors
/// The terminal cannot be used, or the answer cannot be recorded.
pub(crate) fn ask_again(paths: &Paths, workspace: &Path, config: &Config) -> Result<bool> {
    let project = &config.project;
    if !project.is_changed() {
        return Ok(false);
    }
    let changes: String = project.changes().iter().map(|change| format!("  {change}\n")).collect();
    let (listed, settings) = (project.content().describe(), settings(paths, project.content()));
    print(&text!(
        "`.pinion` of this project changed since you trusted it:\n{}It now brings:\n{}{}",
        Text::complete(&changes),
        Text::complete(&listed),
        Text::complete(&settings)
    ))?;
    if !ask(workspace, project.content())? {
        return Ok(false);
    }
    project.trust(paths)?;
    Ok(true)
}

/// Asks whether to trust the content. The question counts the files, because a long list may have scrolled away.
fn ask(directory: &Path, content: &Content) -> Result<bool> {
    let (files, plugins) = (content.digests().count(), content.plugins().count());
    let shown = line(&directory.to_string_lossy());
    let question = format!("Trust exactly these {files} files in `{shown}`, {plugins} of them plugins?");
    confirm(&text!("{}", question)).map_err(stdout_failure)
}

/// Describes the settings of the project's config, and which of them are ignored.
fn settings(paths: &Paths, content: &Content) -> String {
    let Some(text) = content.config() else { return String::new() };
    match Config::preview(paths, text) {
        Ok(restricted) => {
            let sets: String = restricted.table.to_string().lines().map(|text| format!("  {}\n", line(text))).collect();
            let ignored: String = restricted.notices.iter().map(|notice| format!("  {notice}\n")).collect();
            format!("The config sets:\n{sets}{ignored}")
        }
        Err(failure) => format!("{}\n", line(&failure.to_string())),
    }
}

/// Returns the directories that the user's config trusts, without links if they exist.
fn wished(paths: &Paths) -> Result<Vec<PathBuf>> {
    let entries = Config::trusted(paths)?;
    let canonical = |entry: PathBuf| entry.canonicalize().unwrap_or(entry);
    entries.iter().map(|entry| fixed(entry, paths).map(canonical)).collect()
}
