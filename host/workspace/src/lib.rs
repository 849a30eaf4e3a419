//! Files of a workspace, within the directories that a user granted: finding, searching, reading and replacing them.
//!
//! [`grants`] holds the granted directories and decides about the places in them, [`paths`] resolves paths beneath open
//! directories. [`walk()`] finds files, [`search()`] searches in them, and [`replace_file`] replaces one; [`ReadFiles`]
//! remembers which version of a file a session has seen, and [`list_files`] finds files for a person. Walk and search run
//! on the calling thread, which may block, and on some helpers that end with the call. Every directory and file is opened
//! relative to the handle of the directory that holds it, so that no link, `..` or rename race leads out of the granted
//! directory. Of too many results, the first by path are returned, so that the result is the same each time.
//!
//! This crate knows no plugins, and checks no effects of a call: the runtime decides which directories a call may use.

mod listing;
mod open;
mod read;
mod read_files;
mod replace;
mod search;
mod threads;
mod types;
mod walk;

/// Granted directories, the access to the places in them, and the places that no grant reaches.
///
/// A decision takes two steps. [`roots`](grants::roots) holds the granted directories, each opened once; everything is
/// found beneath their handles. [`policy`](grants::policy) decides the permitted access to the location that was found.
pub mod grants {
    pub mod access;
    pub mod policy;
    pub mod protected;
    pub mod roots;
}

/// Paths on the way to files: resolving them beneath an open directory.
pub mod paths {
    pub mod beneath;
    pub mod identity;
    pub mod real;
}

pub use listing::{FileList, list_files};
pub use open::is_out_of_handles;
pub use read::{read, read_text};
pub use read_files::{KnownFileState, ReadFiles};
pub use replace::{has_content, replace_file};
pub use search::{Searched, search};
pub use threads::Interrupt;
pub use types::{
    Chunk, Entry, FileMatches, Kind, Line, SearchOptions, SearchResult, WalkOptions, WalkResult, WalkRoot,
    WorkspaceError, io_error,
};
pub use walk::walk;
