//! Paths in writable directories that decide what runs later, outside the sandbox: hooks and settings of git, settings of
//! editors and of agents, start-up files of shells.
//!
//! Those that exist are mounted read-only. Those that do not exist have nothing to mount over: when the program has ended,
//! what it created there is moved away ([`Protection`]).

use crate::policy::Policy;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Directly in a writable directory.
const NAMES: &[&str] = &[
    ".pinion",
    ".mcp.json",
    // Other agents.
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    // Editors.
    ".vscode",
    ".idea",
    ".zed",
    ".exrc",
    ".vimrc",
    ".nvimrc",
    ".nvim.lua",
    ".dir-locals.el",
    // Shells and git.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".inputrc",
    ".gitconfig",
];
/// In the directory of a repository. `commondir` would make git read another config.
const IN_REPOSITORY: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "info/attributes"];
/// Repositories of submodules and worktrees that are protected at most.
const MAX_NESTED: usize = 500;
/// Bytes of a file of git that are read.
const MAX_GIT_BYTES: u64 = 64 * 1024;

/// The repository of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// None, or one whose directory lies in the workspace.
    Inside,
    /// The workspace is a worktree of a repository elsewhere, whose directory points back to it.
    Elsewhere(PathBuf),
}

impl Repository {
    /// Finds the repository of a workspace. A `.git` file that points to a directory which does not point back, as in a
    /// forged worktree, counts as none.
    pub fn of(workspace: &Path) -> Self {
        Self::elsewhere(workspace).map_or(Self::Inside, Self::Elsewhere)
    }

    fn elsewhere(workspace: &Path) -> Option<PathBuf> {
        let pointer = workspace.join(".git");
        let directory = workspace.join(first_line(&pointer)?.strip_prefix("gitdir: ")?).canonicalize().ok()?;
        let back = PathBuf::from(first_line(&directory.join("gitdir"))?).canonicalize().ok()?;
        let common = directory.join(first_line(&directory.join("commondir"))?).canonicalize().ok()?;
        let is_worktree = back == pointer.canonicalize().ok()?
            && directory.parent() == Some(common.join("worktrees").as_path())
            && ["objects", "refs"].iter().all(|part| common.join(part).is_dir())
            && common.join("HEAD").is_file();
        is_worktree.then_some(common)
    }
}

/// Returns the protected paths in a writable directory, whether they exist or not.
pub fn protected_in(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = NAMES.iter().map(|name| directory.join(name)).collect();
    let git = directory.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(metadata) if metadata.is_dir() => repository(&git, &mut found),
        // A pointer to a repository must go on pointing to it.
        Ok(_) => found.push(git),
        // The directory may itself be a repository, as a bare one is.
        Err(_) if directory.join("HEAD").is_file() && directory.join("objects").is_dir() => {
            repository(directory, &mut found)
        }
        Err(_) => {}
    }
    found
}

fn repository(git: &Path, found: &mut Vec<PathBuf>) {
    found.extend(IN_REPOSITORY.iter().map(|name| git.join(name)));
    found.extend(hooks_path(git));
    for nested in ["modules", "worktrees"] {
        for entry in fs::read_dir(git.join(nested)).into_iter().flatten().flatten().take(MAX_NESTED) {
            found.extend(IN_REPOSITORY.iter().map(|name| entry.path().join(name)));
            if nested == "worktrees" {
                found.push(entry.path().join("gitdir"));
            }
        }
    }
}

/// Returns the directory in the workspace that the repository's config names as that of its hooks.
fn hooks_path(git: &Path) -> Option<PathBuf> {
    let text = read(&git.join("config"))?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("hookspath").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    git.parent()?.join(value).canonicalize().ok()
}

/// Protected paths that did not exist, or were links, before a program ran.
#[derive(Debug, Default)]
pub struct Protection {
    before: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Protection {
    /// Remembers the protected paths that cannot be mounted over.
    pub fn before(policy: &Policy) -> Self {
        let state = |path: &PathBuf| match fs::symlink_metadata(path) {
            Err(_) => Some((path.clone(), None)),
            Ok(metadata) if metadata.is_symlink() => Some((path.clone(), Some(fs::read_link(path).ok()?))),
            Ok(_) => None,
        };
        Self { before: policy.read_only.iter().filter_map(state).collect() }
    }

    /// Moves what a program created at these paths to a directory, and restores links that it replaced. Returns the
    /// protected paths with the places to which their content was moved; none for content that could only be removed.
    pub fn revert(self, to: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
        let mut reverted = Vec::new();
        for (path, link) in self.before {
            let now = fs::symlink_metadata(&path).ok();
            let is_same = match (&now, &link) {
                (None, None) => true,
                (Some(now), Some(link)) => now.is_symlink() && fs::read_link(&path).is_ok_and(|target| target == *link),
                _ => false,
            };
            if is_same {
                continue;
            }
            let moved = now.and_then(|_| move_away(&path, to));
            if let Some(link) = &link {
                restore(link, &path);
            }
            reverted.push((path, moved));
        }
        reverted
    }
}

/// Moves a file or directory to a new name in a directory. Removes it if that is on another file system.
fn move_away(path: &Path, to: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let _ = fs::create_dir_all(to);
    let free = (1..1000).map(|number| to.join(format!("removed-{number}-{name}"))).find(|path| !path.exists());
    if let Some(free) = free.filter(|free| fs::rename(path, free).is_ok()) {
        return Some(free);
    }
    // A link is removed, and not what it leads to.
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    None
}

#[cfg(unix)]
fn restore(target: &Path, link: &Path) {
    // The report names the path in any case.
    let _ = std::os::unix::fs::symlink(target, link);
}

#[cfg(not(unix))]
fn restore(_target: &Path, _link: &Path) {}

fn first_line(path: &Path) -> Option<String> {
    Some(read(path)?.lines().next()?.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Reads a small regular file.
fn read(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_GIT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn directory() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a repository and a worktree of it.
    fn worktree(root: &Path) -> (PathBuf, PathBuf) {
        let (common, tree) = (root.join("main/.git"), root.join("tree"));
        for part in ["objects", "refs"] {
            fs::create_dir_all(common.join(part)).unwrap();
        }
        write(&common.join("HEAD"), "ref: refs/heads/main\n");
        write(&common.join("worktrees/tree/commondir"), "../..\n");
        write(&common.join("worktrees/tree/gitdir"), &format!("{}\n", tree.join(".git").display()));
        write(&tree.join(".git"), &format!("gitdir: {}\n", common.join("worktrees/tree").display()));
        (common, tree)
    }

    #[test]
    fn repository_of_a_worktree_is_found() {
        let (_directory, root) = directory();
        let (common, tree) = worktree(&root);
        assert_eq!(Repository::of(&tree), Repository::Elsewhere(common));
        assert_eq!(Repository::of(&root.join("main")), Repository::Inside);
    }

    #[test]
    fn forged_pointers_to_other_directories_count_as_none() {
        let (_directory, root) = directory();
        let (common, tree) = worktree(&root);
        let forged = root.join("forged");
        write(&forged.join(".git"), &fs::read_to_string(tree.join(".git")).unwrap());
        assert_eq!(Repository::of(&forged), Repository::Inside);
        write(&forged.join(".git"), &format!("gitdir: {}\n", common.display()));
        assert_eq!(Repository::of(&forged), Repository::Inside);
    }

    #[test]
    fn hooks_and_settings_of_nested_repositories_are_protected() {
        let (_directory, root) = directory();
        write(&root.join(".git/config"), "[core]\n\thooksPath = .githooks\n");
        fs::create_dir_all(root.join(".githooks")).unwrap();
        fs::create_dir_all(root.join(".git/modules/a")).unwrap();
        fs::create_dir_all(root.join(".git/worktrees/b")).unwrap();
        let found = protected_in(&root);
        for path in
            [".git/hooks", ".git/commondir", ".githooks", ".git/modules/a/config", ".git/worktrees/b/gitdir", ".vscode"]
        {
            assert!(found.contains(&root.join(path)), "{path}");
        }
        assert!(!found.contains(&root.join(".git")));
    }

    #[test]
    fn created_files_are_moved_away_and_links_restored() {
        let (_directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(work.join("config")).unwrap();
        std::os::unix::fs::symlink("config", work.join(".vscode")).unwrap();
        let policy = Policy { read_only: protected_in(&work), ..Policy::default() };
        let protection = Protection::before(&policy);
        write(&work.join(".mcp.json"), "{}");
        fs::remove_file(work.join(".vscode")).unwrap();
        write(&work.join(".vscode/tasks.json"), "x");
        let reverted = protection.revert(&root.join("away"));
        assert_eq!(reverted.len(), 2, "{reverted:?}");
        assert!(!work.join(".mcp.json").exists());
        assert_eq!(fs::read_link(work.join(".vscode")).unwrap(), Path::new("config"));
        assert!(reverted.iter().all(|(_, moved)| moved.as_ref().is_some_and(|path| path.exists())));
        assert!(Protection::before(&policy).revert(&root).is_empty());
    }
}
