//! Highlighted code.
//!
//! Finding the parts of code takes milliseconds for a screen, much longer for the first block of a language, and
//! without bound for hostile text, so no frame waits for it. A block whose parts are not known is drawn plain and
//! becomes a [`HighlightJob`], which the application runs in a [`Highlighter`] on a separate thread; the result is an input, and
//! then the block is drawn again.

mod worker;

pub use self::worker::Highlighter;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks whose parts are kept, blocks that wait, lines of a block that can be highlighted, and bytes of a line.
const MAX_BLOCKS: usize = 128;
const MAX_WANTED: usize = 32;
const MAX_LINES: usize = 500;
const MAX_LINE: usize = 500;

/// The kind of a part of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxKind {
    /// Anything else, such as a name or an operator.
    Text,
    /// Comment.
    Comment,
    /// String or character.
    String,
    /// Number or other literal.
    Literal,
    /// Keyword or other word with a fixed meaning.
    Keyword,
    /// Name of a function where it is defined or called.
    Function,
    /// Name of a type, tag, section or key.
    Name,
}

/// The parts of a line: the end offset of each one.
pub type HighlightedLine = Vec<(usize, SyntaxKind)>;

/// A block of code to highlight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighlightJob {
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// A block of code with the parts of its lines; of fewer lines if the rest stays plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlighted {
    pub(crate) job: HighlightJob,
    pub(crate) parts: Vec<HighlightedLine>,
}

/// The blocks whose parts are known, and the next one to find out about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Highlights(Arc<Mutex<HighlightCache>>);

#[derive(Debug, Default)]
struct HighlightCache {
    /// The block used last comes last.
    blocks: VecDeque<Highlighted>,
    wanted: VecDeque<HighlightJob>,
    is_busy: bool,
    /// Number of blocks that were drawn without all of their parts.
    missed: u64,
}

impl HighlightCache {
    fn want(&mut self, job: HighlightJob) {
        let lines: Vec<&str> = job.lines.iter().map(String::as_str).collect();
        // Replaces the beginning of the block while it grows.
        self.wanted.retain(|earlier| !earlier.is_prefix(&job.language, &lines));
        self.wanted.push_back(job);
        if self.wanted.len() > MAX_WANTED {
            self.wanted.pop_front();
        }
    }
}

impl Highlights {
    fn known(&self) -> std::sync::MutexGuard<'_, HighlightCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the parts of the first lines of a block, as many as are known. The last line counts only if it
    /// `is_complete`.
    pub(crate) fn parts(&self, language: &str, lines: &[&str], is_complete: bool) -> Vec<HighlightedLine> {
        let complete = lines.len() - usize::from(!is_complete && !lines.is_empty());
        let lines = &lines[..complete];
        if language.is_empty() || lines.is_empty() || lines.len() > MAX_LINES {
            return Vec::new();
        }
        let mut known = self.known();
        let at = known.blocks.iter().rposition(|block| block.job.is_prefix(language, lines));
        let found = at.and_then(|at| known.blocks.remove(at));
        let (is_whole, parts) = found
            .as_ref()
            .map_or((false, Vec::new()), |block| (block.job.lines.len() == lines.len(), block.parts.clone()));
        known.blocks.extend(found);
        if !is_whole {
            known.missed += 1;
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            known.want(HighlightJob { language: language.to_owned(), lines });
        }
        parts
    }

    /// Returns a number that grows whenever a block is drawn without all of its parts.
    pub(crate) fn missed(&self) -> u64 {
        self.known().missed
    }

    /// Returns the next job, unless another one is under way.
    pub(crate) fn next(&self) -> Option<HighlightJob> {
        let mut known = self.known();
        let job = if known.is_busy { None } else { known.wanted.pop_front() };
        known.is_busy |= job.is_some();
        job
    }

    /// Returns whether no block waits for its parts.
    pub(crate) fn is_idle(&self) -> bool {
        let known = self.known();
        known.wanted.is_empty() && !known.is_busy
    }

    /// Adds the result of a job.
    pub(crate) fn add(&self, block: Highlighted) {
        let mut known = self.known();
        known.is_busy = false;
        let lines: Vec<&str> = block.job.lines.iter().map(String::as_str).collect();
        // Replaces the beginning of the block while it grows.
        known.blocks.retain(|older| !older.job.is_prefix(&block.job.language, &lines));
        known.blocks.push_back(block);
        if known.blocks.len() > MAX_BLOCKS {
            known.blocks.pop_front();
        }
    }
}

impl HighlightJob {
    /// Returns whether the job is the beginning of a block.
    fn is_prefix(&self, language: &str, lines: &[&str]) -> bool {
        self.language == language
            && self.lines.len() <= lines.len()
            && self.lines.iter().zip(lines).all(|(a, b)| a == b)
    }
}

/// Splits a line into its highlighted parts.
pub(crate) fn pieces_of<'a>(
    line: &'a str,
    parts: &'a [(usize, SyntaxKind)],
) -> impl Iterator<Item = (&'a str, SyntaxKind)> {
    let starts = std::iter::once(0).chain(parts.iter().map(|(end, _)| *end));
    starts.zip(parts).map(|(start, (end, part))| (line.get(start..*end).unwrap_or_default(), *part))
}

/// Returns the language that the opening line of a code block names.
pub(crate) fn language(info: &str) -> &str {
    let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | ':');
    info.trim().split(is_end).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_block_keeps_its_parts_and_wants_the_rest() {
        let highlights = Highlights::default();
        let mut highlighter = Highlighter::default();
        assert_eq!(highlights.parts("rust", &["let x = 1;", "let"], false), Vec::<HighlightedLine>::new());
        let job = highlights.next().unwrap();
        assert_eq!(job.lines, ["let x = 1;"]);
        assert_eq!(highlights.next(), None);
        highlights.add(highlighter.run(job));
        let parts = highlights.parts("rust", &["let x = 1;", "let y = 2;"], true);
        assert_eq!(
            parts,
            [vec![(3, SyntaxKind::Keyword), (8, SyntaxKind::Text), (9, SyntaxKind::Literal), (10, SyntaxKind::Text)]]
        );
        let job = highlights.next().unwrap();
        highlights.add(highlighter.run(job));
        assert_eq!(highlights.parts("rust", &["let x = 1;", "let y = 2;"], true).len(), 2);
        assert_eq!((highlights.next(), highlights.known().blocks.len()), (None, 1));
    }

    #[test]
    fn opening_line_names_the_language() {
        assert_eq!(language(" rust,ignore"), "rust");
        assert_eq!((language("toml title=\"x\""), language("")), ("toml", ""));
    }
}
