//! Roots of walks, and paths of files that are read.

use crate::paths::beneath::Spot;
use crate::types::WorkspaceError;
use cap_std::fs::Dir;
use pinion_exclusions::{FileId, Finder};
use std::path::PathBuf;
use std::sync::Arc;

/// The root of a walk.
#[derive(Debug)]
pub struct WalkRoot {
    /// The granted directory.
    pub directory: Dir,
    /// The path of the root in the granted directory, without links.
    pub relative: PathBuf,
    /// The root, resolved.
    pub spot: Spot,
    /// Paths below the root that are left out, as if they did not exist.
    pub denied: Vec<PathBuf>,
    /// Files that are listed and not read, and directories that are not descended into.
    pub exclusions: Arc<Finder>,
    /// The path as the plugin wrote it, for errors.
    pub path: String,
}

impl WalkRoot {
    /// Refuses an open file that is excluded, also if it took the place of the one that was found.
    pub(crate) fn refuse_excluded(&self, file: &std::fs::Metadata) -> Result<(), WorkspaceError> {
        match FileId::from_metadata(file).and_then(|id| self.exclusions.of_file(&id)) {
            None => Ok(()),
            Some(pattern) => {
                let text = format!("cannot read `{}`: {pattern}\nhint: {}", self.path, pattern.remedy());
                Err(WorkspaceError::Denied(text))
            }
        }
    }
}

/// Describes an error of the system at a path.
pub fn io_error(path: &str, error: &std::io::Error) -> WorkspaceError {
    match error.kind() {
        std::io::ErrorKind::NotFound => WorkspaceError::NotFound(format!("no such file or directory: `{path}`")),
        _ => WorkspaceError::Io(format!("`{path}`: {error}")),
    }
}
