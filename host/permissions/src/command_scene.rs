//! The place where a command would run.

use std::path::{Component, Path, PathBuf};

/// Maximum number of components of a path.
const MAX_COMPONENTS: usize = 256;

/// The place where a command would run.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The project's directory, absolute and without links.
    pub workspace: &'a Path,
    /// The directory where the command starts, absolute.
    pub directory: &'a Path,
    /// The user's home directory.
    pub home: Option<&'a Path>,
}

impl Scene<'_> {
    /// Returns whether a path, seen from `directory`, is in the workspace, also through links.
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
            // The parent of a link's target is not the one that the spelling suggests.
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

/// Maximum number of entries of directories that are compared with one pattern.
const MAX_ENTRIES: usize = 4_000;

/// Returns all paths that may replace a pattern in the shell, seen from `directory`, and perhaps more; `None` if there
/// are too many entries to look at. Names that begin with a dot need a pattern that does.
pub(crate) fn expansions(directory: &Path, pattern: &str) -> Option<Vec<PathBuf>> {
    let (mut found, mut looked_at) = (vec![PathBuf::new()], 0_usize);
    for component in directory.join(pattern).components() {
        let name = component.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let before = name.find('[').map_or(&*name, |at| &name[..at]);
        let loose = format!("{}{}", before.replace('?', "*"), if before.len() < name.len() { "*" } else { "" });
        let mut next = Vec::new();
        for around in found {
            for entry in std::fs::read_dir(&around).into_iter().flatten() {
                looked_at += 1;
                let entry = entry.ok().filter(|_| looked_at <= MAX_ENTRIES)?;
                let name = entry.file_name();
                let text = name.to_string_lossy();
                if glob(&loose, &text) && (loose.starts_with('.') || !text.starts_with('.')) {
                    next.push(around.join(name));
                }
            }
        }
        found = next;
    }
    Some(found)
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

/// Matches a pattern whose `*` stands for any text. Takes at most the product of both lengths in steps.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read, mut retry) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, read + 1));
                at += 1;
            }
            Some(byte) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            _ => match retry {
                Some((after, from)) => {
                    (at, read) = (after, from);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_of_what_does_not_exist_is_uncertain() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        assert_eq!(resolved(&root.join("a/../b")), Some(root.join("b")));
        assert_eq!(resolved(&root.join("b/c")), Some(root.join("b/c")));
        // It may be a link when the system opens the path.
        assert_eq!(resolved(&root.join("b/../a")), None);
    }
}
