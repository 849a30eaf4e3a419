//! The terminal as the screen of the application.

use crate::output::streams::note;
use crate::output::terminal;
use crate::process::open_browser;
use pinion_app::output::Text;
use pinion_app::screen::Screen;
use std::io;
use url::Url;

/// Notes on stderr, and lines from stdin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalScreen;

impl Screen for TerminalScreen {
    fn note(&self, text: &Text) {
        note(text);
    }

    fn is_interactive(&self) -> bool {
        terminal::is_interactive()
    }

    fn open_page(&self, url: &Url) -> bool {
        open_browser(url)
    }

    fn read_line(&self) -> io::Result<String> {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    }
}
