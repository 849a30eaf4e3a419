//! Files on disk, opened and written in one way by all crates.
//!
//! The functions of [`open`] open a file or a directory without waiting, even if another program put a pipe in its place.
//! [`AtomicWrite`] writes a file by its path, and [`NewFile`] writes one in an open directory: under a temporary name, or
//! without a name, until its content is complete.

mod atomic_write;
mod lexical;
mod new_file;
pub mod open;

pub use atomic_write::{AtomicWrite, Durability, TemporaryFile, UnplacedFile};
pub use lexical::normalize_lexically;
pub use new_file::NewFile;
