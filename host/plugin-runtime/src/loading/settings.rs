//! The settings of one plugin, as the embedder's policy decides them.

use crate::capability::table::Grants;
use crate::policy::Ceiling;
use pinion_plugin_limits::PartialLimits;
use serde_json::Value;

/// The user's settings for one plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginSettings {
    /// The granted capabilities. The runtime cuts them to the plugin's asks.
    pub grants: Grants,
    /// Limits that the user set for the plugin's calls.
    pub limits: PartialLimits,
    /// The plugin's own section of the config, an object.
    pub config: Value,
    /// Its asks and declarations at the time of the grants. With `None`, the first loaded generation's count.
    pub ceiling: Option<Ceiling>,
    /// The reason why some of its grants are not in `grants`, with a hint.
    pub held_back: Option<String>,
    /// The command that grants it more; `None` where the config does.
    pub hint: Option<String>,
}
