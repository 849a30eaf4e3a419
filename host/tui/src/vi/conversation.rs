//! Keys of the normal mode that act on the conversation while the editor is empty.

use crate::vi::{Mode, Vi, command};

/// An action on the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConversationKey {
    Down,
    Up,
    Top,
    Bottom,
    PromptUp,
    PromptDown,
    BlockUp,
    BlockDown,
    Fold,
    FoldAll,
    Copy,
    CopyCode,
    SearchDown,
    SearchUp,
    Next,
    Previous,
}

/// The keys of each action.
const KEYS: &[(&str, ConversationKey)] = &[
    ("j", ConversationKey::Down),
    ("k", ConversationKey::Up),
    ("gg", ConversationKey::Top),
    ("G", ConversationKey::Bottom),
    ("{", ConversationKey::PromptUp),
    ("}", ConversationKey::PromptDown),
    ("K", ConversationKey::BlockUp),
    ("J", ConversationKey::BlockDown),
    ("za", ConversationKey::Fold),
    ("zi", ConversationKey::FoldAll),
    ("yy", ConversationKey::Copy),
    ("yc", ConversationKey::CopyCode),
    ("/", ConversationKey::SearchDown),
    ("?", ConversationKey::SearchUp),
    ("n", ConversationKey::Next),
    ("N", ConversationKey::Previous),
];

/// The meaning of a key for the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConversationInput {
    /// More keys follow.
    Unfinished,
    /// An action, and the count before it.
    Action(ConversationKey, Option<usize>),
    /// The key is for the editor.
    Other,
}

impl Vi {
    /// Returns whether keys are commands, and no text is selected.
    pub(crate) fn is_normal(&self) -> bool {
        self.mode == Mode::Normal
    }

    /// Returns whether a command has begun.
    pub(crate) fn has_begun(&self) -> bool {
        !self.typed.is_empty()
    }

    /// Adds a key to the command typed so far, unless the command belongs to the editor.
    pub(crate) fn conversation_key(&mut self, key: char) -> ConversationInput {
        let keys = format!("{}{key}", self.typed);
        let (count, rest) = command::count(&keys);
        let is_count = rest.is_empty();
        match KEYS.iter().find(|(known, _)| *known == rest) {
            Some((_, action)) => {
                self.typed.clear();
                ConversationInput::Action(*action, count)
            }
            None if is_count || KEYS.iter().any(|(known, _)| known.starts_with(rest)) => {
                self.typed = keys;
                ConversationInput::Unfinished
            }
            // The editor knows no command with this beginning.
            None if self.typed.ends_with('z') => {
                self.typed.clear();
                ConversationInput::Unfinished
            }
            None => ConversationInput::Other,
        }
    }
}
