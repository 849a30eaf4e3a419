//! Saved sessions: their short names, and their deletion with everything that belongs to them.

use crate::failure::{Failure, Result};
use crate::workspace_base::Base;
use pinion_session_store::{SessionDirectory, Summary, Transcript};
use std::io;
use std::path::Path;

/// Returns the beginning of an ID, which is enough to name a session.
pub fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Deletes a session and its sub-agents' sessions, with the long output of its programs and the values of plugins.
/// Returns its name for people.
///
/// # Errors
/// A process has the session, or the system refuses.
pub fn delete_whole(base: &Base, path: &Path) -> Result<String> {
    let directory = SessionDirectory::new(base.paths.sessions());
    let transcript = Transcript::open(path).ok();
    let children = descendants(&directory, path);
    directory.delete(path).map_err(Failure::from)?;
    let Some(header) = transcript.as_ref().and_then(Transcript::header) else { return Ok(path.display().to_string()) };
    let failed = |error: io::Error| Failure::failed("could not delete the output of its programs").because(error);
    crate::files::output_directories::delete(&base.paths.output(), &header.id).map_err(failed)?;
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
