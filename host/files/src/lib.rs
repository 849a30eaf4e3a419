//! Files on disk, opened and written in one way by all crates.
//!
//! The functions of [`open`] open a file or a directory without waiting, even if another program put a pipe in its place.
//! [`AtomicWrite`] writes a file by its path, and [`NewFile`] writes one in an open directory: under a temporary name, or
//! without a name, until its content is complete.

mod atomic_write;
mod new_file;
pub mod open;

pub use atomic_write::{AtomicWrite, Durability, TemporaryFile, UnplacedFile};
pub use new_file::NewFile;

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
