//! The positions and links of the entries in a session file, read in one pass without parsing their data.
//!
//! The file is not trusted. The result is a forest of the lines whose place can be read, with parents before their
//! children; the other lines are reported. Memory grows with the number of entries, not with their size.
//!
//! A parent whose line is broken is replaced by the last entry before it on the same side. A lost `position` costs
//! nothing, because the next entry names its parent itself; and when the first entry after a `position` is lost, the
//! next one finds the `position`, and with it the right branch.

use crate::error::{BadLine, BadLines, SessionError, SessionErrorKind};
use crate::format::{EntryHead, EntryKind};
use crate::header::{self, FirstLine, SessionHeader};
use crate::id::EntryId;
use crate::lines::{FileLine, LineReader, MAX_LINE};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

/// An entry and its place in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) id: EntryId,
    /// The index of the parent's node, which is always smaller than the node's own.
    pub(crate) parent: Option<usize>,
    pub(crate) line: u64,
    pub(crate) offset: u64,
    /// The length of its line, newline included.
    pub(crate) length: u64,
    pub(crate) kind: EntryKind,
    /// The parallel branch that it is on; 0 is the main line.
    pub(crate) side: Side,
}

/// The number of a side in its [`EntryIndex`].
pub(crate) type Side = usize;

const MAIN: Side = 0;

/// The bytes after the last line that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// There are no such bytes.
    None,
    /// A complete line; only its newline is missing.
    Unended,
    /// A part of a line, cut off by a kill.
    Torn,
}

/// The first line of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeaderState {
    Good(Box<SessionHeader>),
    /// The file is empty, or has only the start of a header.
    Missing,
    /// The line is not a header.
    Broken,
}

/// The entries of a session file, and their places.
#[derive(Debug)]
pub(crate) struct EntryIndex {
    pub(crate) header: HeaderState,
    pub(crate) nodes: Vec<Node>,
    pub(crate) bad_lines: BadLines,
    /// The end of the last good line; a torn tail starts here.
    pub(crate) end: u64,
    pub(crate) tail: Tail,
    by_id: BTreeMap<EntryId, usize>,
    /// The runs of parallel groups, by their ids.
    sides: BTreeMap<Box<str>, Side>,
    /// The last node of each side; `None` for a main line without entries.
    last_of_side: Vec<Option<usize>>,
}

impl EntryIndex {
    /// Reads all of `reader`. `path` is for errors.
    ///
    /// # Errors
    /// The file cannot be read, has another version, or is not a session.
    pub(crate) fn read(path: &Path, reader: impl BufRead) -> Result<Self, SessionError> {
        let mut index = Self {
            header: HeaderState::Missing,
            nodes: Vec::new(),
            bad_lines: BadLines::default(),
            end: 0,
            tail: Tail::None,
            by_id: BTreeMap::new(),
            sides: BTreeMap::new(),
            last_of_side: vec![None],
        };
        let mut lines = LineReader::new(reader, MAX_LINE);
        while let Some(line) = lines.next().map_err(SessionError::io("read", path))? {
            index.add_line(path, &line)?;
        }
        if index.header == HeaderState::Broken && index.nodes.is_empty() {
            return Err(SessionError::new(path, SessionErrorKind::Corrupt));
        }
        Ok(index)
    }

    /// Returns the position of the conversation: the node that the next entry follows. `None` in a session without
    /// entries, or after a return to before its first entry.
    pub(crate) fn position(&self) -> Option<usize> {
        let last = self.last_of_side.first().copied().flatten()?;
        let node = self.nodes.get(last)?;
        if node.kind == EntryKind::Position { node.parent } else { Some(last) }
    }

    /// Returns the nodes from a root to this one.
    pub(crate) fn branch(&self, leaf: Option<usize>) -> Vec<Node> {
        let mut branch = Vec::new();
        let mut next = leaf.and_then(|leaf| self.nodes.get(leaf));
        while let Some(node) = next {
            branch.push(*node);
            next = node.parent.and_then(|parent| self.nodes.get(parent));
        }
        branch.reverse();
        branch
    }

    /// Returns the node of this entry.
    pub(crate) fn find(&self, id: EntryId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the id of a node.
    pub(crate) fn id_of(&self, node: Option<usize>) -> Option<EntryId> {
        node.and_then(|node| self.nodes.get(node)).map(|node| node.id)
    }

    /// Returns the largest id in use.
    pub(crate) fn last_id(&self) -> Option<EntryId> {
        self.by_id.last_key_value().map(|(id, _)| *id)
    }

    fn add_line(&mut self, path: &Path, line: &FileLine<'_>) -> Result<(), SessionError> {
        let good = (line.number == 1 && self.read_header(path, line)?) || self.read_entry(line);
        if good || line.ended {
            self.end = line.offset + line.length;
        }
        self.tail = match (line.ended, good) {
            (true, _) => Tail::None,
            (false, true) => Tail::Unended,
            (false, false) => Tail::Torn,
        };
        Ok(())
    }

    /// Reads the first line, and returns whether it is a header.
    fn read_header(&mut self, path: &Path, line: &FileLine<'_>) -> Result<bool, SessionError> {
        self.header = match header::first_line(line.bytes) {
            FirstLine::Header(header) => HeaderState::Good(header),
            FirstLine::Foreign(found) => {
                return Err(SessionError::new(path, SessionErrorKind::UnsupportedVersion { found }));
            }
            FirstLine::Other if !line.ended && header::is_beginning_of_header(line.bytes) => HeaderState::Missing,
            FirstLine::Other => HeaderState::Broken,
        };
        Ok(matches!(self.header, HeaderState::Good(_)))
    }

    /// Adds an entry, and returns whether the line is one. Reports a complete line that is not.
    fn read_entry(&mut self, line: &FileLine<'_>) -> bool {
        match EntryHead::read(line) {
            Ok(head) => self.add(line, &head),
            Err(reason) => {
                if line.ended && !line.bytes.trim_ascii().is_empty() {
                    self.bad_lines.push(BadLine { line: line.number, reason });
                }
                return false;
            }
        }
        true
    }

    fn add(&mut self, line: &FileLine<'_>, head: &EntryHead<'_>) {
        let side = head.side.as_deref().map_or(MAIN, |side| self.side(side));
        let node = Node {
            id: head.id,
            parent: head.parent.and_then(|parent| self.nearest(parent, side)),
            line: line.number,
            offset: line.offset,
            length: line.length,
            kind: head.kind(),
            side,
        };
        // Of two entries with the same id, the later one wins: its followers were written after both.
        self.by_id.insert(head.id, self.nodes.len());
        if let Some(last) = self.last_of_side.get_mut(side) {
            *last = Some(self.nodes.len());
        }
        self.nodes.push(node);
    }

    /// Returns the number of a side.
    fn side(&mut self, name: &str) -> Side {
        if let Some(side) = self.sides.get(name) {
            return *side;
        }
        let side = self.last_of_side.len();
        self.sides.insert(name.into(), side);
        self.last_of_side.push(None);
        side
    }

    /// Returns the entry of this id. Where its line is broken, returns the last one before it, since ids count up; when
    /// that is on another side, the last one of this side.
    fn nearest(&self, id: EntryId, side: Side) -> Option<usize> {
        let (found, index) = self.by_id.range(..=id).next_back()?;
        let same_side = || self.nodes.get(*index).is_some_and(|node| node.side == side);
        if *found == id || same_side() {
            return Some(*index);
        }
        self.last_of_side.get(side).copied().flatten().or(Some(*index))
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
