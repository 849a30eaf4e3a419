//! Titles of sessions.

use super::RecordType;
use serde::{Deserialize, Serialize};

/// The session got a title. The last one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Titled {
    /// The title, in one line.
    pub title: String,
}

impl RecordType for Titled {
    fn describe(&self) -> String {
        format!("The session was titled: {}", self.title)
    }
}
