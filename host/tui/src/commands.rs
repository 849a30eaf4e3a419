//! The names of the slash commands that the UI itself offers.

/// A slash command of the UI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UiCommand {
    /// Name without the slash.
    pub name: &'static str,
    /// Form of the arguments, such as `[N]`.
    pub hint: &'static str,
    /// Description in one line.
    pub description: &'static str,
}

/// The slash commands of the UI.
pub const COMMANDS: &[UiCommand] = &[
    UiCommand { name: "copy", hint: "[n]", description: "Copy the last answer, or the n-th last one" },
    UiCommand { name: "execute", hint: "<file>", description: "Execute a plan in a new session" },
    UiCommand { name: "keys", hint: "", description: "Show the keys" },
    UiCommand { name: "plan", hint: "[task]", description: "Write a plan for a task, or turn plan mode on or off" },
    UiCommand { name: "theme", hint: "[name]", description: "Change the colours" },
];
