//! Servers as their callers see them, against scripted servers in this process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy allows them in tests, but not in what tests share")]

mod completion;
mod fake;
mod hostile;
mod http;
mod keeping;
mod lifecycle;
#[cfg(target_os = "linux")]
mod memory;
mod oauth;
#[cfg(target_os = "linux")]
mod processes;
mod questions;
mod requests;
mod resources;
mod scopes;
mod serving;
mod sessions;
mod tasks;
