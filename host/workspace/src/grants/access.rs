//! The two ways to use files.

use serde::{Deserialize, Serialize};

/// A way to use files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAccess {
    /// Read.
    Read,
    /// Read, create, change and remove.
    Write,
}

impl FileAccess {
    /// Returns `read` or `write`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Returns the access with this verb.
    pub fn parse(verb: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|access| access.verb() == verb)
    }
}
