//! The protected paths of one repository.

use super::{ProtectedKind, add, is_inside};
use pinion_git::{Exhausted, GitSettings, GitUser, LookBudget, Named, RepositoryLayout};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// In the directory of a repository, also of one that a worktree would become without its `commondir`, which makes git read
/// another config.
const IN_REPOSITORY: [(&str, ProtectedKind); 5] = [
    ("hooks", ProtectedKind::Hooks),
    ("config", ProtectedKind::Config),
    ("config.worktree", ProtectedKind::Config),
    ("commondir", ProtectedKind::Common),
    ("info/attributes", ProtectedKind::Any),
];
/// Files that an unfinished rebase or series of picks leaves. Git runs the commands in them, and a program for each strategy:
/// `a/b` is `git-merge-a/b` in the working tree.
const LEFT: [(&str, ProtectedKind); 3] = [
    ("rebase-merge/git-rebase-todo", ProtectedKind::Todo),
    ("rebase-merge/strategy", ProtectedKind::Strategy),
    ("sequencer/opts", ProtectedKind::Options),
];
/// Hooks of a directory in a linked worktree.
const MAX_HOOKS: usize = 100;

/// Returns the paths in the directory of a repository that decide which programs git runs.
pub(crate) fn own(git: &Path) -> Vec<(PathBuf, ProtectedKind)> {
    let names = IN_REPOSITORY.into_iter().chain(LEFT);
    names.map(|(name, kind)| (git.join(name), kind)).collect()
}

/// Paths of one repository.
pub(crate) struct RepositoryPaths<'a> {
    roots: &'a [PathBuf],
    user: &'a GitUser,
    users: Option<&'a GitSettings>,
    pub(crate) closed: BTreeMap<PathBuf, ProtectedKind>,
    pub(crate) free: BTreeMap<PathBuf, ProtectedKind>,
    pub(crate) trees: BTreeMap<PathBuf, PathBuf>,
}

impl<'a> RepositoryPaths<'a> {
    pub(crate) fn new(roots: &'a [PathBuf], user: &'a GitUser, users: Option<&'a GitSettings>) -> Self {
        Self { roots, user, users, closed: BTreeMap::new(), free: BTreeMap::new(), trees: BTreeMap::new() }
    }

    /// Adds the paths of a tree and of its repository.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn tree(&mut self, tree: &RepositoryLayout, look: &mut LookBudget) -> Result<(), Exhausted> {
        let files = tree.files();
        // `git worktree` moves and removes the others.
        let is_free = tree.git.as_deref().is_some_and(pinion_git::is_worktree) && !self.roots.contains(&files);
        if let Some(pointer) = &tree.pointer {
            self.add(is_free, pointer.clone(), ProtectedKind::Pointer);
        }
        let Some(git) = &tree.git else { return Ok(()) };
        self.trees.insert(files.clone(), tree.shared().unwrap_or_else(|| git.clone()));
        for (path, kind) in own(git) {
            let is_free =
                is_free || matches!(kind, ProtectedKind::Todo | ProtectedKind::Strategy | ProtectedKind::Options);
            let mut way = look.resolve(&path)?;
            let real = way.pop().unwrap_or(path);
            way.into_iter().for_each(|link| self.add(is_free, link, ProtectedKind::Any));
            self.add(is_free, real, kind);
        }
        for named in self.named(git, &files, look)? {
            self.add_named(named, &files, is_free, look)?;
        }
        Ok(())
    }

    /// Adds the paths that the repository around a writable directory names in it, or those that the user's settings
    /// name for one that a program creates there.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn around(&mut self, root: &Path, look: &mut LookBudget) -> Result<(), Exhausted> {
        let around = root.ancestors().skip(1).find_map(RepositoryLayout::at);
        let (git, files) = match &around {
            Some(tree) => (tree.git.clone().unwrap_or_else(|| tree.path.join(".git")), tree.files()),
            None => (root.join(".git"), root.to_owned()),
        };
        for named in self.named(&git, &files, look)? {
            self.add_named(named, &files, false, look)?;
        }
        Ok(())
    }

    /// Returns the paths that the settings of the user and of a repository name.
    pub(crate) fn named(&self, git: &Path, files: &Path, look: &mut LookBudget) -> Result<Vec<Named>, Exhausted> {
        let settings = GitSettings::of_repository(git, self.user, look)?;
        let mut named = settings.named(git, files, self.user, look)?;
        if let Some(users) = self.users {
            named.extend(users.named(git, files, self.user, look)?);
        }
        Ok(named.into_iter().collect())
    }

    fn add_named(&mut self, named: Named, files: &Path, is_free: bool, look: &mut LookBudget) -> Result<(), Exhausted> {
        let (path, kind) = match named {
            Named::Hooks(path) => (path, ProtectedKind::Hooks),
            Named::Other(path) => (path, ProtectedKind::Named),
        };
        // A large file cannot be kept in memory, and files elsewhere are not moved with the worktree.
        look.spend(1)?;
        let found = fs::symlink_metadata(&path).ok();
        let is_small = found.as_ref().is_none_or(|found| found.len() <= pinion_git::MAX_FILE_BYTES);
        let is_directory = found.is_some_and(|found| found.is_dir());
        let is_free = is_free && path.starts_with(files) && is_small && (kind == ProtectedKind::Hooks || !is_directory);
        if is_free && is_directory {
            let hooks = fs::read_dir(&path).into_iter().flatten().flatten().take(MAX_HOOKS);
            for entry in hooks {
                look.spend(1)?;
                self.add(true, entry.path(), ProtectedKind::Named);
            }
        }
        self.add(is_free, path, kind);
        Ok(())
    }

    fn add(&mut self, is_free: bool, path: PathBuf, kind: ProtectedKind) {
        if is_inside(self.roots, &path) {
            add(if is_free { &mut self.free } else { &mut self.closed }, path, kind);
        }
    }
}
