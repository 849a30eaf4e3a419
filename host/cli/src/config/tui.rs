//! The section `[tui]`: settings of the full-screen UI.

use serde::Deserialize;

/// Settings of the full-screen UI, which checks the names in them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileTui {
    /// Way to notify the user when work ends or a question waits.
    pub(crate) notify: Notify,
    /// Least duration of work whose end is worth a notification.
    pub(crate) notify_after_seconds: Option<u64>,
    /// Writes addresses as links that terminals open.
    pub(crate) links: Option<bool>,
    /// Name of the theme: `auto`, `terminal`, `dark`, `light`, `plain`, or a file `themes/NAME.toml` beside the config.
    pub(crate) theme: Option<String>,
    /// Parts of the status line, in order.
    pub(crate) status: Option<Vec<String>>,
    /// The editor has the keys of vi.
    pub(crate) vi: bool,
    /// The wheel scrolls, and a click folds or unfolds.
    pub(crate) mouse: bool,
    /// Draws no moving marks.
    pub(crate) reduced_motion: bool,
}

/// Way to notify the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Notify {
    #[default]
    Osc9,
    Osc777,
    Bell,
    Off,
}
