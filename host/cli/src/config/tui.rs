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
    /// The terminal reports the mouse: a drag copies, a click folds or unfolds, and the wheel scrolls. On by default.
    pub(crate) mouse: Option<bool>,
    /// Draws no moving marks.
    pub(crate) reduced_motion: bool,
    /// Shows the model's reasoning completely.
    pub(crate) thinking: bool,
    /// Shows results of calls and sub-agents completely.
    pub(crate) unfolded: bool,
    /// Begins with lines about the conversation and the keys.
    pub(crate) greeting: Option<bool>,
    /// Sets the title of the terminal's window.
    pub(crate) title: Option<bool>,
    /// Shows the work as the terminal's progress, such as in the taskbar.
    pub(crate) progress: Option<bool>,
    /// Marks messages of the user in the scrollback, so that the terminal jumps between them.
    pub(crate) marks: Option<bool>,
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
