//! Paths whose links are resolved.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Resolves links in the part of a path that exists.
pub fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Returns the path that identifies a file: with a directory that contains no links. The file itself may be a link, because
/// a digest covers its content.
pub fn without_links(path: &Path) -> PathBuf {
    match (path.parent().and_then(directory), path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

/// A directory that was resolved.
struct Resolved {
    directory: PathBuf,
    state: DirectoryStamp,
    real: PathBuf,
}

/// The numbers of a directory and of its device, and the time of its last change, with nanoseconds.
type DirectoryStamp = (u64, u64, i64, i64);

/// Resolves the links in the path of a directory. Hundreds of plugins lie in the same one, and each part of the path costs a
/// call of the system, so that the last one is kept for as long as it is the same directory, unchanged.
fn directory(directory: &Path) -> Option<PathBuf> {
    static LAST: Mutex<Option<Resolved>> = Mutex::new(None);
    let Some(state) = state(directory) else { return directory.canonicalize().ok() };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(last) = last.as_ref().filter(|last| last.directory == directory && last.state == state) {
        return Some(last.real.clone());
    }
    let real = directory.canonicalize().ok()?;
    *last = Some(Resolved { directory: directory.to_owned(), state, real: real.clone() });
    Some(real)
}

/// Returns the state of a directory; `None` if it is a link, or on systems that do not tell.
fn state(directory: &Path) -> Option<DirectoryStamp> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let found = directory.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
        Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
    }
    #[cfg(not(unix))]
    {
        let _ = directory;
        None
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_changed_places_with_another_is_resolved_again() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (plugins, other) = (root.join("plugins"), root.join("other"));
        for directory in [&plugins, &other] {
            std::fs::create_dir(directory).unwrap();
        }
        let file = plugins.join("a.wasm");
        assert_eq!(without_links(&file), file);
        std::fs::remove_dir(&plugins).unwrap();
        std::os::unix::fs::symlink(&other, &plugins).unwrap();
        assert_eq!(without_links(&file), other.join("a.wasm"));
        std::fs::remove_file(&plugins).unwrap();
        std::fs::create_dir_all(root.join("real/plugins")).unwrap();
        let below = root.join("link/plugins/a.wasm");
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        assert_eq!(without_links(&below), root.join("real/plugins/a.wasm"));
        std::fs::remove_file(root.join("link")).unwrap();
        std::fs::create_dir_all(root.join("link/plugins")).unwrap();
        assert_eq!(without_links(&below), below);
        assert_eq!(without_links(&root.join("gone/a.wasm")), root.join("gone/a.wasm"));
    }
}
