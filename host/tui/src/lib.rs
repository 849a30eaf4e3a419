//! The full-screen terminal UI of Pinion.

mod composer;
mod diff;
mod markdown;
mod rows;
mod theme;
mod transcript;
