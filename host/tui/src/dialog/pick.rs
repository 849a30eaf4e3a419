//! Subjects and entries of lists.

/// An entry of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickChoice {
    /// The value that the choice stands for.
    pub value: String,
    /// Text in the list, which the filter searches.
    pub label: String,
    /// More about it, in the second column.
    pub detail: String,
}

/// The subject of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Models that can be used.
    Model,
    /// Sessions of the directory.
    Session,
    /// Sessions of all directories.
    AllSessions,
    /// Slash commands and actions of the UI.
    Palette,
    /// Earlier messages of the user.
    History,
    /// Ways to continue with a plan.
    Plan,
    /// Themes.
    Theme,
    /// Providers whose key can be stored.
    Provider,
    /// Messages and commands that wait.
    Queue,
    /// Keys and their actions.
    Keys,
    /// Settings of the UI.
    Settings,
}

impl Pick {
    pub(crate) fn is_sessions(self) -> bool {
        matches!(self, Self::Session | Self::AllSessions)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Session => "sessions",
            Self::AllSessions => "sessions of all directories",
            Self::Palette => "commands",
            Self::History => "history",
            Self::Plan => "plan",
            Self::Theme => "themes",
            Self::Provider => "providers",
            Self::Queue => "queue",
            Self::Keys => "keys",
            Self::Settings => "settings",
        }
    }
}
