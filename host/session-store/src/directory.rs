//! The folder of all sessions: begin one, find one, list them.
//!
//! Nothing here reads whole files: sorting needs only what the file system says, and a summary the file's beginning.

use crate::delete;
use crate::error::{SessionError, SessionErrorKind, Subject};
use crate::files;
use crate::fork;
use crate::header::Header;
use crate::id::EntryId;
use crate::session::Session;
use crate::summary::{Found, Summary, summary};
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many ids an error names.
const CANDIDATES: usize = 10;
/// How deep folders are looked into, from the root of the file system.
const MOST_NESTED: usize = 64;

/// The folder in which all sessions are kept. It need not exist before the first of them does.
#[derive(Debug, Clone)]
pub struct SessionDirectory {
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

impl SessionDirectory {
    /// Keeps sessions in `root`. Touches no disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A new session of `workspace`, an absolute path. Its file is made when something is said in it.
    pub fn begin(&self, workspace: &Path) -> Session {
        let header = Header::new(workspace);
        Session::with_header(&files::path_of(&self.root, &header), header)
    }

    /// The sessions of the sub-agents of the session in the file `path`, the one written to last first.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn children(&self, path: &Path) -> Result<Listing, SessionError> {
        let (mut listing, mut files) = (Listing::default(), Vec::new());
        find_in(&files::children_of(path), &mut files, &mut listing.unreadable)?;
        sort(&mut files);
        summarise(files, &mut listing);
        Ok(listing)
    }

    /// Copies a branch of the session in the file `source` to a new session, and gives its file: the entries up to `at`,
    /// or to where the conversation stands. They keep their ids and times; the header names the source and its last
    /// entry. Entries whose line is broken are left out. The source may be in use, and is not changed. `workspace` is the
    /// new session's when the source does not say which it has.
    ///
    /// The new session appears whole or not at all.
    ///
    /// # Errors
    /// There is no such entry, or none at all, or the source cannot be read, or the copy not be written.
    pub fn fork(&self, source: &Path, at: Option<EntryId>, workspace: &Path) -> Result<PathBuf, SessionError> {
        fork::fork(source, at, &self.root, workspace)
    }

    /// Deletes the session in the file `path`, with what was set aside of it and the sessions of its sub-agents. For ever.
    ///
    /// # Errors
    /// It is no session, or a process writes to it or to one of those of its sub-agents: nothing is deleted then. Or the
    /// system refuses: what could not be deleted is named, and what came before it is gone.
    pub fn delete(&self, path: &Path) -> Result<(), SessionError> {
        delete::delete(path)
    }

    /// All sessions of `scope` in which something was said, the one written to last first. Broken files are told apart
    /// and hinder nothing.
    ///
    /// # Errors
    /// The folder itself cannot be read.
    pub fn list(&self, scope: Scope<'_>) -> Result<Listing, SessionError> {
        let mut listing = Listing::default();
        let files = self.files(scope, &mut listing.unreadable)?;
        summarise(files, &mut listing);
        Ok(listing)
    }

    /// The session of `workspace` that was written to last; none when there is none in which something was said.
    ///
    /// # Errors
    /// The folder or that session cannot be read, or it has a version that this program does not know.
    pub fn latest(&self, workspace: &Path) -> Result<Option<Summary>, SessionError> {
        for found in self.files(Scope::Workspace(workspace), &mut Vec::new())? {
            match summary(&found) {
                Ok(None) | Err(SessionError { kind: SessionErrorKind::Corrupt, .. }) => {}
                latest => return latest,
            }
        }
        Ok(None)
    }

    /// The file of the one session of any workspace whose id begins with `prefix`, also of a sub-agent.
    ///
    /// # Errors
    /// There is none, or more than one; the error names ids that would do.
    pub fn find(&self, prefix: &str) -> Result<PathBuf, SessionError> {
        let mut files = self.files(Scope::All, &mut Vec::new())?;
        add_children(&mut files);
        let wanted = prefix.to_ascii_lowercase();
        let begins = |found: &&Found| !wanted.is_empty() && files::id_of(&found.path).starts_with(&wanted);
        let matching: Vec<&Found> = files.iter().filter(begins).collect();
        let kind = match matching.as_slice() {
            [one] => return Ok(one.path.clone()),
            [] => SessionErrorKind::NotFound { recent: ids(files.iter()) },
            many => SessionErrorKind::Ambiguous { count: many.len(), candidates: ids(many.iter().copied()) },
        };
        Err(SessionError { subject: Subject::Id(prefix.to_owned()), kind })
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
        sort(&mut files);
        Ok(files)
    }
}

/// The file written to last first.
fn sort(files: &mut [Found]) {
    files.sort_unstable_by(|a, b| (Reverse(a.modified), &b.path).cmp(&(Reverse(b.modified), &a.path)));
}

fn summarise(files: Vec<Found>, listing: &mut Listing) {
    for found in files {
        match summary(&found) {
            Ok(Some(summary)) => listing.sessions.push(summary),
            Ok(None) => {}
            Err(error) => listing.unreadable.push(error),
        }
    }
}

/// Adds the sessions of sub-agents, and of theirs. A folder that cannot be read hides what is in it.
fn add_children(files: &mut Vec<Found>) {
    let mut at = 0;
    while let Some(found) = files.get(at) {
        let folder = files::children_of(&found.path);
        if folder.is_dir() && folder.components().count() <= MOST_NESTED {
            let _ = find_in(&folder, files, &mut Vec::new());
        }
        at += 1;
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
#[path = "directory_tests.rs"]
mod tests;
