//! What the tools that walk have in common: options for the host, and paths for the model.

use pinion_plugin_sdk::workspace::WalkOptions;
use std::path::Path;

/// The walk's root where the model names none.
pub(crate) const HERE: &str = ".";

/// What in `root` matches `glob`, or all: hidden files too (a project's `.github` is part of it), but not what version
/// control keeps for itself.
pub(crate) fn options(root: &Path, glob: Option<&str>, limit: u32) -> WalkOptions {
    // Of several globs that match, the last one counts.
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

/// What begins with `./` is meant from the root of the walk; in a glob that is said by `/`.
fn anchored(glob: &str) -> String {
    glob.strip_prefix("./").map_or_else(|| glob.to_owned(), |rest| format!("/{rest}"))
}

/// A path that other tools take, from one relative to `root`; empty is the root itself.
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
    fn a_glob_that_begins_with_a_dot_counts_from_the_root() {
        assert_eq!(["*", "**/*.rs", "./*.rs"].map(anchored), ["*", "**/*.rs", "/*.rs"]);
    }

    #[test]
    fn paths_are_joined_so_that_read_takes_them() {
        assert_eq!(joined(".", "a/b"), "a/b");
        assert_eq!(joined("./", "a"), "a");
        assert_eq!(joined("./src/", "a"), "src/a");
        assert_eq!(joined("/", "a"), "/a");
        assert_eq!(joined("src/lib.rs", ""), "src/lib.rs");
    }
}
