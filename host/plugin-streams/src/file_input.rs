//! Reads files for guests, on the thread of their call.

use crate::handles::StreamHold;
use crate::transferred_bytes::StreamedBytes;
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::sync::Arc;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

/// Bytes of one read, at most.
const MAX_READ: usize = 64 * 1024;

/// A stream of a file, which is always ready. wasmtime's own hands each read that does not block to another thread and back,
/// which takes several times as long as the read. Go reads files this way, where C and Rust block. A call has a thread
/// that may block.
pub struct FileInput {
    file: Arc<File>,
    at: u64,
    bytes: Arc<StreamedBytes>,
    _hold: StreamHold,
}

impl FileInput {
    /// Reads `file` from the offset `at` on, and counts in `bytes`.
    pub fn new(file: Arc<File>, at: u64, bytes: Arc<StreamedBytes>, hold: StreamHold) -> Self {
        Self { file, at, bytes, _hold: hold }
    }
}

#[async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut buffer = BytesMut::zeroed(size.min(MAX_READ));
        match read_at(&self.file, &mut buffer, self.at)
            .map_err(|error| StreamError::LastOperationFailed(error.into()))?
        {
            0 => Err(StreamError::Closed),
            length => {
                buffer.truncate(length);
                self.at += length as u64;
                self.bytes.add(length as u64);
                Ok(buffer.freeze())
            }
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, at))?)
}

/// Moves the position of the file, which nothing else uses.
#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(at))?;
    file.read(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_limits::DescriptorShare;
    use std::io::Write;

    fn input(content: &[u8], at: u64) -> FileInput {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let (hold, _) = StreamHold::new(Arc::new(Arc::new(DescriptorShare::default()).acquire_permit().unwrap()));
        FileInput { file: Arc::new(file), at, bytes: Arc::default(), _hold: hold }
    }

    #[test]
    fn file_is_read_and_counted_from_its_offset_to_its_end() {
        let mut input = input(b"lorem ipsum", 6);
        assert_eq!(input.read(0).unwrap(), "");
        assert_eq!(input.read(3).unwrap(), "ips");
        assert_eq!(input.read(usize::MAX).unwrap(), "um");
        assert!(matches!(input.read(1), Err(StreamError::Closed)));
        assert_eq!(input.bytes.read(), 5);
    }

    #[test]
    fn one_read_is_bounded() {
        let mut input = input(&vec![b'x'; MAX_READ + 1], 0);
        assert_eq!(input.read(usize::MAX).unwrap().len(), MAX_READ);
        assert_eq!(input.read(usize::MAX).unwrap().len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn failed_read_keeps_its_cause() {
        let directory = std::fs::File::open(std::env::temp_dir()).unwrap();
        let mut input = FileInput { file: Arc::new(directory), ..input(b"", 0) };
        let Err(StreamError::LastOperationFailed(error)) = input.read(1) else { panic!("a directory was read") };
        assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::IsADirectory));
    }
}
