//! Listing files for a person, with the walk and the limits of the plugins.

use super::Root;
use super::walk::{MAX_ENTRIES, walk};
use crate::bindings::pinion::plugin::workspace::{Kind, WalkOptions, WorkspaceError};
use crate::calls::deadline::Deadline;
use crate::limits::Limits;
use crate::paths::beneath::{AtEnd, find};
use cap_std::fs::Dir;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Lists the regular files below a directory that its ignore files do not exclude, as paths from it, sorted. Links are
/// not followed, so nothing outside is read. Of more than 100,000 entries, the first by path are listed. Blocks, at most
/// about as long as `limit`.
///
/// # Errors
/// The directory cannot be read, or the limit is over.
pub fn list_files(directory: &Path, limit: Duration) -> io::Result<Vec<String>> {
    let options = WalkOptions {
        root: String::new(),
        globs: Vec::new(),
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit: MAX_ENTRIES,
    };
    let deadline_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let deadline = Deadline::new(&Limits { deadline_ms, ..Limits::default() }, CancellationToken::new(), None);
    let found = walk(&root(directory)?, &options, &deadline).map_err(failure)?;
    let files = found.entries.into_iter().filter(|entry| entry.kind == Kind::File);
    Ok(files.map(|entry| entry.path).collect())
}

fn root(directory: &Path) -> io::Result<Root> {
    let open = File::open(directory)?;
    Ok(Root {
        directory: Dir::from_std_file(open.try_clone()?),
        relative: PathBuf::new(),
        spot: find(&Arc::new(open), directory, Path::new("."), AtEnd::Follow)?,
        denied: Vec::new(),
        exclusions: Arc::default(),
        path: directory.display().to_string(),
    })
}

fn failure(error: WorkspaceError) -> io::Error {
    match error {
        WorkspaceError::Cancelled => io::ErrorKind::TimedOut.into(),
        WorkspaceError::NotFound(text) => io::Error::new(io::ErrorKind::NotFound, text),
        WorkspaceError::Denied(text) => io::Error::new(io::ErrorKind::PermissionDenied, text),
        WorkspaceError::InvalidPattern(text) | WorkspaceError::Io(text) => io::Error::other(text),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    const LIMIT: Duration = Duration::from_secs(600);

    #[test]
    fn listing_of_a_hostile_directory_neither_blocks_nor_leaves_it() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub/.ignore"), "b\n").unwrap();
        ["a", "sub/b", "sub/c"].iter().for_each(|path| std::fs::write(at(path), "").unwrap());
        mknodat(CWD, at(".gitignore"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::os::unix::fs::symlink(outside.path(), at("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), at("file")).unwrap();
        assert_eq!(list_files(directory.path(), LIMIT).unwrap(), ["a", "sub/.ignore", "sub/c"]);
    }

    #[test]
    fn listing_ends_with_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "").unwrap();
        let error = list_files(directory.path(), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(list_files(&directory.path().join("none"), LIMIT).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
