//! The model's text on stdout while it arrives, for a run without a conversation.
//!
//! A terminal may also show lines of stderr between two messages. There the text is laid out like in a conversation, block by
//! block and indented, so that its rows cannot pass for rows of the host. A pipe or a file gets every piece as it is.
//!
//! Written text stays, even if its reply failed and is requested again.

use pinion_agent::event::{ContentDelta, Role};
use pinion_agent::{EventKind, Message};
use pinion_console::output::terminal::Style;
use pinion_console::output::{self, Prose, Sink as _, Stdout};
use std::io::{self, IsTerminal as _};

/// Writes the text of the foreground run.
pub(crate) struct Streamed {
    /// The layout on a terminal.
    prose: Option<Prose>,
    /// The text of the message in progress.
    text: String,
    /// True if the last message was written.
    has_last: bool,
}

impl Streamed {
    pub(crate) fn new() -> Self {
        let prose = io::stdout().is_terminal().then(|| Prose::new(Style::of_stdout()));
        Self { prose, text: String::new(), has_last: false }
    }

    /// Returns whether the last message of the model was written.
    pub(crate) fn has_last(&self) -> bool {
        self.has_last
    }

    /// Writes the text in an event of the foreground run.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub(crate) fn event(&mut self, event: &EventKind) -> io::Result<()> {
        match event {
            EventKind::MessageStart { role: Role::Assistant } | EventKind::Retry { .. } => {
                self.has_last = false;
                self.end()
            }
            EventKind::MessageUpdate { delta: ContentDelta::Text { delta }, .. } => self.write_piece(delta),
            EventKind::MessageEnd { message } => match &**message {
                Message::Assistant(reply) => {
                    // A reply that did not stream, or whose last pieces were dropped, is written now.
                    let text = reply.text();
                    if let Some(rest) = text.strip_prefix(self.text.as_str()) {
                        self.write_piece(rest)?;
                    }
                    self.has_last = !self.text.is_empty();
                    self.end()
                }
                _ => Ok(()),
            },
            // A reply that could not be stored has no end.
            EventKind::AgentEnd { .. } => {
                self.has_last |= !self.text.is_empty();
                self.end()
            }
            _ => Ok(()),
        }
    }

    fn write_piece(&mut self, piece: &str) -> io::Result<()> {
        self.text.push_str(piece);
        match &mut self.prose {
            Some(prose) => Stdout.text(&prose.push(piece)),
            None => output::write_piece(piece),
        }
    }

    /// Ends the message in progress and its line.
    fn end(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        match &mut self.prose {
            Some(prose) => Stdout.text(&prose.end()),
            None if text.is_empty() || text.ends_with('\n') => Ok(()),
            None => output::write_piece("\n"),
        }
    }
}
