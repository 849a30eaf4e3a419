//! A session file, opened for reading.

use crate::error::{BadLine, BadLines, SessionError};
use crate::format::{self, Entry};
use crate::header::Header;
use crate::index::{HeaderState, Index, Node};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

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

    /// The entries from the root of the tree to the one that was written last, in this order.
    pub fn branch(&mut self) -> Branch<'_> {
        Branch {
            nodes: self.index.branch().into_iter(),
            path: &self.path,
            reader: &mut self.reader,
            at: None,
            buffer: Vec::new(),
        }
    }

    /// Gives up reading for writing.
    pub(crate) fn into_parts(self) -> (File, Index) {
        (self.reader.into_inner(), self.index)
    }
}

/// Fails unless there is a regular file: opening a pipe could wait for ever, and a device never ends.
pub(crate) fn require_file(path: &Path) -> Result<(), SessionError> {
    let found = std::fs::metadata(path).map_err(SessionError::io("open", path))?;
    match found.is_file() {
        true => Ok(()),
        false => Err(SessionError::NotASession { path: path.to_owned() }),
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

/// The entries of one branch, from the root.
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
        if let Err(error) = self.fetch(&node) {
            return Some(Err(SessionError::io("read", self.path)(error).into()));
        }
        let entry = format::decode_entry(&self.buffer, node.is_message);
        Some(entry.map_err(|error| BadLine { line: node.line, reason: error.to_string() }.into()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.nodes.size_hint()
    }
}

impl Branch<'_> {
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
