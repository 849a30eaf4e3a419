//! Files whose content is checked when they are read.

use crate::tree::Digest;
use pinion_files::open::read_file;
use pinion_files::{AtomicWrite, Durability};
use std::io;
use std::path::Path;

/// Writes a value so that a reader sees all of it or nothing, with its digest at the end.
pub(crate) fn write<T: serde::Serialize>(path: &Path, temporary: &Path, value: &T, sync: bool) -> io::Result<()> {
    let mut bytes = encode(value)?;
    bytes.extend_from_slice(&Digest::from_bytes(&bytes).0);
    replace(path, temporary, &bytes, sync)
}

/// Reads a value; `None` if the file does not exist.
///
/// # Errors
/// The file cannot be read, or was cut or changed.
pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match read_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "damaged");
    let (value, digest) = bytes.split_last_chunk::<32>().ok_or_else(damaged)?;
    if Digest::from_bytes(value).0 != *digest {
        return Err(damaged());
    }
    postcard::from_bytes(value).map(Some).map_err(|_| damaged())
}

pub(crate) fn encode<T: serde::Serialize>(value: &T) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// Replaces a file in one step. `temporary` is a directory on the same file system.
pub(crate) fn replace(path: &Path, temporary: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let durability = if sync { Durability::Content } else { Durability::Buffered };
    AtomicWrite::private().durability(durability).replace_through(temporary, path, bytes)
}
