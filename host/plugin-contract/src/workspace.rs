//! Conversion between the contract's types and the types of the crate `pinion-workspace`.

use crate::bindings::pinion::plugin::workspace as wit;
use pinion_workspace::{
    Chunk, Entry, FileMatches, Kind, Line, SearchOptions, SearchResult, WalkOptions, WalkResult, WorkspaceError,
};

/// Converts the options of a walk. The caller resolves its root.
pub fn walk_options(options: wit::WalkOptions) -> WalkOptions {
    WalkOptions {
        globs: options.globs,
        types: options.types,
        max_depth: options.max_depth,
        hidden: options.hidden,
        ignore_files: options.ignore_files,
        limit: options.limit,
    }
}

/// Converts the options of a search.
pub fn search_options(options: wit::SearchOptions) -> SearchOptions {
    SearchOptions {
        pattern: options.pattern,
        regex: options.regex,
        case_sensitive: options.case_sensitive,
        multiline: options.multiline,
        before: options.before,
        after: options.after,
        max_matches: options.max_matches,
        max_matches_per_file: options.max_matches_per_file,
        max_line_bytes: options.max_line_bytes,
    }
}

impl From<Kind> for wit::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink => Self::Symlink,
            Kind::Other => Self::Other,
        }
    }
}

impl From<Entry> for wit::Entry {
    fn from(entry: Entry) -> Self {
        let Entry { path, kind, size, modified_ms } = entry;
        Self { path, kind: kind.into(), size, modified_ms }
    }
}

impl From<WalkResult> for wit::WalkResult {
    fn from(result: WalkResult) -> Self {
        Self { entries: result.entries.into_iter().map(Into::into).collect(), truncated: result.truncated }
    }
}

impl From<Line> for wit::Line {
    fn from(line: Line) -> Self {
        let Line { number, text, is_match } = line;
        Self { number, text, is_match }
    }
}

impl From<FileMatches> for wit::FileMatches {
    fn from(file: FileMatches) -> Self {
        let FileMatches { path, lines, matches } = file;
        Self { path, lines: lines.into_iter().map(Into::into).collect(), matches }
    }
}

impl From<SearchResult> for wit::SearchResult {
    fn from(result: SearchResult) -> Self {
        let SearchResult { files, matches, searched, truncated } = result;
        Self { files: files.into_iter().map(Into::into).collect(), matches, searched, truncated }
    }
}

impl From<Chunk> for wit::Chunk {
    fn from(chunk: Chunk) -> Self {
        let Chunk { content, size } = chunk;
        Self { content, size }
    }
}

impl From<WorkspaceError> for wit::WorkspaceError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Denied(text) => Self::Denied(text),
            WorkspaceError::NotFound(text) => Self::NotFound(text),
            WorkspaceError::InvalidPattern(text) => Self::InvalidPattern(text),
            WorkspaceError::Cancelled => Self::Cancelled,
            WorkspaceError::Io(text) => Self::Io(text),
        }
    }
}

impl From<WorkspaceError> for wit::ReplaceError {
    fn from(error: WorkspaceError) -> Self {
        Self::Other(error.into())
    }
}
