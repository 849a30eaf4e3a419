//! Streams and handles of guests: the host's end of everything that a component reads from and writes to.
//!
//! [`file_input`] reads files, [`limited_output`] writes them within the limits of a call, and [`listing`] holds the
//! entries of directories; all of them count in [`transferred_bytes`]. [`handles`] knows which handles belong to the current
//! call, and closes them at its end. [`stdio`] takes a guest's output to the log. Whether a call may open a file is decided
//! before, by the runtime.

pub mod file_input;
pub mod handles;
pub mod limited_output;
pub mod listing;
pub mod stdio;
pub mod transferred_bytes;
