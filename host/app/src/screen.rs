//! The screen of the application that uses this library, which itself prints nothing and reads no input.

use crate::output::Text;
use pinion_agent::Approver;
use pinion_agent::dialog::UserInterface;
use std::io;
use url::Url;

/// The application's way to its user, outside of a conversation.
///
/// Questions about calls and questions of plugins go through [`Person`] instead.
pub trait Screen: Send + Sync {
    /// Shows a text, such as the address of a page on which to log in. It may have several lines.
    fn note(&self, text: &Text);

    /// Returns whether a person sees the notes and can answer.
    fn is_interactive(&self) -> bool {
        false
    }

    /// Opens a page in the user's browser. Returns false if there is none. The address was shown before.
    fn open_page(&self, _url: &Url) -> bool {
        false
    }

    /// Reads a line that the user types. Blocks, and is called on a thread for that.
    ///
    /// # Errors
    /// The user cannot type anything here.
    fn read_line(&self) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A screen without a user: notes go to the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoScreen;

impl Screen for NoScreen {
    fn note(&self, text: &Text) {
        tracing::warn!("{}", text.as_str());
    }
}

/// A user who may be asked about calls and by plugins.
pub trait Person: Approver + UserInterface {}

impl<T: Approver + UserInterface> Person for T {}
