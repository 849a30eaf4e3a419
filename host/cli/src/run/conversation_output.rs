//! The place where a conversation speaks, in lines or on the full screen.

use crate::output::terminal::Style;
use crate::run::full::ui_inbox::UiInbox;
use crate::run::render::Detail;
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
