//! The process itself: hardening, signals and the log.

pub(crate) mod hardening;
pub(crate) mod logging;
pub(crate) mod signals;
