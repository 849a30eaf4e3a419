//! Paths on the way to files: resolving them beneath an open directory, and the places that no grant reaches.

pub(crate) mod beneath;
pub(crate) mod protected;
pub(crate) mod real;
pub(crate) mod unblocked;
