//! The files and directories that this program works with.

pub mod paths;
pub mod private;
pub mod records;
pub mod repository;
pub mod secret_place;
pub mod spill;
pub mod unshared;
