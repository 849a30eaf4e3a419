//! Turning the bytes of a component into a generation that can be called.

pub(crate) mod cache;
pub(crate) mod compiler;
pub(crate) mod component_file;
pub(crate) mod generation;
pub(crate) mod program;
pub(crate) mod weight;
pub(crate) mod wording;
