//! The folder of all sessions: begin one, find one, list them.
//!
//! Nothing here reads whole files: sorting needs only what the file system says, and a summary the file's beginning.

use crate::error::SessionError;
use crate::files;
use crate::format;
use crate::header::Header;
use crate::id;
use crate::session::Session;
use crate::summary::{Found, Summary, summary};
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many ids an error names.
const CANDIDATES: usize = 10;
/// The folder in which all sessions are kept. It need not exist before the first of them does.
#[derive(Debug, Clone)]
pub struct SessionFolder {
    root: PathBuf,
}

/// Which sessions.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Of all workspaces.
    All,
    /// Of the workspace with this absolute path.
    Workspace(&'a Path),
}

/// The sessions of a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be opened, the one written to last first.
    pub sessions: Vec<Summary>,
    /// What could not be listed, and why.
    pub unreadable: Vec<SessionError>,
}

impl SessionFolder {
    /// Keeps sessions in `root`. Touches no disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A new session of `workspace`, an absolute path. Its file is made when something is said in it.
    pub fn begin(&self, workspace: &Path) -> Session {
        let header = Header { id: id::new_session_id(), workspace: workspace.to_owned(), created: format::now() };
        Session::with_header(&files::path_of(&self.root, &header), header)
    }

    /// All sessions of `scope` in which something was said, the one written to last first. Broken files are told apart
    /// and hinder nothing.
    ///
    /// # Errors
    /// The folder itself cannot be read.
    pub fn list(&self, scope: Scope<'_>) -> Result<Listing, SessionError> {
        let mut listing = Listing::default();
        for found in self.files(scope, &mut listing.unreadable)? {
            match summary(&found) {
                Ok(Some(summary)) => listing.sessions.push(summary),
                Ok(None) => {}
                Err(error) => listing.unreadable.push(error),
            }
        }
        Ok(listing)
    }

    /// The session of `workspace` that was written to last; none when there is none in which something was said.
    ///
    /// # Errors
    /// The folder or that session cannot be read, or it has a version that this program does not know.
    pub fn latest(&self, workspace: &Path) -> Result<Option<Summary>, SessionError> {
        for found in self.files(Scope::Workspace(workspace), &mut Vec::new())? {
            match summary(&found) {
                Ok(None) | Err(SessionError::NotASession { .. }) => {}
                latest => return latest,
            }
        }
        Ok(None)
    }

    /// The file of the one session of any workspace whose id begins with `prefix`.
    ///
    /// # Errors
    /// There is none, or more than one; the error names ids that would do.
    pub fn find(&self, prefix: &str) -> Result<PathBuf, SessionError> {
        let files = self.files(Scope::All, &mut Vec::new())?;
        let wanted = prefix.to_ascii_lowercase();
        let begins = |found: &&Found| !wanted.is_empty() && files::id_of(&found.path).starts_with(&wanted);
        let matching: Vec<&Found> = files.iter().filter(begins).collect();
        let prefix = prefix.to_owned();
        match matching.as_slice() {
            [one] => Ok(one.path.clone()),
            [] => Err(SessionError::UnknownId { prefix, recent: ids(files.iter()) }),
            many => {
                let candidates = ids(many.iter().copied());
                Err(SessionError::AmbiguousId { prefix, count: many.len(), candidates })
            }
        }
    }

    /// The files of `scope`, the one written to last first.
    fn files(&self, scope: Scope<'_>, failed: &mut Vec<SessionError>) -> Result<Vec<Found>, SessionError> {
        let mut files = Vec::new();
        match scope {
            Scope::Workspace(workspace) => {
                find_in(&self.root.join(files::project_slug(workspace)), &mut files, failed)?;
            }
            Scope::All => {
                for folder in read_folder(&self.root)? {
                    let found = if folder.is_dir() { find_in(&folder, &mut files, failed) } else { Ok(()) };
                    failed.extend(found.err());
                }
            }
        }
        files.sort_unstable_by(|a, b| (Reverse(a.modified), &b.path).cmp(&(Reverse(b.modified), &a.path)));
        Ok(files)
    }
}

fn ids<'a>(files: impl Iterator<Item = &'a Found>) -> Vec<String> {
    files.take(CANDIDATES).map(|found| files::id_of(&found.path)).collect()
}

/// What is in a folder; nothing when it does not exist.
fn read_folder(folder: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SessionError::io("read", folder))?,
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(SessionError::io("read", folder))
}

/// Adds the session files of a folder. An empty file is one in which nothing was said yet; a pipe or device is passed
/// over, for reading it could take for ever.
fn find_in(folder: &Path, files: &mut Vec<Found>, failed: &mut Vec<SessionError>) -> Result<(), SessionError> {
    for path in read_folder(folder)? {
        if path.extension().is_none_or(|extension| extension != files::EXTENSION) {
            continue;
        }
        match fs::metadata(&path).and_then(|found| Ok((found.modified()?, found))) {
            Ok((modified, found)) if found.is_file() && found.len() > 0 => {
                files.push(Found { path, modified, size: found.len() })
            }
            Ok(_) => {}
            Err(error) => failed.push(SessionError::io("read", &path)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
