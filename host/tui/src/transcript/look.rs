//! The settings by which items are rendered.

use crate::highlight::Highlights;
use crate::markdown::Paper;
use crate::rows::StyledPiece;
use crate::theme::Theme;

/// The way items are rendered.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) theme: Theme,
    pub(crate) columns: usize,
    /// Shows the model's reasoning completely.
    pub(crate) has_thinking: bool,
    /// Shows all results and sub-agents completely.
    pub(crate) is_unfolded: bool,
    /// Shows the resource use of each call.
    pub(crate) has_ledgers: bool,
    /// Also shows the grants of its plugin.
    pub(crate) has_grants: bool,
    /// Shows the old lines of a diff next to the new ones.
    pub(crate) has_sides: bool,
    pub(crate) highlights: Highlights,
}

impl Look {
    /// Returns whether items are rendered the same way.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let flags = |look: &Self| (look.columns, look.has_thinking, look.is_unfolded, look.has_ledgers, look.has_sides);
        flags(self) == flags(other) && self.theme == other.theme
    }

    /// Returns the place for Markdown whose rows begin with `lead`.
    pub(super) fn paper<'a>(&'a self, lead: &'a StyledPiece) -> Paper<'a> {
        let lead = std::slice::from_ref(lead);
        Paper { columns: self.columns, has_sides: self.has_sides, ..Paper::new(lead, &self.theme, &self.highlights) }
    }
}
