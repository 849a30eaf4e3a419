//! The section `[tui]`: settings of the full-screen UI.

use serde::Deserialize;

/// Settings of the full-screen UI, which checks the names in them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileTui {
    /// Way to notify the user when work ends or a question waits.
    pub notify: Notify,
    /// Least duration of work whose end is worth a notification.
    pub notify_after_seconds: Option<u64>,
    /// Writes addresses as links that terminals open.
    pub links: Option<bool>,
    /// Name of the theme: `auto`, `terminal`, `dark`, `light`, `plain`, or a file `themes/NAME.toml` next to the
    /// config.
    pub theme: Option<String>,
    /// Parts of the status line, in order.
    pub status: Option<Vec<String>>,
    /// The editor has the keys of vi.
    pub vi: bool,
    /// The terminal reports the mouse: a drag copies, a click folds or unfolds, and the wheel scrolls. On by default.
    pub mouse: Option<bool>,
    /// Draws no moving marks.
    pub reduced_motion: bool,
    /// Shows the model's reasoning completely.
    pub thinking: bool,
    /// Shows results of calls and sub-agents completely.
    pub unfolded: bool,
    /// Begins with lines about the conversation and the keys.
    pub greeting: Option<bool>,
    /// Sets the title of the terminal's window.
    pub title: Option<bool>,
    /// Shows the work as the terminal's progress, such as in the taskbar.
    pub progress: Option<bool>,
    /// Marks messages of the user in the scrollback, so that the terminal jumps between them.
    pub marks: Option<bool>,
}

/// Way to notify the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notify {
    /// The sequence OSC 9.
    #[default]
    Osc9,
    /// The sequence OSC 777.
    Osc777,
    /// The bell.
    Bell,
    /// No notification.
    Off,
}
