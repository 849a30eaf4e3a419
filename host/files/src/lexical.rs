//! Paths without `.` and `..`.

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` without looking at the file system. `..` at the root stays at the root.
pub fn normalize_lexically(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_removed_by_spelling_alone() {
        for (path, normal) in [("/a/./b/../c", "/a/c"), ("/..", "/"), ("a/..", ""), ("./a//b/", "a/b")] {
            assert_eq!(normalize_lexically(Path::new(path)), Path::new(normal), "{path}");
        }
    }
}
