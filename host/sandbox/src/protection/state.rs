//! The state of a path before a program ran.

use crate::encoding;
use pinion_git::read;
use serde::{Deserialize, Serialize};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Device and inode.
pub(crate) type PathIdentity = (u64, u64);

/// A path as it was, or as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PathState {
    Absent,
    /// The content is not visible, not even whether something exists.
    Unseen,
    Link(#[serde(with = "encoding::path")] PathBuf),
    File {
        identity: PathIdentity,
        mode: u32,
        /// `None` if it was too long to be kept.
        #[serde(with = "encoding::content")]
        content: Option<Vec<u8>>,
    },
    /// A directory, or something else that has no content.
    Other(PathIdentity),
}

impl PathState {
    /// Looks at a path. Takes the bytes of a file out of `left`.
    pub(crate) fn read_path(path: &Path, left: &mut usize) -> Self {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Self::Absent,
            Err(_) => return Self::Unseen,
        };
        if found.is_symlink() {
            return fs::read_link(path).map_or(Self::Absent, Self::Link);
        }
        let identity = identity(&found);
        if !found.is_file() {
            return Self::Other(identity);
        }
        let content = read(path).filter(|content| content.len() <= *left);
        *left -= content.as_ref().map_or(0, Vec::len);
        Self::File { identity, mode: mode(&found), content }
    }

    pub(crate) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::File { content, .. } => content.as_deref(),
            _ => None,
        }
    }

    /// Returns whether a path in a writable directory certainly is as it was, without a look at its content.
    pub(crate) fn is_still(&self, path: &Path, root: &Path) -> bool {
        let found = fs::symlink_metadata(path);
        match (self, &found) {
            // A directory that the program has closed hides its content, and the target of a new link on the way may be
            // created later.
            (Self::Absent, Err(error)) => is_missing(error) && path.parent() == Some(root),
            // One that was closed before is nothing that a program opens.
            (Self::Unseen, _) => true,
            (Self::Link(target), Ok(found)) => {
                found.is_symlink() && fs::read_link(path).is_ok_and(|now| now == *target)
            }
            (Self::File { identity: before, .. }, Ok(found)) => found.is_file() && identity(found) == *before,
            (Self::Other(before), Ok(found)) => !found.is_symlink() && identity(found) == *before,
            (_, _) => false,
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(unix)]
pub(crate) fn identity(found: &Metadata) -> PathIdentity {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

#[cfg(unix)]
fn mode(found: &Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(found) & 0o777
}

#[cfg(not(unix))]
pub(crate) fn identity(_found: &Metadata) -> PathIdentity {
    (0, 0)
}

#[cfg(not(unix))]
fn mode(_found: &Metadata) -> u32 {
    0
}
