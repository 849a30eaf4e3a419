//! Tests of packages, as a table of attacks and of ordinary use. No test opens a connection or runs a component.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy allows them in tests, but not in what tests share")]

mod archives;
mod formats;
mod projects;
mod releases;
mod servers;
mod signing;
mod sources;
mod storing;
mod support;
