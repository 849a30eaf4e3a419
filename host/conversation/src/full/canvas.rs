//! The terminal while a UI has it.

use crate::full::settings::{has_links, has_marks, surroundings, wraps_again};
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::output::Attention;
use pinion_console::process::signals::{self, Ending, TerminalState};
use pinion_tui::terminal::{
    self, ENTER, ENTER_INLINE, ENTER_VIEW, Inputs, LEAVE, LEAVE_INLINE, LEAVE_VIEW, MOUSE, NO_MOUSE, RawMode,
};
use pinion_tui::{App, Buffer, Inline, Links, Rect, Screen, Setup, TerminalIndicators};
use std::io;
use std::time::Duration;

/// Time within which a terminal shows a frame and its new size is known here, also over a slow connection. Zellij shows nothing
/// for up to half a second while the terminal around it owes it an answer.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of a long text that are written at once.
const PART: usize = 4096;

/// A terminal that shows frames. It is restored when this is dropped.
pub(super) struct Canvas {
    terminal: Attention,
    screen: Screen,
    buffer: Buffer,
    /// The live region of the inline form.
    inline: Option<Inline>,
    /// The terminal reports the mouse while the UI has the whole screen.
    has_mouse: bool,
    /// True while the inline form shows the whole conversation on the alternate screen.
    is_viewing: bool,
    /// Time when the inline form drew last.
    drawn_at: Duration,
    surroundings: TerminalIndicators,
    raw: Option<RawMode>,
}

impl Canvas {
    /// Takes the whole screen, or the end of the main one.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn open(base: &Base, is_inline: bool) -> Result<Self> {
        let (screen, inline) = (Screen::new(0, 0), is_inline.then(|| Inline::new(wraps_again())));
        let inline = if has_marks(base) { inline.map(Inline::with_marks) } else { inline };
        let (screen, inline) = match has_links(base) {
            true => (screen, inline),
            false => (screen.without_links(), inline.map(Inline::without_links)),
        };
        let (terminal, buffer) = (Attention::take_terminal(), Buffer::empty(Rect::ZERO));
        let mut canvas = Self {
            terminal,
            screen,
            buffer,
            inline,
            has_mouse: false,
            is_viewing: false,
            drawn_at: Duration::ZERO,
            surroundings: surroundings(base),
            raw: None,
        };
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
        self.is_viewing = false;
        // A panic may have restored the title.
        self.surroundings.clear();
        let enter = match &mut self.inline {
            Some(inline) => {
                inline.begin();
                signals::set_shown(TerminalState::Inline { rows_below: 0 });
                ENTER_INLINE
            }
            None => {
                signals::set_shown(TerminalState::Screen);
                ENTER
            }
        };
        let mouse = if self.has_mouse && self.inline.is_none() { MOUSE } else { "" };
        self.terminal.frame([enter, mouse].concat().as_bytes()).map_err(unusable)
    }

    /// Lets the terminal report the mouse, or stops that.
    pub(super) fn report_mouse(&mut self, is_reported: bool) {
        self.has_mouse = is_reported;
        if self.inline.is_none() {
            self.write(if is_reported { MOUSE } else { NO_MOUSE });
        }
    }

    /// Returns the terminal as it was.
    pub(super) fn leave(&mut self) {
        self.view(false);
        let undoing = self.surroundings.clear();
        self.write(&undoing);
        signals::set_surroundings((false, false));
        // A lost terminal needs nothing.
        let _ = match &mut self.inline {
            Some(inline) => {
                self.terminal.frame(inline.clear()).and_then(|()| self.terminal.frame(LEAVE_INLINE.as_bytes()))
            }
            None => self.terminal.frame(LEAVE.as_bytes()),
        };
        signals::set_shown(TerminalState::Nothing);
        self.raw = None;
    }

    /// Begins or ends the view of the whole conversation.
    fn view(&mut self, is_viewing: bool) {
        if self.is_viewing == is_viewing {
            return;
        }
        self.is_viewing = is_viewing;
        self.screen.forget();
        // The next frame reports a lost terminal.
        let _ = self.terminal.frame(if is_viewing { ENTER_VIEW } else { LEAVE_VIEW }.as_bytes());
        self.note_shown();
    }

    /// Notes the changes to undo if the program ends without returning the terminal.
    fn note_shown(&self) {
        let rows_below = self.inline.as_ref().map_or(0, Inline::rows_below);
        signals::set_shown(match self.is_viewing {
            true => TerminalState::View { rows_below },
            false => TerminalState::Inline { rows_below },
        });
    }

    /// Draws on this many columns and rows from now on.
    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        self.buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        // A terminal that was smaller for a moment may have lost the rows below the cursor.
        self.forget();
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.buffer.area().width.into()
    }

    /// Returns the reader of the terminal, which reports sizes that differ from the canvas.
    pub(super) fn inputs(&self) -> Inputs {
        let Rect { width, height, .. } = *self.buffer.area();
        Inputs::new((width, height))
    }

    /// Makes the next frame draw everything.
    pub(super) fn forget(&mut self) {
        self.screen.forget();
        self.inline.iter_mut().for_each(Inline::forget);
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal is lost.
    pub(super) fn draw(&mut self, app: &mut App, now: Duration) -> Result<()> {
        self.surround(app);
        self.view(app.is_viewing());
        let Rect { width, height, .. } = *self.buffer.area();
        if self.inline.is_none() || self.is_viewing || width == 0 || height == 0 {
            let cursor = app.draw(&mut self.buffer, now);
            return self.show(app.links(), cursor);
        }
        if now.saturating_sub(self.drawn_at) < SHOWN_WITHIN {
            self.inline.iter_mut().for_each(Inline::was_late);
        }
        while let Some(inline) = &mut self.inline {
            let frame = app.draw_inline(width, height, now);
            let bytes = inline.draw(&frame, app.links(), height).to_vec();
            // Before the terminal shows it: the program may end at any time.
            self.note_shown();
            if !bytes.is_empty() {
                self.terminal.frame(&bytes).map_err(gone)?;
                self.drawn_at = now;
            }
            if !frame.has_more {
                break;
            }
        }
        Ok(())
    }

    /// Shows the activity of the conversation around the screen.
    fn surround(&mut self, app: &App) {
        let (activity, directory) = app.activity();
        let sequences = self.surroundings.show(activity, directory);
        // Before the terminal shows it: the program may end at any time.
        signals::set_surroundings(self.surroundings.undoes());
        if !sequences.is_empty() {
            self.write(&sequences);
        }
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
        written.map_err(gone)
    }

    /// Writes text of the application.
    pub(super) fn write(&mut self, text: &str) {
        // The next frame reports a lost terminal.
        let _ = self.terminal.frame(text.as_bytes());
    }

    /// Writes text of the application. Ends the program if the terminal takes nothing of it for a time.
    pub(super) fn print(&mut self, text: &str, patience: Option<Duration>) {
        let ending = patience.map(signals::end_after);
        for part in text.as_bytes().chunks(PART) {
            // A lost terminal needs nothing.
            let _ = self.terminal.frame(part);
            ending.iter().for_each(Ending::renew);
        }
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

fn gone(error: io::Error) -> Failure {
    Failure::failed("the terminal is gone").because(error)
}
