//! Searching in files, with ripgrep's own crates.

mod large;

use self::large::{Large, Scale};
use crate::open::open_file;
use crate::threads::Interrupt;
use crate::threads::threads;
use crate::types::WalkRoot;
use crate::types::{FileMatches, Kind, Line, SearchOptions, SearchResult, WalkOptions, WorkspaceError};
use crate::walk::first_by_path::FirstByPath;
use crate::walk::{self, Extent, IncludedEntry, Visitor};
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use pinion_exclusions::{FileId, Finder};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lines of context before and after a match, each.
const MAX_CONTEXT: u32 = 100;
/// Matches of one search.
const MAX_MATCHES: u32 = 100_000;
/// Bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 16 * 1024;
/// Bytes of memory for found lines; the rest is left out.
const MAX_FOUND_BYTES: u64 = 12 * 1024 * 1024;
/// Bytes of found lines of one file, or of a buffer, that make a file count as large.
const LARGE_BYTES: usize = 256 * 1024;
/// Approximate bytes of a file in the result without its path and lines.
const FILE_BYTES: u64 = 160;
/// Approximate bytes of a line without its text, in a vector that grows.
const LINE_BYTES: u64 = 2 * size_of::<Line>() as u64 + 16;
/// Lines of one match between two checks of the deadline.
const CLOCK_STEP: usize = 1024;

/// The resources of a pattern of some size. The larger the compiled pattern, the slower it may match and the more memory
/// each thread needs, so it gets less text and fewer threads.
#[derive(Debug, Clone, Copy)]
struct Weight {
    /// The compiled pattern, in bytes.
    regex_bytes: usize,
    /// The size of a thread's cache for matching, in bytes for each direction.
    cache_bytes: usize,
    max_threads: usize,
    /// The longest line in bytes.
    line_bytes: usize,
    /// The largest file in bytes that is searched for matches over several lines.
    file_bytes: usize,
}

const WEIGHTS: [Weight; 3] = [
    Weight {
        regex_bytes: 256 << 10,
        cache_bytes: 1 << 20,
        max_threads: usize::MAX,
        line_bytes: 24 << 20,
        file_bytes: 8 << 20,
    },
    Weight { regex_bytes: 1 << 20, cache_bytes: 4 << 20, max_threads: 2, line_bytes: 4 << 20, file_bytes: 1 << 20 },
    Weight { regex_bytes: 6 << 20, cache_bytes: 16 << 20, max_threads: 1, line_bytes: 1 << 20, file_bytes: 256 << 10 },
];

/// The result of a search, and the bytes that it read.
#[derive(Debug)]
pub struct Searched {
    /// The matches.
    pub result: SearchResult,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Searches the files that a walk finds.
pub fn search(
    root: &WalkRoot,
    options: &WalkOptions,
    what: &SearchOptions,
    deadline: &dyn Interrupt,
) -> Result<Searched, WorkspaceError> {
    let max_matches = what.max_matches.clamp(1, MAX_MATCHES);
    let limits = [max_matches.into(), walk::limit(options), MAX_FOUND_BYTES];
    let (matcher, weight) = matcher(what)?;
    let search = ContentSearch {
        matcher,
        weight,
        what,
        deadline,
        large: Large::default(),
        is_cut: AtomicBool::new(false),
        found: FirstByPath::new(limits),
        excluded: Excluded { exclusions: &root.exclusions, location: root.spot.target() },
        searched: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    };
    let extent = walk::visit(root, options, deadline, &search)?;
    let (files, is_over) = search.found.into_sorted();
    let named = |(path, file)| FileMatches { path: walk::text(path), ..file };
    let mut files: Vec<FileMatches> = files.into_iter().map(named).collect();
    files.truncate(usize::try_from(walk::limit(options)).unwrap_or(usize::MAX));
    let matches = count(cut_to(&mut files, max_matches.into()));
    let truncated = is_over || extent == Extent::Cut || search.is_cut.into_inner();
    let result = SearchResult { files, matches, searched: count(search.searched.into_inner()), truncated };
    Ok(Searched { result, bytes: search.bytes.into_inner() })
}

/// Compiles the pattern, under the smallest weight that suffices.
fn matcher(what: &SearchOptions) -> Result<(RegexMatcher, Weight), WorkspaceError> {
    if what.pattern.len() > MAX_PATTERN_BYTES {
        let text = format!("pattern: {} bytes, of at most {MAX_PATTERN_BYTES}", what.pattern.len());
        return Err(WorkspaceError::InvalidPattern(text));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(!what.case_sensitive).fixed_strings(!what.regex).multi_line(true);
    if !what.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    let compiled = |weight: &Weight| {
        builder.size_limit(weight.regex_bytes).dfa_size_limit(weight.cache_bytes);
        builder.build(&what.pattern).map(|matcher| (matcher, *weight))
    };
    compile(compiled).map_err(|error| WorkspaceError::InvalidPattern(format!("pattern: {error}")))
}

/// Tries one weight after the other. An invalid pattern fails under each.
fn compile<T, E>(compiled: impl FnMut(&Weight) -> Result<T, E>) -> Result<T, E> {
    let [light, medium, heavy] = &WEIGHTS;
    let mut compiled = compiled;
    compiled(light).or_else(|_| compiled(medium)).or_else(|_| compiled(heavy))
}

fn searcher(what: &SearchOptions, weight: Weight) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(what.multiline)
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context(what.before))
        .after_context(context(what.after))
        .heap_limit(Some(if what.multiline { weight.file_bytes } else { weight.line_bytes }))
        .build()
}

fn context(lines: u32) -> usize {
    usize::try_from(lines.min(MAX_CONTEXT)).unwrap_or(0)
}

/// A search that is under way.
struct ContentSearch<'a> {
    matcher: RegexMatcher,
    weight: Weight,
    what: &'a SearchOptions,
    deadline: &'a dyn Interrupt,
    large: Large,
    /// Set when a file was left out or not searched completely.
    is_cut: AtomicBool,
    /// The results, limited in matches, files and bytes.
    found: FirstByPath<FileMatches, 3>,
    searched: AtomicU64,
    bytes: AtomicU64,
    excluded: Excluded<'a>,
}

/// The files that are not searched.
struct Excluded<'a> {
    exclusions: &'a Finder,
    /// The location of the walk's root.
    location: PathBuf,
}

impl Excluded<'_> {
    /// Returns whether an open file is excluded, by its path from the root or under another name.
    fn holds(&self, path: &OsStr, file: &File) -> bool {
        if self.exclusions.is_empty() {
            return false;
        }
        let location = if path.is_empty() { self.location.clone() } else { self.location.join(path) };
        let is_same = || FileId::from_metadata(&file.metadata().ok()?).and_then(|id| self.exclusions.of_file(&id));
        self.exclusions.exclusions().of_entry(&location, false).is_some() || is_same().is_some()
    }
}

impl Visitor for ContentSearch<'_> {
    type Tools = Searcher;
    const RUN: usize = 4;

    fn tools(&self) -> Searcher {
        searcher(self.what, self.weight)
    }

    fn threads(&self) -> usize {
        threads().min(self.weight.max_threads)
    }

    fn visit(&self, searcher: &mut Searcher, found: &IncludedEntry<'_>) {
        if found.kind != Kind::File {
            return;
        }
        // A file that cannot be read is left out, as is one that is excluded.
        let Ok(file) = open_file(found.directory, found.name) else { return };
        if self.excluded.holds(found.path, &file) {
            return;
        }
        let scale = Scale::new(&self.large, self.deadline);
        let mut reader = CountedFile { file, deadline: self.deadline, scale: &scale, read: 0 };
        let mut lines = MatchedLines::new(&self.matcher, self.what, self.deadline, &scale);
        let searched = searcher.search_reader(&self.matcher, &mut reader, &mut lines);
        self.searched.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(reader.read, Ordering::Relaxed);
        if searched.is_err() {
            // Most likely too large. The results from other files are kept.
            self.is_cut.store(true, Ordering::Relaxed);
        } else if !lines.is_binary && lines.matches > 0 {
            let bytes = lines.bytes + FILE_BYTES + walk::path_bytes(found.path);
            let file = FileMatches { path: String::new(), lines: lines.lines, matches: lines.matches };
            self.found.add(found.path, [file.matches.into(), 1, bytes], file);
        }
        if scale.is_large() {
            // Drop the buffers, which a searcher keeps for the next file.
            *searcher = self.tools();
        }
    }

    fn is_beyond(&self, path: &OsStr) -> bool {
        self.found.is_beyond(path)
    }
}

/// A file whose bytes are counted while it is read. Reading stops when the call is over, because it may be a terabyte.
struct CountedFile<'a, 's> {
    file: File,
    deadline: &'a dyn Interrupt,
    scale: &'a Scale<'s>,
    read: u64,
}

impl Read for CountedFile<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_over() {
            return Err(given_up());
        }
        // The size of the buffer shows how much memory the file needs.
        if buffer.len() > LARGE_BYTES && !self.scale.grow() {
            return Err(given_up());
        }
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

fn given_up() -> io::Error {
    io::Error::other("given up")
}

/// Keeps the first `max` matches of sorted files. Returns the number that is left.
fn cut_to(files: &mut Vec<FileMatches>, max: u64) -> u64 {
    let mut kept = 0;
    for file in files.iter_mut() {
        let room = max - kept;
        if u64::from(file.matches) > room {
            let beyond = file.lines.iter().enumerate().filter(|(_, line)| line.is_match).map(|(at, _)| at);
            let cut = beyond.skip(usize::try_from(room).unwrap_or(usize::MAX)).min().unwrap_or(0);
            file.lines.truncate(cut);
            file.matches = u32::try_from(room).unwrap_or(u32::MAX);
        }
        kept += u64::from(file.matches);
    }
    files.retain(|file| file.matches > 0);
    kept
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Collects the lines that a search finds in one file.
struct MatchedLines<'a, 's> {
    matcher: &'a RegexMatcher,
    deadline: &'a dyn Interrupt,
    scale: &'a Scale<'s>,
    lines: Vec<Line>,
    matches: u32,
    /// The bytes of `lines`, including one that did not fit.
    bytes: u64,
    max_matches: u32,
    max_line: usize,
    is_binary: bool,
}

impl<'a, 's> MatchedLines<'a, 's> {
    fn new(matcher: &'a RegexMatcher, what: &SearchOptions, deadline: &'a dyn Interrupt, scale: &'a Scale<'s>) -> Self {
        Self {
            matcher,
            deadline,
            scale,
            lines: Vec::new(),
            matches: 0,
            bytes: 0,
            max_matches: what
                .max_matches_per_file
                .clamp(1, MAX_MATCHES)
                .min(what.max_matches.clamp(1, MAX_MATCHES) + 1),
            max_line: usize::try_from(what.max_line_bytes).unwrap_or(usize::MAX).clamp(16, 64 * 1024),
            is_binary: false,
        }
    }

    /// Adds a line. Returns false when there is no room for it, or the call is over.
    fn push(&mut self, number: u64, bytes: &[u8], is_match: bool) -> bool {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = if bytes.len() <= self.max_line {
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            let found = if is_match { self.matcher.find(bytes).ok().flatten() } else { None };
            window(bytes, found.map_or(0..0, |found| found.start()..found.end()), self.max_line)
        };
        self.bytes += LINE_BYTES + text.capacity() as u64;
        if self.bytes > MAX_FOUND_BYTES || (self.bytes > LARGE_BYTES as u64 && !self.scale.grow()) {
            return false;
        }
        self.lines.push(Line { number: count(number), text, is_match });
        true
    }
}

/// Returns the part of a long line around a match, with marks where it was cut.
fn window(line: &[u8], found: Range<usize>, max: usize) -> String {
    let lead = (max.saturating_sub(found.len()) / 2).min(found.start);
    let start = (found.start - lead).min(line.len().saturating_sub(max));
    let end = (start + max).min(line.len());
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    format!("{}{}{}", cut(start > 0), String::from_utf8_lossy(&line[start..end]), cut(end < line.len()))
}

impl Sink for MatchedLines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let first = found.line_number().unwrap_or(0);
        for (at, line) in found.lines().enumerate() {
            if at % CLOCK_STEP == CLOCK_STEP - 1 && self.deadline.is_over() {
                return Err(given_up());
            }
            if !self.push(first + at as u64, line, true) {
                return Ok(false);
            }
            self.matches += 1;
            // One match may span any number of lines.
            if self.matches >= self.max_matches {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(context.line_number().unwrap_or(0), context.bytes(), false))
    }

    fn binary_data(&mut self, _: &Searcher, _offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_around_the_match() {
        let line = [b"a".repeat(100), b"X".to_vec(), b"b".repeat(100)].concat();
        let text = window(&line, 100..101, 11);
        assert_eq!(text, "…aaaaaXbbbbb…");
        assert_eq!(window(b"Xbbbbbbbbb", 0..1, 4), "Xbbb…");
        assert_eq!(window(b"bbbbbbbbbX", 9..10, 4), "…bbbX");
    }

    #[test]
    fn matches_beyond_the_limit_are_dropped_by_path() {
        let line = |number, is_match| Line { number, text: String::new(), is_match };
        let file = |path: &str| FileMatches {
            path: path.into(),
            lines: vec![line(1, true), line(2, false), line(3, true), line(4, false)],
            matches: 2,
        };
        let mut files = vec![file("a"), file("b"), file("c")];
        assert_eq!(cut_to(&mut files, 3), 3);
        let kept: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.lines.len(), f.matches)).collect();
        assert_eq!(kept, [("a", 4, 2), ("b", 2, 1)]);
    }
}
