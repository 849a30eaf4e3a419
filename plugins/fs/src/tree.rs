//! Collecting the entries of a tree, directory by directory in the order of their paths, until there are enough or the time
//! is up. Missing entries then come after all that was found.

use crate::skipped::Skipped;
use crate::walk::joined;
use pinion_plugin_sdk::Result;
use pinion_plugin_sdk::workspace::{Entry, Kind, WalkResult};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum depth, as in walks of the host.
const MAX_DEPTH: u32 = 128;

/// The bounds of a tree.
pub(crate) struct Bounds {
    pub(crate) depth: u32,
    pub(crate) entries: usize,
}

/// The entries of a tree, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
    /// There are more entries than were asked for, or than the host lists.
    pub(crate) is_cut: bool,
    /// The time was up.
    pub(crate) is_late: bool,
}

/// A step of the work. Steps are keyed by path, with a final slash for the content of a directory.
enum Step {
    Add(Entry),
    List { depth: u32 },
}

impl Tree {
    /// Collects the entries below `root`. `list` lists one directory by its absolute path; `is_late` returns whether the time
    /// is up, and is asked before each directory but the first.
    ///
    /// # Errors
    /// The errors of `list` for the root. Other directories that cannot be listed have no entries.
    pub(crate) fn collect(
        root: &Path,
        bounds: &Bounds,
        skipped: &mut Skipped,
        mut list: impl FnMut(&Path) -> Result<WalkResult>,
        mut is_late: impl FnMut() -> bool,
    ) -> Result<Self> {
        let mut tree = Self::default();
        let mut steps = BTreeMap::new();
        let content = list(root)?;
        tree.add_steps(&mut steps, (root, ""), content, 1, bounds, skipped);
        while let Some((path, step)) = steps.pop_first() {
            match step {
                Step::Add(_) if tree.entries.len() == bounds.entries => {
                    tree.is_cut = true;
                    break;
                }
                Step::Add(entry) => tree.entries.push(entry),
                Step::List { .. } if is_late() => {
                    tree.is_late = true;
                    break;
                }
                Step::List { depth } => {
                    let path = path.trim_end_matches('/');
                    let directory = root.join(path);
                    if let Ok(content) = list(&directory) {
                        tree.add_steps(&mut steps, (&directory, path), content, depth, bounds, skipped);
                    }
                }
            }
        }
        Ok(tree)
    }

    /// Adds the steps for the content of a directory at `depth`.
    fn add_steps(
        &mut self,
        steps: &mut BTreeMap<String, Step>,
        (directory, path): (&Path, &str),
        content: WalkResult,
        depth: u32,
        bounds: &Bounds,
        skipped: &mut Skipped,
    ) {
        self.is_cut |= content.truncated;
        for entry in content.entries {
            let name = entry.path;
            let path = if path.is_empty() { name.clone() } else { joined(path, &name) };
            // In a worktree, `.git` is a file.
            let may_be_skipped = entry.kind == Kind::Directory || name == ".git";
            if may_be_skipped && skipped.skip(directory, &name, &path) {
                continue;
            }
            if entry.kind == Kind::Directory && depth < bounds.depth.min(MAX_DEPTH) {
                steps.insert(format!("{path}/"), Step::List { depth: depth + 1 });
            }
            steps.insert(path.clone(), Step::Add(Entry { path, ..entry }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::Error;

    /// A tree of directories, which have a final slash, and files.
    fn listed(paths: &'static [&'static str]) -> impl FnMut(&Path) -> Result<WalkResult> {
        move |directory| {
            let directory = directory.to_str().unwrap().trim_start_matches("/w").trim_start_matches('/');
            if directory.ends_with("closed") {
                return Err(Error::failed("closed"));
            }
            let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
            let names = paths.iter().filter_map(|path| path.strip_prefix(&prefix)).filter(|name| !name.is_empty());
            let direct = names.filter(|name| !name.trim_end_matches('/').contains('/'));
            let entry = |name: &str| Entry {
                path: name.trim_end_matches('/').to_owned(),
                kind: if name.ends_with('/') { Kind::Directory } else { Kind::File },
                size: 0,
                modified_ms: 0,
            };
            Ok(WalkResult { entries: direct.map(entry).collect(), truncated: false })
        }
    }

    const PATHS: &[&str] =
        &["a/", "a/x", "a/b/", "a/b/y", "a-b", "closed/", "closed/z", "node_modules/", "node_modules/m"];

    fn collected(depth: u32, entries: usize, is_late: impl FnMut() -> bool) -> (Vec<String>, Tree) {
        let mut skipped = Skipped::unless_named([]);
        let bounds = Bounds { depth, entries };
        let tree = Tree::collect(Path::new("/w"), &bounds, &mut skipped, listed(PATHS), is_late).unwrap();
        (tree.entries.iter().map(|entry| entry.path.clone()).collect(), tree)
    }

    #[test]
    fn entries_come_in_the_order_of_their_paths() {
        assert_eq!(collected(9, 99, || false).0, ["a", "a-b", "a/b", "a/b/y", "a/x", "closed"]);
        assert_eq!(collected(2, 99, || false).0, ["a", "a-b", "a/b", "a/x", "closed"]);
        assert_eq!(collected(1, 99, || false).0, ["a", "a-b", "closed"]);
    }

    #[test]
    fn first_entries_by_path_are_kept() {
        let (paths, tree) = collected(9, 3, || false);
        assert_eq!((paths, tree.is_cut, tree.is_late), (vec!["a".into(), "a-b".into(), "a/b".into()], true, false));
        assert!(!collected(9, 6, || false).1.is_cut);
    }

    #[test]
    fn late_walk_keeps_what_it_found() {
        let mut checks = 0;
        let (paths, tree) = collected(9, 99, || {
            checks += 1;
            checks > 1
        });
        // `a` was listed; `a/b` was not.
        assert_eq!((paths, tree.is_cut, tree.is_late), (vec!["a".into(), "a-b".into(), "a/b".into()], false, true));
        assert!(!collected(1, 99, || true).1.is_late);
    }

    #[test]
    fn root_that_cannot_be_listed_is_an_error() {
        let bounds = Bounds { depth: 2, entries: 9 };
        let closed = Path::new("/w/closed");
        let result = Tree::collect(closed, &bounds, &mut Skipped::default(), listed(PATHS), || false);
        assert_eq!(result.unwrap_err(), Error::failed("closed"));
    }
}
