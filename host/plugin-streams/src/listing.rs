//! Directory streams.
//!
//! The entries of a directory are read when the stream is made, so that the guest's actions between two entries do not
//! change them. Their memory is the host's: the entries that all streams of a call hold are bounded in number and
//! bytes, and counted before they are kept.

use cap_primitives::fs::{FileType, read_base_dir};
use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode};

/// Maximum entries that the streams of one call hold.
const MAX_ENTRIES: u64 = 200_000;
/// Maximum bytes of their names.
const MAX_NAME_BYTES: u64 = 16 * 1024 * 1024;

/// The remaining entries of a directory stream.
#[derive(Default)]
pub struct DirectoryStream {
    entries: std::vec::IntoIter<StreamEntry>,
    held: Option<HeldEntries>,
}

/// Entries that the streams of an instance hold together.
#[derive(Debug, Default)]
pub struct ListedEntries {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// An entry of a directory; without a name if the name is not Unicode.
struct StreamEntry {
    name: Option<String>,
    kind: DescriptorType,
}

/// The entries that one stream accounts for; released when it is dropped.
struct HeldEntries {
    of: Arc<ListedEntries>,
    entries: u64,
    bytes: u64,
}

impl DirectoryStream {
    /// Reads a directory, without the entries of these names.
    ///
    /// # Errors
    /// The system's error, or the streams of the call hold too many entries.
    pub fn read_directory(directory: &File, hidden: &[OsString], all: &Arc<ListedEntries>) -> FsResult<Self> {
        let mut held = HeldEntries { of: all.clone(), entries: 0, bytes: 0 };
        let mut entries = Vec::new();
        for entry in read_base_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if hidden.contains(&name) {
                continue;
            }
            if !held.add(name.len() as u64) {
                tracing::warn!(entries = held.entries, "a plugin's directory streams hold too many entries");
                return Err(ErrorCode::InsufficientMemory.into());
            }
            entries.push(StreamEntry {
                kind: entry.file_type().map_or(DescriptorType::Unknown, kind_of),
                name: name.into_string().ok(),
            });
        }
        Ok(Self { entries: entries.into_iter(), held: Some(held) })
    }

    /// Returns the next entry.
    ///
    /// # Errors
    /// The name of the entry is not Unicode.
    pub fn next_entry(&mut self) -> FsResult<Option<DirectoryEntry>> {
        match self.entries.next() {
            Some(StreamEntry { name: Some(name), kind }) => Ok(Some(DirectoryEntry { type_: kind, name })),
            Some(StreamEntry { name: None, .. }) => Err(ErrorCode::IllegalByteSequence.into()),
            None => {
                self.held = None;
                Ok(None)
            }
        }
    }
}

impl HeldEntries {
    fn add(&mut self, bytes: u64) -> bool {
        self.entries += 1;
        self.bytes += bytes;
        let entries = self.of.entries.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.of.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        entries <= MAX_ENTRIES && bytes <= MAX_NAME_BYTES
    }
}

impl Drop for HeldEntries {
    fn drop(&mut self) {
        self.of.entries.fetch_sub(self.entries, Ordering::Relaxed);
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn kind_of(kind: FileType) -> DescriptorType {
    if kind.is_file() {
        DescriptorType::RegularFile
    } else if kind.is_dir() {
        DescriptorType::Directory
    } else if kind.is_symlink() {
        DescriptorType::SymbolicLink
    } else {
        special_kind_of(kind)
    }
}

#[cfg(unix)]
fn special_kind_of(kind: FileType) -> DescriptorType {
    use cap_primitives::fs::FileTypeExt as _;
    if kind.is_block_device() {
        DescriptorType::BlockDevice
    } else if kind.is_char_device() {
        DescriptorType::CharacterDevice
    } else if kind.is_fifo() {
        DescriptorType::Fifo
    } else if kind.is_socket() {
        DescriptorType::Socket
    } else {
        DescriptorType::Unknown
    }
}

#[cfg(not(unix))]
fn special_kind_of(_kind: FileType) -> DescriptorType {
    DescriptorType::Unknown
}
