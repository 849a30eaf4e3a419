//! Styles by role.
//!
//! The colours are the sixteen of the terminal, so that they fit its own theme, dark or light.

use ratatui_core::style::{Color, Modifier, Style};

/// The styles of everything on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub(crate) text: Style,
    pub(crate) strong: Style,
    pub(crate) dim: Style,
    pub(crate) user: Style,
    pub(crate) heading: Style,
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) accent: Style,
    pub(crate) good: Style,
    pub(crate) warning: Style,
    pub(crate) error: Style,
    pub(crate) added: Style,
    pub(crate) removed: Style,
    pub(crate) changed: Style,
    pub(crate) selected: Style,
    pub(crate) matched: Style,
}

impl Theme {
    /// Returns the theme with the terminal's own sixteen colours.
    pub fn colours() -> Self {
        let fg = |colour| Style::new().fg(colour);
        Self {
            user: fg(Color::Cyan).add_modifier(Modifier::BOLD),
            heading: fg(Color::Blue).add_modifier(Modifier::BOLD),
            code: fg(Color::Magenta),
            link: fg(Color::Blue).add_modifier(Modifier::UNDERLINED),
            accent: fg(Color::Cyan),
            good: fg(Color::Green),
            warning: fg(Color::Yellow),
            error: fg(Color::Red),
            added: fg(Color::Green),
            removed: fg(Color::Red),
            ..Self::plain()
        }
    }

    /// Returns the theme without colours, for `NO_COLOR` and terminals that have none.
    pub fn plain() -> Self {
        let (none, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
        Self {
            text: none,
            strong: bold,
            dim: none.add_modifier(Modifier::DIM),
            user: bold,
            heading: bold,
            code: none,
            link: none.add_modifier(Modifier::UNDERLINED),
            accent: bold,
            good: none,
            warning: bold,
            error: bold,
            added: none,
            removed: none,
            changed: none.add_modifier(Modifier::REVERSED),
            selected: none.add_modifier(Modifier::REVERSED),
            matched: none.add_modifier(Modifier::UNDERLINED),
        }
    }
}
