//! `wasi:filesystem`, with an account: what was opened, and how many bytes went either way.
//!
//! The work is wasmtime-wasi's, which resolves every path beneath a preopened folder with the system's own means
//! (`openat2`), so that `..`, absolute paths, links and races do not lead out. What is added here is counting, and one
//! refusal: named pipes, sockets and devices are not opened, because opening a pipe waits for as long as it pleases.

use crate::host::written::{Limited, Written};
use crate::state::State;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    Filesize, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, InputStream, Pollable, StreamResult};

/// Bytes that were read through streams, which outlive the calls that make them.
#[derive(Debug, Default)]
pub(crate) struct StreamedBytes {
    read: AtomicU64,
}

impl StreamedBytes {
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// WASI's files, seen through the account of a call.
pub(crate) struct Files<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    account: Account<'a>,
}

struct Account<'a> {
    files: &'a mut u64,
    streamed: &'a Arc<StreamedBytes>,
    written: &'a Arc<Written>,
}

impl HasData for Files<'static> {
    type Data<'a> = Files<'a>;
}

impl Files<'static> {
    pub(crate) fn of(state: &mut State) -> Files<'_> {
        let wasi = WasiFilesystemCtxView { ctx: state.wasi.filesystem(), table: &mut state.table };
        let account = &mut state.account;
        let account = Account { files: &mut account.files, streamed: &account.streamed, written: &account.written };
        Files { wasi, account }
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.wasi.get_directories()
    }
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.wasi.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.wasi.filesystem_error_code(error)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.wasi.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        HostDirectoryEntryStream::drop(&mut self.wasi, stream)
    }
}

type Fd = Resource<Descriptor>;

macro_rules! delegate {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        async fn $name(&mut self, $($argument: $type),*) -> $result {
            self.wasi.$name($($argument),*).await
        }
    )*};
}

impl HostDescriptor for Files<'_> {
    async fn open_at(
        &mut self,
        folder: Fd,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let borrowed = Resource::new_borrow(folder.rep());
        if let Ok(stat) = self.wasi.stat_at(borrowed, path_flags, path.clone()).await {
            refuse_special(stat.type_)?;
        }
        let fd = self.wasi.open_at(folder, path_flags, path, open_flags, flags).await?;
        *self.account.files += 1;
        Ok(fd)
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        let (bytes, end) = self.wasi.read(fd, length, offset).await?;
        self.account.streamed.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok((bytes, end))
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        self.account.written.spend_at(offset, bytes.len() as u64).map_err(FsError::trap)?;
        self.wasi.write(fd, bytes, offset).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        let stream = self.wasi.read_via_stream(fd, offset)?;
        self.count_input(stream)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.wasi.write_via_stream(fd, offset)?;
        self.limit_output(stream, offset)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let end = self.size(&fd)?;
        let stream = self.wasi.append_via_stream(fd)?;
        self.limit_output(stream, end)
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        self.account.written.check_end(size).map_err(FsError::trap)?;
        self.wasi.set_size(fd, size).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.wasi, fd)
    }

    delegate! {
        fn advise(fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()>;
        fn sync_data(fd: Fd) -> FsResult<()>;
        fn get_flags(fd: Fd) -> FsResult<DescriptorFlags>;
        fn get_type(fd: Fd) -> FsResult<DescriptorType>;
        fn set_times(fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>;
        fn read_directory(fd: Fd) -> FsResult<Resource<DirectoryEntryStream>>;
        fn sync(fd: Fd) -> FsResult<()>;
        fn create_directory_at(fd: Fd, path: String) -> FsResult<()>;
        fn stat(fd: Fd) -> FsResult<DescriptorStat>;
        fn stat_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat>;
        fn set_times_at(
            fd: Fd, flags: PathFlags, path: String, accessed: NewTimestamp, modified: NewTimestamp
        ) -> FsResult<()>;
        fn link_at(fd: Fd, flags: PathFlags, old: String, new_folder: Fd, new: String) -> FsResult<()>;
        fn readlink_at(fd: Fd, path: String) -> FsResult<String>;
        fn remove_directory_at(fd: Fd, path: String) -> FsResult<()>;
        fn rename_at(fd: Fd, old: String, new_folder: Fd, new: String) -> FsResult<()>;
        fn symlink_at(fd: Fd, target: String, path: String) -> FsResult<()>;
        fn unlink_file_at(fd: Fd, path: String) -> FsResult<()>;
        fn is_same_object(fd: Fd, other: Fd) -> wasmtime::Result<bool>;
        fn metadata_hash(fd: Fd) -> FsResult<MetadataHashValue>;
        fn metadata_hash_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue>;
    }
}

/// Anything but a file, a folder or a link.
fn refuse_special(kind: DescriptorType) -> FsResult<()> {
    match kind {
        DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink => Ok(()),
        DescriptorType::Fifo
        | DescriptorType::Socket
        | DescriptorType::BlockDevice
        | DescriptorType::CharacterDevice
        | DescriptorType::Unknown => Err(ErrorCode::Unsupported.into()),
    }
}

impl Files<'_> {
    fn count_input(&mut self, stream: Resource<DynInputStream>) -> FsResult<Resource<DynInputStream>> {
        let slot = self.wasi.table.get_mut(&stream)?;
        let inner = std::mem::replace(slot, Box::new(wasmtime_wasi::p2::pipe::ClosedInputStream));
        *slot = Box::new(Counted { inner, bytes: self.account.streamed.clone() });
        Ok(stream)
    }

    /// Holds a stream that writes from this offset on to the call's limits.
    fn limit_output(&mut self, stream: Resource<DynOutputStream>, at: u64) -> FsResult<Resource<DynOutputStream>> {
        let slot = self.wasi.table.get_mut(&stream)?;
        let inner = std::mem::replace(slot, Box::new(wasmtime_wasi::p2::pipe::SinkOutputStream));
        *slot = Box::new(Limited::new(inner, self.account.written.clone(), at));
        Ok(stream)
    }

    /// The size of an open file; a stream that appends begins there.
    fn size(&self, fd: &Fd) -> FsResult<u64> {
        match self.wasi.table.get(fd)? {
            Descriptor::File(file) => Ok(file.file.metadata().map_or(0, |metadata| metadata.len())),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }
}

/// A stream that counts.
struct Counted<S> {
    inner: S,
    bytes: Arc<StreamedBytes>,
}

impl<S> Counted<S> {
    fn has_read(&self, bytes: Bytes) -> Bytes {
        self.bytes.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        bytes
    }
}

#[async_trait]
impl Pollable for Counted<DynInputStream> {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait]
impl InputStream for Counted<DynInputStream> {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.inner.read(size)?;
        Ok(self.has_read(bytes))
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.inner.blocking_read(size).await?;
        Ok(self.has_read(bytes))
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
