//! A session file, opened for reading.

use crate::error::{BadLine, BadLines, SessionError, SessionErrorKind};
use crate::format::{self, Entry, Kind, Payload};
use crate::header::Header;
use crate::id::EntryId;
use crate::index::{HeaderState, Index, Node};
use crate::tree::BranchInfo;
use pinion_protocol::{Message, UserMessage};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger than most entries, so that reading a branch is reading a file from one end to the other.
const BUFFER: usize = 256 << 10;

/// A session as it stands in its file, read entry by entry.
///
/// Reading takes no lock and changes nothing: a session can be read while another process writes to it. Memory holds
/// some 100 bytes an entry, and one entry at a time.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    reader: BufReader<File>,
    index: Index,
}

impl Transcript {
    /// Opens the session in the file `path`.
    ///
    /// # Errors
    /// The file cannot be read, has a version that this program does not know, or is no session.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        require_file(path)?;
        let file = File::open(path).map_err(SessionError::io("open", path))?;
        Self::read(path, file)
    }

    pub(crate) fn read(path: &Path, file: File) -> Result<Self, SessionError> {
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let index = Index::read(path, &mut reader)?;
        reader.rewind().map_err(SessionError::io("read", path))?;
        Ok(Self { path: path.to_owned(), reader, index })
    }

    /// The session's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says of the session; none when its first line is lost.
    pub fn header(&self) -> Option<&Header> {
        match &self.index.header {
            HeaderState::Good(header) => Some(header),
            HeaderState::Missing | HeaderState::Broken => None,
        }
    }

    /// The lines that say not even where they belong. Entries whose data is broken come up in [`Transcript::branch`].
    pub fn bad_lines(&self) -> &BadLines {
        &self.index.bad_lines
    }

    /// The entry at which the conversation stands, and which the next one will follow. None when nothing was said, or the
    /// last word was to begin anew.
    pub fn position(&self) -> Option<EntryId> {
        self.index.id_of(self.index.position())
    }

    /// The entries from the root of the tree to where the conversation stands, in this order.
    pub fn branch(&mut self) -> Branch<'_> {
        let nodes = self.index.branch(self.index.position());
        self.entries(nodes)
    }

    /// The entries from the root of the tree to the entry of this name. None when there is no such entry.
    pub fn branch_to(&mut self, leaf: EntryId) -> Option<Branch<'_>> {
        let nodes = self.index.branch(Some(self.index.find(leaf)?));
        Some(self.entries(nodes))
    }

    /// All branches: the one on which the conversation stands first, then in the order in which they were written to
    /// last. Each shares what comes before its `from` with others.
    pub fn branches(&self) -> Vec<BranchInfo> {
        self.index.segments().iter().filter_map(|segment| self.index.info(segment)).collect()
    }

    /// What the user said first on a branch after it left the others; none when nothing, or it cannot be read.
    pub fn prompt_of(&mut self, branch: &BranchInfo) -> Option<UserMessage> {
        let leaf = self.index.find(branch.leaf)?;
        let nodes = self.index.branch(Some(leaf));
        let own = nodes.len().saturating_sub(branch.entries);
        let messages = nodes.into_iter().skip(own).filter(|node| node.kind == Kind::Message).collect();
        self.entries(messages).find_map(|entry| match entry.ok()?.payload {
            Payload::Message(Message::User(prompt)) => Some(prompt),
            _ => None,
        })
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// These entries, in this order.
    pub(crate) fn entries(&mut self, nodes: Vec<Node>) -> Branch<'_> {
        Branch { nodes: nodes.into_iter(), path: &self.path, reader: &mut self.reader, at: None, buffer: Vec::new() }
    }

    /// Gives up reading for writing.
    pub(crate) fn into_parts(self) -> (File, Index) {
        (self.reader.into_inner(), self.index)
    }
}

/// Fails unless there is a regular file: opening a pipe could wait for ever, and a device never ends.
pub(crate) fn require_file(path: &Path) -> Result<(), SessionError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(SessionError::new(path, SessionErrorKind::Corrupt)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(SessionError::new(path, SessionErrorKind::NotFound { recent: Vec::new() }))
        }
        Err(error) => Err(SessionError::io("open", path)(error)),
    }
}

/// An entry of a branch could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Its line is broken. The entries after it can be read.
    #[error(transparent)]
    Broken(#[from] BadLine),
    /// The file cannot be read any more.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Entries of one branch, in the order in which they were said.
#[derive(Debug)]
pub struct Branch<'a> {
    nodes: std::vec::IntoIter<Node>,
    path: &'a Path,
    reader: &'a mut BufReader<File>,
    /// Where the reader stands, once that is known.
    at: Option<u64>,
    buffer: Vec<u8>,
}

impl Iterator for Branch<'_> {
    type Item = Result<Entry, EntryError>;

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
    /// Reads the messages of the branch. Entries that cannot be read are skipped and added to `bad`.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub(crate) fn messages(self, bad: &mut BadLines) -> Result<Vec<Arc<Message>>, SessionError> {
        let mut messages = Vec::with_capacity(self.nodes.len());
        for entry in self {
            match entry {
                Ok(Entry { payload: Payload::Message(message), .. }) => messages.push(Arc::new(message)),
                Ok(_) => {}
                Err(EntryError::Broken(line)) => bad.push(line),
                Err(EntryError::Session(error)) => return Err(error),
            }
        }
        Ok(messages)
    }

    /// The line of the next node, as it is in the file, and the node.
    pub(crate) fn next_line(&mut self) -> Option<Result<(Node, &[u8]), SessionError>> {
        let node = self.nodes.next()?;
        Some(self.line(&node).map(|line| (node, line)))
    }

    fn line(&mut self, node: &Node) -> Result<&[u8], SessionError> {
        self.fetch(node).map_err(SessionError::io("read", self.path))?;
        Ok(&self.buffer)
    }

    /// Reads an entry's line into the buffer. Seeking by a distance keeps what is buffered.
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
