//! Reads refs in git's format reftable (git 2.45 and later): a stack of tables; later ones overrule earlier ones.
//!
//! `Documentation/technical/reftable.adoc` in git describes the format. Only blocks of refs are read, from the first to
//! the last; indices and logs are not needed for that.

use crate::look_budget::{MAX_FILE_BYTES, read_at_most};
use crate::refs::{MAX_REFS, Refs};
use std::fmt::Write as _;
use std::path::Path;

/// Tables of a stack that are read. Git merges them long before.
const MAX_TABLES: usize = 200;
/// Bytes of a table.
const MAX_BYTES: u64 = 8 << 20;

/// Reads all refs of a stack; `None` if it is damaged or has too many.
pub(crate) fn read(directory: &Path) -> Option<Refs> {
    let list = String::from_utf8(read_at_most(&directory.join("tables.list"), MAX_FILE_BYTES)?).ok()?;
    let mut refs = Refs::new();
    for (number, name) in list.lines().enumerate() {
        let is_name = !name.is_empty() && !name.contains('/') && name.ends_with(".ref");
        if number >= MAX_TABLES || !is_name {
            return None;
        }
        table(&read_at_most(&directory.join(name), MAX_BYTES)?, &mut refs)?;
    }
    Some(refs)
}

/// Applies a table.
fn table(bytes: &[u8], refs: &mut Refs) -> Option<()> {
    let mut header = ByteReader(bytes);
    let (magic, version, block_size) = (header.take_bytes(4)?, header.byte()?, header.number(3)?);
    header.take_bytes(16)?;
    let hash = match version {
        2 if header.take_bytes(4)? == b"s256" => 32,
        1 | 2 => 20,
        _ => return None,
    };
    let header_size = bytes.len() - header.0.len();
    if magic != b"REFT" {
        return None;
    }
    let mut start = 0;
    loop {
        // The first block counts from the beginning of the file.
        let mut block = ByteReader(bytes.get(start + if start == 0 { header_size } else { 0 }..)?);
        if block.byte() != Some(b'r') {
            return Some(());
        }
        let end = start.checked_add(block.number(3)?)?;
        let restarts = ByteReader(bytes.get(end.checked_sub(2)?..end)?).number(2)?;
        let size = end.checked_sub(2 + 3 * restarts)?.checked_sub(bytes.len() - block.0.len())?;
        records(ByteReader(block.0.get(..size)?), hash, refs)?;
        // Blocks are filled up with zeros to the size of a block, except for the last one.
        let full = start.saturating_add(block_size).min(bytes.len());
        let padding = bytes.get(end..full).unwrap_or_default().iter().take_while(|byte| **byte == 0).count();
        start = end + padding;
    }
}

fn records(mut block: ByteReader<'_>, hash: usize, refs: &mut Refs) -> Option<()> {
    let mut name: Vec<u8> = Vec::new();
    while !block.0.is_empty() {
        let prefix = block.varint()?;
        let (suffix, kind) = block.varint().map(|both| (both >> 3, both & 7))?;
        name.truncate(prefix);
        name.extend_from_slice(block.take_bytes(suffix)?);
        block.varint()?;
        let target = match kind {
            0 => None,
            1 => Some(hex(block.take_bytes(hash)?)),
            // An annotated tag, and its target.
            2 => Some(hex(block.take_bytes(2 * hash)?.get(..hash)?)),
            3 => {
                let size = block.varint()?;
                Some(format!("ref: {}", std::str::from_utf8(block.take_bytes(size)?).ok()?))
            }
            _ => return None,
        };
        let Ok(name) = String::from_utf8(name.clone()) else { continue };
        match target {
            Some(target) => drop(refs.insert(name, target)),
            None => drop(refs.remove(&name)),
        }
        if refs.len() > MAX_REFS {
            return None;
        }
    }
    Some(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that are left.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take_bytes(1)?.first().copied()
    }

    /// Reads a number of some bytes, the most significant first.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take_bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Reads a number of seven bits per byte; no number has two forms.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = self.byte()?;
        let mut number = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            number = number.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        }
        Some(number)
    }
}
