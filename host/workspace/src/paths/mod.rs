//! Paths on the way to files: resolving them beneath an open directory, and opening them without waiting.

pub mod beneath;
pub mod identity;
pub mod real;
pub mod unblocked;
