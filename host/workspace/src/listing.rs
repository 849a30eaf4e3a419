//! Listing files for a person, with the walk and the limits of the plugins.

use crate::paths::beneath::{AtEnd, find};
use crate::threads::Limit;
use crate::types::WalkRoot;
use crate::types::{Kind, WalkOptions, WorkspaceError};
use crate::walk::first_by_path::FirstByPath;
use crate::walk::{Extent, IncludedEntry, MAX_ENTRIES, MAX_FOUND_BYTES, Visitor, path_bytes, text, visit};
use cap_std::fs::Dir;
use pinion_files::open::open_directory;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files below a directory.
#[derive(Debug, Default)]
pub struct FileList {
    /// Paths from the directory, sorted.
    pub paths: Vec<String>,
    /// There are more: the list has the first ones by path.
    pub is_cut: bool,
}

/// Lists the regular files below a directory that its ignore files do not exclude. Links are not followed, so nothing outside is
/// read. Of more than 100,000 files, the first by path are listed. Blocks, at most about as long as `limit`.
///
/// # Errors
/// The directory cannot be read, or the limit is over.
pub fn list_files(directory: &Path, limit: Duration) -> io::Result<FileList> {
    list(directory, limit, MAX_ENTRIES)
}

fn list(directory: &Path, limit: Duration, most: u32) -> io::Result<FileList> {
    let options = WalkOptions {
        globs: Vec::new(),
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit: most,
    };
    let deadline = Limit::new(limit);
    let files = WalkedFiles(FirstByPath::new([most.into(), MAX_FOUND_BYTES]));
    let extent = visit(&root(directory)?, &options, &deadline, &files).map_err(failure)?;
    let (mut files, is_over) = files.0.into_sorted();
    if is_over {
        files.pop();
    }
    let paths = files.into_iter().map(|(path, ())| text(path)).collect();
    Ok(FileList { paths, is_cut: is_over || extent == Extent::Cut })
}

/// The regular files of a walk; directories do not count.
struct WalkedFiles(FirstByPath<(), 2>);

impl Visitor for WalkedFiles {
    type Tools = ();
    const RUN: usize = 64;

    fn tools(&self) {}

    fn visit(&self, (): &mut (), found: &IncludedEntry<'_>) {
        if found.kind == Kind::File {
            self.0.add(found.path, [1, path_bytes(found.path)], ());
        }
    }

    fn is_beyond(&self, path: &OsStr) -> bool {
        self.0.is_beyond(path)
    }
}

fn root(directory: &Path) -> io::Result<WalkRoot> {
    let open = open_directory(directory)?;
    Ok(WalkRoot {
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
        let listed = list_files(directory.path(), LIMIT).unwrap();
        assert_eq!((listed.paths, listed.is_cut), (vec!["a".into(), "sub/.ignore".into(), "sub/c".into()], false));
    }

    #[test]
    fn directories_take_no_place_of_files_and_a_cut_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3", "4"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
            std::fs::write(directory.path().join(name).join("file"), "").unwrap();
        }
        let listed = |most| list(directory.path(), LIMIT, most).unwrap();
        assert_eq!((listed(4).paths.len(), listed(4).is_cut), (4, false));
        assert_eq!((listed(3).paths.last().map(String::as_str), listed(3).is_cut), (Some("3/file"), true));
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
