//! `pinion session`: lists, shows, exports, forks, rewinds and deletes sessions, and prints their cost.

use crate::commands::rewind::Rewind;
use crate::commands::session_bisect::BisectArgs;
use crate::commands::session_step::StepArgs;
use clap::{Args, Subcommand, ValueEnum};
use pinion_app::failure::{Failure, Result};
use pinion_app::sessions::delete_whole;
use pinion_app::undo::patch::{PatchTarget, session_patch};
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::invocation::Invocation;
use pinion_console::output::terminal::{Style, is_interactive};
use pinion_console::output::{
    self, PartExt, Text, count, document, json, note, page, patch_writer, print, stdout_failure, text, written,
};
use pinion_conversation::cost::{CostGroup, cost_json, cost_table};
use pinion_conversation::export::{ENDINGS, export_to, format_of, outcome};
use pinion_conversation::session_list::{columns, described, line};
use pinion_session_store::{
    EntryId, ExportFormat, History, ListScope, RenderError, SessionDirectory, Summary, Transcript, render,
    render_branch,
};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// The arguments of `pinion session`.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// List the sessions of this directory, most recent first
    List {
        /// Include the sessions of all directories
        #[arg(short, long)]
        all: bool,
        /// Print the list as JSON, one session per line
        #[arg(long)]
        json: bool,
    },
    /// Print a session as text
    Show {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Show the branch that ends at this entry [default: the current branch]
        #[arg(long, value_name = "ENTRY")]
        branch: Option<EntryId>,
    },
    /// Export a session with all its branches as a document
    Export {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Format of the document [default: from the extension of FILE, or html on stdout]
        #[arg(short, long, value_name = "FORMAT")]
        format: Option<Export>,
        /// Write the document to this file [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the changes of a session to files as a patch for `git apply`
    Diff {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Write the patch to this file; - for stdout
        #[arg(long, value_name = "FILE", default_value = "-")]
        patch: PathBuf,
    },
    /// Print the cost of a session by turn, tool, MCP server or file
    Cost {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Group the cost by this part
        #[arg(long, value_name = "PART", default_value = "turn")]
        by: CostGroup,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the calls of a session one by one: imports, result and changes
    Step(StepArgs),
    /// Find the first call of a session after which a command fails
    Bisect(BisectArgs),
    /// Copy a session to a new one and print its ID
    Fork {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Copy up to this entry [default: the whole current branch]
        #[arg(long, value_name = "ENTRY")]
        at: Option<EntryId>,
    },
    /// Undo the last turns of a session: files and conversation
    Rewind(Rewind),
    /// Name a session, or remove its name
    Rename {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// New name [default: the first prompt]
        #[arg(value_name = "NAME")]
        name: Vec<String>,
    },
    /// Permanently delete sessions and their sub-agents' sessions
    Delete {
        /// IDs of the sessions, or unique prefixes of them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Delete without asking
        #[arg(short, long)]
        yes: bool,
    },
}

/// `session export --format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Export {
    /// Self-contained page for a browser
    Html,
    /// CommonMark
    Markdown,
}

impl SessionArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let directory = SessionDirectory::new(base.paths.sessions());
        match self.command {
            SessionCommand::List { all, json } => list(&base, &directory, all, json),
            SessionCommand::Show { id, branch } => show(&directory, &id, branch),
            SessionCommand::Export { id, format, out } => export(&base, &directory, &id, format, out.as_deref()),
            SessionCommand::Diff { id, patch } => diff(&base, &directory, &id, &patch),
            SessionCommand::Cost { id, by, json } => session_cost(&directory, &id, by, json),
            SessionCommand::Step(step) => step.run(&base, &directory).await,
            SessionCommand::Bisect(bisect) => bisect.run(&base, &directory, invocation.global.quiet).await,
            SessionCommand::Fork { id, at } => fork(&base, &directory, &id, at),
            SessionCommand::Rewind(rewind) => rewind.run(&base, &directory),
            SessionCommand::Rename { id, name } => {
                let path = directory.find(&id).map_err(Failure::from)?;
                directory.rename(&path, &base.secrets.clean(&name.join(" "))).map_err(Failure::from)
            }
            SessionCommand::Delete { ids, yes } => delete(&base, &directory, &ids, yes),
        }
    }
}

fn list(base: &Base, directory: &SessionDirectory, all: bool, as_json: bool) -> Result<()> {
    let scope = if all { ListScope::All } else { ListScope::Workspace(&base.workspace) };
    let listing = directory.list(scope).map_err(Failure::from)?;
    for problem in &listing.unreadable {
        note(&text!("! {}", Text::block(pinion_app::failure::with_causes(problem))));
    }
    if as_json {
        return listing.sessions.iter().try_for_each(|summary| written(json(&described(summary))));
    }
    if listing.sessions.is_empty() {
        note(&text!(
            "no sessions{}",
            if all { "" } else { " of this directory (--all lists those of all directories)" }
        ));
    }
    let mut lines = Text::default();
    // Programs that read the list do not expect a heading.
    if !listing.sessions.is_empty() && io::stdout().is_terminal() {
        lines.line(columns(["id", "last used", "turns", "cost", "model", "prompt"].map(PartExt::text)));
    }
    listing.sessions.iter().for_each(|summary| lines.line(row(summary, all)));
    print(&lines)
}

fn row(summary: &Summary, all: bool) -> Text {
    let directory = summary.header.as_ref().filter(|_| all).map(|header| text!("  {}", header.workspace));
    text!("{}{}", line(summary), directory)
}

fn show(directory: &SessionDirectory, id: &str, branch: Option<EntryId>) -> Result<()> {
    let mut transcript = open(directory, id)?;
    let mut out = document();
    let shown = match branch {
        Some(leaf) => render_branch(&mut transcript, leaf, &mut out),
        None => render(&mut transcript, &mut out),
    };
    outcome(shown.and_then(|()| out.flush().map_err(RenderError::Output)))
}

fn open(directory: &SessionDirectory, id: &str) -> Result<Transcript> {
    directory.find(id).and_then(|path| Transcript::open(&path)).map_err(Failure::from)
}

fn export(
    base: &Base,
    directory: &SessionDirectory,
    id: &str,
    format: Option<Export>,
    file: Option<&Path>,
) -> Result<()> {
    let format = match (format, file) {
        (Some(Export::Markdown), _) => ExportFormat::Markdown,
        (Some(Export::Html), _) | (None, None) => ExportFormat::Html,
        (None, Some(file)) => {
            format_of(file).map_err(|failure| failure.hint(format!("{ENDINGS}, or name one with --format")))?
        }
    };
    let mut transcript = open(directory, id)?;
    let Some(file) = file else {
        let mut out = document();
        let written = pinion_session_store::export(&mut transcript, format, &mut out);
        return outcome(written.and_then(|()| out.flush().map_err(RenderError::Output)));
    };
    export_to(base, &mut transcript, format, file)
}

fn diff(base: &Base, directory: &SessionDirectory, id: &str, file: &Path) -> Result<()> {
    let path = directory.find(id).map_err(Failure::from)?;
    let target = PatchTarget::new(&base.workspace, file);
    target.check()?;
    let is_stdout = target == PatchTarget::Stdout;
    let patch = session_patch(base, &path, target)?;
    let (notices, missing) = (patch.notices(), patch.missing().len());
    if patch.is_empty() && missing == 0 {
        note(&text!("no files were changed"));
    }
    match patch.put(&mut patch_writer()) {
        Err(error) if is_stdout => written(Err(error))?,
        Err(error) => {
            return Err(Failure::failed(format!("cannot write the patch to `{}`", file.display())).because(error));
        }
        Ok(()) => {}
    }
    notices.iter().for_each(|notice| note(&text!("! {}", Text::block(notice))));
    match missing {
        0 => Ok(()),
        missing => Err(Failure::failed(format!(
            "the patch is not complete: {} missing, because the checkpoints have no copy",
            count(missing as u64, "change")
        ))
        .hint("`max-file-bytes` and `max-bytes` in `[undo]` of the config limit the copies")),
    }
}

fn fork(base: &Base, directory: &SessionDirectory, id: &str, at: Option<EntryId>) -> Result<()> {
    let forked = pinion_app::run::session::fork(base, &directory.find(id).map_err(Failure::from)?, at)?;
    let transcript = Transcript::open(&forked).map_err(Failure::from)?;
    let id = transcript.header().map_or("", |header| &header.id);
    print(&text!("{}\n", id))
}

/// Deletes sessions up to the first failure, each with the long output of its programs and the values of plugins. Asks
/// first on a terminal.
fn delete(base: &Base, directory: &SessionDirectory, ids: &[String], yes: bool) -> Result<()> {
    let paths: std::result::Result<Vec<_>, _> = ids.iter().map(|id| directory.find(id)).collect();
    let mut paths = paths.map_err(Failure::from)?;
    paths.dedup();
    if !yes && is_interactive() && !confirm_deletion(directory, &paths)? {
        note(&text!("nothing was deleted"));
        return Ok(());
    }
    for path in &paths {
        note(&text!("deleted session {}", delete_whole(base, path)?));
    }
    Ok(())
}

/// Lists sessions and asks whether to delete them.
fn confirm_deletion(directory: &SessionDirectory, paths: &[PathBuf]) -> Result<bool> {
    let listing = directory.list(ListScope::All).map_err(Failure::from)?;
    let named = listing.sessions.iter().filter(|summary| paths.contains(&summary.path));
    named.for_each(|summary| note(&line(summary)));
    let question = format!("Permanently delete {}?", count(paths.len() as u64, "session"));
    confirm(&text!("{}", question)).map_err(stdout_failure)
}

/// Prints the cost of a session.
fn session_cost(directory: &SessionDirectory, id: &str, group: CostGroup, is_json: bool) -> Result<()> {
    let path = directory.find(id).map_err(Failure::from)?;
    let events = History::read(&path).map_err(Failure::from)?.into_events(Some(&path));
    match is_json {
        true => written(output::json(&cost_json(group, &events))),
        false => print(&text!("{}\n", page(&cost_table(group, &events), Style::of_stdout()))),
    }
}
