//! The files and directories that this program works with.

pub mod output_directories;
pub mod owned_files;
pub mod paths;
pub mod private;
pub mod records;
pub mod repository;
pub mod secret_storage;
