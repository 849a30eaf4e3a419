//! The directory of the sessions of a user: create a session, find one, list them.
//!
//! Nothing here reads a whole file: sorting uses the metadata of the file system, and a summary the start of each file.

use crate::delete;
use crate::error::{ErrorSubject, SessionError, SessionErrorKind};
use crate::files;
use crate::fork::{self, ForkWorkspace};
use crate::header::SessionHeader;
use crate::id::EntryId;
use crate::lock::require_file;
use crate::name::{self, SessionFileName};
use crate::session::Session;
use crate::summary::{SessionFile, Summary, summary};
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most ids that an error names.
const MAX_CANDIDATES: usize = 10;
/// The deepest directory that is searched, counted from the root of the file system.
const MAX_DEPTH: usize = 64;

/// The directory of the sessions of a user, of every workspace. The first session creates it.
#[derive(Debug, Clone)]
pub struct SessionDirectory {
    root: PathBuf,
}

/// The sessions that a list includes.
#[derive(Debug, Clone, Copy)]
pub enum ListScope<'a> {
    /// Sessions of every workspace.
    All,
    /// Sessions of the workspace with this absolute path.
    Workspace(&'a Path),
}

/// A list of sessions.
#[derive(Debug, Default)]
pub struct SessionListing {
    /// The sessions that can be opened, the last written first.
    pub sessions: Vec<Summary>,
    /// The files that could not be read, each with the reason.
    pub unreadable: Vec<SessionError>,
}

impl SessionDirectory {
    /// Uses `root` as the directory. Touches no disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Creates a session of `workspace`, an absolute path. The first message creates its file.
    pub fn begin(&self, workspace: &Path) -> Session {
        let header = SessionHeader::new(workspace);
        Session::with_header(&files::path_of(&self.root, &header), header)
    }

    /// Lists the sessions of the sub-agents of the session in the file `path`, the last written first.
    ///
    /// # Errors
    /// The directory of these sessions cannot be read.
    pub fn children(&self, path: &Path) -> Result<SessionListing, SessionError> {
        let (mut listing, mut files) = (SessionListing::default(), Vec::new());
        find_in(&files::children_of(path), &mut files, &mut listing.unreadable)?;
        sort(&mut files);
        summarize(files, &mut listing);
        Ok(listing)
    }

    /// Copies a branch of the session in the file `source` to a new session, and returns its file: the entries up to
    /// `at`, or the current branch. Entries keep their ids and times; the header names the source and its last entry.
    /// Skips entries whose line is broken. The source may be in use, and is not changed. `workspace` is used when the
    /// source does not name its own.
    ///
    /// The new session appears complete or not at all.
    ///
    /// # Errors
    /// There is no such entry, the source is empty or cannot be read, or the copy cannot be written.
    pub fn fork(&self, source: &Path, at: Option<EntryId>, workspace: &Path) -> Result<PathBuf, SessionError> {
        fork::fork(source, at, &self.root, ForkWorkspace::OfSource { or: workspace })
    }

    /// Copies the current branch like [`Self::fork`], to a session of `workspace`, even if the source has another one.
    ///
    /// # Errors
    /// See [`Self::fork`].
    pub fn fork_into(&self, source: &Path, workspace: &Path) -> Result<PathBuf, SessionError> {
        fork::fork(source, None, &self.root, ForkWorkspace::Other(workspace))
    }

    /// Returns the workspace of the session in the file `path`; `None` if its first line is lost.
    ///
    /// # Errors
    /// The file cannot be read, or is not a session.
    pub fn workspace_of(&self, path: &Path) -> Result<Option<PathBuf>, SessionError> {
        let found = fs::metadata(path).map_err(SessionError::io("read", path))?;
        let modified = found.modified().map_err(SessionError::io("read", path))?;
        let found = summary(&SessionFile { path: path.to_owned(), modified, size: found.len() })?;
        Ok(found.and_then(|summary| summary.header).map(|header| header.workspace))
    }

    /// Permanently deletes the session in the file `path`, the parts that were moved out of it, and the sessions of its
    /// sub-agents.
    ///
    /// # Errors
    /// The file is not a session, or a process writes to the session or to one of its sub-agents: nothing is deleted
    /// then. Or the system refuses: the error names the file, and files before it are deleted.
    pub fn delete(&self, path: &Path) -> Result<(), SessionError> {
        delete::delete(path)
    }

    /// Names the session in the file `path`; an empty name removes the one that it has. Works while a process writes to
    /// the session.
    ///
    /// # Errors
    /// The file is not a session, or the name cannot be written.
    pub fn rename(&self, path: &Path, name: &str) -> Result<(), SessionError> {
        require_file(path)?;
        name::write(path, SessionFileName::OfUser, name)
    }

    /// Lists the sessions of `scope` that have entries, the last written first. Also reports files that cannot be read.
    ///
    /// # Errors
    /// The directory itself cannot be read.
    pub fn list(&self, scope: ListScope<'_>) -> Result<SessionListing, SessionError> {
        let mut listing = SessionListing::default();
        let files = self.files(scope, &mut listing.unreadable)?;
        summarize(files, &mut listing);
        Ok(listing)
    }

    /// Lists the sessions that the agent with this id created, in every workspace, including sessions of sub-agents,
    /// the last written first.
    ///
    /// # Errors
    /// The directory itself cannot be read.
    pub fn list_of_agent(&self, agent_id: &str) -> Result<SessionListing, SessionError> {
        let mut listing = SessionListing::default();
        let mut files = self.files(ListScope::All, &mut listing.unreadable)?;
        add_children(&mut files);
        sort(&mut files);
        summarize(files, &mut listing);
        let is_of_agent = |header: &SessionHeader| header.agent_id.as_deref() == Some(agent_id);
        listing.sessions.retain(|summary| summary.header.as_ref().is_some_and(is_of_agent));
        Ok(listing)
    }

    /// Returns the session of `workspace` that was written last; `None` when no session has entries.
    ///
    /// # Errors
    /// The directory or that session cannot be read, or the session has an unknown version.
    pub fn latest(&self, workspace: &Path) -> Result<Option<Summary>, SessionError> {
        for found in self.files(ListScope::Workspace(workspace), &mut Vec::new())? {
            match summary(&found) {
                Ok(None) | Err(SessionError { kind: SessionErrorKind::Corrupt, .. }) => {}
                latest => return latest,
            }
        }
        Ok(None)
    }

    /// Returns the file of the only session whose id starts with `prefix`, in any workspace, sub-agents' sessions
    /// included.
    ///
    /// # Errors
    /// No session matches, or more than one does; the error names candidates.
    pub fn find(&self, prefix: &str) -> Result<PathBuf, SessionError> {
        let mut files = self.files(ListScope::All, &mut Vec::new())?;
        add_children(&mut files);
        let wanted = prefix.to_ascii_lowercase();
        let begins = |found: &&SessionFile| !wanted.is_empty() && files::id_of(&found.path).starts_with(&wanted);
        let matching: Vec<&SessionFile> = files.iter().filter(begins).collect();
        let kind = match matching.as_slice() {
            [one] => return Ok(one.path.clone()),
            [] => SessionErrorKind::NotFound { recent: ids(files.iter()) },
            many => SessionErrorKind::Ambiguous { count: many.len(), candidates: ids(many.iter().copied()) },
        };
        Err(SessionError { subject: ErrorSubject::Id(prefix.to_owned()), kind })
    }

    /// Returns the files of `scope`, the last written first.
    fn files(&self, scope: ListScope<'_>, failed: &mut Vec<SessionError>) -> Result<Vec<SessionFile>, SessionError> {
        let mut files = Vec::new();
        match scope {
            ListScope::Workspace(workspace) => {
                find_in(&self.root.join(files::project_slug(workspace)), &mut files, failed)?;
            }
            ListScope::All => {
                for directory in read_directory(&self.root)? {
                    let found = if directory.is_dir() { find_in(&directory, &mut files, failed) } else { Ok(()) };
                    failed.extend(found.err());
                }
            }
        }
        sort(&mut files);
        Ok(files)
    }
}

/// Sorts files, the last written first.
fn sort(files: &mut [SessionFile]) {
    files.sort_unstable_by(|a, b| (Reverse(a.modified), &b.path).cmp(&(Reverse(b.modified), &a.path)));
}

fn summarize(files: Vec<SessionFile>, listing: &mut SessionListing) {
    for found in files {
        match summary(&found) {
            Ok(Some(summary)) => listing.sessions.push(summary),
            Ok(None) => {}
            Err(error) => listing.unreadable.push(error),
        }
    }
}

/// Adds the sessions of sub-agents, and of theirs. Skips a directory that cannot be read.
fn add_children(files: &mut Vec<SessionFile>) {
    let mut at = 0;
    while let Some(found) = files.get(at) {
        let directory = files::children_of(&found.path);
        if directory.is_dir() && directory.components().count() <= MAX_DEPTH {
            let _ = find_in(&directory, files, &mut Vec::new());
        }
        at += 1;
    }
}

fn ids<'a>(files: impl Iterator<Item = &'a SessionFile>) -> Vec<String> {
    files.take(MAX_CANDIDATES).map(|found| files::id_of(&found.path)).collect()
}

/// Returns the paths in a directory; an empty list when it does not exist.
fn read_directory(directory: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SessionError::io("read", directory))?,
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(SessionError::io("read", directory))
}

/// Adds the session files of a directory. Skips empty files, which are sessions without entries, and pipes and devices,
/// whose reading could block without end.
fn find_in(directory: &Path, files: &mut Vec<SessionFile>, failed: &mut Vec<SessionError>) -> Result<(), SessionError> {
    for path in read_directory(directory)? {
        if path.extension().is_none_or(|extension| extension != files::EXTENSION) {
            continue;
        }
        match fs::metadata(&path).and_then(|found| Ok((found.modified()?, found))) {
            Ok((modified, found)) if found.is_file() && found.len() > 0 => {
                files.push(SessionFile { path, modified, size: found.len() })
            }
            Ok(_) => {}
            Err(error) => failed.push(SessionError::io("read", &path)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
