//! The place in which a command would run.

use std::path::{Component, Path, PathBuf};

/// Maximum number of components of a path.
const MAX_COMPONENTS: usize = 256;

/// The place in which a command would run.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The project's directory, absolute and without links.
    pub workspace: &'a Path,
    /// The directory in which the command starts, absolute.
    pub directory: &'a Path,
    /// The user's home directory.
    pub home: Option<&'a Path>,
}

impl Scene<'_> {
    /// Returns whether a path, seen from `directory`, is in the workspace, whatever links it leads through.
    pub fn contains(&self, directory: &Path, path: &str) -> bool {
        self.resolved(directory, path).is_some_and(|path| path.starts_with(self.workspace))
    }

    /// Returns the file that the system opens for a path, seen from `directory`; `None` if that is not certain. Components at
    /// the end may be absent.
    pub fn resolved(&self, directory: &Path, path: &str) -> Option<PathBuf> {
        resolved(&directory.join(path))
    }
}

/// Returns the file that the system opens for an absolute path; `None` if that is not certain. Components at the end may be
/// absent.
fn resolved(path: &Path) -> Option<PathBuf> {
    let (mut current, mut is_absent) = (PathBuf::new(), false);
    for (number, component) in path.components().enumerate() {
        match component {
            _ if number > MAX_COMPONENTS => return None,
            Component::CurDir => {}
            // The parent of what a link leads to is not the one that the spelling suggests.
            Component::ParentDir if is_absent => return None,
            Component::ParentDir => drop(current.pop()),
            other => {
                current.push(other);
                match current.symlink_metadata() {
                    _ if is_absent => {}
                    // A link that leads nowhere may lead anywhere.
                    Ok(found) if found.is_symlink() => current = current.canonicalize().ok()?,
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => is_absent = true,
                    Err(_) => return None,
                }
            }
        }
    }
    Some(current)
}

/// Removes `.`, `..` and double slashes from an absolute path by its spelling alone.
pub fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(result.pop()),
            other => result.push(other),
        }
    }
    result
}
