//! Slash commands as plugins define them, and the actions of the application that they name.

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDefinition {
    /// The name without the slash.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// A placeholder for the argument, shown after the name.
    pub argument_hint: Option<String>,
    /// The name of the application's action that the command stands for.
    pub action: Option<String>,
    /// The name of the action of the command without an argument.
    pub bare_action: Option<String>,
}

impl CommandDefinition {
    /// Returns the name of the action that the definition names for this input.
    pub fn bound_action(&self, input: &str) -> Option<&str> {
        let bare = self.bare_action.as_deref().filter(|_| input.trim().is_empty());
        bare.or(self.action.as_deref())
    }

    /// Returns whether the command can be offered where these actions exist: not if it stands for an action that this form of
    /// conversation cannot perform.
    pub fn is_offered(&self, actions: &[ActionInfo]) -> bool {
        let known = actions.iter().find(|action| Some(action.name) == self.action.as_deref());
        known.is_none_or(|action| action.is_available)
    }
}

/// An action of the application that slash commands may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionInfo {
    /// The name.
    pub name: &'static str,
    /// Set if only commands of built-in plugins may cause it: it changes authority, files or the config.
    pub is_reserved: bool,
    /// Set if this form of conversation can perform it.
    pub is_available: bool,
}
