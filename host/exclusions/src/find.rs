//! Looking for the files that patterns exclude.
//!
//! A look [lists](crate::list) the whole workspace. Files that it found are checked again each time. As it sees every
//! directory, it also finds those with repositories, and those that cannot be listed.

use crate::identity::{FileId, FileIdentity, identity, is_program, names, step};
use crate::links::{self, with_several_names};
use crate::list::{ExclusionListing, ListedDirectory, MAX_ENTRIES, PickEntry};
use crate::mounts::Mounts;
use crate::patterns::{Exclusions, Pattern, PatternOrigin};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Age of a look that decisions about single files may use.
const RECENT: Duration = Duration::from_secs(1);
/// Directories of the system. A link that leads there is no secret, and hiding its target would break programs.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/dev", "/nix"];

/// Finds excluded files. One is shared by everything that asks.
#[derive(Debug, Default)]
pub struct Finder {
    exclusions: Exclusions,
    /// Finds the places of credentials, which are hidden from programs.
    find_credentials: Option<fn() -> Vec<PathBuf>>,
    /// Entries that are listed to find repositories, even if nothing is excluded.
    most: Option<usize>,
    /// Picks entries whose paths a look returns, too.
    pick: Option<PickEntry>,
    state: Mutex<ExclusionState>,
}

#[derive(Debug, Default)]
struct ExclusionState {
    directories: HashMap<PathBuf, Arc<ListedDirectory>>,
    /// Directories of the first complete look that were not empty, if entries are picked.
    first: Option<Arc<HashSet<PathBuf>>>,
    found: Option<Arc<ExcludedPaths>>,
    /// Targets of excluded links. They stay excluded when a program removes the link.
    targets: HashMap<PathBuf, (FileIdentity, ExcludedPlace)>,
}

/// A file or directory that is excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedPlace {
    /// Its real path, or one of several.
    pub path: PathBuf,
    /// The reason.
    pub pattern: Arc<Pattern>,
    /// It would also be excluded in any other directory.
    pub is_by_name: bool,
    /// It is excluded because an excluded link leads, or led, to it.
    pub is_target: bool,
}

/// The result of a look.
#[derive(Debug)]
pub struct ExcludedPaths {
    /// All paths of excluded files in the workspace, paths of links' targets, and paths through other mounts. Excluded
    /// directories stand for their content.
    pub places: Vec<ExcludedPlace>,
    /// Directories that may be repositories, or contain one as `.git`, in order.
    pub repositories: Vec<PathBuf>,
    /// Entries that the test of [`Finder::picking`] picks, in order.
    pub picked: Vec<PathBuf>,
    /// Directories whose modes close them, or those around them, to this user.
    pub closed: Vec<PathBuf>,
    /// The reason why not all repositories were found, if nothing is excluded. Otherwise, the look fails.
    pub incomplete: Option<LookError>,
    first: Option<Arc<HashSet<PathBuf>>>,
    identities: HashMap<FileIdentity, Arc<Pattern>>,
    begun: SystemTime,
    at: Instant,
    took: Duration,
}

impl ExcludedPaths {
    /// Returns whether the finder's first look saw entries in a directory. Without picked entries, it saw nothing.
    pub fn was_there_first(&self, directory: &Path) -> bool {
        self.first.as_ref().is_some_and(|first| first.contains(directory))
    }
}

/// A look that was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not look for excluded files: `{directory}` {reason}", directory = directory.display())]
pub struct LookError {
    pub(crate) directory: PathBuf,
    pub(crate) reason: String,
}

impl Finder {
    /// Creates a finder of the files that these patterns exclude in their workspace.
    pub fn new(exclusions: Exclusions) -> Arc<Self> {
        Arc::new(Self { exclusions, ..Self::default() })
    }

    /// Creates a finder that also excludes the other names which files with credentials have in the workspace, and finds
    /// repositories. `find` returns the files and directories of credentials.
    pub fn with_credentials(exclusions: Exclusions, find: fn() -> Vec<PathBuf>) -> Self {
        Self { exclusions, find_credentials: Some(find), most: Some(MAX_ENTRIES), ..Self::default() }
    }

    /// Sets a test of entries, which a look at the whole directory collects in [`ExcludedPaths::picked`].
    #[must_use]
    pub fn picking(self, pick: PickEntry) -> Self {
        Self { pick: Some(pick), ..self }
    }

    /// Creates a finder of repositories in a directory, which excludes nothing. A look at a directory with more than `most`
    /// entries is not complete.
    pub fn of_repositories(directory: &Path, most: usize) -> Self {
        Self { exclusions: Exclusions::none(directory), most: Some(most), ..Self::default() }
    }

    /// Returns the patterns.
    pub fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }

    /// Returns whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        self.exclusions.is_empty()
    }

    /// Looks at the workspace as it is now. Blocks, the first time for about 1 s per million entries. A workspace that does not
    /// exist contains nothing.
    ///
    /// # Errors
    /// The workspace has more than two million entries, takes more than 20 s, or a directory cannot be listed for another
    /// reason than its mode.
    pub fn find_excluded(&self) -> Result<Arc<ExcludedPaths>, LookError> {
        let mut state = self.lock();
        self.look_with(&mut state)
    }

    /// Returns the pattern that excludes an open file under any name: the file also has an excluded path in the
    /// workspace. Uses a look of the last second, unless the file got a new name since. A file with several names
    /// counts as excluded if the workspace cannot be looked at.
    pub fn of_file(&self, file: &FileId) -> Option<Arc<Pattern>> {
        if self.is_empty() {
            return None;
        }
        let mut state = self.lock();
        let is_current = |found: &Arc<ExcludedPaths>| {
            // A new name changes this time.
            let is_new = file.names > 1 && file.changed + step(file.changed) >= found.begun;
            // Looks at a large workspace do not take more than a tenth of the time.
            found.at.elapsed() < RECENT.max(10 * found.took) && !is_new
        };
        let found = match state.found.clone().filter(is_current) {
            Some(found) => Ok(found),
            None => self.look_with(&mut state),
        };
        match found {
            Ok(found) => found.identities.get(&(file.device, file.inode)).cloned(),
            Err(_) if file.names > 1 => self.exclusions.patterns().next().cloned().map(Arc::new),
            Err(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ExclusionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_with(&self, state: &mut ExclusionState) -> Result<Arc<ExcludedPaths>, LookError> {
        let (begun, at) = (SystemTime::now(), Instant::now());
        let before = std::mem::take(&mut state.directories);
        let listing = ExclusionListing {
            exclusions: &self.exclusions,
            pick: self.pick,
            before: &before,
            most: self.most.unwrap_or(MAX_ENTRIES),
            begun: at,
        };
        let mut look = ExclusionSearch { exclusions: &self.exclusions, listing, now: HashMap::new() };
        let mut found = ExcludedPaths {
            places: Vec::new(),
            repositories: Vec::new(),
            picked: Vec::new(),
            closed: Vec::new(),
            incomplete: None,
            first: None,
            identities: HashMap::new(),
            begun,
            at,
            took: Duration::ZERO,
        };
        if !self.is_empty() || self.most.is_some() {
            let credentials = self.find_credentials.filter(|_| !self.is_empty()).map(|find| find());
            match look.all(&credentials.unwrap_or_default(), &mut found) {
                Err(error) if self.is_empty() => found.incomplete = Some(error),
                looked => looked?,
            }
        }
        state.directories = look.now;
        if self.pick.is_some() && state.first.is_none() && found.incomplete.is_none() {
            let workspace = self.exclusions.workspace();
            let is_used = |(path, listed): &(&PathBuf, &Arc<ListedDirectory>)| listed.entries > 0 || *path == workspace;
            state.first =
                Some(Arc::new(state.directories.iter().filter(is_used).map(|(path, _)| path.clone()).collect()));
        }
        found.first = state.first.clone();
        for (path, (known, place)) in &state.targets {
            let is_same = fs::symlink_metadata(path).ok().as_ref().and_then(identity) == Some(*known);
            if is_same && !found.identities.contains_key(known) {
                found.identities.insert(*known, place.pattern.clone());
                found.places.push(place.clone());
            }
        }
        found.places.sort_by(|a, b| a.path.cmp(&b.path));
        found.places.dedup_by(|a, b| a.path == b.path);
        let targets = found.places.iter().filter(|place| place.is_target);
        let known = targets.filter_map(|place| {
            Some((place.path.clone(), (identity(&fs::symlink_metadata(&place.path).ok()?)?, place.clone())))
        });
        state.targets = known.collect();
        found.took = at.elapsed();
        let found = Arc::new(found);
        state.found = Some(found.clone());
        Ok(found)
    }
}

/// One look.
struct ExclusionSearch<'a> {
    exclusions: &'a Exclusions,
    listing: ExclusionListing<'a>,
    now: HashMap<PathBuf, Arc<ListedDirectory>>,
}

/// Names that are sought: files with more names than were found.
type Sought = HashMap<FileIdentity, (u64, Arc<Pattern>, bool)>;

impl ExclusionSearch<'_> {
    fn all(&mut self, credentials: &[PathBuf], found: &mut ExcludedPaths) -> Result<(), LookError> {
        let listed = self.listing.all()?;
        let repositories = listed.iter().filter(|(_, listed)| listed.may_be_repository);
        found.repositories = repositories.map(|(directory, _)| directory.clone()).collect();
        found.repositories.sort();
        let picked =
            listed.iter().flat_map(|(directory, listed)| listed.picked.iter().map(|name| directory.join(name)));
        found.picked = picked.collect();
        found.picked.sort();
        let closed = listed.iter().filter(|(_, listed)| listed.is_closed);
        found.closed = closed.map(|(directory, _)| directory.clone()).collect();
        let names = |(directory, listed): &(PathBuf, Arc<ListedDirectory>)| {
            let path = |(name, pattern): &(OsString, Arc<Pattern>)| (directory.join(name), pattern.clone());
            listed.matches.iter().map(path).collect::<Vec<_>>()
        };
        let mut matches: Vec<(PathBuf, Arc<Pattern>)> = listed.iter().flat_map(names).collect();
        matches.sort_by(|a, b| a.0.cmp(&b.0));
        self.now = listed.into_iter().collect();
        let mut sought = Sought::new();
        for (path, pattern) in matches {
            self.add(path, &pattern, found, &mut sought);
        }
        for path in credentials {
            let pattern = Arc::new(Pattern::new(path.display().to_string(), PatternOrigin::Credentials));
            self.seek(path, links::MAX_CREDENTIALS, &pattern, true, found, &mut sought);
        }
        sought.retain(|_, (names, ..)| *names > 0);
        if !sought.is_empty() {
            self.find_names(sought, found);
        }
        self.find_mounts(found);
        Ok(())
    }

    /// Adds a path that matches a pattern; for a link, the file that it leads to instead.
    fn add(&self, path: PathBuf, pattern: &Arc<Pattern>, found: &mut ExcludedPaths, sought: &mut Sought) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { return };
        let is_by_name = self.exclusions.is_by_name(&path);
        let is_target = metadata.is_symlink();
        let (path, metadata) = match is_target {
            false => (path, metadata),
            true => match self.target(&path) {
                Some(target) => target,
                None => return,
            },
        };
        if !metadata.is_file() && !metadata.is_dir() {
            return;
        }
        if let (true, Some(identity)) = (metadata.is_file(), identity(&metadata)) {
            found.identities.insert(identity, pattern.clone());
            let names = names(&metadata);
            let entry = sought.entry(identity).or_insert((names, pattern.clone(), is_by_name));
            entry.0 = entry.0.saturating_sub(1);
        } else {
            self.seek(&path, links::MAX_IN_DIRECTORY, pattern, is_by_name, found, sought);
        }
        found.places.push(ExcludedPlace { path, pattern: pattern.clone(), is_by_name, is_target });
    }

    /// Seeks the other names of the files at a path or below it.
    fn seek(
        &self,
        path: &Path,
        most: usize,
        pattern: &Arc<Pattern>,
        is_by_name: bool,
        found: &mut ExcludedPaths,
        sought: &mut Sought,
    ) {
        for (identity, names) in with_several_names(path, most) {
            found.identities.entry(identity).or_insert_with(|| pattern.clone());
            let entry = sought.entry(identity).or_insert((names.all, pattern.clone(), is_by_name));
            entry.0 = entry.0.saturating_sub(names.seen);
        }
    }

    /// Returns the file that an excluded link leads to. Directories, programs and files of the system stay visible, so that
    /// a stranger's link does not hide them.
    fn target(&self, link: &Path) -> Option<(PathBuf, Metadata)> {
        let path = link.canonicalize().ok()?;
        let metadata = fs::symlink_metadata(&path).ok()?;
        let is_own = path.starts_with(self.exclusions.workspace());
        let is_system = SYSTEM.iter().any(|directory| path.starts_with(directory)) || is_program(&metadata);
        (metadata.is_file() && (is_own || !is_system)).then_some((path, metadata))
    }

    /// Finds the other names of files in the workspace.
    fn find_names(&self, mut sought: Sought, found: &mut ExcludedPaths) {
        let known: HashSet<PathBuf> = found.places.iter().map(|place| place.path.clone()).collect();
        for directory in self.now.keys() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if sought.is_empty() {
                    return;
                }
                if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    continue;
                }
                let Some(identity) = entry.metadata().ok().as_ref().and_then(identity) else { continue };
                let path = entry.path();
                let Some((names, pattern, is_by_name)) = sought.get_mut(&identity).filter(|_| !known.contains(&path))
                else {
                    continue;
                };
                let (pattern, is_by_name) = (pattern.clone(), *is_by_name);
                *names -= 1;
                if *names == 0 {
                    sought.remove(&identity);
                }
                found.places.push(ExcludedPlace { path, pattern, is_by_name, is_target: false });
            }
        }
    }

    /// Adds the paths of the same files through other mounts.
    fn find_mounts(&self, found: &mut ExcludedPaths) {
        if found.places.is_empty() {
            return;
        }
        let mounts = Mounts::read();
        let same = |path: &Path| fs::symlink_metadata(path).ok().as_ref().and_then(identity);
        let mut more = Vec::new();
        for place in &found.places {
            let others = mounts.others(&place.path);
            if others.is_empty() {
                continue;
            }
            let own = same(&place.path);
            let others = others.into_iter().filter(|other| own.is_some() && same(other) == own);
            more.extend(others.map(|path| ExcludedPlace { path, ..place.clone() }));
        }
        found.places.extend(more);
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]
#[path = "find_tests.rs"]
mod tests;
