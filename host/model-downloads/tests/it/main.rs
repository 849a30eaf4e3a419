//! Tests of the public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy allows them in tests, but not in what tests share")]

mod downloads;
mod file_server;
