//! Protected paths that did not exist when a program started: what it created there is moved away once it has ended.

use crate::git::{is_whole, read, submodules};
use crate::policy::Policy;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Protected paths that did not exist, or were links, before a program ran. Can be stored until the program has ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Protection {
    before: Vec<(PathBuf, Option<PathBuf>)>,
    /// Places where a program may create a repository.
    without_repository: Vec<PathBuf>,
}

/// The paths as their bytes, which need not be text.
#[derive(Serialize, Deserialize)]
struct Stored {
    before: Vec<(OsString, Option<OsString>)>,
    without_repository: Vec<OsString>,
}

impl From<Protection> for Stored {
    fn from(protection: Protection) -> Self {
        let before = protection.before.into_iter();
        Self {
            before: before.map(|(path, link)| (path.into(), link.map(OsString::from))).collect(),
            without_repository: protection.without_repository.into_iter().map(OsString::from).collect(),
        }
    }
}

impl From<Stored> for Protection {
    fn from(stored: Stored) -> Self {
        let before = stored.before.into_iter();
        Self {
            before: before.map(|(path, link)| (path.into(), link.map(PathBuf::from))).collect(),
            without_repository: stored.without_repository.into_iter().map(PathBuf::from).collect(),
        }
    }
}

impl Protection {
    /// Remembers the protected paths that cannot be mounted over.
    pub fn before(policy: &Policy) -> Self {
        let state = |path: &PathBuf| match fs::symlink_metadata(path) {
            Err(_) => Some((path.clone(), None)),
            Ok(metadata) if metadata.is_symlink() => Some((path.clone(), Some(fs::read_link(path).ok()?))),
            Ok(_) => None,
        };
        let repositories = policy.writable.iter().map(|directory| directory.join(".git"));
        Self {
            before: policy.read_only.iter().filter_map(state).collect(),
            without_repository: repositories.filter(|git| fs::symlink_metadata(git).is_err()).collect(),
        }
    }

    /// Moves what a program created at these paths to a directory, and restores links that it replaced. Of a repository
    /// that it created, only what makes git run programs is moved. Returns the paths with the places to which their content
    /// was moved; none for content that could only be removed.
    pub fn revert(self, to: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
        let mut reverted = Vec::new();
        for (path, link) in self.before {
            let now = fs::symlink_metadata(&path).ok();
            let is_same = match (&now, &link) {
                (None, None) => true,
                (Some(now), Some(link)) => now.is_symlink() && fs::read_link(&path).is_ok_and(|target| target == *link),
                _ => false,
            };
            // What lies behind a link is not the program's; the link itself is, or was there before.
            if is_same || !lies_behind_no_link(&path) {
                continue;
            }
            let moved = now.and_then(|_| move_away(&path, to));
            if let Some(link) = &link {
                restore(link, &path);
            }
            reverted.push((path, moved));
        }
        let unwanted = self.without_repository.iter().flat_map(|git| unwanted_in(git));
        reverted.extend(unwanted.map(|path| {
            let moved = move_away(&path, to);
            (path, moved)
        }));
        reverted
    }
}

/// Returns whether the directory around a path is reached without links.
fn lies_behind_no_link(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.canonicalize().is_ok_and(|real| real == parent))
}

/// Returns the parts of a new repository with which git would run programs.
fn unwanted_in(git: &Path) -> Vec<PathBuf> {
    let Ok(metadata) = fs::symlink_metadata(git) else { return Vec::new() };
    if !metadata.is_dir() {
        // A pointer to a repository that the program wrote elsewhere, or a link to one.
        return vec![git.to_owned()];
    }
    let mut unwanted: Vec<PathBuf> =
        ["config.worktree", "commondir", "info/attributes"].map(|name| git.join(name)).into();
    let (submodules, is_complete) = submodules(git);
    unwanted.extend(Some(git.join("modules")).filter(|_| !is_complete));
    for repository in submodules.iter().map(PathBuf::as_path).chain([git]) {
        unwanted.extend(Some(repository.join("config")).filter(|config| !is_harmless_config(config)));
        let hooks = repository.join("hooks");
        match fs::symlink_metadata(&hooks) {
            Ok(metadata) if !metadata.is_dir() => unwanted.push(hooks),
            _ => {
                let entries = fs::read_dir(hooks).into_iter().flatten().flatten();
                let is_sample = |path: &Path| path.extension().is_some_and(|extension| extension == "sample");
                unwanted.extend(entries.map(|entry| entry.path()).filter(|path| !is_sample(path)));
            }
        }
    }
    unwanted.retain(|path| fs::symlink_metadata(path).is_ok() && lies_behind_no_link(path));
    unwanted
}

/// Returns whether git runs no program because of a config: it has only keys that `git init`, `git clone` and
/// `git submodule` write, and those of names and branches.
fn is_harmless_config(path: &Path) -> bool {
    if fs::symlink_metadata(path).is_err() {
        return true;
    }
    if !is_whole(path) {
        return false;
    }
    let Some(text) = read(path) else { return false };
    let mut section = String::new();
    let mut is_harmless = |line: &str| {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.split([' ', ']', '"']).next().unwrap_or_default().to_ascii_lowercase();
            // A second section on the line would have the keys below.
            return rest.ends_with(']') && rest.matches(['[', ']']).count() == 1;
        }
        let key = line.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        let known: &[&str] = match section.as_str() {
            "branch" | "user" | "init" => return !line.ends_with('\\'),
            "core" => &[
                "repositoryformatversion",
                "filemode",
                "bare",
                "logallrefupdates",
                "ignorecase",
                "precomposeunicode",
                "symlinks",
                "autocrlf",
                "eol",
            ],
            "remote" => &["url", "fetch", "pushurl"],
            "submodule" => &["url", "active"],
            _ => &[],
        };
        known.contains(&key.as_str()) && !line.ends_with('\\')
    };
    text.lines().all(&mut is_harmless)
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::GitUser;
    use crate::protected::protected_in;
    use crate::protected::tests::{directory, write};

    #[test]
    fn files_behind_a_link_of_the_program_stay() {
        let (_directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(work.join(".git")).unwrap();
        write(&root.join("mine/attributes"), "*.x filter=mine");
        let policy = Policy { read_only: protected_in(&work, &GitUser::default()), ..Policy::default() };
        let protection = Protection::before(&policy);
        std::os::unix::fs::symlink(root.join("mine"), work.join(".git/info")).unwrap();
        let reverted = protection.revert(&root.join("away"));
        assert_eq!(reverted.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), [work.join(".git/info")]);
        assert!(root.join("mine/attributes").exists() && fs::symlink_metadata(work.join(".git/info")).is_err());
    }

    #[test]
    fn new_repository_keeps_all_but_what_runs_programs() {
        let (_directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(&work).unwrap();
        let policy = Policy {
            writable: vec![work.clone()],
            read_only: protected_in(&work, &GitUser::default()),
            ..Policy::default()
        };
        let create = |config: &str| {
            let protection = Protection::before(&policy);
            write(&work.join(".git/config"), config);
            write(&work.join(".git/HEAD"), "ref: refs/heads/main\n");
            write(&work.join(".git/hooks/pre-commit.sample"), "");
            let reverted = protection.revert(&root.join("away"));
            let kept = work.join(".git/config").exists();
            assert!(work.join(".git/HEAD").exists() && work.join(".git/hooks/pre-commit.sample").exists());
            fs::remove_dir_all(work.join(".git")).unwrap();
            (kept, reverted.len())
        };
        let usual = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a.example/b\n[user]\n\tname = A\n";
        assert_eq!(create(usual), (true, 0));
        assert_eq!(create("[user][core]\n\tfsmonitor = ./x\n"), (false, 1));
        assert_eq!(create(&format!("{}[core]\nfsmonitor = ./x\n", "\n".repeat(600_000))), (false, 1));
        for bad in [
            "[core]\n\tfsmonitor = ./x\n",
            "[core]\n\tbare = false \\\n\tfsmonitor = ./x\n",
            "[filter \"x\"]\n\tsmudge = ./x\n",
            "[Include]\n\tpath = x\n",
            "[core] fsmonitor = ./x\n",
            "[user \"]\n[core]\"] name = x\n[alias]\n\tst = !x\n",
        ] {
            assert_eq!(create(bad), (false, 1), "{bad}");
        }
        let protection = Protection::before(&policy);
        write(&work.join(".git/hooks/post-checkout"), "x");
        write(&work.join(".git/commondir"), "../x");
        assert_eq!(protection.revert(&root.join("away")).len(), 2);
        let protection = Protection::before(&policy);
        fs::remove_dir_all(work.join(".git")).unwrap();
        assert!(protection.revert(&root.join("away")).is_empty());
        let protection = Protection::before(&policy);
        write(&work.join(".git"), "gitdir: x\n");
        assert_eq!(protection.revert(&root.join("away")).len(), 1);
    }

    #[test]
    fn created_files_are_moved_away_and_links_restored() {
        let (_directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(work.join("config")).unwrap();
        std::os::unix::fs::symlink("config", work.join(".vscode")).unwrap();
        let policy = Policy { read_only: protected_in(&work, &GitUser::default()), ..Policy::default() };
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
