//! Secrets in texts that plugins show to people.

use super::Secrets;
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_protocol::drawing::DrawingBlock;

impl Secrets {
    /// Applies [`Self::clean`] to the words of a plugin's question.
    pub fn clean_dialog(&self, dialog: &mut Dialog) {
        self.replace(&mut dialog.question);
        if let DialogKind::Select(options) = &mut dialog.kind {
            options.iter_mut().for_each(|option| self.replace(option));
        }
    }

    /// Applies [`Self::clean`] to all texts of a drawing.
    pub fn clean_blocks(&self, blocks: &mut [DrawingBlock]) {
        for block in blocks {
            match block {
                DrawingBlock::Lines { lines } => {
                    lines.iter_mut().flatten().for_each(|span| self.replace(&mut span.text))
                }
                DrawingBlock::Table { header, rows } => {
                    header.iter_mut().chain(rows.iter_mut().flatten()).for_each(|cell| self.replace(cell));
                }
                DrawingBlock::Diff { text }
                | DrawingBlock::Markdown { text }
                | DrawingBlock::Bar { label: text, .. } => self.replace(text),
            }
        }
    }

    fn replace(&self, text: &mut String) {
        *text = self.clean(text).into_owned();
    }
}
