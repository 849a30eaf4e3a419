//! The full-screen terminal UI of Pinion.
//!
//! The UI is a client of the agent's events. [`App`] is its state: it takes [`Input`]s, returns [`UiRequest`]s and draws
//! itself into a buffer of cells; it knows no agent, no clock and no terminal. [`Screen`] writes the changes between two
//! buffers, and [`terminal`] prepares the terminal and restores it. The application connects these with an agent. In the
//! inline form, [`Inline`] takes the place of the screen.
//!
//! [`Setup`] asks for a key before the first conversation.
//!
//! The conversation is one model (`transcript`) of items, each rendered by one function into rows that are kept while
//! they are near the screen. All text is a `Piece` of `rows`, whose constructor neutralizes it.

mod ansi;
mod cell_writer;
mod commands;
mod composer;
mod diff;
mod fuzzy;
mod highlight;
mod inline;
mod input;
mod keys;
mod links;
mod markdown;
mod prose;
mod rows;
mod screen;
mod setup;
mod shorten;
mod status;
pub mod terminal;
mod terminal_indicators;
mod theme;
mod transcript;
mod update;
mod vi;
mod view;

/// Everything that runs, as a tree: the conversation, its sub-agents and theirs, branches, and steps of a plan.
///
/// [`AgentTree`] is one live model. It is fed with the same events as the transcript, in a conversation as well as from
/// the past of a session, so a continued conversation shows the same tree. `rows` draws it on the screen, and
/// [`AgentTree::page`] as Markdown for conversations in lines.
mod agents {
    mod node;
    mod rows;
    mod tree;

    pub(crate) use self::node::{AgentNode, NodeKind};
    pub use self::tree::AgentTree;
}

/// Views that take the place of the editor.
mod dialog {
    pub(crate) mod approval;
    pub(crate) mod approval_question;
    mod key_guard;
    pub(crate) mod pick;
    pub(crate) mod picker;
    pub(crate) mod plugin;
    pub(crate) mod screen_view;
    pub(crate) mod search;
}

pub use agents::AgentTree;
pub use ansi::without_colours;
pub use commands::{SlashCommand, UiCommand, command_of, of_hash, of_word};
pub use dialog::approval_question::{ApprovalAnswer, ApprovalQuestion};
pub use dialog::picker::{NESTED, Pick, PickChoice, matching};
pub use dialog::plugin::DialogReply;
pub use highlight::{HighlightJob, Highlighted, HighlightedLine, Highlighter, SyntaxKind};
pub use inline::{Inline, InlineFrame};
pub use input::{Facts, Input, UiRequest};
pub use keys::{Action, KeyMap};
pub use links::Links;
pub use prose::Prose;
pub use ratatui_core::buffer::Buffer;
pub use ratatui_core::layout::Rect;
pub use screen::Screen;
pub use setup::{EnteredKey, Setup, SetupRequest};
pub use status::StatusSegment;
pub use terminal_indicators::{Activity, TerminalIndicators, undoing};
pub use theme::{ASK_FOR_BACKGROUND, Background, Depth, Theme};
pub use transcript::{Excerpt, Tone};
pub use update::{App, UiSettings};
pub use view::{PrintedRow, text_of};
