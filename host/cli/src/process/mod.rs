//! The process of the command: its streams at the start, its signals and its log; the user's browser.

pub(crate) mod browser;
pub(crate) mod closed_stdout;
pub(crate) mod logging;
pub(crate) mod signals;
