//! Failures.

use crate::tree::Digest;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a snapshot was not taken, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("could not {doing} `{}`", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory has too many files.
    #[error("more than {0} files")]
    TooManyFiles(usize),
    /// The directory could not be searched for files that the config excludes.
    #[error("{0}")]
    NotSearched(String),
    /// Listing the directory took too long.
    #[error("listing the files took longer than {0} s")]
    TooSlow(u64),
    /// Another process works on the checkpoints.
    #[error("another process is working on the checkpoints of this directory")]
    Locked,
    /// A snapshot was removed because of its age, or never completed.
    #[error("the checkpoint {0} does not exist any more")]
    NoSuchTree(Digest),
    /// A file of the store was changed or cut.
    #[error("`{}` is damaged", .0.display())]
    Damaged(PathBuf),
    /// A restoration that a kill interrupted has to be completed first.
    #[error("a restoration was interrupted and is not completed yet")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self + use<> {
        let path = path.to_owned();
        move |errno| Self::Io { doing, path, source: errno.into() }
    }
}
