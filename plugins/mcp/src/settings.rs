//! The section `[plugins.mcp.config]` of the user's config.

use pinion_plugin_sdk::current_config;
use pinion_plugin_sdk::prelude::*;

/// Settings; each one has a default.
#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Tools of all servers together that are listed one by one. With more, the model finds them by a search.
    pub(crate) search_above: usize,
    /// Bytes of their names, descriptions and schemas together, for the same purpose.
    pub(crate) search_above_bytes: usize,
}

/// The host accepts no longer lists than these.
const MAX_TOOLS: usize = 900;
const MAX_BYTES: usize = 768 * 1024;

impl Default for Settings {
    fn default() -> Self {
        Self { search_above: 64, search_above_bytes: 48 * 1024 }
    }
}

impl Settings {
    /// Reads the section.
    ///
    /// # Errors
    /// The section does not match.
    pub(crate) fn read() -> Result<Self, String> {
        let Self { search_above, search_above_bytes } = current_config()?;
        Ok(Self { search_above: search_above.min(MAX_TOOLS), search_above_bytes: search_above_bytes.min(MAX_BYTES) })
    }
}
