//! WASI's files, whose calls are recorded.

use crate::wasi::{RecordedWasi, recorded};
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

type Fd = Resource<Descriptor>;

recorded! { "filesystem/preopens", preopens::Host;
    now "get-directories" fn get_directories() -> wasmtime::Result<Vec<(Fd, String)>>;
}
recorded! { "filesystem/types", types::HostDirectoryEntryStream, drop DirectoryEntryStream;
    later "[method]directory-entry-stream.read-directory-entry"
    fn read_directory_entry(stream: Resource<DirectoryEntryStream>) -> FsResult<Option<DirectoryEntry>>;
}
recorded! { "filesystem/types", types::HostDescriptor, drop Descriptor;
    now "[method]descriptor.read-via-stream"
    fn read_via_stream(fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>>;
    now "[method]descriptor.write-via-stream"
    fn write_via_stream(fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>>;
    now "[method]descriptor.append-via-stream" fn append_via_stream(fd: Fd) -> FsResult<Resource<DynOutputStream>>;
    later "[method]descriptor.advise" fn advise(fd: Fd, offset: u64, length: u64, advice: Advice) -> FsResult<()>;
    later "[method]descriptor.sync-data" fn sync_data(fd: Fd) -> FsResult<()>;
    later "[method]descriptor.get-flags" fn get_flags(fd: Fd) -> FsResult<DescriptorFlags>;
    later "[method]descriptor.get-type" fn get_type(fd: Fd) -> FsResult<DescriptorType>;
    later "[method]descriptor.set-size" fn set_size(fd: Fd, size: u64) -> FsResult<()>;
    later "[method]descriptor.set-times"
    fn set_times(fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>;
    later "[method]descriptor.read" fn read(fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)>;
    later "[method]descriptor.write" fn write(fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64>;
    later "[method]descriptor.read-directory" fn read_directory(fd: Fd) -> FsResult<Resource<DirectoryEntryStream>>;
    later "[method]descriptor.sync" fn sync(fd: Fd) -> FsResult<()>;
    later "[method]descriptor.create-directory-at" fn create_directory_at(fd: Fd, path: String) -> FsResult<()>;
    later "[method]descriptor.stat" fn stat(fd: Fd) -> FsResult<DescriptorStat>;
    later "[method]descriptor.stat-at" fn stat_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat>;
    later "[method]descriptor.set-times-at"
    fn set_times_at(
        fd: Fd,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp
    ) -> FsResult<()>;
    later "[method]descriptor.link-at"
    fn link_at(fd: Fd, flags: PathFlags, path: String, new: Fd, new_path: String) -> FsResult<()>;
    later "[method]descriptor.open-at"
    fn open_at(fd: Fd, flags: PathFlags, path: String, how: OpenFlags, mode: DescriptorFlags) -> FsResult<Fd>;
    later "[method]descriptor.readlink-at" fn readlink_at(fd: Fd, path: String) -> FsResult<String>;
    later "[method]descriptor.remove-directory-at" fn remove_directory_at(fd: Fd, path: String) -> FsResult<()>;
    later "[method]descriptor.rename-at" fn rename_at(fd: Fd, path: String, new: Fd, new_path: String) -> FsResult<()>;
    later "[method]descriptor.symlink-at" fn symlink_at(fd: Fd, target: String, path: String) -> FsResult<()>;
    later "[method]descriptor.unlink-file-at" fn unlink_file_at(fd: Fd, path: String) -> FsResult<()>;
    later "[method]descriptor.is-same-object" fn is_same_object(fd: Fd, other: Fd) -> wasmtime::Result<bool>;
    later "[method]descriptor.metadata-hash" fn metadata_hash(fd: Fd) -> FsResult<MetadataHashValue>;
    later "[method]descriptor.metadata-hash-at"
    fn metadata_hash_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue>;
}

impl<V: types::Host + Send> types::Host for RecordedWasi<V> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        let code = self.view.convert_error_code(error);
        self.end_with_error(&code);
        code
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.begin("wasi:filesystem/types#filesystem-error-code", &(&error,));
        let code = self.view.filesystem_error_code(error);
        self.end(&code);
        code
    }
}
