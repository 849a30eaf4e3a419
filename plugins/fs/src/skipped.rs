//! Directories that are left out although no ignore file says so: `.git`, `node_modules`, and `target` where it is build
//! output. They have more entries than the project itself, and hardly any that a model looks for.
//!
//! A call that names one in its path or pattern gets it. The result says which ones were left out.

use crate::text::{count, shown};
use pinion_plugin_sdk::Result;
use pinion_plugin_sdk::workspace::WalkOptions;
use std::collections::BTreeSet;
use std::path::Path;

const GIT: &str = ".git";
const MODULES: &str = "node_modules";
const TARGET: &str = "target";
/// The mark of a cache directory (<https://bford.info/cachedir/>), which cargo creates in its target directory.
const CACHE_MARK: &str = "CACHEDIR.TAG";
/// Files beside a `target` that tools fill.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "pom.xml"];
/// Maximum number of walks to find all directories that are left out.
const ROUNDS: usize = 4;
/// Maximum number of directories to exclude by their paths; the host accepts 100 globs.
const MOST_GLOBS: usize = 90;
/// Maximum number of directories to name in a result.
const NAMED: usize = 5;

/// The directories that a call leaves out.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    /// The names that the call leaves out.
    names: Vec<&'static str>,
    /// The paths of those that it met, from the root of the walk.
    found: BTreeSet<String>,
}

impl Skipped {
    /// Leaves out the directories whose names are not in any of `texts`, the path and the pattern of the call.
    /// A pattern that excludes names nothing.
    pub(crate) fn unless_named<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = vec![GIT, MODULES, TARGET];
        for text in texts.into_iter().filter(|text| !text.starts_with('!')) {
            let words: Vec<&str> = text.split(|c: char| "/\\{},!*?[]".contains(c)).collect();
            names.retain(|name| !words.contains(name));
        }
        Self { names, found: BTreeSet::new() }
    }

    /// Leaves out version control data alone, for a call that asks for ignored files.
    pub(crate) fn with_ignored(mut self, ignored: Option<bool>) -> Self {
        self.names.retain(|&name| name == GIT || !ignored.unwrap_or_default());
        self
    }

    pub(crate) fn skips_git(&self) -> bool {
        self.names.contains(&GIT)
    }

    /// Returns whether to leave out the directory `name` in `parent`, whose path from the root is `path`, and notes it.
    pub(crate) fn skip(&mut self, parent: &Path, name: &str, path: &str) -> bool {
        let is_skipped = self.is_skipped(parent, name);
        if is_skipped {
            self.found.insert(format!("{path}/"));
        }
        is_skipped
    }

    fn is_skipped(&self, parent: &Path, name: &str) -> bool {
        self.names.contains(&name) && (name != TARGET || is_build_output(parent))
    }

    /// Runs `look` on the files below `root`, and again as long as it meets directories to leave out. Where ignore files cover
    /// them, one run is enough. `paths` returns the paths of a result, directories with a final slash.
    pub(crate) fn look<R>(
        &mut self,
        root: &Path,
        options: &WalkOptions,
        look: impl Fn(&WalkOptions) -> Result<R>,
        paths: impl Fn(&R) -> Vec<String>,
    ) -> Result<R> {
        let mut round = 1;
        loop {
            let globs = options.globs.iter().cloned().chain(self.globs()).collect();
            let result = look(&WalkOptions { globs, ..options.clone() })?;
            if !self.note_all(root, &paths(&result)) || round == ROUNDS || self.found.len() > MOST_GLOBS {
                return Ok(result);
            }
            round += 1;
        }
    }

    /// Notes the directories that `paths` lead through. Returns whether there are new ones.
    fn note_all(&mut self, root: &Path, paths: &[String]) -> bool {
        let before = self.found.len();
        for path in paths {
            for (end, _) in path.match_indices('/') {
                let (parent, name) = path[..end].rsplit_once('/').unwrap_or(("", &path[..end]));
                // The names first: looking for manifests costs system calls.
                let is_known = !self.names.contains(&name) || self.found.contains(&path[..=end]);
                if !is_known && self.skip(&root.join(parent), name, &path[..end]) {
                    break;
                }
            }
        }
        self.found.len() > before
    }

    fn globs(&self) -> impl Iterator<Item = String> {
        let has_modules = self.found.iter().any(|path| is_named(path, MODULES));
        let modules = has_modules.then(|| format!("!{MODULES}/"));
        let targets = self.found.iter().filter(|path| is_named(path, TARGET)).take(MOST_GLOBS);
        modules.into_iter().chain(targets.map(|path| format!("!/{}", escaped(path))))
    }

    /// Returns a line about the directories that were left out, if any.
    pub(crate) fn note(&self) -> Option<String> {
        let mut names: Vec<String> = self.found.iter().take(NAMED).map(|path| shown(path).into_owned()).collect();
        let more = self.found.len().saturating_sub(NAMED);
        if more > 0 {
            names.push(count(more as u64, "other"));
        }
        (!names.is_empty()).then(|| format!("[left out: {}; name one in the path to see it]", names.join(", ")))
    }
}

/// Returns whether a `target` in this directory has the output of a build.
fn is_build_output(parent: &Path) -> bool {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    exists(&parent.join(TARGET).join(CACHE_MARK)) || MANIFESTS.iter().any(|name| exists(&parent.join(name)))
}

fn is_named(path: &str, name: &str) -> bool {
    path.trim_end_matches('/').rsplit('/').next() == Some(name)
}

/// Escapes a path in a glob.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if "\\*?[]{}!#".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::fs;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        directory
    }

    fn skips(directory: &Path, name: &str) -> bool {
        Skipped::unless_named([]).skip(directory, name, name)
    }

    #[test]
    fn target_is_left_out_where_a_build_fills_it() {
        for built in [&["Cargo.toml", "target/x"][..], &["pom.xml", "target/x"], &["target/CACHEDIR.TAG"]] {
            assert!(skips(project(built).path(), "target"), "{built:?}");
        }
        assert!(!skips(project(&["target/lib.rs", "src/Cargo.toml"]).path(), "target"));
    }

    #[test]
    fn other_directories_stay() {
        let project = project(&["Cargo.toml"]);
        assert!(skips(project.path(), ".git") && skips(project.path(), "node_modules"));
        assert!(["targets", "src", ".github", "my_node_modules"].iter().all(|name| !skips(project.path(), name)));
    }

    #[test]
    fn named_directories_stay() {
        let names = |text| Skipped::unless_named([text]).names;
        assert_eq!(names("target/debug"), [GIT, MODULES]);
        assert_eq!(names("**/{node_modules,x}/*.js"), [GIT, TARGET]);
        assert_eq!(names("./.git"), [MODULES, TARGET]);
        assert_eq!(names("src/target.rs"), [GIT, MODULES, TARGET]);
        assert_eq!(Skipped::unless_named([]).with_ignored(Some(true)).names, [GIT]);
        assert_eq!(names("!target"), [GIT, MODULES, TARGET]);
    }

    #[test]
    fn walk_is_repeated_without_what_it_met() {
        let project = project(&["Cargo.toml", "target/x", "a[1]/pom.xml", "a[1]/target/y", "b/target/z"]);
        let walks = RefCell::new(Vec::new());
        let mut skipped = Skipped::unless_named([]);
        let options = crate::walk::filtered(project.path(), None, None, &skipped, 10);
        let look = |options: &WalkOptions| {
            walks.borrow_mut().push(options.globs.clone());
            let is_first = walks.borrow().len() == 1;
            Ok(if is_first {
                vec!["a[1]/target/y", "b/target/z", "c/node_modules/", "target/x"]
            } else {
                vec!["b/target/z"]
            })
        };
        let result = skipped.look(project.path(), &options, look, |r| r.iter().map(|&path| path.to_owned()).collect());
        assert_eq!(result.unwrap(), ["b/target/z"]);
        let walks = walks.into_inner();
        assert_eq!(walks[0], ["!.git"]);
        assert_eq!(walks[1..], [["!.git", "!node_modules/", "!/a\\[1\\]/target/", "!/target/"]]);
        let note = "[left out: a[1]/target/, c/node_modules/, target/; name one in the path to see it]";
        assert_eq!(skipped.note().as_deref(), Some(note));
    }

    #[test]
    fn many_directories_are_counted() {
        let mut skipped = Skipped::unless_named([]);
        assert_eq!(skipped.note(), None);
        for number in 0..7 {
            skipped.skip(Path::new(""), MODULES, &format!("{number}/{MODULES}"));
        }
        assert!(skipped.note().unwrap().contains("4/node_modules/, 2 others; name"), "{:?}", skipped.note());
    }
}
