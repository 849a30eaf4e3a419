//! Listing all directories of a workspace, with several threads.
//!
//! A directory whose time of change equals the time at the last listing has the same entries, so that it is not listed
//! again; no program can set that time.

use crate::find::LookError;
use crate::identity::{FileIdentity, changed, identity, step};
use crate::patterns::{Exclusions, Pattern};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Entries of the workspace that are listed at most.
pub(crate) const MAX_ENTRIES: usize = 2_000_000;
/// Time of one listing at most.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Threads that list directories together at most, and directories that are listed without them.
const THREADS: usize = 8;
const FEW: usize = 100;

/// The interesting entries of a directory.
#[derive(Debug)]
pub(crate) struct ListedDirectory {
    identity: Option<FileIdentity>,
    changed: SystemTime,
    /// The entries may have changed without a change of the time.
    is_fresh: bool,
    /// The mode of the directory, or of one around it, does not let this user list it.
    pub(crate) is_closed: bool,
    /// It may be a repository, or contain one as `.git`.
    pub(crate) may_be_repository: bool,
    pub(crate) entries: usize,
    directories: Vec<OsString>,
    /// Entries that the finder's test of names picks.
    pub(crate) picked: Vec<OsString>,
    pub(crate) matches: Vec<(OsString, Arc<Pattern>)>,
}

/// A test of an entry by its directory, seen from the workspace, and its name.
pub type PickEntry = fn(&Path, &OsStr) -> bool;

/// One listing.
pub(crate) struct ExclusionListing<'a> {
    pub(crate) exclusions: &'a Exclusions,
    pub(crate) pick: Option<PickEntry>,
    /// The directories of the last one.
    pub(crate) before: &'a HashMap<PathBuf, Arc<ListedDirectory>>,
    /// Entries.
    pub(crate) most: usize,
    pub(crate) begun: Instant,
}

/// Directories that threads list together.
#[derive(Default)]
struct ListingWork {
    left: Vec<PathBuf>,
    /// Threads that may add more.
    busy: usize,
    entries: usize,
    failure: Option<LookError>,
}

impl ExclusionListing<'_> {
    /// Lists all directories.
    ///
    /// # Errors
    /// There are too many entries, the time is over, or a directory cannot be listed.
    pub(crate) fn all(&self) -> Result<Vec<(PathBuf, Arc<ListedDirectory>)>, LookError> {
        let work =
            Mutex::new(ListingWork { left: vec![self.exclusions.workspace().to_owned()], ..ListingWork::default() });
        let ready = Condvar::new();
        let mut listed = self.list_directories(&work, &ready, FEW);
        let left = work.lock().unwrap_or_else(PoisonError::into_inner).left.len();
        if left > 0 {
            let threads = std::thread::available_parallelism().map_or(1, NonZero::get).clamp(1, THREADS);
            std::thread::scope(|scope| {
                let run = || self.list_directories(&work, &ready, usize::MAX);
                // The work of a thread that the system refuses is done by the others.
                let others = (1..threads).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok());
                let others: Vec<_> = others.collect();
                listed.extend(run());
                for other in others {
                    match other.join() {
                        Ok(more) => listed.extend(more),
                        // Its listings are lost.
                        Err(_) => {
                            let failure = failed(self.exclusions.workspace(), "could not be listed".to_owned());
                            work.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(failure);
                        }
                    }
                }
            });
        }
        match work.into_inner().unwrap_or_else(PoisonError::into_inner).failure {
            Some(failure) => Err(failure),
            None => Ok(listed),
        }
    }

    /// Lists directories until no more are left, or `most` were listed.
    fn list_directories(
        &self,
        work: &Mutex<ListingWork>,
        ready: &Condvar,
        most: usize,
    ) -> Vec<(PathBuf, Arc<ListedDirectory>)> {
        let lock = || work.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        let mut state = lock();
        while all.len() < most && state.failure.is_none() {
            let Some(directory) = state.left.pop() else {
                if state.busy == 0 {
                    break;
                }
                state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            // A panic would leave the other threads waiting for this one.
            let listed = catch_unwind(AssertUnwindSafe(|| self.list(&directory)))
                .unwrap_or_else(|_| Err(failed(&directory, "could not be listed".to_owned())));
            state = lock();
            state.busy -= 1;
            match listed {
                Ok(None) => {}
                Ok(Some(listed)) => {
                    state.left.extend(listed.directories.iter().map(|name| directory.join(name)));
                    state.entries += listed.entries;
                    if state.entries > self.most {
                        state.failure = Some(failed(&directory, format!("is beyond {} entries", self.most)));
                    } else if self.begun.elapsed() > MAX_TIME {
                        let reason = format!("was reached after {} s", MAX_TIME.as_secs());
                        state.failure = Some(failed(&directory, reason));
                    }
                    all.push((directory, listed));
                }
                Err(failure) => state.failure = Some(failure),
            }
            ready.notify_all();
        }
        ready.notify_all();
        all
    }

    /// Returns the entries of a directory; `None` if there is no such directory.
    fn list(&self, directory: &Path) -> Result<Option<Arc<ListedDirectory>>, LookError> {
        let mut listed = ListedDirectory {
            identity: None,
            changed: SystemTime::UNIX_EPOCH,
            is_fresh: true,
            is_closed: true,
            may_be_repository: false,
            entries: 0,
            directories: Vec::new(),
            picked: Vec::new(),
            matches: Vec::new(),
        };
        let metadata = match fs::symlink_metadata(directory) {
            Ok(metadata) if metadata.is_dir() => metadata,
            // Programs of this user do not get there either.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Some(Arc::new(listed))),
            Ok(_) | Err(_) => return Ok(None),
        };
        (listed.identity, listed.changed) = (identity(&metadata), changed(&metadata));
        if let Some(before) = self.before.get(directory)
            && !before.is_fresh
            && before.identity == listed.identity
            && before.identity.is_some()
            && before.changed == listed.changed
        {
            return Ok(Some(before.clone()));
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Some(Arc::new(listed))),
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(directory, format!("cannot be listed: {error}"))),
        };
        listed.is_closed = false;
        // A directory that changed this shortly before a look may change again unnoticed.
        listed.is_fresh = listed.changed + step(listed.changed) >= SystemTime::now();
        let mut signs = Signs::default();
        let relative = directory.strip_prefix(self.exclusions.workspace()).unwrap_or(directory);
        for entry in entries {
            let entry = entry.map_err(|error| failed(directory, format!("cannot be listed: {error}")))?;
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            listed.entries += 1;
            if listed.entries > self.most {
                return Err(failed(directory, format!("has more than {} entries", self.most)));
            }
            signs.see(&name);
            if self.pick.is_some_and(|pick| pick(relative, &name)) {
                listed.picked.push(name.clone());
            }
            let may_match = self.exclusions.may_match(&name);
            let pattern = may_match.then(|| self.exclusions.of_entry(&directory.join(&name), kind.is_dir())).flatten();
            match pattern {
                Some(pattern) => listed.matches.push((name, pattern.clone())),
                None if kind.is_dir() => listed.directories.push(name),
                None => {}
            }
        }
        listed.may_be_repository = signs.are_of_repository(directory);
        Ok(Some(Arc::new(listed)))
    }
}

/// Names of entries that make git recognize a repository.
#[derive(Default)]
struct Signs {
    has_dot_git: bool,
    has_head: bool,
    has_config: bool,
    has_part: bool,
}

impl Signs {
    fn see(&mut self, name: &OsStr) {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            4 => {
                self.has_dot_git |= is(".git");
                self.has_head |= is("HEAD");
                self.has_part |= is("refs");
            }
            5 => self.has_part |= is("hooks"),
            6 => self.has_config |= is("config"),
            7 => self.has_part |= is("objects"),
            _ => {}
        }
    }

    /// Returns whether a directory with these entries may be a repository, or contain one.
    fn are_of_repository(&self, directory: &Path) -> bool {
        // The directory around it contains that one.
        if directory.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git")) {
            return false;
        }
        let is_in_repository = || directory.iter().any(|part| part.eq_ignore_ascii_case(".git"));
        self.has_dot_git || self.has_head || self.has_config && (self.has_part || is_in_repository())
    }
}

fn failed(directory: &Path, reason: String) -> LookError {
    LookError { directory: directory.to_owned(), reason }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
