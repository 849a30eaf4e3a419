//! `pinion session`: lists, shows, exports, forks, rewinds and deletes sessions.

use crate::approve::confirm::confirm;
use crate::commands::rewind::Rewind;
use crate::invocation::Invocation;
use crate::output::CleanWriter;
use crate::output::terminal::is_interactive;
use crate::output::{PartExt, Text, age, count, document, fit, left, note, print, stdout_failure, text};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use pinion_app::base::Base;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::repository::{Located, Make, Refusal};
use pinion_session_store::{
    EntryId, ExportFormat, RenderError, Runs, Scope, SessionDirectory, Summary, Transcript, render, render_branch,
};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Columns of a title.
const TITLE: usize = 27;
/// The remedy for a file without a known extension.
const ENDINGS: &str = "use `.html` or `.md`";
/// Columns of the name of a model.
const MODEL: usize = 20;

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
        /// Format of the document [default: from the extension of FILE, or html on stdout]
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

impl Session {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let directory = SessionDirectory::new(base.paths.sessions());
        match self.command {
            SessionCommand::List { all } => list(&base, &directory, all),
            SessionCommand::Show { id, branch } => show(&directory, &id, branch),
            SessionCommand::Export { id, format, out } => export(&base, &directory, &id, format, out.as_deref()),
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

fn list(base: &Base, directory: &SessionDirectory, all: bool) -> Result<()> {
    let scope = if all { Scope::All } else { Scope::Workspace(&base.workspace) };
    let listing = directory.list(scope).map_err(Failure::from)?;
    for problem in &listing.unreadable {
        note(&text!("! {}", Text::block(pinion_app::failure::with_causes(problem))));
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

/// Describes a session in one line: a prefix of its ID, its age, what it did and spent, and its title.
pub(crate) fn line(summary: &Summary) -> Text {
    let age = age(Timestamp::now().duration_since(summary.last_activity).as_secs());
    let title = summary.title.as_deref().unwrap_or("(no prompt)");
    let work = Work::of(summary);
    let cost = work.cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.2}"));
    let id = short_id(&summary.id);
    columns([id.text(), age.text(), work.turns.text(), cost.text(), fit(&work.model, MODEL), fit(title, TITLE)])
}

fn columns([id, age, turns, cost, model, title]: [Text; 6]) -> Text {
    text!("{} {} {} {} {} {}", left(id, 8), left(age, 9), left(turns, 5), left(cost, 6), left(model, MODEL), title)
}

/// Returns the beginning of an ID, which is enough to name a session.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// The sum of the runs of a session.
#[derive(Default)]
struct Work {
    turns: u32,
    /// The cost in US dollars; none until a run with known prices has ended.
    cost: Option<f64>,
    /// The model of the last run.
    model: String,
}

impl Work {
    /// Reads the records of a session. One that cannot be read is listed without them.
    fn of(summary: &Summary) -> Self {
        let runs = Transcript::open(&summary.path).and_then(|mut transcript| transcript.runs());
        let mut work = Self::default();
        for run in runs.iter().flat_map(Runs::iter) {
            let model = run.start.as_ref().and_then(|start| start.start.model.clone());
            work.model = model.unwrap_or(work.model);
            if let Some((_, end)) = &run.end {
                work.turns = work.turns.saturating_add(end.turns);
                work.cost = end.cost.map(|cost| work.cost.unwrap_or_default() + cost.total()).or(work.cost);
            }
        }
        work
    }
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

/// Writes a session to a file, in the format that the extension stands for.
///
/// # Errors
/// The extension stands for none, or the file cannot be written.
pub(crate) fn export_file(base: &Base, session: &Path, file: &Path) -> Result<()> {
    let format = format_of(file).map_err(|failure| failure.hint(ENDINGS))?;
    export_to(base, &mut Transcript::open(session).map_err(Failure::from)?, format, file)
}

fn export_to(base: &Base, transcript: &mut Transcript, format: ExportFormat, file: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    let mut document = CleanWriter::new(&mut bytes, base.secrets.clone());
    let written = pinion_session_store::export(transcript, format, &mut document);
    outcome(written.and_then(|()| document.flush().map_err(RenderError::Output)))?;
    drop(document);
    // A path in the repository may be a link that the user does not know of.
    let located = Located::find(&base.workspace, pinion_app::files::paths::home().as_deref(), file, Make::Nothing);
    let located = located.map_err(Refusal::Io);
    let replaced = located.and_then(|found| found.repository.replace(&found.path, &bytes));
    replaced.map_err(|error| Failure::failed(format!("could not write `{}`", file.display())).because(error))
}

/// Returns the format that the extension of a file stands for.
fn format_of(file: &Path) -> Result<ExportFormat> {
    match file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        Some("md" | "markdown") => Ok(ExportFormat::Markdown),
        Some("html" | "htm") => Ok(ExportFormat::Html),
        _ => Err(Failure::usage(format!("no format is known for the extension of `{}`", file.display()))),
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

/// Deletes a session and those of its sub-agents, with the long output of its programs and the values of plugins. Returns its
/// name for people.
///
/// # Errors
/// A process has the session, or the system refuses.
pub(crate) fn delete_whole(base: &Base, path: &Path) -> Result<String> {
    let directory = SessionDirectory::new(base.paths.sessions());
    let transcript = Transcript::open(path).ok();
    let children = descendants(&directory, path);
    directory.delete(path).map_err(Failure::from)?;
    let Some(header) = transcript.as_ref().and_then(Transcript::header) else { return Ok(path.display().to_string()) };
    let failed = |error: io::Error| Failure::failed("could not delete the output of its programs").because(error);
    pinion_app::files::spill::delete(&base.paths.output(), &header.id).map_err(failed)?;
    let failed = |error: io::Error| Failure::failed("could not delete the values of plugins").because(error);
    for id in children.iter().chain([&header.id]) {
        base.plugin_storage().remove_session(id).map_err(failed)?;
    }
    Ok(short_id(&header.id).to_owned())
}

/// Returns the ids of the sessions of sub-agents, at any depth. Those that cannot be read are left out.
fn descendants(directory: &SessionDirectory, path: &Path) -> Vec<String> {
    let children = directory.children(path).map(|listing| listing.sessions).unwrap_or_default();
    let ids = |child: &Summary| {
        let own = child.header.iter().map(|header| header.id.clone());
        own.chain(descendants(directory, &child.path)).collect::<Vec<_>>()
    };
    children.iter().flat_map(ids).collect()
}

/// Lists sessions and asks whether to delete them.
fn confirm_deletion(directory: &SessionDirectory, paths: &[PathBuf]) -> Result<bool> {
    let listing = directory.list(Scope::All).map_err(Failure::from)?;
    let named = listing.sessions.iter().filter(|summary| paths.contains(&summary.path));
    named.for_each(|summary| note(&line(summary)));
    let question = format!("Permanently delete {}?", count(paths.len() as u64, "session"));
    confirm(&text!("{}", question)).map_err(stdout_failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_extension_is_not_a_format() {
        assert!(matches!(format_of(Path::new("a.HTML")), Ok(ExportFormat::Html)));
        assert!(matches!(format_of(Path::new("a.md")), Ok(ExportFormat::Markdown)));
        for file in ["a.pdf", "a", "md"] {
            assert!(format_of(Path::new(file)).is_err(), "{file}");
        }
    }
}
