//! Secrets in texts that plugins show to people.

use super::Secrets;
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_protocol::drawing::Block;

impl Secrets {
    /// Applies [`Self::clean`] to the words of a plugin's question.
    pub fn clean_dialog(&self, dialog: &mut Dialog) {
        self.replace(&mut dialog.question);
        if let DialogKind::Select(options) = &mut dialog.kind {
            options.iter_mut().for_each(|option| self.replace(option));
        }
    }

    /// Applies [`Self::clean`] to all texts of a drawing.
    pub fn clean_blocks(&self, blocks: &mut [Block]) {
        for block in blocks {
            match block {
                Block::Lines { lines } => lines.iter_mut().flatten().for_each(|span| self.replace(&mut span.text)),
                Block::Table { header, rows } => {
                    header.iter_mut().chain(rows.iter_mut().flatten()).for_each(|cell| self.replace(cell));
                }
                Block::Diff { text } | Block::Markdown { text } | Block::Bar { label: text, .. } => self.replace(text),
            }
        }
    }

    fn replace(&self, text: &mut String) {
        *text = self.clean(text).into_owned();
    }
}
