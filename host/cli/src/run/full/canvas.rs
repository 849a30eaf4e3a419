//! The terminal while a UI has it.

use crate::failure::{Failure, Result};
use crate::output::Attention;
use crate::process::signals;
use pinion_tui::terminal::{self, ENTER, LEAVE, RawMode};
use pinion_tui::{App, Buffer, Links, Rect, Screen, Setup};
use std::io;
use std::time::Duration;

/// A terminal that shows frames. It is restored when this is dropped.
pub(super) struct Canvas {
    terminal: Attention,
    screen: Screen,
    buffer: Buffer,
    raw: Option<RawMode>,
}

impl Canvas {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn open(has_links: bool) -> Result<Self> {
        let screen = Screen::new(0, 0);
        let screen = if has_links { screen } else { screen.without_links() };
        let mut canvas = Self { terminal: Attention::take(), screen, buffer: Buffer::empty(Rect::ZERO), raw: None };
        canvas.enter()?;
        Ok(canvas)
    }

    /// Takes the terminal again after [`Self::leave`].
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn enter(&mut self) -> Result<()> {
        let (columns, rows) = terminal::size().map_err(unusable)?;
        self.resize(columns, rows);
        self.raw = Some(RawMode::enter().map_err(unusable)?);
        signals::set_full_screen(true);
        self.screen.forget();
        self.terminal.frame(ENTER.as_bytes()).map_err(unusable)
    }

    /// Returns the terminal as it was.
    pub(super) fn leave(&mut self) {
        // A lost terminal needs nothing.
        let _ = self.terminal.frame(LEAVE.as_bytes());
        signals::set_full_screen(false);
        self.raw = None;
    }

    /// Draws on this many columns and rows from now on.
    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        self.buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.buffer.area().width.into()
    }

    /// Makes the next frame draw everything.
    pub(super) fn forget(&mut self) {
        self.screen.forget();
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal is lost.
    pub(super) fn draw(&mut self, app: &mut App, now: Duration) -> Result<()> {
        let cursor = app.draw(&mut self.buffer, now);
        self.show(app.links(), cursor)
    }

    /// Draws a frame of the setup.
    ///
    /// # Errors
    /// The terminal is lost.
    pub(super) fn draw_setup(&mut self, setup: &mut Setup) -> Result<()> {
        let cursor = setup.draw(&mut self.buffer);
        self.show(&Links::default(), cursor)
    }

    fn show(&mut self, links: &Links, cursor: Option<(u16, u16)>) -> Result<()> {
        let bytes = self.screen.draw(&self.buffer, links, cursor);
        let written = if bytes.is_empty() { Ok(()) } else { self.terminal.frame(bytes) };
        written.map_err(|error| Failure::failed("the terminal is gone").because(error))
    }

    /// Writes text of the application.
    pub(super) fn write(&mut self, text: &str) {
        // The next frame reports a lost terminal.
        let _ = self.terminal.frame(text.as_bytes());
    }
}

impl Drop for Canvas {
    fn drop(&mut self) {
        if self.raw.is_some() {
            self.leave();
        }
    }
}

/// Reports that the terminal cannot be used.
pub(super) fn unusable(error: io::Error) -> Failure {
    Failure::failed("could not use the terminal").because(error)
}
