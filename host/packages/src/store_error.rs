//! Changes of the store that were not made, and their reasons.

use crate::lock::LockError;
use std::io;
use std::path::PathBuf;

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lock file is not usable.
    #[error("`{}` is not usable: {cause}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        cause: LockError,
    },
    /// A file cannot be read or written.
    #[error("`{}`: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// Another process changed the package since the user saw it.
    #[error("another process changed package `{0}`")]
    Changed(String),
    /// No package of this name is installed.
    #[error("no package `{0}` is installed")]
    Unknown(String),
    /// The package has no such version.
    #[error("package `{name}` has no other version `{version}`")]
    NoVersion {
        /// The package.
        name: String,
        /// The wanted version.
        version: String,
    },
    /// The name belongs to something that is installed.
    #[error("`{name}` is like `{other}`, which is installed")]
    LooksAlike {
        /// The new name.
        name: String,
        /// The name that is taken.
        other: String,
    },
    /// A file that no package put there has the place of a component.
    #[error("`{}` is not part of a package", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// Content of the store differs from its digest.
    #[error("`{}` differs from the digest in the lock file", path.display())]
    Tampered {
        /// The file or directory.
        path: PathBuf,
    },
}
