//! Entries that plugins add to a session: data, and titles.

use super::RecordType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Characters of the data that a description shows.
const SHOWN: usize = 200;

/// A plugin added its own data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginEntry {
    /// The plugin.
    pub plugin: String,
    /// The data, of at most 64 KiB.
    pub data: Value,
}

impl RecordType for PluginEntry {
    fn describe(&self) -> String {
        let data = pinion_protocol::text::one_line(&self.data.to_string(), SHOWN);
        format!("Plugin {} added: {data}", self.plugin)
    }
}

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
