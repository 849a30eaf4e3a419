//! Paths in a tree.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// A path below the root of a tree: names joined by `/`, never empty, `.` or `..`. In its order, a directory comes
/// before everything in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct RelPath(Arc<[u8]>);

/// A path that does not stay below the root of a tree.
#[derive(Debug, thiserror::Error)]
#[error("not a path below the root")]
pub struct InvalidPath;

impl RelPath {
    /// Joins a directory, or `None` for the root, and a name that the system returned.
    pub(crate) fn join(directory: Option<&Self>, name: &[u8]) -> Self {
        let Some(directory) = directory else { return Self(name.into()) };
        // In one allocation, because a walk makes one for every file.
        Self(directory.0.iter().chain(b"/").chain(name).copied().collect())
    }

    /// Returns the path as the system has it.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the last name.
    pub(crate) fn name(&self) -> &OsStr {
        let at = self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        OsStr::from_bytes(&self.0[at..])
    }

    /// Returns the directory that contains it; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.iter().rposition(|byte| *byte == b'/').map(|at| Self(self.0[..at].into()))
    }

    /// Returns the beginning of everything in it.
    pub(crate) fn below(&self) -> Self {
        Self([&*self.0, b"/"].concat().into())
    }

    pub(crate) fn is_below(&self, directory: &Self) -> bool {
        self.0.len() > directory.0.len()
            && self.0.starts_with(&directory.0)
            && self.0.get(directory.0.len()) == Some(&b'/')
    }
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = InvalidPath;

    fn try_from(bytes: Vec<u8>) -> Result<Self, InvalidPath> {
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        match bytes.split(|byte| *byte == b'/').all(is_name) {
            true => Ok(Self(bytes.into())),
            false => Err(InvalidPath),
        }
    }
}

impl TryFrom<&Path> for RelPath {
    type Error = InvalidPath;

    fn try_from(path: &Path) -> Result<Self, InvalidPath> {
        Self::try_from(path.as_os_str().as_bytes().to_vec())
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Self {
        path.0.to_vec()
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().display().fmt(f)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_root_are_invalid() {
        for path in ["", "/", "/a", "a/", "a//b", ".", "a/..", "../a", "a/./b", "a\0b"] {
            assert!(RelPath::try_from(Path::new(path)).is_err(), "{path:?}");
        }
        let path = RelPath::try_from(Path::new("a/b/..c")).unwrap();
        assert_eq!((path.name().to_str(), path.parent()), (Some("..c"), RelPath::try_from(Path::new("a/b")).ok()));
    }
}
