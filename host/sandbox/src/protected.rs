//! Paths in writable directories that decide what runs later, outside the sandbox: hooks and settings of git, settings of
//! editors and of agents, start-up files of shells.
//!
//! Those that exist are mounted read-only. Those that do not exist have nothing to mount over: when the program has ended,
//! what it created there is moved away ([`Protection`](crate::Protection)).

use crate::git::{self, GitUser, Settings};
use std::fs;
use std::path::{Path, PathBuf};

/// Directly in a writable directory.
const NAMES: &[&str] = &[
    ".pinion",
    ".mcp.json",
    // Other agents.
    ".aider.conf.yml",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".kiro",
    ".opencode",
    ".windsurf",
    "opencode.json",
    // What shells, version managers, debuggers and hooks of git run or read when someone enters the directory.
    ".devcontainer",
    ".envrc",
    ".gdbinit",
    ".husky",
    ".mise.toml",
    ".pre-commit-config.yaml",
    "mise.toml",
    // Editors.
    ".helix",
    ".lvimrc",
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
/// Repositories directly in a writable directory in which a program can work, and those in which it can write nothing.
const MAX_INNER: usize = 50;
const MAX_WHOLE: usize = 2_000;

/// Returns the protected paths in a writable directory, whether they exist or not.
///
/// Of repositories further inside, only those in its own subdirectories are among them.
pub fn protected_in(directory: &Path, user: &GitUser) -> Vec<PathBuf> {
    protected_among(directory, &[directory.to_owned()], user)
}

/// Returns the protected paths in a writable directory, with those in other writable ones that it leads to.
pub fn protected_among(directory: &Path, roots: &[PathBuf], user: &GitUser) -> Vec<PathBuf> {
    // Not the whole of one: nothing could be written any more, because a file in it says so.
    let is_inside = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root) && path != root);
    let users = Settings::of_user(user);
    let mut found: Vec<PathBuf> = NAMES.iter().map(|name| directory.join(name)).collect();
    let of_git = |git: &Path, tree: &Path, found: &mut Vec<PathBuf>| {
        found.extend(git::protected(git, tree, &users).into_iter().filter(is_inside));
    };
    let git = directory.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(metadata) if metadata.is_dir() => of_git(&git, directory, &mut found),
        // A pointer to a repository must go on pointing to it.
        Ok(_) => {
            git::pointed(&git).into_iter().for_each(|git| of_git(&git, directory, &mut found));
            found.push(git);
        }
        Err(_) if git::is_bare(directory) => of_git(directory, directory, &mut found),
        // A repository around it, and the user's settings for one that a program creates here, may name files in it.
        Err(_) => {
            let around = directory.ancestors().find(|tree| tree.join(".git").exists()).unwrap_or(directory);
            let git = around.join(".git");
            let named = git::named(&git::pointed(&git).unwrap_or(git), around, &users);
            found.extend(named.into_iter().filter(is_inside));
        }
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut inner = 0;
    for tree in directories.map(|entry| entry.path()) {
        let git = tree.join(".git");
        let Ok(metadata) = fs::symlink_metadata(&git) else { continue };
        inner += 1;
        match metadata.is_dir() {
            true if inner <= MAX_INNER => of_git(&git, &tree, &mut found),
            false if inner <= MAX_INNER => {
                git::pointed(&git).into_iter().for_each(|git| of_git(&git, &tree, &mut found));
                found.push(git);
            }
            // Of more of them, nothing can be written, and of too many, nowhere.
            _ if inner <= MAX_WHOLE => found.push(git),
            _ => {
                found.push(directory.to_owned());
                break;
            }
        }
    }
    // What a link leads to is protected where it lies.
    let behind = |path: &PathBuf| match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => path.canonicalize().ok().filter(is_inside),
        _ => None,
    };
    let targets: Vec<PathBuf> = found.iter().filter_map(behind).collect();
    found.extend(targets);
    found
}

#[cfg(unix)]
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tempfile::TempDir;

    pub(crate) fn directory() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    pub(crate) fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn hooks_and_settings_of_nested_repositories_are_protected() {
        let (_directory, root) = directory();
        write(&root.join(".git/config"), "[core]\n\thooksPath = .githooks\n");
        fs::create_dir_all(root.join(".githooks")).unwrap();
        write(&root.join(".git/modules/a/HEAD"), "ref: refs/heads/main\n");
        fs::create_dir_all(root.join(".git/worktrees/b")).unwrap();
        let found = protected_in(&root, &GitUser::default());
        for path in
            [".git/hooks", ".git/commondir", ".githooks", ".git/modules/a/config", ".git/worktrees/b/gitdir", ".vscode"]
        {
            assert!(found.contains(&root.join(path)), "{path}");
        }
        assert!(!found.contains(&root.join(".git")));
        write(
            &root.join("sub/.git/config"),
            "[core]\n\thooksPath = ../..\n\thookspath = /\n\tHOOKSPATH = \"../hooks\"\n",
        );
        fs::create_dir_all(root.join("hooks")).unwrap();
        let found = protected_in(&root, &GitUser::default());
        assert!(
            found.contains(&root.join("hooks")) && found.iter().all(|path| path.starts_with(&root) && *path != root)
        );
    }

    #[test]
    fn repositories_of_deep_submodules_and_of_subdirectories_are_protected() {
        let (_directory, root) = directory();
        write(&root.join(".git/modules/libs/foo/HEAD"), "ref: refs/heads/main\n");
        write(&root.join(".git/modules/libs/foo/modules/bar/HEAD"), "ref: refs/heads/main\n");
        write(&root.join("sub/.git/HEAD"), "ref: refs/heads/main\n");
        let found = protected_in(&root, &GitUser::default());
        for path in [
            ".git/modules/libs/foo/config",
            ".git/modules/libs/foo/modules/bar/hooks",
            "sub/.git/hooks",
            "sub/.git/info",
        ] {
            assert!(found.contains(&root.join(path)), "{path}");
        }
    }

    #[test]
    fn targets_of_links_are_protected_inside_the_directory_only() {
        let (_directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(work.join("src")).unwrap();
        fs::create_dir_all(root.join("shared")).unwrap();
        std::os::unix::fs::symlink("src", work.join(".vscode")).unwrap();
        std::os::unix::fs::symlink("../shared", work.join(".claude")).unwrap();
        let found = protected_in(&work, &GitUser::default());
        assert!(found.contains(&work.join("src")) && found.contains(&work.join(".vscode")));
        assert!(!found.contains(&root.join("shared")));
    }
}
