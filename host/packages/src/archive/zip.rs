//! Zip archives: stored and deflated files.
//!
//! The central directory is read, and each local header has to say the same, so that no two readers see different files.

use super::inflate;
use crate::files::{FileLimit, PackageFiles};
use crate::package::PackageError;
use flate2::{Crc, read::DeflateDecoder};

/// Bytes of a comment at the end.
const MAX_COMMENT: usize = 65_535;
/// Bytes of the record at the end.
const END: usize = 22;

/// Returns the files of an archive.
pub(super) fn unpack(bytes: &[u8]) -> Result<PackageFiles, PackageError> {
    let end = find_end(bytes)?;
    let (count, start) = (u16_at(bytes, end + 10)?, u32_at(bytes, end + 16)? as usize);
    let mut files = PackageFiles::default();
    let mut at = start;
    for _ in 0..count {
        if u32_at(bytes, at)? != 0x0201_4b50 {
            return Err(damaged());
        }
        let [name_length, extra, comment] = [28, 30, 32].map(|offset| u16_at(bytes, at + offset));
        let (name_length, extra, comment) = (name_length?, extra?, comment?);
        let entry = CentralEntry {
            flags: u16_at(bytes, at + 8)?,
            method: u16_at(bytes, at + 10)?,
            sum: u32_at(bytes, at + 16)?,
            packed: u32_at(bytes, at + 20)?,
            size: u32_at(bytes, at + 24)?,
            mode: u32_at(bytes, at + 38)? >> 16,
            local: u32_at(bytes, at + 42)? as usize,
            name: bytes.get(at + 46..at + 46 + name_length).ok_or_else(damaged)?,
        };
        entry.add_to(&mut files, bytes)?;
        at += 46 + name_length + extra + comment;
    }
    Ok(files)
}

/// An entry of the central directory.
struct CentralEntry<'a> {
    flags: usize,
    method: usize,
    sum: u32,
    packed: u32,
    size: u32,
    mode: u32,
    local: usize,
    name: &'a [u8],
}

impl CentralEntry<'_> {
    fn add_to(&self, files: &mut PackageFiles, bytes: &[u8]) -> Result<(), PackageError> {
        let name = std::str::from_utf8(self.name).map_err(|_| PackageError::Archive("a name in it is not UTF-8"))?;
        let is_directory = name.ends_with('/');
        let kind = self.mode & 0o170_000;
        if self.flags & 1 != 0 {
            return Err(PackageError::Archive("a file in it is encrypted"));
        }
        if kind != 0 && kind != 0o100_000 && !(is_directory && kind == 0o040_000) {
            return Err(PackageError::NotAFile { path: name.to_owned() });
        }
        let header = u32_at(bytes, self.local)? == 0x0403_4b50;
        let (length, extra) = (u16_at(bytes, self.local + 26)?, u16_at(bytes, self.local + 28)?);
        let start = self.local + 30 + length + extra;
        let is_same = bytes.get(self.local + 30..self.local + 30 + length) == Some(self.name)
            && u16_at(bytes, self.local + 8)? == self.method;
        if !header || !is_same {
            return Err(PackageError::Archive("its two directories disagree"));
        }
        if is_directory {
            return Ok(());
        }
        // The size is a statement of the archive, and bounds the memory for the content.
        if u64::from(self.size) > FileLimit::PACKAGE.bytes {
            return Err(PackageError::TooLarge);
        }
        let packed = bytes.get(start..start + self.packed as usize).ok_or_else(damaged)?;
        let content = match self.method {
            0 => packed.to_owned(),
            8 => inflate(DeflateDecoder::new(packed), u64::from(self.size))?,
            _ => return Err(PackageError::Archive("a file in it has an unknown compression")),
        };
        let mut sum = Crc::new();
        sum.update(&content);
        if content.len() != self.size as usize || sum.sum() != self.sum {
            return Err(PackageError::Archive("a file in it differs from its checksum"));
        }
        files.insert(name.strip_prefix("./").unwrap_or(name), content)
    }
}

fn find_end(bytes: &[u8]) -> Result<usize, PackageError> {
    let last = bytes.len().checked_sub(END).ok_or_else(damaged)?;
    let first = last.saturating_sub(MAX_COMMENT);
    let is_end = |at: &usize| {
        bytes[*at..].starts_with(b"PK\x05\x06")
            && u16_at(bytes, at + 20).is_ok_and(|comment| at + END + comment == bytes.len())
    };
    (first..=last).rev().find(is_end).ok_or_else(damaged)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<usize, PackageError> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).ok_or_else(damaged)?;
    Ok(usize::from(u16::from_le_bytes(*field)))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, PackageError> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(damaged)?;
    Ok(u32::from_le_bytes(*field))
}

fn damaged() -> PackageError {
    PackageError::Archive("it is damaged or cut off")
}
