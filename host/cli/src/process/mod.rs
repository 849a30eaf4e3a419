//! The process of the command: its streams at the start, its signals and its log; the user's browser.

use std::process::Stdio;
use tokio::process::Command;
use url::Url;

pub(crate) mod closed_stdout;
pub(crate) mod logging;
pub(crate) mod signals;

/// Opens a page in the user's browser. Returns false without a screen. The address is shown in any case.
pub(crate) fn open_browser(url: &Url) -> bool {
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
