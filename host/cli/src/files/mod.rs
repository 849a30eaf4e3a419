//! The files and directories that this program works with.

pub(crate) mod paths;
pub(crate) mod private;
pub(crate) mod records;
pub(crate) mod repository;
pub(crate) mod secret_place;
pub(crate) mod spill;
pub(crate) mod unshared;
