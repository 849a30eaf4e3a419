//! Options, results and errors of the operations, as the contract with plugins defines them in `wit/workspace.wit`.

use crate::paths::beneath::Spot;
use cap_std::fs::Dir;
use pinion_exclusions::{FileId, Finder};
use std::path::PathBuf;
use std::sync::Arc;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root, with '/' between the components.
    pub path: String,
    /// Its kind.
    pub kind: Kind,
    /// Size in bytes; 0 unless the entry is a file.
    pub size: u64,
    /// Milliseconds since 1970-01-01 UTC; 0 when the file system does not report it.
    pub modified_ms: u64,
}

/// Selects files.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Globs in `.gitignore` syntax, matched against paths below the root. If there is a plain glob, only matching entries are
    /// returned; entries that match a glob with a leading '!' are skipped, with everything below them.
    pub globs: Vec<String>,
    /// Names of file types; if there are any, only files of these types are returned.
    pub types: Vec<String>,
    /// The depth limit; 1 for the entries of the root alone, none for no limit.
    pub max_depth: Option<u32>,
    /// Whether to return files whose name starts with a dot.
    pub hidden: bool,
    /// Whether to respect ignore files in the granted directory.
    pub ignore_files: bool,
    /// The most entries, or matching files, to return; 1 to 100,000.
    pub limit: u32,
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkResult {
    /// Sorted by path.
    pub entries: Vec<Entry>,
    /// Whether entries are missing: a limit was reached.
    pub truncated: bool,
}

/// Selects lines in files.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// The pattern, of at most 16 KiB.
    pub pattern: String,
    /// Whether the pattern is a regular expression or a plain string.
    pub regex: bool,
    /// Whether the case of letters counts.
    pub case_sensitive: bool,
    /// Whether a match may span lines.
    pub multiline: bool,
    /// Lines of context before each match; at most 100.
    pub before: u32,
    /// Lines of context after each match; at most 100.
    pub after: u32,
    /// The most matches in all files together; 1 to 100,000.
    pub max_matches: u32,
    /// The most matches in one file.
    pub max_matches_per_file: u32,
    /// Longer lines are cut around the match, and marked.
    pub max_line_bytes: u32,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Line number, starting at 1.
    pub number: u32,
    /// The text without its line ending. Invalid UTF-8 is replaced.
    pub text: String,
    /// Whether the line is a match or context.
    pub is_match: bool,
}

/// The matches in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMatches {
    /// Relative to the root; empty when the root is this file.
    pub path: String,
    /// Lines that match, and their context.
    pub lines: Vec<Line>,
    /// The number of matching lines in `lines`.
    pub matches: u32,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// Sorted by path.
    pub files: Vec<FileMatches>,
    /// The number of matching lines in all files.
    pub matches: u32,
    /// The number of files searched.
    pub searched: u32,
    /// Whether a limit was reached, so that there may be more matches.
    pub truncated: bool,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes.
    pub content: Vec<u8>,
    /// Size of the whole file.
    pub size: u64,
}

/// The reason why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceError {
    /// The path is in no granted directory, excluded, or the grant does not allow the access.
    Denied(String),
    /// There is no such file or directory.
    NotFound(String),
    /// A glob, a file type or the pattern is invalid; the text says which and why.
    InvalidPattern(String),
    /// The work was interrupted.
    Cancelled,
    /// The system reported an error.
    Io(String),
}

// The root of a walk or search.
/// The root of a walk.
#[derive(Debug)]
pub struct WalkRoot {
    /// The granted directory.
    pub directory: Dir,
    /// The path of the root in the granted directory, without links.
    pub relative: PathBuf,
    /// The root, resolved.
    pub spot: Spot,
    /// Paths below the root that are left out, as if they did not exist.
    pub denied: Vec<PathBuf>,
    /// Files that are listed and not read, and directories that are not descended into.
    pub exclusions: Arc<Finder>,
    /// The path as the plugin wrote it, for errors.
    pub path: String,
}

impl WalkRoot {
    /// Refuses an open file that is excluded, also if it took the place of the one that was found.
    pub(crate) fn refuse_excluded(&self, file: &std::fs::Metadata) -> Result<(), WorkspaceError> {
        match FileId::from_metadata(file).and_then(|id| self.exclusions.of_file(&id)) {
            None => Ok(()),
            Some(pattern) => {
                let text = format!("cannot read `{}`: {pattern}\nhint: {}", self.path, pattern.remedy());
                Err(WorkspaceError::Denied(text))
            }
        }
    }
}

/// Describes an error of the system at a path.
pub fn io_error(path: &str, error: &std::io::Error) -> WorkspaceError {
    match error.kind() {
        std::io::ErrorKind::NotFound => WorkspaceError::NotFound(format!("no such file or directory: `{path}`")),
        _ => WorkspaceError::Io(format!("`{path}`: {error}")),
    }
}
