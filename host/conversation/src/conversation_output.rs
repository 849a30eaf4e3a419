//! The place where a conversation speaks, in lines or on the full screen.

use crate::full::ui_inbox::UiInbox;
use crate::render::Detail;
use pinion_console::output::terminal::Style;
use std::sync::Arc;

/// The place where a conversation shows output that does not come from a run.
#[derive(Clone)]
pub(crate) enum Voice {
    /// Rows on stdout.
    Lines { style: Style, detail: Detail },
    /// Items of the full-screen UI.
    Screen(Arc<UiInbox>),
}

impl Voice {
    pub(crate) fn style(&self) -> Style {
        match self {
            Self::Lines { style, .. } => *style,
            Self::Screen(_) => Style::Plain,
        }
    }
}
