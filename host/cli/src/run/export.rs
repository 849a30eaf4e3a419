//! `/export`: the conversation as a document.

use crate::commands::session::{export_file, short_id};
use pinion_app::base::Base;
use pinion_app::failure::{Failure, Result};
use pinion_app::run::session::OpenSession;
use std::path::PathBuf;

/// The name of the command.
pub(crate) const NAME: &str = "export";

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
