//! Paths on the way to files: resolving them beneath an open directory.

pub mod beneath;
pub mod identity;
pub mod real;
