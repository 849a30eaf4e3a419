//! The terminal as the screen of the application, and the user's browser.

use crate::output::streams::note;
use crate::output::terminal;
use pinion_app::output::Text;
use pinion_app::screen::Screen;
use std::io;
use std::process::Stdio;
use tokio::process::Command;
use url::Url;

/// Notes on stderr, and lines from stdin.
#[derive(Debug, Clone, Copy)]
pub struct TerminalScreen;

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

/// Opens a page in the user's browser. Returns false without a screen. The address is shown in any case.
pub fn open_browser(url: &Url) -> bool {
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_screen || std::env::var_os("SSH_CONNECTION").is_some() {
        return false;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
