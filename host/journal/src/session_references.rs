//! References from the values of a journal to the session's file.
//!
//! A value that the session has already is written as tokens: in turn the length of a run of literals, the run, the
//! length of a copy and its place, ending with literals. A place is a line, by its position in the file, and a position
//! in the text of this line ([`crate::session_text`]), both relative to the end of the copy before. So a value depends on
//! the lines that it names and on nothing else: if one is damaged, the values that name it are lost, and no others.

use crate::long_matches::{FACTOR, common, hash_of, moved, push_number, push_run, slot, tokens_after_number};
use crate::session_text::text_of_line;
use pinion_files::open::open_file;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of the shortest copy.
const MIN_COPY: usize = 32;
/// Bytes between two places to which copies are searched.
const STEP: usize = 16;
/// The places that are remembered, as a power of two.
const SLOT_BITS: u32 = 18;
/// Bytes of text to look back, and twice as many in memory.
const WINDOW: usize = 4 << 20;
/// Bytes of a session's file to which references are possible although they are older than the journal.
const EARLIER: u64 = 1 << 20;
/// Bytes of the file that are read at once. A longer line is left out.
const MAX_PART: u64 = 8 << 20;
/// Bytes of texts that a reader keeps.
const MAX_KEPT: usize = 64 << 20;
/// Bytes of lines that a reader reads. Tokens of a few bytes can name lines of megabytes.
const MAX_READ: usize = 1 << 30;

/// The text of the session that a journal is written for.
pub(crate) struct SessionIndex {
    path: PathBuf,
    file: Option<File>,
    /// The end of the lines that were read.
    read: u64,
    /// The texts of lines, one after the other.
    text: Vec<u8>,
    lines: Vec<IndexedLine>,
    /// For the highest bits of a hash, one more than the last position in the text with it.
    slots: Vec<u32>,
    /// The factor of the first byte of a hash.
    first_factor: u64,
}

/// The text of a line.
struct IndexedLine {
    /// Its position among the texts.
    start: usize,
    /// The position of the line in the file.
    offset: u64,
}

/// A place in the session's file.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The position of the line in the file.
    line: u64,
    /// The position in the text of the line.
    at: usize,
}

impl SessionIndex {
    /// Begins with the end of a session's file, which need not exist yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            read: 0,
            text: Vec::new(),
            lines: Vec::new(),
            slots: Vec::new(),
            first_factor: (1..MIN_COPY).fold(1_u64, |factor, _| factor.wrapping_mul(FACTOR)),
        }
    }

    /// Reads the lines that were added to the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn update(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let file = match open_file(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                opened => opened?,
            };
            self.read = file.metadata()?.len().saturating_sub(EARLIER);
            let is_within_line = self.read > 0;
            self.file = Some(file);
            self.slots = vec![0; 1 << SLOT_BITS];
            if is_within_line {
                let part = self.next_part()?;
                self.read += part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |at| at + 1) as u64;
            }
        }
        loop {
            let part = self.next_part()?;
            let complete = part.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in part[..complete].split_inclusive(|byte| *byte == b'\n') {
                self.add(&line[..line.len() - 1]);
                self.read += line.len() as u64;
            }
            if part.len() as u64 != MAX_PART {
                return Ok(());
            }
            if complete == 0 {
                self.read += MAX_PART;
            }
        }
    }

    fn next_part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(self.read))?;
            file.take(MAX_PART).read_to_end(&mut part)?;
        }
        Ok(part)
    }

    /// Adds the line at the position `read`.
    fn add(&mut self, line: &[u8]) {
        let start = self.text.len();
        self.lines.push(IndexedLine { start, offset: self.read });
        self.text.extend_from_slice(&text_of_line(line));
        self.remember(start);
        if self.text.len() > 2 * WINDOW {
            self.trim();
        }
    }

    /// Remembers the places behind `start`.
    fn remember(&mut self, start: usize) {
        for at in (start..(self.text.len() + 1).saturating_sub(MIN_COPY)).step_by(STEP) {
            let slot = slot(hash_of(&self.text[at..at + MIN_COPY]), SLOT_BITS);
            self.slots[slot] = u32::try_from(at + 1).unwrap_or(0);
        }
    }

    /// Drops old lines.
    fn trim(&mut self) {
        let from = self.text.len() - WINDOW;
        let dropped = self.lines.partition_point(|line| line.start < from);
        let from = self.lines.get(dropped).map_or(self.text.len(), |line| line.start);
        self.text.drain(..from);
        self.lines.drain(..dropped);
        self.lines.iter_mut().for_each(|line| line.start -= from);
        self.slots.fill(0);
        self.remember(0);
    }

    /// Returns a value as literals and copies; `None` if the session has too little of it.
    pub(crate) fn shorten(&self, value: &[u8]) -> Option<Vec<u8>> {
        if self.text.is_empty() {
            return None;
        }
        let (mut out, mut at, mut literals, mut hash) = (Vec::new(), 0, 0, None);
        let (mut end, mut copied) = (Place::default(), 0);
        while at + MIN_COPY <= value.len() {
            let now = hash.unwrap_or_else(|| hash_of(&value[at..at + MIN_COPY]));
            let Some((from, line)) = self.find(now, &value[at..]) else {
                let next = value.get(at + MIN_COPY);
                hash = next.map(|next| moved(now, value[at], *next, self.first_factor));
                at += 1;
                continue;
            };
            let length = common(self.text[from..line.end].iter(), value[at..].iter());
            let before = common(self.text[line.start..from].iter().rev(), value[literals..at].iter().rev());
            push_run(&value[literals..at - before], &mut out);
            push_number(length + before, &mut out);
            let place = Place { line: line.offset, at: from - before - line.start };
            push_difference(place.line, end.line, &mut out);
            push_difference(place.at as u64, if place.line == end.line { end.at as u64 } else { 0 }, &mut out);
            end = Place { line: place.line, at: place.at + length + before };
            (at, copied) = (at + length, copied + length + before);
            (literals, hash) = (at, None);
        }
        push_run(&value[literals..], &mut out);
        (copied > 0 && out.len() + MIN_COPY < value.len()).then_some(out)
    }

    /// Finds the place of the beginning of `value`, whose first bytes have this hash, and the line of the place.
    fn find(&self, hash: u64, value: &[u8]) -> Option<(usize, FoundLine)> {
        let from = usize::try_from(*self.slots.get(slot(hash, SLOT_BITS))?).ok()?.checked_sub(1)?;
        if self.text.get(from..from + MIN_COPY)? != value.get(..MIN_COPY)? {
            return None;
        }
        let next = self.lines.partition_point(|line| line.start <= from);
        let line = self.lines.get(next.checked_sub(1)?)?;
        let end = self.lines.get(next).map_or(self.text.len(), |line| line.start);
        (from + MIN_COPY <= end).then_some((from, FoundLine { start: line.start, end, offset: line.offset }))
    }
}

/// The text of a line among the texts, and the position of the line in the file.
struct FoundLine {
    start: usize,
    end: usize,
    offset: u64,
}

/// Appends a difference, with its sign as the lowest bit.
fn push_difference(to: u64, from: u64, out: &mut Vec<u8>) {
    let difference = to.wrapping_sub(from).cast_signed();
    let number = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
    push_number(usize::try_from(number).unwrap_or(usize::MAX), out);
}

/// Takes a difference from the beginning of tokens and adds it.
fn difference_after(from: u64, tokens: &mut &[u8]) -> Option<u64> {
    let number = tokens_after_number(tokens)? as u64;
    Some(from.wrapping_add((number >> 1) ^ 0_u64.wrapping_sub(number & 1)))
}

/// Restores values from the file of a session.
pub(crate) struct SessionReader {
    file: Option<BufReader<File>>,
    /// The texts of lines by their positions in the file.
    texts: HashMap<u64, Vec<u8>>,
    /// Bytes of the texts.
    kept: usize,
    /// Bytes of lines that may still be read.
    left: usize,
}

impl SessionReader {
    /// Opens the file of a session. Without it, all values that refer to it are lost.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let file = path.and_then(|path| open_file(path).ok()).map(BufReader::new);
        Self { file, texts: HashMap::new(), kept: 0, left: MAX_READ }
    }

    /// Returns a value of at most `limit` bytes; `None` if it is longer, or if its tokens or a line is damaged.
    pub(crate) fn restore(&mut self, mut tokens: &[u8], limit: usize) -> Option<Vec<u8>> {
        let (mut value, mut end) = (Vec::new(), Place::default());
        loop {
            let (run, rest) = tokens_after_number(&mut tokens).and_then(|length| tokens.split_at_checked(length))?;
            value.extend_from_slice(run);
            tokens = rest;
            if tokens.is_empty() {
                return (value.len() <= limit).then_some(value);
            }
            let length = tokens_after_number(&mut tokens)?;
            let line = difference_after(end.line, &mut tokens)?;
            let before = if line == end.line { end.at as u64 } else { 0 };
            let at = usize::try_from(difference_after(before, &mut tokens)?).ok()?;
            let copy_end = at.checked_add(length)?;
            limit.checked_sub(value.len())?.checked_sub(length)?;
            value.extend_from_slice(self.text(line)?.get(at..copy_end)?);
            end = Place { line, at: copy_end };
        }
    }

    /// Returns the text of the line at this position of the file.
    fn text(&mut self, offset: u64) -> Option<&[u8]> {
        if !self.texts.contains_key(&offset) {
            let file = self.file.as_mut()?;
            let mut line = Vec::new();
            file.seek(SeekFrom::Start(offset)).ok()?;
            let most = MAX_PART.min(self.left as u64);
            file.take(most).read_until(b'\n', &mut line).ok()?;
            self.left -= line.len();
            (line.pop() == Some(b'\n')).then_some(())?;
            let text = text_of_line(&line);
            if self.kept + text.len() > MAX_KEPT {
                self.texts.clear();
                self.kept = 0;
            }
            self.kept += text.len();
            self.texts.insert(offset, text);
        }
        self.texts.get(&offset).map(Vec::as_slice)
    }
}

#[cfg(test)]
#[path = "session_references_tests.rs"]
mod tests;
