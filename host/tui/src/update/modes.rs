//! The state of plan mode, which changes the meaning of messages.

/// State of plan mode.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    /// Messages ask for a plan.
    pub(crate) is_on: bool,
    /// File of the plan that is on the screen.
    pub(super) file: Option<String>,
    /// Its text, with the user's edits.
    pub(super) text: String,
    /// The reason why the file has another text.
    pub(super) unsaved: Option<String>,
    /// The next plan replaces the one on the screen.
    pub(super) is_revised: bool,
    /// The external editor has the plan.
    pub(super) is_edited: bool,
}
