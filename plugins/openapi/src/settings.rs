//! The section `[plugins.openapi.config]` of the user's config.

use pinion_plugin_sdk::current_config;
use pinion_plugin_sdk::prelude::*;
use std::collections::BTreeMap;

/// The host accepts no longer lists than these.
const MAX_TOOLS: usize = 900;
const MAX_BYTES: usize = 768 * 1024;

/// Settings; each one has a default.
#[derive(Deserialize, Debug, Clone)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// The interfaces by the names that begin the names of their tools.
    pub(crate) apis: BTreeMap<String, Api>,
    /// Operations of all interfaces together that are listed one by one. With more, the model finds them by a search.
    pub(crate) search_above: usize,
    /// Bytes of their names, descriptions and schemas together, for the same purpose.
    pub(crate) search_above_bytes: usize,
}

/// An interface.
#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Api {
    /// The path of the document, or its URL.
    pub(crate) spec: String,
    /// The address that paths begin with, in place of the first server of the document.
    #[serde(default)]
    pub(crate) base_url: Option<String>,
    /// The secret that the host inserts.
    #[serde(default)]
    pub(crate) credential: Option<String>,
    /// The only operations, by their `operationId`.
    #[serde(default)]
    pub(crate) operations: Option<Vec<String>>,
    /// Only operations with one of these tags.
    #[serde(default)]
    pub(crate) tags: Option<Vec<String>>,
    /// Only operations whose path begins like this.
    #[serde(default)]
    pub(crate) path_prefix: Option<String>,
    /// Header fields of each request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Bytes of an answer that the model gets.
    #[serde(default = "max_response_bytes")]
    pub(crate) max_response_bytes: usize,
}

fn max_response_bytes() -> usize {
    50 * 1024
}

impl Default for Settings {
    fn default() -> Self {
        Self { apis: BTreeMap::new(), search_above: 64, search_above_bytes: 48 * 1024 }
    }
}

impl Settings {
    /// Reads the section.
    ///
    /// # Errors
    /// The section does not match.
    pub(crate) fn read() -> Result<Self, String> {
        let Self { apis, search_above, search_above_bytes } = current_config()?;
        let search_above = search_above.min(MAX_TOOLS);
        Ok(Self { apis, search_above, search_above_bytes: search_above_bytes.min(MAX_BYTES) })
    }
}
