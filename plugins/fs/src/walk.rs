//! Common parts of the tools that walk directories: options for the host and paths for the model.

use crate::skipped::Skipped;
use pinion_plugin_sdk::workspace::WalkOptions;
use std::path::Path;

/// The default root of a walk.
pub(crate) const HERE: &str = ".";

/// Returns options for a walk of everything in `root`. Includes hidden files: a project's `.github` is part of it.
pub(crate) fn all(root: &Path, limit: u32) -> WalkOptions {
    WalkOptions {
        root: root.to_string_lossy().into_owned(),
        globs: Vec::new(),
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit,
    }
}

/// Returns options for a walk of `root`, filtered by `glob` if any, with ignored files if `ignored` asks for them.
pub(crate) fn filtered(
    root: &Path,
    glob: Option<&str>,
    ignored: Option<bool>,
    skipped: &Skipped,
    limit: u32,
) -> WalkOptions {
    // The host takes `.git` for ignored. The last matching glob decides.
    let skips_git = skipped.skips_git();
    let globs = glob.map(anchored).into_iter().chain(skips_git.then(|| "!.git".to_owned())).collect();
    WalkOptions { globs, ignore_files: skips_git && !ignored.unwrap_or_default(), ..all(root, limit) }
}

/// Converts a leading `./` to `/`, which anchors a glob at the root of the walk.
fn anchored(glob: &str) -> String {
    glob.strip_prefix("./").map_or_else(|| glob.to_owned(), |rest| format!("/{rest}"))
}

/// Joins `relative` to `root` so that other tools accept the path; an empty `relative` is the root itself.
pub(crate) fn joined(root: &str, relative: &str) -> String {
    let root = root.trim_end_matches('/');
    let root = root.strip_prefix("./").unwrap_or(root);
    match (root, relative) {
        (HERE, relative) => relative.to_owned(),
        (root, "") => root.to_owned(),
        (root, relative) => format!("{root}/{relative}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_dot_slash_anchors_a_glob() {
        assert_eq!(["*", "**/*.rs", "./*.rs"].map(anchored), ["*", "**/*.rs", "/*.rs"]);
    }

    #[test]
    fn git_is_walked_only_if_it_is_named() {
        let filtered = |pattern, ignored| {
            let options = filtered(Path::new("/w"), Some(pattern), ignored, &Skipped::unless_named([pattern]), 9);
            (options.globs, options.ignore_files)
        };
        assert_eq!(filtered("./*.rs", None), (vec!["/*.rs".into(), "!.git".into()], true));
        assert_eq!(filtered("*.rs", Some(true)), (vec!["*.rs".into(), "!.git".into()], false));
        assert_eq!(filtered(".git/hooks/*", None), (vec![".git/hooks/*".into()], false));
        assert_eq!(filtered("!.git", None), (vec!["!.git".into(), "!.git".into()], true));
    }

    #[test]
    fn read_accepts_joined_paths() {
        assert_eq!(joined(".", "a/b"), "a/b");
        assert_eq!(joined("./", "a"), "a");
        assert_eq!(joined("./src/", "a"), "src/a");
        assert_eq!(joined("/", "a"), "/a");
        assert_eq!(joined("src/lib.rs", ""), "src/lib.rs");
    }
}
