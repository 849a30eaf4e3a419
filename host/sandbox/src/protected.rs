//! Paths in writable directories that decide what runs later, outside the sandbox: hooks and settings of git, settings of
//! editors and of agents, start-up files of shells.
//!
//! Those that exist are mounted read-only. Those that do not exist have nothing to mount over: when the program has ended,
//! what it created there is moved away ([`Protection`](crate::Protection)).

use std::fs;
use std::io::Read as _;
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
/// In the directory of a repository. `commondir` would make git read another config.
const IN_REPOSITORY: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "info/attributes"];
/// Repositories of submodules and worktrees that are protected at most, and directories in which they are looked for.
const MAX_NESTED: usize = 500;
/// Repositories directly in a writable directory that are protected at most.
const MAX_INNER: usize = 50;
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
///
/// Of repositories further inside, only those in its own subdirectories are among them.
pub fn protected_in(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = NAMES.iter().map(|name| directory.join(name)).collect();
    let git = directory.join(".git");
    let repository = |git: &Path, found: &mut Vec<PathBuf>| {
        repository(git, found);
        found.extend(git.parent().into_iter().flat_map(|tree| hooks_in(git, tree, directory)));
    };
    match fs::symlink_metadata(&git) {
        Ok(metadata) if metadata.is_dir() => repository(&git, &mut found),
        // A pointer to a repository must go on pointing to it.
        Ok(_) => found.push(git),
        // The directory may itself be a repository, as a bare one is.
        Err(_) if is_repository(directory) => repository(directory, &mut found),
        Err(_) => {}
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let inner = directories.map(|entry| entry.path().join(".git"));
    let inner = inner.filter(|git| fs::symlink_metadata(git).is_ok_and(|metadata| metadata.is_dir()));
    inner.take(MAX_INNER).for_each(|git| repository(&git, &mut found));
    // What a link leads to is protected where it lies.
    let behind = |path: &PathBuf| match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => path.canonicalize().ok().filter(|to| to.starts_with(directory)),
        _ => None,
    };
    let targets: Vec<PathBuf> = found.iter().filter_map(behind).collect();
    found.extend(targets);
    found
}

fn is_repository(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir()
}

fn repository(git: &Path, found: &mut Vec<PathBuf>) {
    settings(git, found);
    for submodule in submodules(git) {
        settings(&submodule, found);
    }
    for entry in fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten().take(MAX_NESTED) {
        settings(&entry.path(), found);
        found.push(entry.path().join("gitdir"));
    }
}

/// Adds the paths in the directory of a repository that decide what git runs.
fn settings(git: &Path, found: &mut Vec<PathBuf>) {
    // Where the directory around a file is missing, a link in its place would lead elsewhere.
    if fs::symlink_metadata(git.join("info")).is_err() {
        found.push(git.join("info"));
    }
    found.extend(IN_REPOSITORY.iter().map(|name| git.join(name)));
}

/// Returns the repositories of submodules, which lie as deep as the paths of these.
pub(crate) fn submodules(git: &Path) -> Vec<PathBuf> {
    let (mut found, mut left, mut seen) = (Vec::new(), vec![git.join("modules")], 0);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_NESTED {
                return found;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let is_whole = entry.path().join("HEAD").is_file() || entry.path().join("config").is_file();
            match is_whole {
                true => {
                    left.push(entry.path().join("modules"));
                    found.push(entry.path());
                }
                false => left.push(entry.path()),
            }
        }
    }
    found
}

/// Returns the directories that the config of a repository names as those of its hooks, as far as they lie in `within`. Git
/// looks for them in the working tree.
pub fn hooks_in(git: &Path, tree: &Path, within: &Path) -> Vec<PathBuf> {
    let values = ["config", "config.worktree"].iter().filter_map(|name| read(&git.join(name))).flat_map(|text| {
        let value = |line: &str| {
            let (key, value) = line.split_once('=')?;
            key.trim().eq_ignore_ascii_case("hookspath").then(|| value.trim().trim_matches('"').to_owned())
        };
        text.lines().filter_map(value).collect::<Vec<_>>()
    });
    // What lies outside is not writable, and must not be mounted because a file in the workspace says so.
    values.filter_map(|value| tree.join(value).canonicalize().ok()).filter(|path| path.starts_with(within)).collect()
}

fn first_line(path: &Path) -> Option<String> {
    Some(read(path)?.lines().next()?.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Reads a small regular file.
pub(crate) fn read(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_GIT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
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
        write(&root.join(".git/modules/a/HEAD"), "ref: refs/heads/main\n");
        fs::create_dir_all(root.join(".git/worktrees/b")).unwrap();
        let found = protected_in(&root);
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
        let found = protected_in(&root);
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
        let found = protected_in(&root);
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
        let found = protected_in(&work);
        assert!(found.contains(&work.join("src")) && found.contains(&work.join(".vscode")));
        assert!(!found.contains(&root.join("shared")));
    }
}
