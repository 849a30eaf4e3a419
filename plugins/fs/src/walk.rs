//! Common parts of the tools that walk directories: options for the host and paths for the model.

use pinion_plugin_sdk::workspace::WalkOptions;
use std::path::Path;

/// The default root of a walk.
pub(crate) const HERE: &str = ".";

/// Returns options for a walk of `root`, filtered by `glob` if any. Includes hidden files (a project's `.github` is
/// part of it), except version control directories.
pub(crate) fn options(root: &Path, glob: Option<&str>, limit: u32) -> WalkOptions {
    // The last matching glob decides.
    let globs = glob.map(anchored).into_iter().chain(["!.git".to_owned()]).collect();
    WalkOptions {
        root: root.to_string_lossy().into_owned(),
        globs,
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit,
    }
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
    fn read_accepts_joined_paths() {
        assert_eq!(joined(".", "a/b"), "a/b");
        assert_eq!(joined("./", "a"), "a");
        assert_eq!(joined("./src/", "a"), "src/a");
        assert_eq!(joined("/", "a"), "/a");
        assert_eq!(joined("src/lib.rs", ""), "src/lib.rs");
    }
}
