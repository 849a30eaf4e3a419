//! The paths that a store leaves alone: its own files, the application's files, and protected ones.

use crate::path::RelPath;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The paths that a store leaves alone.
#[derive(Debug, Clone)]
pub(crate) struct Excluded {
    /// As they are spelled, and where links lead, below the root.
    pub(crate) paths: BTreeSet<RelPath>,
    /// All of them, also those that are below the root only by another name.
    all: Vec<PathBuf>,
}

impl Excluded {
    pub(crate) fn new(root: &Path, all: Vec<PathBuf>) -> Self {
        let real_root = real(root);
        let spelled = all.iter().filter_map(|path| inside(path, root));
        let real = all.iter().filter_map(|path| inside(&real(path), &real_root));
        Self { paths: spelled.chain(real).collect(), all }
    }

    /// Adds paths as they are spelled.
    pub(crate) fn with(&self, root: &Path, more: impl Iterator<Item = PathBuf>) -> Self {
        let mut excluded = self.clone();
        for path in more {
            excluded.paths.extend(inside(&path, root));
            excluded.all.push(path);
        }
        excluded
    }

    /// Returns the devices and inodes of those that exist.
    pub(crate) fn identities(&self) -> BTreeSet<(u64, u64)> {
        let identity = |path: &PathBuf| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        self.all.iter().filter_map(identity).collect()
    }
}

/// Returns the path below a directory.
fn inside(path: &Path, root: &Path) -> Option<RelPath> {
    RelPath::try_from(path.strip_prefix(root).ok()?).ok()
}

/// Returns the path without links; if it does not exist, only in the part up to the nearest directory that does.
fn real(path: &Path) -> PathBuf {
    let above =
        path.ancestors().find_map(|above| Some((fs::canonicalize(above).ok()?, path.strip_prefix(above).ok()?)));
    above.map_or_else(|| path.to_owned(), |(above, rest)| above.join(rest))
}
