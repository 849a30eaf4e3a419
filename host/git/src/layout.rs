//! The places where a repository keeps the files that decide its behaviour.

use crate::command::as_path;
use crate::config::parse;
use crate::look_budget::read;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that [`nearby`] looks at.
const MAX_NEARBY: usize = 2_000;
/// Directories of a repository that contain no further repository.
const CONTENT: [&str; 5] = ["objects", "refs", "logs", "hooks", "info"];

/// The repository of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// No repository, or one whose directory lies in the workspace.
    Inside,
    /// The workspace is a worktree of a repository elsewhere, whose directory points back to it.
    Elsewhere(PathBuf),
}

impl Repository {
    /// Finds the repository of a workspace. A `.git` file that points to a directory which does not point back, as in a
    /// forged worktree, does not count as a repository.
    pub fn for_workspace(workspace: &Path) -> Self {
        Self::elsewhere(workspace).map_or(Self::Inside, Self::Elsewhere)
    }

    fn elsewhere(workspace: &Path) -> Option<PathBuf> {
        let pointer = workspace.join(".git");
        let directory = pointed(&pointer)?;
        let common = common(&directory)?;
        let is_worktree = tree_of_worktree(&directory)?.canonicalize().ok()? == workspace.canonicalize().ok()?
            && directory.parent() == Some(common.join("worktrees").as_path())
            && ["objects", "refs"].iter().all(|part| common.join(part).is_dir())
            && common.join("HEAD").is_file();
        is_worktree.then_some(common)
    }
}

/// A directory where git finds a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryLayout {
    /// The directory.
    pub path: PathBuf,
    /// The repository, without links; `None` if `.git` leads to no repository.
    pub git: Option<PathBuf>,
    /// The file or link `.git` that leads to it.
    pub pointer: Option<PathBuf>,
}

impl RepositoryLayout {
    /// Returns the repository that git finds in a directory itself, if there is one.
    pub fn at(directory: &Path) -> Option<Self> {
        let dot = directory.join(".git");
        let (git, pointer) = match fs::symlink_metadata(&dot) {
            Ok(found) if found.is_dir() => (Some(dot), None),
            Ok(found) if found.is_symlink() && dot.is_dir() => (dot.canonicalize().ok(), Some(dot)),
            Ok(_) => (pointed(&dot), Some(dot)),
            Err(_) if is_repository(directory) => (Some(directory.to_owned()), None),
            Err(_) => return None,
        };
        Some(Self { path: directory.to_owned(), git, pointer })
    }

    /// Returns the repository that shares its settings with this one, of a linked worktree.
    pub fn shared(&self) -> Option<PathBuf> {
        common(self.git.as_ref()?)
    }

    /// Returns the directory of the repository's files: the one around `.git`, or the one that the repository names.
    pub fn files(&self) -> PathBuf {
        let Some(git) = self.git.as_ref().filter(|git| **git == self.path) else { return self.path.clone() };
        if is_worktree(git) {
            return tree_of_worktree(git).unwrap_or_else(|| git.clone());
        }
        let config = read(&git.join("config")).unwrap_or_default();
        let named = parse(&config).into_iter().rev().find(|entry| entry.is("core", "worktree"));
        named.map_or_else(|| git.clone(), |entry| git.join(as_path(entry.text())))
    }
}

/// Returns whether a directory belongs to a linked worktree in its repository.
pub fn is_worktree(git: &Path) -> bool {
    git.parent().is_some_and(|around| around.ends_with("worktrees")) && git.join("commondir").exists()
}

/// Returns the repository that a `.git` file names.
pub(crate) fn pointed(pointer: &Path) -> Option<PathBuf> {
    let text = read(&pointer.canonicalize().ok()?)?;
    pointer.parent()?.join(as_path(name(&text).strip_prefix(b"gitdir: ")?)).canonicalize().ok()
}

/// Returns the directory with the files that a worktree shares with its repository.
pub(crate) fn common(git: &Path) -> Option<PathBuf> {
    git.join(as_path(name(&read(&git.join("commondir"))?))).canonicalize().ok()
}

/// Returns the working tree of a linked worktree, whose directory in its repository is `git`.
fn tree_of_worktree(git: &Path) -> Option<PathBuf> {
    let text = read(&git.join("gitdir"))?;
    // Since git 2.48, it may be relative.
    let pointer = git.join(as_path(name(&text)));
    Some(pointer.parent()?.canonicalize().unwrap_or_else(|_| pointer.with_file_name("")))
}

/// Returns the name in a file: all of it, up to the ends of lines behind it.
fn name(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    text
}

/// Returns whether a directory is a repository itself, rather than one with a `.git`.
pub fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
    let has_version = || {
        let config = read(&directory.join("config")).unwrap_or_default();
        parse(&config).iter().any(|entry| entry.is("core", "repositoryformatversion"))
    };
    let is_submodule = || directory.iter().any(|part| part == "modules") && directory.iter().any(|part| part == ".git");
    // A program can rename `HEAD`. The config, which it cannot change, still identifies the repository.
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
        || has("config") && (is_submodule() || has_version())
}

/// Returns directories with repositories: `root`, its subdirectories, and the repositories of submodules and worktrees in
/// these.
pub fn nearby(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), MAX_NEARBY);
    for directory in std::iter::once(root.to_owned()).chain(directories(root)) {
        if let Some(tree) = RepositoryLayout::at(&directory) {
            tree.git.iter().for_each(|git| inner(git, &mut found, &mut left));
            found.push(directory);
        }
    }
    found
}

/// Adds the repositories of submodules and worktrees. Submodules lie as deep as their names, and in each other.
fn inner(git: &Path, found: &mut Vec<PathBuf>, left: &mut usize) {
    let mut stack = vec![git.join("worktrees"), git.join("modules")];
    while let Some(directory) = stack.pop() {
        for entry in directories(&directory) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            if CONTENT.iter().any(|name| entry.ends_with(name)) {
                continue;
            }
            found.extend(Some(entry.clone()).filter(|entry| is_repository(entry)));
            stack.push(entry);
        }
    }
}

/// Returns the directories in a directory, in order.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .take(MAX_NEARBY)
        .collect();
    found.sort();
    found
}

#[cfg(test)]
#[cfg(unix)]
#[path = "layout_tests.rs"]
mod tests;
