//! A session file open for reading.

use crate::error::{BadLine, BadLines, SessionError};
use crate::format::{self, EntryKind, Payload, SessionEntry};
use crate::header::SessionHeader;
use crate::id::EntryId;
use crate::index::{EntryIndex, HeaderState, Node};
use crate::lock::{OpenSession, require_file};
use crate::replay::History;
use crate::tree::BranchInfo;
pub(crate) use pinion_files::open::open_file;
use pinion_protocol::{Message, UserMessage};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger than most entries, so that reading a branch is reading a file from one end to the other.
const BUFFER: usize = 256 << 10;

/// A session file, read entry by entry.
///
/// Reading takes no lock and changes nothing: another process may write to the session meanwhile. Memory holds about
/// 100 bytes per entry, and one entry at a time.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    reader: BufReader<OpenSession>,
    index: EntryIndex,
}

impl Transcript {
    /// Opens the session in the file `path`.
    ///
    /// # Errors
    /// The file does not exist, cannot be read, has an unknown version, or is not a session.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        require_file(path)?;
        let file = open_file(path).map_err(SessionError::io("open", path))?;
        Self::read(path, OpenSession::unlocked(file))
    }

    pub(crate) fn read(path: &Path, file: OpenSession) -> Result<Self, SessionError> {
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let index = EntryIndex::read(path, &mut reader)?;
        reader.rewind().map_err(SessionError::io("read", path))?;
        Ok(Self { path: path.to_owned(), reader, index })
    }

    /// Returns the session's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the facts in the first line; `None` when it is lost.
    pub fn header(&self) -> Option<&SessionHeader> {
        match &self.index.header {
            HeaderState::Good(header) => Some(header),
            HeaderState::Missing | HeaderState::Broken => None,
        }
    }

    /// Returns the lines that could not be placed in the tree. [`Transcript::branch`] reports entries whose data is
    /// broken.
    pub fn bad_lines(&self) -> &BadLines {
        &self.index.bad_lines
    }

    /// Returns the position of the conversation: the entry that the next one follows. `None` in a session without
    /// entries, or after a return to before its first entry.
    pub fn position(&self) -> Option<EntryId> {
        self.index.id_of(self.index.position())
    }

    /// Returns the entries from the root of the tree to the position of the conversation, in this order.
    pub fn branch(&mut self) -> Branch<'_> {
        let nodes = self.index.branch(self.index.position());
        self.entries(nodes)
    }

    /// Returns the entries from the root of the tree to `leaf`; `None` when there is no such entry.
    pub fn branch_to(&mut self, leaf: EntryId) -> Option<Branch<'_>> {
        let nodes = self.index.branch(Some(self.index.find(leaf)?));
        Some(self.entries(nodes))
    }

    /// Returns all branches: the current one first, then the others in the order of their last entries. Each shares the
    /// entries up to its `from` with another.
    pub fn branches(&self) -> Vec<BranchInfo> {
        self.index.segments().iter().filter_map(|segment| self.index.info(segment)).collect()
    }

    /// Returns the first prompt on a branch after it left the others; `None` without a prompt, or when it cannot be
    /// read.
    pub fn prompt_of(&mut self, branch: &BranchInfo) -> Option<UserMessage> {
        let leaf = self.index.find(branch.leaf)?;
        let nodes = self.index.branch(Some(leaf));
        let own = nodes.len().saturating_sub(branch.entries);
        let messages = nodes.into_iter().skip(own).filter(|node| node.kind == EntryKind::Message).collect();
        self.entries(messages).find_map(|entry| match entry.ok()?.payload {
            Payload::Message(Message::User(prompt)) => Some(prompt),
            _ => None,
        })
    }

    pub(crate) fn index(&self) -> &EntryIndex {
        &self.index
    }

    /// Returns these entries, in this order.
    pub(crate) fn entries(&mut self, nodes: Vec<Node>) -> Branch<'_> {
        Branch { nodes: nodes.into_iter(), path: &self.path, reader: &mut self.reader, at: None, buffer: Vec::new() }
    }

    /// Returns the file for writing, and its index.
    pub(crate) fn into_parts(self) -> (OpenSession, EntryIndex) {
        (self.reader.into_inner(), self.index)
    }
}

/// An entry of a branch could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The line of the entry is broken. Later entries can be read.
    #[error(transparent)]
    Broken(#[from] BadLine),
    /// The file can no longer be read.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The entries of a branch, in the order of the conversation.
#[derive(Debug)]
pub struct Branch<'a> {
    nodes: std::vec::IntoIter<Node>,
    path: &'a Path,
    reader: &'a mut BufReader<OpenSession>,
    /// The offset of the reader, once it is known.
    at: Option<u64>,
    buffer: Vec<u8>,
}

impl Iterator for Branch<'_> {
    type Item = Result<SessionEntry, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.nodes.next()?;
        let line = match self.line(&node) {
            Ok(line) => line,
            Err(error) => return Some(Err(error.into())),
        };
        let entry = format::decode_entry(line, node.kind);
        Some(entry.map_err(|error| BadLine { line: node.line, reason: error.to_string() }.into()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.nodes.size_hint()
    }
}

impl Branch<'_> {
    /// Reads the messages and records of the branch. Entries that cannot be read are skipped and added to `bad`.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub(crate) fn history(self, bad: &mut BadLines) -> Result<History, SessionError> {
        let mut history = History::default();
        for entry in self {
            match entry {
                Ok(SessionEntry { payload: Payload::Message(message), .. }) => history.messages.push(Arc::new(message)),
                Ok(SessionEntry { payload: Payload::Record(record), .. }) => {
                    history.records.push((history.messages.len(), record));
                }
                Ok(_) => {}
                Err(EntryError::Broken(line)) => bad.push(line),
                Err(EntryError::Session(error)) => return Err(error),
            }
        }
        Ok(history)
    }

    /// Returns the line of the next node as it is in the file, with the node.
    pub(crate) fn next_line(&mut self) -> Option<Result<(Node, &[u8]), SessionError>> {
        let node = self.nodes.next()?;
        Some(self.line(&node).map(|line| (node, line)))
    }

    fn line(&mut self, node: &Node) -> Result<&[u8], SessionError> {
        self.fetch(node).map_err(SessionError::io("read", self.path))?;
        Ok(&self.buffer)
    }

    /// Reads the line of an entry into the buffer. Seeking by a distance keeps the buffer.
    fn fetch(&mut self, node: &Node) -> io::Result<()> {
        match self.at {
            Some(at) => self.reader.seek_relative(node.offset as i64 - at as i64)?,
            None => self.reader.seek(SeekFrom::Start(node.offset)).map(drop)?,
        }
        self.at = None;
        self.buffer.clear();
        let read = (&mut *self.reader).take(node.length).read_to_end(&mut self.buffer)?;
        if (read as u64) < node.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at = Some(node.offset + node.length);
        Ok(())
    }
}
