//! Repositories in the directories that a program may write to: before it starts, and once it has ended.

use pinion_exclusions::{ExcludedPaths, Finder};
use pinion_sandbox::{OpenedDirectories, directory_of_setting, nearby};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of a writable directory besides the workspace, such as a cache, that are listed for each program.
const MAX_ENTRIES: usize = 20_000;
/// Settings deeper in a workspace.
const MAX_SETTINGS: usize = 10_000;
/// Levels of directories that a program has closed in each other.
const MAX_CLOSED: usize = 100;

/// Repositories of writable directories besides the workspace. In a directory with too many entries, only those at its top
/// are found.
#[derive(Default)]
pub struct OtherRepositories(Mutex<BTreeMap<PathBuf, Option<Arc<Finder>>>>);

impl OtherRepositories {
    /// Returns directories in `roots` that are or contain repositories.
    pub fn find_repositories(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        roots
            .iter()
            .flat_map(|root| self.scan_directory(root).map_or_else(|| nearby(root), |found| found.repositories.clone()))
            .collect()
    }

    /// Looks at a directory; `None` if it has too many entries, now or before.
    fn scan_directory(&self, root: &Path) -> Option<Arc<ExcludedPaths>> {
        let finder = {
            let mut finders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Some(Arc::new(Finder::of_repositories(root, MAX_ENTRIES)));
            finders.entry(root.to_owned()).or_insert_with(new).clone()?
        };
        let found = finder.find_excluded().ok().filter(|found| found.incomplete.is_none());
        if found.is_none() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(root.to_owned(), None);
        }
        found
    }
}

/// Returns the repositories of a workspace that a look has found.
pub fn repositories(found: &ExcludedPaths, workspace: &Path) -> Vec<PathBuf> {
    match found.incomplete {
        Some(_) => nearby(workspace),
        None => found.repositories.clone(),
    }
}

/// Returns the settings deeper in a workspace that a look has found, in directories that were there when the session began:
/// those in a clone or an archive that came later are part of it. None if not all are known, or if there are too many.
pub fn nested_settings(found: &ExcludedPaths) -> Vec<PathBuf> {
    let is_old = |path: &&PathBuf| directory_of_setting(path).is_some_and(|around| found.was_there_first(around));
    if has_settings(found) { found.picked.iter().filter(is_old).cloned().collect() } else { Vec::new() }
}

fn has_settings(found: &ExcludedPaths) -> bool {
    found.incomplete.is_none() && found.picked.len() <= MAX_SETTINGS
}

/// Ways to look at the writable directories of a program again.
pub struct Looks {
    /// Exclusions of the workspace.
    pub workspace: Arc<Finder>,
    /// Repositories outside of the workspace.
    pub others: Arc<OtherRepositories>,
    /// The look before the program.
    pub before: Arc<ExcludedPaths>,
}

/// The repositories after a program.
#[derive(Default)]
pub struct Present {
    /// The directories that were searched.
    pub directories: Vec<PathBuf>,
    /// Settings deeper in the workspace.
    pub settings: Vec<PathBuf>,
    /// The reason why not all of them were found.
    pub problem: Option<String>,
    /// Directories that are open as long as this lives.
    _opened: OpenedDirectories,
}

impl Present {
    /// Looks at the tops of directories.
    pub fn nearby(roots: &[PathBuf]) -> Self {
        Self { directories: roots.iter().flat_map(|root| nearby(root)).collect(), ..Self::default() }
    }
}

impl Looks {
    /// Looks at the workspace, and at the others of these directories. Directories that the program has closed to its user
    /// are open in the meantime.
    pub fn again(&self, roots: &[PathBuf]) -> Present {
        let mut opened = OpenedDirectories::default();
        let workspace = self.workspace.exclusions().workspace();
        let mut look = self.workspace.find_excluded();
        for _ in 0..MAX_CLOSED {
            let Ok(found) = &look else { break };
            let is_new = |path: &&PathBuf| !self.before.closed.contains(path);
            let closed: Vec<PathBuf> = found.closed.iter().filter(is_new).cloned().collect();
            if !opened.open(roots, &closed) {
                break;
            }
            look = self.workspace.find_excluded();
        }
        let (mut directories, settings, problem) = match &look {
            Ok(found) => {
                let problem = found.incomplete.as_ref().map(ToString::to_string);
                let is_comparable = self.before.incomplete.is_none();
                let settings = if has_settings(&self.before) { nested_settings(found) } else { Vec::new() };
                (repositories(found, workspace), settings, problem.filter(|_| is_comparable))
            }
            Err(error) => (nearby(workspace), Vec::new(), Some(error.to_string())),
        };
        let others: Vec<PathBuf> = roots.iter().filter(|root| *root != workspace).cloned().collect();
        directories.extend(self.others.find_repositories(&others));
        Present { directories, settings, problem, _opened: opened }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn repository_in_a_closed_directory_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let workspace = Arc::new(Finder::of_repositories(&root, 1_000));
        let before = workspace.find_excluded().unwrap();
        let looks = Looks { workspace, others: Arc::default(), before };
        let mode = |path: &str, bits: u32| {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(bits)).unwrap();
        };
        fs::create_dir_all(root.join("a/b/sub/.git")).unwrap();
        mode("a/b", 0);
        mode("a", 0o600);
        let present = looks.again(std::slice::from_ref(&root));
        assert_eq!(present.directories, [root.join("a/b/sub")]);
        drop(present);
        assert_eq!(fs::metadata(root.join("a")).unwrap().permissions().mode() & 0o777, 0o600);
        mode("a", 0o755);
        assert_eq!(fs::metadata(root.join("a/b")).unwrap().permissions().mode() & 0o777, 0);
        mode("a/b", 0o755);
    }

    #[test]
    fn settings_in_directories_of_the_session_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let create = |path: &str| fs::create_dir_all(root.join(path)).unwrap();
        create("old/.vscode");
        create("plain/src");
        create("module");
        let finder = Finder::of_repositories(&root, 1_000).picking(pinion_sandbox::is_nested_setting);
        let found = || nested_settings(&finder.find_excluded().unwrap());
        assert_eq!(found(), [root.join("old/.vscode")]);
        // A submodule comes up in an empty directory.
        ["clone/.vscode", "clone/sub/.github/hooks", "module/.idea", "plain/.github/hooks"]
            .iter()
            .for_each(|path| create(path));
        assert_eq!(found(), [root.join("old/.vscode"), root.join("plain/.github/hooks")]);
        // Another directory in the place of an old one is no new one.
        fs::rename(root.join("plain"), root.join("away")).unwrap();
        create("plain/.zed");
        assert_eq!(found(), [root.join("old/.vscode"), root.join("plain/.zed")]);
    }

    #[test]
    fn large_directories_are_looked_at_at_the_top() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["top/.git", "a/deep/.git"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let roots = [root.clone()];
        let others = OtherRepositories::default();
        assert_eq!(others.find_repositories(&roots), [root.join("a/deep"), root.join("top")]);
        (0..MAX_ENTRIES).for_each(|at| fs::write(root.join(format!("a/{at}")), "").unwrap());
        assert_eq!(others.find_repositories(&roots), [root.join("top")]);
        assert!(others.0.lock().unwrap()[&root].is_none(), "it is not listed again");
    }
}
