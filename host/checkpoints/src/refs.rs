//! The refs of the repositories in a directory. No snapshot has the objects of a repository, so undoing names the refs that
//! moved, with the commands that move them back.

use crate::path::RelPath;
use crate::tree::{AllRefs, Tree};
use crate::walk::{WalkedPath, What};
use pinion_git::{MAX_REFS, RepositoryLayout as GitTree, command_to_restore, refs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Repositories whose refs are read; refs of further ones are not known.
const MAX_REPOSITORIES: usize = 50;

/// A ref that work moved, removed or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The directory where git finds the repository; `None` for the root of the tree.
    pub directory: Option<RelPath>,
    /// The full name, or `stash/` and the object of a stash.
    pub name: String,
    /// The object before the work, or `ref: ` and the name of another ref; `None` if the ref did not exist.
    pub was: Option<String>,
    /// The same after it.
    pub now: Option<String>,
    /// Others changed it after the work.
    pub is_changed_since: bool,
}

impl RefChange {
    /// Returns the command that gives the ref its value from before the work.
    pub fn command(&self) -> Option<Vec<String>> {
        let command = command_to_restore(&self.name, self.was.as_deref(), self.now.as_deref())?;
        let directory = self.directory.iter().flat_map(|path| ["-C".to_owned(), path.to_string()]);
        Some(std::iter::once("git".to_owned()).chain(directory).chain(command).collect())
    }
}

/// Reads the refs of the repositories that a walk found.
pub(crate) fn read(root: &Path, found: &[WalkedPath]) -> Arc<AllRefs> {
    let protected = found.iter().filter(|found| matches!(found.what, What::Protected));
    let repositories = protected.map(|found| &found.path);
    let directories = repositories.map(|path| if path.name() == ".git" { path.parent() } else { Some(path.clone()) });
    // A bare repository at the root is not an entry.
    let directories: BTreeSet<Option<RelPath>> = std::iter::once(None).chain(directories).collect();
    let mut all = AllRefs::new();
    let mut left = MAX_REFS;
    for directory in directories.into_iter().take(MAX_REPOSITORIES) {
        let place = directory.as_ref().map_or_else(|| root.to_owned(), |path| root.join(path.as_path()));
        let found = GitTree::at(&place).and_then(|tree| refs(&tree.git?));
        let Some(found) = found.filter(|found| found.len() <= left) else { continue };
        left -= found.len();
        all.insert(directory, found);
    }
    Arc::new(all)
}

/// Changes of refs that several pieces of work made, in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct RefChanges {
    /// For each ref, its value before the first and after the last change.
    changes: BTreeMap<RefKey, (Option<String>, Option<String>)>,
}

impl RefChanges {
    /// Adds the changes of work that came after all that was added.
    pub(crate) fn add_later(&mut self, before: &Tree, after: &Tree) {
        for (key, was, now) in changes(before, after) {
            let (_, last) = self.changes.entry(key).or_insert((was, None));
            *last = now;
        }
    }

    /// Adds the changes of work that came before all that was added.
    pub(crate) fn add_earlier(&mut self, before: &Tree, after: &Tree) {
        for (key, was, now) in changes(before, after) {
            let (first, _) = self.changes.entry(key).or_insert((None, now));
            *first = was;
        }
    }

    /// Returns the refs that are not as they were.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RefChange> {
        let changed = self.changes.iter().filter(|(_, (was, now))| was != now);
        changed.map(|((directory, name), (was, now))| RefChange {
            directory: directory.clone(),
            name: name.clone(),
            was: was.clone(),
            now: now.clone(),
            is_changed_since: false,
        })
    }

    /// Returns the refs that are not as they were, with their values in a later tree.
    pub(crate) fn until(&self, current: &Tree) -> Vec<RefChange> {
        let now = |change: RefChange| {
            // A repository that is gone is named as a whole.
            let now = current.refs().get(&change.directory)?.get(&change.name).cloned();
            let is_changed_since = now != change.now;
            (now != change.was).then_some(RefChange { now, is_changed_since, ..change })
        };
        self.iter().filter_map(now).collect()
    }
}

/// The directory of a repository, and the name of a ref in it.
type RefKey = (Option<RelPath>, String);
/// A ref, with its values before and after work.
type Changed = (RefKey, Option<String>, Option<String>);

/// Returns the refs that differ between two trees, of repositories that both have.
fn changes<'a>(before: &'a Tree, after: &'a Tree) -> impl Iterator<Item = Changed> + 'a {
    let both = before.refs().iter().filter_map(|(directory, was)| Some((directory, was, after.refs().get(directory)?)));
    both.filter(|(_, was, now)| was != now).flat_map(|(directory, was, now)| {
        let names: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
        let changed = names.into_iter().filter(|name| was.get(*name) != now.get(*name));
        changed.map(|name| ((directory.clone(), name.clone()), was.get(name).cloned(), now.get(name).cloned()))
    })
}
