//! The format of a file of values: a head, then records, each replacing earlier ones of its key.
//!
//! ```text
//! head:   "pinion values 1\n"  id (16 bytes)
//! record: kind (1)  key length (2)  value length (4)  version (4)  check (5)  digest (16)  key  value
//! ```
//! Numbers are little-endian. The check covers the numbers before it and the id of the file, the digest everything but
//! itself. So a record that a kill cut off differs from a damaged one: its numbers are correct, and the file ends within it.
//! The first record says whose values these are.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

/// Bytes of the head.
pub(crate) const HEAD_BYTES: u64 = 32;
/// Bytes of a record before its key.
const PREFIX_BYTES: usize = 32;
/// Bytes of the longest key.
pub(crate) const MAX_KEY: usize = 256;
/// Bytes of the largest value.
pub(crate) const MAX_VALUE: usize = 1024 * 1024;

const MAGIC: &[u8; 16] = b"pinion values 1\n";

/// Identifies a file. A rewritten file gets another id.
pub(crate) type FileId = [u8; 16];

/// The meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalRecordKind {
    /// The owner of the values, as JSON, with the version that was given last.
    Owner = 1,
    /// A value.
    Value = 2,
    /// The removal of a value.
    Removed = 3,
}

/// A record without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) kind: JournalRecordKind,
    pub(crate) key: u16,
    pub(crate) value: u32,
    pub(crate) version: u32,
}

/// A record in a file.
pub(crate) struct JournalRecord<'a> {
    pub(crate) prefix: Prefix,
    /// The offset of its first byte.
    pub(crate) at: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file does not have this format from an offset on.
    #[error("it is damaged at byte {0}")]
    Damaged(u64),
}

impl Prefix {
    /// Bytes of the whole record.
    pub(crate) fn bytes(&self) -> u64 {
        PREFIX_BYTES as u64 + u64::from(self.key) + u64::from(self.value)
    }

    fn numbers(&self) -> [u8; 11] {
        let mut numbers = [0; 11];
        numbers[0] = self.kind as u8;
        numbers[1..3].copy_from_slice(&self.key.to_le_bytes());
        numbers[3..7].copy_from_slice(&self.value.to_le_bytes());
        numbers[7..].copy_from_slice(&self.version.to_le_bytes());
        numbers
    }

    /// Parses the first bytes of a record. `None` if they do not begin a record of this file.
    fn parse(bytes: &[u8; PREFIX_BYTES], id: &FileId) -> Option<Self> {
        let kind = [JournalRecordKind::Owner, JournalRecordKind::Value, JournalRecordKind::Removed]
            .into_iter()
            .find(|kind| *kind as u8 == bytes[0])?;
        let prefix = Self {
            kind,
            key: u16::from_le_bytes([bytes[1], bytes[2]]),
            value: u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]),
            version: u32::from_le_bytes([bytes[7], bytes[8], bytes[9], bytes[10]]),
        };
        let is_sound = usize::from(prefix.key) <= MAX_KEY && prefix.value as usize <= MAX_VALUE;
        (is_sound && bytes[11..16] == check(&prefix, id)).then_some(prefix)
    }
}

fn check(prefix: &Prefix, id: &FileId) -> [u8; 5] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(id).update(&prefix.numbers());
    let mut check = [0; 5];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..5]);
    check
}

fn digest(prefix: &Prefix, id: &FileId, key: &[u8], value: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(id).update(&prefix.numbers()).update(key).update(value);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

/// The first bytes of a file.
pub(crate) fn head(id: &FileId) -> [u8; 32] {
    let mut head = [0; 32];
    head[..16].copy_from_slice(MAGIC);
    head[16..].copy_from_slice(id);
    head
}

/// Reads the id of a file.
pub(crate) fn read_head(file: &mut File) -> Result<FileId, ReadError> {
    let mut head = [0; 32];
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut head).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Damaged(0),
        _ => ReadError::Io(error),
    })?;
    let mut id = [0; 16];
    id.copy_from_slice(&head[16..]);
    if head[..16] == *MAGIC { Ok(id) } else { Err(ReadError::Damaged(0)) }
}

/// Encodes a record. `key` and `value` are within the limits.
pub(crate) fn encode(
    id: &FileId,
    kind: JournalRecordKind,
    version: u32,
    key: &[u8],
    value: &[u8],
) -> (Prefix, Vec<u8>) {
    let key_bytes = u16::try_from(key.len()).unwrap_or(u16::MAX);
    let value_bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let prefix = Prefix { kind, key: key_bytes, value: value_bytes, version };
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + key.len() + value.len());
    bytes.extend_from_slice(&prefix.numbers());
    bytes.extend_from_slice(&check(&prefix, id));
    bytes.extend_from_slice(&digest(&prefix, id, key, value));
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    (prefix, bytes)
}

/// Reads the records from the offset `from` to the end of a file of `length` bytes. Returns the offset behind the last
/// complete one: the bytes after it were being written by a process that was killed or is still writing.
pub(crate) fn scan(
    file: &mut File,
    id: &FileId,
    from: u64,
    length: u64,
    mut found: impl FnMut(JournalRecord<'_>),
) -> Result<u64, ReadError> {
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(64 * 1024, file.take(length.saturating_sub(from)));
    let (mut at, mut bytes) = (from, Vec::new());
    while length - at >= PREFIX_BYTES as u64 {
        let mut start = [0; PREFIX_BYTES];
        reader.read_exact(&mut start)?;
        let Some(prefix) = Prefix::parse(&start, id) else {
            // After a loss of power, space that was never written to reads as zeros.
            return if is_zero(&start) && is_zero_to_the_end(&mut reader)? {
                Ok(at)
            } else {
                Err(ReadError::Damaged(at))
            };
        };
        if length - at < prefix.bytes() {
            return Ok(at);
        }
        bytes.resize(usize::from(prefix.key) + prefix.value as usize, 0);
        reader.read_exact(&mut bytes)?;
        let (key, value) = bytes.split_at(usize::from(prefix.key));
        if start[16..] != digest(&prefix, id, key, value) {
            let was_cut = length - at == prefix.bytes() && is_zero(&bytes[bytes.len().saturating_sub(16)..]);
            return if was_cut { Ok(at) } else { Err(ReadError::Damaged(at)) };
        }
        found(JournalRecord { prefix, at, key, value });
        at += prefix.bytes();
    }
    Ok(at)
}

/// Reads the value of the record at an offset.
pub(crate) fn read_value(file: &mut File, id: &FileId, at: u64, expected: Prefix) -> Result<Vec<u8>, ReadError> {
    let mut value = None;
    scan(file, id, at, at + expected.bytes(), |record| {
        value = (record.prefix == expected).then(|| record.value.to_vec());
    })?;
    value.ok_or(ReadError::Damaged(at))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn is_zero_to_the_end(reader: &mut impl Read) -> io::Result<bool> {
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(true),
            read if !is_zero(&bytes[..read]) => return Ok(false),
            _ => {}
        }
    }
}
