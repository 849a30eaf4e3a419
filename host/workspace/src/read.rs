//! `read-file` and `read-text`: reading files for languages whose library has no files.

use crate::open::open_file;
use crate::types::{Chunk, WorkspaceError};
use crate::types::{WalkRoot, io_error};
use cap_std::fs::Dir;
use std::io::{Read as _, Seek as _, SeekFrom};

/// Bytes of one read.
const MAX_READ_BYTES: u32 = 16 * 1024 * 1024;

/// Reads at most `limit` bytes of a file from `offset`.
pub fn read(root: &WalkRoot, offset: u64, limit: u32) -> Result<Chunk, WorkspaceError> {
    let failed = |error: std::io::Error| io_error(&root.path, &error);
    let not_a_file = || WorkspaceError::Io(format!("`{}` is not a file", root.path));
    if limit == 0 || limit > MAX_READ_BYTES {
        return Err(WorkspaceError::Io(format!("a limit of {limit} bytes, of 1 to {MAX_READ_BYTES}")));
    }
    let name = root.spot.name.as_ref().ok_or_else(not_a_file)?;
    let directory = Dir::from_std_file(root.spot.directory.try_clone().map_err(failed)?);
    let mut file = open_file(&directory, name).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    root.refuse_excluded(&metadata)?;
    if !metadata.is_file() {
        return Err(not_a_file());
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut content = Vec::new();
    file.take(limit.into()).read_to_end(&mut content).map_err(failed)?;
    Ok(Chunk { content, size: metadata.len() })
}

/// Reads a whole text file.
pub fn read_text(root: &WalkRoot) -> Result<String, WorkspaceError> {
    let chunk = read(root, 0, MAX_READ_BYTES)?;
    if chunk.size > MAX_READ_BYTES.into() || chunk.content.len() > MAX_READ_BYTES as usize {
        let text = format!("`{}` has {} bytes, of at most {MAX_READ_BYTES}", root.path, chunk.size);
        return Err(WorkspaceError::Io(text));
    }
    String::from_utf8(chunk.content)
        .map_err(|error| WorkspaceError::Io(format!("`{}` is not UTF-8: {error}", root.path)))
}
