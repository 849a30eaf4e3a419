//! The host's side of imports.
//!
//! Interfaces that need no grant are implemented here, and so is the work behind those that do. [`crate::capability`]
//! decides which work is allowed.

pub(crate) mod files;
pub(crate) mod limited_streams;
pub(crate) mod linker;
mod open_interfaces;
mod questions;
pub(crate) mod stdio;
pub(crate) mod workspace;
