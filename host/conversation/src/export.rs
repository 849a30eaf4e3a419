//! `/export`: the conversation as a document.

use pinion_app::failure::{Failure, Result};
use pinion_app::files::repository::{Located, Make, Refusal};
use pinion_app::run::session::OpenSession;
use pinion_app::sessions::short_id;
use pinion_app::workspace_base::Base;
use pinion_console::output::{CleanWriter, stdout_failure};
use pinion_session_store::{ExportFormat, RenderError, Transcript};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The remedy for a file without a known extension.
pub const ENDINGS: &str = "use `.html` or `.md`";

/// Writes a session to a file and returns its name. Without one, the file is called like the session.
///
/// # Errors
/// Nothing of the session is saved, no format has the extension, or the file cannot be written.
pub(crate) fn export(base: &Base, session: &OpenSession, file: &str) -> Result<PathBuf> {
    let saved = session.on_disk.as_ref().filter(|saved| saved.path().exists());
    let saved = saved.ok_or_else(|| Failure::failed("there is no saved session to export"))?;
    let file = match file.trim() {
        "" => format!("pinion-{}.md", short_id(&session.id)).into(),
        file => PathBuf::from(file),
    };
    export_file(base, saved.path(), &file)?;
    Ok(file)
}

/// Writes a session to a file, in the format of its extension.
///
/// # Errors
/// The extension belongs to no format, or the file cannot be written.
fn export_file(base: &Base, session: &Path, file: &Path) -> Result<()> {
    let format = format_of(file).map_err(|failure| failure.hint(ENDINGS))?;
    export_to(base, &mut Transcript::open(session).map_err(Failure::from)?, format, file)
}

/// Writes a session to a file.
///
/// # Errors
/// The session cannot be read, or the file cannot be written.
pub fn export_to(base: &Base, transcript: &mut Transcript, format: ExportFormat, file: &Path) -> Result<()> {
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
pub fn format_of(file: &Path) -> Result<ExportFormat> {
    match file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        Some("md" | "markdown") => Ok(ExportFormat::Markdown),
        Some("html" | "htm") => Ok(ExportFormat::Html),
        _ => Err(Failure::usage(format!("no format is known for the extension of `{}`", file.display()))),
    }
}

/// Turns the outcome of writing a session into a command's outcome.
pub fn outcome(shown: std::result::Result<(), RenderError>) -> Result<()> {
    match shown {
        Ok(()) => Ok(()),
        // A reader that closed the pipe, such as `head`, has seen enough.
        Err(RenderError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(RenderError::Output(error)) => Err(stdout_failure(error)),
        Err(RenderError::Session(error)) => Err(error.into()),
    }
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
