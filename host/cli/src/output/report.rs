//! The form of a failure: `error: MESSAGE: CAUSE`, then a `hint:` line.

use crate::failure::Failure;
use crate::output::streams::note;
use crate::output::terminal::Style;
use crate::output::text::{Part, Text, text};

/// The message, its causes and the hint. Only the hint of this program begins a line; further lines of the message are
/// indented.
impl Part for Failure {
    fn append(&self, text: &mut Text) {
        text.push(Text::block(self.message()));
        if let Some(hint) = self.remedy() {
            text.push(text!("\nhint: {}", Text::block(hint)));
        }
    }
}

/// Writes a failure to stderr.
pub(crate) fn report(failure: &Failure) {
    note(&text!("{} {}", Style::of_stderr().red("error:"), failure));
}
