//! `pinion trust`: the projects whose content is trusted.

use clap::{Args, Subcommand};
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::paths::{self, Paths};
use pinion_app::trust::records::{Records, TrustRecord};
use pinion_app::trust::{ProjectContent, fixed};
use pinion_console::invocation::Invocation;
use pinion_console::output::terminal;
use pinion_console::output::{Text, line, note, print, text};
use pinion_conversation::trust_question::{ask, described};
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
        /// Any program that can write the file chooses the code to load. `trust add` without this option ends it.
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

/// Returns the directories that the user's config trusts, without links if they exist.
fn wished(paths: &Paths) -> Result<Vec<PathBuf>> {
    let entries = Config::trusted(paths)?;
    let canonical = |entry: PathBuf| entry.canonicalize().unwrap_or(entry);
    entries.iter().map(|entry| fixed(entry, paths).map(canonical)).collect()
}
