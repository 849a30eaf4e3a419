//! Writes the files of a snapshot to another directory.

use crate::error::Error;
use crate::path::RelPath;
use crate::root::{SET_ID, TreeRoot, open_directory, set_mode};
use crate::store::CheckpointStore;
use crate::tree::{GapReason, Tree, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

impl CheckpointStore {
    /// Writes the files, links and directories of a snapshot to an empty directory. Its user can write to all directories
    /// and owns all files, and no file has the rights of its owner. Returns the paths that have no copy.
    ///
    /// # Errors
    /// A content was removed or is damaged, or the directory cannot be written.
    pub fn check_out(&self, tree: &Tree, directory: &Path) -> Result<Vec<(RelPath, GapReason)>, Error> {
        let root = TreeRoot::open(directory)?;
        let failed = |path: &RelPath| Error::system("write", &directory.join(path.as_path()));
        let (mut gaps, mut directories) = (Vec::new(), Vec::new());
        for (path, entry) in tree.iter() {
            match entry {
                TreeEntry::Directory { mode, .. } => {
                    make_directory(&root, path).map_err(failed(path))?;
                    directories.push((path, *mode));
                }
                TreeEntry::Link { target } => {
                    let parent = parent(&root, path).map_err(failed(path))?;
                    symlinkat(target.as_slice(), &parent, path.name()).map_err(failed(path))?;
                }
                TreeEntry::File { mode, content, .. } => {
                    let parent = parent(&root, path).map_err(failed(path))?;
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let file = openat(&parent, path.name(), flags, Mode::from_raw_mode(0o600)).map_err(failed(path))?;
                    let mut file = File::from(file);
                    self.objects.restore(*content, &mut file)?;
                    // Permission bits fit into the smaller type of some systems.
                    let mode = Mode::from_bits_truncate((mode & !SET_ID) as rustix::fs::RawMode);
                    fchmod(&file, mode).map_err(failed(path))?;
                }
                TreeEntry::Uncovered { reason, .. } => gaps.push((path.clone(), *reason)),
                TreeEntry::Excluded | TreeEntry::Absent | TreeEntry::Ignored { .. } => {}
            }
        }
        for (path, mode) in directories.into_iter().rev() {
            let parent = root.parent(path).map_err(failed(path))?;
            set_mode(&parent, path.name().as_encoded_bytes(), mode & !SET_ID | 0o700).map_err(failed(path))?;
        }
        Ok(gaps)
    }
}

/// Opens the directory that contains a path. A path that is covered inside a gap has no entries above it.
fn parent(root: &TreeRoot, path: &RelPath) -> rustix::io::Result<OwnedFd> {
    match (root.parent(path), path.parent()) {
        (Err(Errno::NOENT), Some(above)) => make_directory(root, &above),
        (opened, _) => opened,
    }
}

fn make_directory(root: &TreeRoot, path: &RelPath) -> rustix::io::Result<OwnedFd> {
    let above = parent(root, path)?;
    match mkdirat(&above, path.name(), Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => open_directory(&above, path.name().as_encoded_bytes()),
        Err(error) => Err(error),
    }
}
