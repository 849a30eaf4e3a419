//! The process itself: hardening, signals and the log; the sandbox of the programs that it starts; the user's browser.

pub(crate) mod background;
pub(crate) mod browser;
pub(crate) mod confinement;
pub(crate) mod credentials;
pub(crate) mod hardening;
pub(crate) mod key_commands;
pub(crate) mod logging;
pub(crate) mod network;
pub(crate) mod own_command;
pub(crate) mod repositories;
pub(crate) mod running;
pub(crate) mod sandbox_parts;
pub(crate) mod signals;
