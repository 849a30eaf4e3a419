//! A conversation without a user, as the UI shows it, written row by row.

use crate::full::themes::configured;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::output::terminal::{Style, size};
use pinion_console::output::{Sink as _, Stdout, rows};
use pinion_tui::{App, Highlighter, Input, UiSettings};
use std::io;
use std::time::Instant;

/// Columns if the terminal has no size.
const COLUMNS: usize = 80;

/// The transcript of the UI on stdout. Rows are written when they cannot change any more.
pub struct WrittenTranscript {
    app: App,
    highlighter: Highlighter,
    style: Style,
    started: Instant,
}

impl WrittenTranscript {
    /// Begins a transcript in the configured theme.
    ///
    /// # Errors
    /// The config names a theme that cannot be used.
    pub fn new(base: &Base, style: Style) -> Result<Self> {
        let theme = configured(base)?;
        let settings = UiSettings {
            theme,
            has_ledgers: true,
            has_grants: false,
            is_unfolded: true,
            is_inline: true,
            ..UiSettings::default()
        };
        Ok(Self { app: App::new(settings), highlighter: Highlighter::default(), style, started: Instant::now() })
    }

    /// Applies an input and writes the rows that have become final.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn input(&mut self, input: Input) -> io::Result<()> {
        // The UI's requests have no recipient.
        let _ = self.app.handle(input, self.started.elapsed());
        self.write()?;
        while let Some(job) = self.app.unlit() {
            let _ = self.app.handle(Input::Highlighted(self.highlighter.run(job)), self.started.elapsed());
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let columns = size().map_or(COLUMNS, |(columns, _)| columns);
        let settled = self.app.settled(columns, self.started.elapsed());
        Stdout.text(&rows(&settled, self.style))
    }
}
