//! Paths in writable directories that decide which programs run later, outside the sandbox: hooks and settings of git,
//! settings of editors and of agents, start-up files of shells, programs of servers.
//!
//! [`Protected`] lists them for one program, in two kinds. *Closed* paths are read-only for the program; of those that
//! do not exist, nothing may be left when it has ended. *Free* paths may change while the program runs, because git has
//! to move or remove them, and are put back afterwards. [`Protection`](crate::Protection) acts on them afterwards.
//!
//! A program can leave any number of repositories with any settings for the next one, so that all work has one budget, and
//! so have the paths. A repository that needs more than its part is closed as a whole.

mod followed;
mod names;
mod repository;

use crate::encoding::length;
use followed::followed;
use names::{IN_HOME, LEADING, NAMES};
pub use names::{directory_of_setting, is_nested_setting};
use pinion_git::{GitSettings, GitUser, LookBudget, RepositoryLayout, nearby};
pub(crate) use repository::{RepositoryPaths, own};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Looks at files, of all repositories together and of one.
const LOOKS: usize = 40_000;
const LOOKS_OF_ONE: usize = 4_000;
/// Paths of one repository.
const PATHS_OF_ONE: usize = 400;
/// Paths of all repositories, and bytes of these in a policy.
const PATHS: usize = 3_000;
const BYTES: usize = 400 * 1024;
/// Settings below the top of the writable directories that are closed.
const SETTINGS: usize = 400;
/// Repositories beyond that, which are closed as a whole, and bytes of their paths.
const WHOLE: usize = 1_000;
const WHOLE_BYTES: usize = 100 * 1024;
/// Directories around repositories beyond that, which are closed as a whole.
const AROUND: usize = 100;

/// Meaning of a protected path: it decides which content may be left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ProtectedKind {
    /// Nothing.
    Any,
    /// A file that settings of a repository name. It may be a copy of the same file in another of its working trees.
    Named,
    /// A config of git. It may have harmless settings.
    Config,
    /// A directory of hooks. It may have samples.
    Hooks,
    /// The file or link `.git` of a working tree. It may lead to a repository that is protected itself.
    Pointer,
    /// The file that leads a worktree to its repository.
    Common,
    /// The rest of a rebase. It may have commands that run nothing.
    Todo,
    /// The merge strategy of a rebase, which is a program. It may be one of git's own.
    Strategy,
    /// The options of a series of picks, which may name such a strategy.
    Options,
    /// A directory; a file in its place would lead to another one.
    Directory,
}

/// The places that are searched for protected paths.
#[derive(Debug, Clone, Copy)]
pub struct ProtectedPlaces<'a> {
    /// Directories that the program may write to, without links.
    pub roots: &'a [PathBuf],
    /// Directories in these, at any depth, that are or contain repositories.
    pub repositories: &'a [PathBuf],
    /// Settings deeper in these, as [`is_nested_setting`] finds them.
    pub settings: &'a [PathBuf],
    /// The settings of git's user.
    pub user: &'a GitUser,
}

/// The protected paths for one program.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) user: GitUser,
    /// Paths that the program cannot change, whether they exist or not.
    pub(crate) closed: BTreeMap<PathBuf, ProtectedKind>,
    /// Paths that are put back.
    pub(crate) free: BTreeMap<PathBuf, ProtectedKind>,
    /// Repositories whose paths are among these.
    pub(crate) repositories: BTreeSet<PathBuf>,
    /// Working trees, each with the repository whose settings it has.
    pub(crate) trees: BTreeMap<PathBuf, PathBuf>,
    /// All settings deeper in the roots, also those that are not closed.
    pub(crate) settings: BTreeSet<PathBuf>,
}

impl Protected {
    /// Finds the protected paths.
    pub fn find(surroundings: ProtectedPlaces<'_>) -> Self {
        let ProtectedPlaces { roots, repositories, settings: nested, user } = surroundings;
        let mut look = LookBudget::new(LOOKS);
        let mut found = Self { roots: roots.to_vec(), user: user.clone(), ..Self::default() };
        let of_roots = roots.iter().flat_map(|root| NAMES.iter().map(|setting| root.join(setting.name)));
        let home = user.home.as_ref().and_then(|home| home.canonicalize().ok());
        let of_home = home.filter(|home| roots.iter().any(|root| home.starts_with(root)));
        let of_home = of_home.iter().flat_map(|home| IN_HOME.iter().map(|name| home.join(name)));
        for path in of_roots.chain(of_home) {
            let way = look.resolve(&path).unwrap_or_else(|_| vec![path]);
            found.close(way.into_iter().map(|path| (path, ProtectedKind::Any)));
        }
        let leading = roots.iter().flat_map(|root| LEADING.iter().map(|name| root.join(name)));
        found.free.extend(leading.map(|path| (path, ProtectedKind::Directory)));
        // Without the user's settings, the paths that they name in each repository are not known.
        let settings = GitSettings::of_user(user, &mut look).ok();
        let mut part = RepositoryPaths::new(roots, user, settings.as_ref());
        for root in roots.iter().filter(|root| RepositoryLayout::at(root).is_none()) {
            let _ = part.around(root, &mut look);
        }
        found.close(part.closed.into_iter());
        let mut budget = Budget { paths: PATHS, bytes: BYTES };
        let mut whole = BTreeSet::new();
        for tree in trees(roots, repositories) {
            let mut share = look.share(LOOKS_OF_ONE);
            let mut part = RepositoryPaths::new(roots, user, settings.as_ref());
            let is_known = part.tree(&tree, &mut share).is_ok() && settings.is_some();
            look.give_back(share);
            found.repositories.extend(tree.git.clone());
            found.trees.extend(std::mem::take(&mut part.trees));
            if is_known && budget.reserve_paths(&part) {
                found.close(part.closed.into_iter());
                found.free.extend(part.free);
            } else if let Some(root) = tree.git.as_ref().filter(|git| roots.contains(git)) {
                found.close(own(root).into_iter());
            } else {
                whole.extend([tree.git, tree.pointer].into_iter().flatten());
            }
        }
        found.close_whole(whole);
        found.close_settings(nested, user.home.as_deref());
        // Of two kinds for a path, the stricter one counts.
        let closed = &found.closed;
        found.free.retain(|path, _| !path.ancestors().any(|around| closed.contains_key(around)));
        found
    }

    /// Adds paths that are protected for other reasons.
    pub fn also(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut look = LookBudget::new(LOOKS);
        for path in paths {
            let way = look.resolve(&path).unwrap_or_else(|_| vec![path]);
            way.into_iter().for_each(|path| add(&mut self.closed, path, ProtectedKind::Any));
        }
    }

    /// Returns the paths that the program cannot change, whether they exist or not.
    pub fn closed(&self) -> impl Iterator<Item = &PathBuf> {
        self.closed.keys()
    }

    /// Returns all protected paths, also those that the program may change for a while.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.closed.keys().chain(self.free.keys())
    }

    /// Adds closed paths. A writable directory itself is never closed: if a setting named it, nothing could be written
    /// any more.
    fn close(&mut self, paths: impl Iterator<Item = (PathBuf, ProtectedKind)>) {
        let Self { roots, closed, .. } = self;
        paths.filter(|(path, _)| is_inside(roots, path)).for_each(|(path, kind)| add(closed, path, kind));
    }

    /// Closes settings deeper in the roots, those near the top first, and the files that all settings run. In a linked
    /// worktree they are free, so that it can be removed.
    fn close_settings(&mut self, settings: &[PathBuf], home: Option<&Path>) {
        self.settings = settings.iter().cloned().collect();
        let worktrees: Vec<PathBuf> = self
            .trees
            .keys()
            .filter(|tree| !self.roots.contains(tree) && tree.join(".git").is_file())
            .cloned()
            .collect();
        let is_free = |path: &Path| worktrees.iter().any(|tree| path.starts_with(tree));
        // Paths in closed ones are closed with them.
        let is_inside = |path: &Path| {
            path.ancestors().skip(1).any(|around| self.closed.contains_key(around) || self.settings.contains(around))
        };
        let mut closed: Vec<&PathBuf> = settings
            .iter()
            .filter(|path| !is_free(path) && !is_inside(path) && !self.closed.contains_key(*path))
            .collect();
        closed.sort_by_key(|path| (path.components().count(), *path));
        closed.truncate(SETTINGS);
        let directories: BTreeSet<&Path> = closed.iter().filter_map(|path| path.parent()).collect();
        let directories: BTreeSet<PathBuf> =
            self.roots.iter().map(PathBuf::as_path).chain(directories).map(Path::to_owned).collect();
        self.close(closed.into_iter().map(|path| (path.clone(), ProtectedKind::Any)));
        let mut look = LookBudget::new(LOOKS);
        for directory in directories {
            let run = followed(&directory, home, &mut look);
            self.close(run.into_iter().filter(|path| !is_free(path)).map(|path| (path, ProtectedKind::Named)));
        }
    }

    /// Closes repositories as a whole: of too many of them all that is around them, and of far too many everything.
    fn close_whole(&mut self, repositories: BTreeSet<PathBuf>) {
        let (mut paths, mut bytes) = (WHOLE, WHOLE_BYTES);
        let mut around = BTreeSet::new();
        for path in repositories.into_iter().filter(|path| is_inside(&self.roots, path)) {
            let fits = paths.checked_sub(1).zip(bytes.checked_sub(length(&path)));
            match fits {
                Some(left) => {
                    (paths, bytes) = left;
                    self.closed.insert(path, ProtectedKind::Any);
                }
                None => around.extend(top(&self.roots, &path)),
            }
        }
        if around.len() > AROUND {
            around = self.roots.iter().cloned().collect();
        }
        for directory in around {
            self.closed.retain(|path, _| !path.starts_with(&directory));
            self.closed.insert(directory, ProtectedKind::Any);
        }
    }
}

/// Returns the protected paths in a writable directory, whether they exist or not.
///
/// Of repositories further inside, only those in its own subdirectories are among them.
pub fn protected_in(directory: &Path, user: &GitUser) -> Vec<PathBuf> {
    protected_among(directory, &[directory.to_owned()], user)
}

/// Returns the protected paths in a writable directory, with those in other writable ones that it leads to.
pub fn protected_among(directory: &Path, roots: &[PathBuf], user: &GitUser) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = roots.to_vec();
    if !roots.iter().any(|root| root == directory) {
        roots.push(directory.to_owned());
    }
    let found =
        Protected::find(ProtectedPlaces { roots: &roots, repositories: &nearby(directory), settings: &[], user });
    found.closed.into_keys().chain(found.free.into_keys()).collect()
}

/// Returns the trees in these directories, outer ones first: a repository deep inside must not take the part of the
/// workspace's own.
fn trees(roots: &[PathBuf], repositories: &[PathBuf]) -> Vec<RepositoryLayout> {
    let mut directories: Vec<&PathBuf> = roots.iter().chain(repositories).collect();
    directories.sort_by_key(|path| (path.components().count(), *path));
    directories.dedup();
    let mut trees: Vec<RepositoryLayout> =
        directories.into_iter().filter_map(|directory| RepositoryLayout::at(directory)).collect();
    // The repositories that worktrees share, if a program may write them.
    let known: BTreeSet<PathBuf> = trees.iter().filter_map(|tree| tree.git.clone()).collect();
    let shared: BTreeSet<PathBuf> = trees.iter().filter_map(RepositoryLayout::shared).collect();
    let more = shared.into_iter().filter(|git| !known.contains(git) && is_inside(roots, git));
    trees.extend(more.collect::<Vec<_>>().iter().filter_map(|git| RepositoryLayout::at(git)));
    trees
}

/// Adds a path. Of two kinds, the stricter one counts.
fn add(paths: &mut BTreeMap<PathBuf, ProtectedKind>, path: PathBuf, kind: ProtectedKind) {
    paths.entry(path).and_modify(|known| *known = kind.min(*known)).or_insert(kind);
}

fn is_inside(roots: &[PathBuf], path: &Path) -> bool {
    roots.iter().any(|root| path.starts_with(root) && path != root)
}

/// Returns the directory at the top of a writable one that leads to a path.
fn top(roots: &[PathBuf], path: &Path) -> Option<PathBuf> {
    let root = roots
        .iter()
        .filter(|root| path.starts_with(root) && path != *root)
        .min_by_key(|root| root.components().count());
    path.ancestors().find(|around| around.parent() == root.map(PathBuf::as_path)).map(Path::to_owned)
}

/// The paths that are left, and their bytes in a policy.
struct Budget {
    paths: usize,
    bytes: usize,
}

impl Budget {
    /// Takes the share that the paths of a repository need; nothing if it is too much.
    fn reserve_paths(&mut self, part: &RepositoryPaths<'_>) -> bool {
        let paths = part.closed.len() + part.free.len();
        let bytes = part.closed.keys().map(|path| length(path)).sum();
        let left = self.paths.checked_sub(paths).zip(self.bytes.checked_sub(bytes));
        let Some((paths, bytes)) = left.filter(|_| paths <= PATHS_OF_ONE) else { return false };
        (self.paths, self.bytes) = (paths, bytes);
        true
    }
}

#[cfg(test)]
#[cfg(unix)]
pub(crate) mod tests;
