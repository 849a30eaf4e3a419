//! `pinion session`: lists, shows, exports, forks and deletes sessions.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::files::repository::{Located, Make, Refusal};
use crate::invocation::Invocation;
use crate::output::CleanWriter;
use crate::output::bytes;
use crate::output::{Text, document, fit, left, note, print, stdout_failure, text};
use clap::{Args, Subcommand, ValueEnum};
use pinion_session_store::{
    EntryId, ExportFormat, RenderError, Scope, SessionDirectory, Summary, Transcript, render, render_branch,
};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Columns of a title.
const TITLE: usize = 60;

/// The arguments of `pinion session`.
#[derive(Debug, Args)]
pub(crate) struct Session {
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
        /// Format of the document [default: markdown if FILE ends in .md, html otherwise]
        #[arg(short, long, value_name = "FORMAT")]
        format: Option<Export>,
        /// Write the document to this file [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Copy a session to a new one and print its ID
    Fork {
        /// ID of the session, or a unique prefix of it
        id: String,
        /// Copy up to this entry [default: the whole current branch]
        #[arg(long, value_name = "ENTRY")]
        at: Option<EntryId>,
    },
    /// Permanently delete sessions and their sub-agents' sessions
    Delete {
        /// IDs of the sessions, or unique prefixes of them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
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

impl Session {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let directory = SessionDirectory::new(base.paths.sessions());
        match self.command {
            SessionCommand::List { all } => list(&base, &directory, all),
            SessionCommand::Show { id, branch } => show(&directory, &id, branch),
            SessionCommand::Export { id, format, out } => export(&base, &directory, &id, format, out.as_deref()),
            SessionCommand::Fork { id, at } => fork(&base, &directory, &id, at),
            SessionCommand::Delete { ids } => delete(&base, &directory, &ids),
        }
    }
}

fn list(base: &Base, directory: &SessionDirectory, all: bool) -> Result<()> {
    let scope = if all { Scope::All } else { Scope::Workspace(&base.workspace) };
    let listing = directory.list(scope).map_err(Failure::from)?;
    for problem in &listing.unreadable {
        note(&text!("! {}", Text::block(crate::failure::chain(problem))));
    }
    if listing.sessions.is_empty() {
        note(&text!(
            "no sessions{}",
            if all { "" } else { " of this directory (--all lists those of all directories)" }
        ));
    }
    let mut lines = Text::default();
    listing.sessions.iter().for_each(|summary| lines.line(row(summary, all)));
    print(&lines)
}

fn row(summary: &Summary, all: bool) -> Text {
    let directory = summary.header.as_ref().filter(|_| all).map(|header| text!("  {}", header.workspace));
    text!("{}{}", line(summary), directory)
}

/// Describes a session in one line: a prefix of its ID, the time of its last use, its size and its title.
pub(crate) fn line(summary: &Summary) -> Text {
    let id: String = summary.id.chars().take(8).collect();
    let when = summary.last_activity.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    let title = summary.title.as_deref().unwrap_or("(no prompt)");
    let size = format!("{:>9}", bytes(summary.size));
    text!("{}  {}  {}  {}", left(id, 8), when.to_string(), size.as_str(), fit(title, TITLE))
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

fn outcome(shown: std::result::Result<(), RenderError>) -> Result<()> {
    match shown {
        Ok(()) => Ok(()),
        // A reader that closed the pipe, such as `head`, has seen enough.
        Err(RenderError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(RenderError::Output(error)) => Err(stdout_failure(error)),
        Err(RenderError::Session(error)) => Err(error.into()),
    }
}

fn export(
    base: &Base,
    directory: &SessionDirectory,
    id: &str,
    format: Option<Export>,
    file: Option<&Path>,
) -> Result<()> {
    let is_markdown = file.and_then(Path::extension).is_some_and(|ending| ending == "md" || ending == "markdown");
    let format = match format {
        Some(Export::Markdown) => ExportFormat::Markdown,
        Some(Export::Html) => ExportFormat::Html,
        None if is_markdown => ExportFormat::Markdown,
        None => ExportFormat::Html,
    };
    let mut transcript = open(directory, id)?;
    let Some(file) = file else {
        let mut out = document();
        let written = pinion_session_store::export(&mut transcript, format, &mut out);
        return outcome(written.and_then(|()| out.flush().map_err(RenderError::Output)));
    };
    let mut bytes = Vec::new();
    let mut document = CleanWriter::new(&mut bytes, base.secrets.clone());
    let written = pinion_session_store::export(&mut transcript, format, &mut document);
    outcome(written.and_then(|()| document.flush().map_err(RenderError::Output)))?;
    drop(document);
    // A path in the repository may be a link that the user does not know of.
    let located = Located::find(&base.workspace, crate::files::paths::home().as_deref(), file, Make::Nothing);
    let located = located.map_err(Refusal::Io);
    let replaced = located.and_then(|found| found.repository.replace(&found.path, &bytes));
    replaced.map_err(|error| Failure::failed(format!("could not write `{}`", file.display())).because(error))
}

fn fork(base: &Base, directory: &SessionDirectory, id: &str, at: Option<EntryId>) -> Result<()> {
    let forked =
        directory.find(id).and_then(|path| directory.fork(&path, at, &base.workspace)).map_err(Failure::from)?;
    let transcript = Transcript::open(&forked).map_err(Failure::from)?;
    let id = transcript.header().map_or("", |header| &header.id);
    print(&text!("{}\n", id))
}

/// Deletes sessions up to the first failure, each with the long output of its programs.
fn delete(base: &Base, directory: &SessionDirectory, ids: &[String]) -> Result<()> {
    let paths: std::result::Result<Vec<_>, _> = ids.iter().map(|id| directory.find(id)).collect();
    let mut paths = paths.map_err(Failure::from)?;
    paths.dedup();
    for path in &paths {
        let transcript = Transcript::open(path).ok();
        directory.delete(path).map_err(Failure::from)?;
        if let Some(header) = transcript.as_ref().and_then(Transcript::header) {
            let failed =
                |error: io::Error| Failure::failed("could not delete the output of its programs").because(error);
            crate::files::spill::delete(&base.paths.output(), &header.id).map_err(failed)?;
        }
    }
    Ok(())
}
