//! To come.
mod content;
mod message;
mod usage;
