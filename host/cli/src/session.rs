//! `pinion session`: looking at sessions.

use crate::args::SessionCommand;
use crate::compose::{Base, session_failure};
use crate::failure::{Failure, Result, Status};
use crate::render::bytes;
use crate::{print_out, stdout_failure};
use pinion_session_store::{RenderError, Scope, SessionFolder, Summary, Transcript, printable, render};
use std::io::{self, BufWriter, Write as _};

/// Characters of a title.
const TITLE: usize = 60;

pub(crate) fn run(base: &Base, command: SessionCommand) -> Result<()> {
    let folder = SessionFolder::new(base.paths.sessions());
    match command {
        SessionCommand::List { all } => list(base, &folder, all),
        SessionCommand::Show { id } => show(&folder, &id),
    }
}

fn list(base: &Base, folder: &SessionFolder, all: bool) -> Result<()> {
    let scope = if all { Scope::All } else { Scope::Workspace(&base.workspace) };
    let listing = folder.list(scope).map_err(session_failure)?;
    for problem in &listing.unreadable {
        let _ = writeln!(io::stderr(), "! {}", crate::failure::chain(problem));
    }
    if listing.sessions.is_empty() {
        let _ =
            writeln!(io::stderr(), "no sessions{}", if all { "" } else { " of this folder; --all lists those of all" });
    }
    let lines: String = listing.sessions.iter().map(|summary| format!("{}\n", row(summary, all))).collect();
    print_out(&lines)
}

fn row(summary: &Summary, all: bool) -> String {
    let folder = summary.header.as_ref().filter(|_| all).map(|header| format!("  {}", header.workspace.display()));
    format!("{}{}", line(summary), folder.unwrap_or_default())
}

/// A session on one line: the beginning of its id, when it was last used, its size, what it begins with.
pub(crate) fn line(summary: &Summary) -> String {
    let id: String = summary.id.chars().take(8).collect();
    let when = summary.last_activity.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    let title = summary.title.as_deref().unwrap_or("(nothing said)");
    let title: String = printable(title).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE).collect();
    format!("{id}  {when}  {:>9}  {title}", bytes(summary.size))
}

fn show(folder: &SessionFolder, id: &str) -> Result<()> {
    let path = folder.find(id).map_err(session_failure)?;
    let mut transcript = Transcript::open(&path).map_err(session_failure)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = render(&mut transcript, &mut out).and_then(|()| out.flush().map_err(RenderError::Output));
    match shown {
        Ok(()) => Ok(()),
        // A reader that has left, such as `head`, has seen enough.
        Err(RenderError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(RenderError::Output(error)) => Err(stdout_failure(&error)),
        Err(error) => Err(Failure::of(Status::Failed, &error)),
    }
}
