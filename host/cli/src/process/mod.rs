//! The process itself: hardening, signals and the log; and the sandbox of the programs that it starts.

pub(crate) mod confinement;
pub(crate) mod hardening;
pub(crate) mod logging;
pub(crate) mod network;
pub(crate) mod running;
pub(crate) mod signals;
