//! Paths in writable directories that decide what runs later, outside the sandbox: hooks and settings of git, settings of
//! editors and of agents, start-up files of shells.
//!
//! Those that exist are mounted read-only. Those that do not exist have nothing to mount over: when the program has ended,
//! what it created there is moved away ([`Protection`](crate::Protection)).

use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

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
/// Repositories directly in a writable directory in which a program can work, and those in which it can write nothing.
const MAX_INNER: usize = 50;
const MAX_WHOLE: usize = 2_000;
/// Directories of a repository that contain no others.
const CONTENT: [&str; 6] = ["objects", "refs", "logs", "hooks", "info", "worktrees"];
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
    protected_among(directory, &[directory.to_owned()])
}

/// Returns the protected paths in a writable directory, with those in other writable ones that it leads to.
pub fn protected_among(directory: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    // Not the whole of one: nothing could be written any more, because a file in it says so.
    let is_inside = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root) && path != root);
    let mut found: Vec<PathBuf> = NAMES.iter().map(|name| directory.join(name)).collect();
    let of_git = |git: &Path, tree: &Path, found: &mut Vec<PathBuf>| {
        repository(git, found);
        found.extend(hooks_of(git, tree).into_iter().filter(is_inside));
    };
    let git = directory.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(metadata) if metadata.is_dir() => of_git(&git, directory, &mut found),
        // A pointer to a repository must go on pointing to it.
        Ok(_) => {
            let pointed = pointed(&git).filter(is_inside);
            pointed.into_iter().for_each(|git| of_git(&git, directory, &mut found));
            found.push(git);
        }
        // The directory may itself be a repository, as a bare one is.
        Err(_) if is_repository(directory) => of_git(directory, directory, &mut found),
        Err(_) => {}
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

/// Returns the repository that a `.git` file names.
fn pointed(pointer: &Path) -> Option<PathBuf> {
    pointer.parent()?.join(first_line(pointer)?.strip_prefix("gitdir: ")?).canonicalize().ok()
}

fn is_repository(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir()
}

fn repository(git: &Path, found: &mut Vec<PathBuf>) {
    settings(git, found);
    let (submodules, is_complete) = submodules(git);
    for submodule in &submodules {
        settings(submodule, found);
        let tree = values(submodule, "worktree").into_iter().next_back();
        found.extend(tree.and_then(|tree| submodule.join(tree).canonicalize().ok()).map(|tree| tree.join(".git")));
    }
    found.extend(Some(git.join("modules")).filter(|_| !is_complete));
    let worktrees = fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
    for (at, entry) in worktrees.enumerate() {
        if at == MAX_NESTED {
            found.push(git.join("worktrees"));
            break;
        }
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

/// Returns the repositories of submodules, which lie as deep as the paths of these, and whether these are all.
pub(crate) fn submodules(git: &Path) -> (Vec<PathBuf>, bool) {
    let (mut found, mut left, mut seen) = (Vec::new(), vec![git.join("modules")], 0);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            // A repository may be a directory of others, whatever files a program puts there.
            let is_content = CONTENT.iter().any(|name| entry.file_name() == *name);
            if is_content || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            seen += 1;
            if seen > MAX_NESTED {
                return (found, false);
            }
            let is_whole = entry.path().join("HEAD").is_file() || entry.path().join("config").is_file();
            found.extend(Some(entry.path()).filter(|_| is_whole));
            left.push(entry.path());
        }
    }
    (found, true)
}

/// Returns the directories that the config of a repository names as those of its hooks, with and without the links in them,
/// whether they exist or not. Git looks for them in the working tree.
pub fn hooks_of(git: &Path, tree: &Path) -> Vec<PathBuf> {
    let paths = values(git, "hookspath").into_iter().map(|value| normal(&tree.join(value)));
    paths.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten().collect()
}

/// Returns the values of a key, in small letters, in the config of a repository.
fn values(git: &Path, wanted: &str) -> Vec<String> {
    let texts = ["config", "config.worktree"].iter().filter_map(|name| read(&git.join(name)));
    let value = |line: &str| {
        // A section may stand before it, and a comment behind it.
        let (key, value) = line.split_once('=')?;
        let key = key.rsplit([' ', '\t', ']']).find(|word| !word.is_empty())?;
        let value = value.split([';', '#']).next().unwrap_or_default().replace('"', "");
        key.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
    };
    texts.flat_map(|text| text.lines().filter_map(value).collect::<Vec<_>>()).collect()
}

/// Resolves `.` and `..` in the text of a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

fn first_line(path: &Path) -> Option<String> {
    Some(read(path)?.lines().next()?.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Reads a small regular file.
pub(crate) fn read(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_GIT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
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
