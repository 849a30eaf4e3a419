//! Files whose owner and place are checked before they are used.
//!
//! Files of the user: [`private`] ones, tables of [`records`] in them, and [`output_directories`] for output of programs
//! that is too long for a result. Files that others may have prepared: files of a [`repository`] are untrusted, and
//! [`owned_files`] count only if no other user can change them.

pub mod output_directories;
pub mod owned_files;
pub mod private;
pub mod records;
pub mod repository;
