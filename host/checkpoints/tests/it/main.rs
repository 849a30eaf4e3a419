//! The checkpoints of real directories.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    unreachable_pub
)]

mod bounds;
mod check_out;
mod copies;
mod findings;
mod patches;
mod random;
mod refs;
mod snapshots;
mod world;
