//! Integration tests of Pinion: real components in the real runtime, scripted models, and the command end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[cfg(target_os = "linux")]
mod escapes;
#[cfg(target_os = "linux")]
mod faults;
mod hostile;
mod plugins;
mod product;
mod structure;
mod terminal;
