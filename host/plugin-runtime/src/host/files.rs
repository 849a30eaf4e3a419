//! `wasi:filesystem`, under the authority of the current call and with an account of the opened files and the bytes in
//! each direction.
//!
//! The work is wasmtime-wasi's. Before it, [`lookup`] finds out where a path really leads and whether the call has the
//! permission for its operation there; [`Handles`] knows which handles belong to the call. Named pipes, sockets and
//! devices are not opened, because opening a pipe waits without a limit ([`open`] opens anything that took the place of
//! a file, without waiting), and descriptors come out of the plugin's share.

mod lookup;
#[cfg(unix)]
mod open;

use self::lookup::{At, Purpose, needed};
use crate::calls::state::State;
use crate::capability::authority::CallAuthority;
use crate::capability::files::account::FilesAccount;
use cap_primitives::fs::Metadata;
use pinion_plugin_limits::{DescriptorPermit, are_handles_used_up};
use pinion_plugin_streams::file_input::FileInput;
use pinion_plugin_streams::handles::{Handle, Handles, StreamHold, blank};
use pinion_plugin_streams::limited_output::Limited;
use pinion_plugin_streams::listing::{DirectoryStream, ListedEntries};
use pinion_workspace::grants::access::FileAccess;
use std::sync::Arc;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    Filesize, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

/// WASI's files, as a call may use them.
pub(crate) struct WasiFiles<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    call: &'a CallAuthority,
    handles: &'a mut Handles,
    shows_directories: bool,
    listed: &'a Arc<ListedEntries>,
    account: &'a mut FilesAccount,
}

impl HasData for WasiFiles<'static> {
    type Data<'a> = WasiFiles<'a>;
}

impl WasiFiles<'static> {
    pub(crate) fn for_state(state: &mut State) -> WasiFiles<'_> {
        let wasi = WasiFilesystemCtxView { ctx: state.wasi.filesystem(), table: &mut state.table };
        let account = &mut state.account.capabilities.files;
        let (call, handles, listed) = (&state.call.authority, &mut state.handles, &state.listed);
        WasiFiles { wasi, call, handles, shows_directories: state.shows_directories, listed, account }
    }
}

impl preopens::Host for WasiFiles<'_> {
    /// All granted directories, on an instance that stays also where the current call may not use them: guests look
    /// once and keep the result. A directory that cannot be opened is left out.
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut directories = Vec::new();
        if !self.shows_directories {
            self.account.looked_in_vain = true;
            return Ok(directories);
        }
        for (number, root) in self.call.plugin().roots().iter().enumerate() {
            let (Ok(opened), Some(blank)) = (self.call.plugin().open(root), blank()) else { continue };
            for name in root.guest_names(opened) {
                let mut directory = blank.clone();
                directory.dir = opened.directory.clone();
                let fd = self.wasi.table.push(Descriptor::Dir(directory))?;
                self.handles.add(fd.rep(), Handle::Granted(number));
                directories.push((fd, name));
            }
        }
        Ok(directories)
    }
}

impl types::Host for WasiFiles<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        let code = self.wasi.convert_error_code(error)?;
        self.account.lacked_handles |= matches!(code, ErrorCode::Io) && are_handles_used_up();
        Ok(code)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.wasi.filesystem_error_code(error)
    }
}

impl HostDirectoryEntryStream for WasiFiles<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.wasi.table.get_mut(&Resource::<DirectoryStream>::new_borrow(stream.rep()))?.next_entry()
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.handles.remove(stream.rep());
        self.wasi.table.delete(Resource::<DirectoryStream>::new_own(stream.rep()))?;
        Ok(())
    }
}

type Fd = Resource<Descriptor>;

/// Operations on a handle itself.
macro_rules! on_handle {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        async fn $name(&mut self, fd: Fd, $($argument: $type),*) -> $result {
            self.live(&fd)?;
            self.wasi.$name(fd, $($argument),*).await
        }
    )*};
}

/// Operations on a path, each with its purpose there.
macro_rules! on_path {
    ($(fn $name:ident($($flags:ident)?; $path:ident $(, $argument:ident: $type:ty)*) -> $result:ty, $purpose:ident;)*) => {$(
        async fn $name(&mut self, fd: Fd, $($flags: PathFlags,)? $path: String $(, $argument: $type)*) -> $result {
            let follows = PathFlags::empty() $(| $flags)?;
            let at = self.at(&fd, follows, $path, Purpose::$purpose)?;
            let result = self.wasi.$name(at.directory(), $(at.flags_for($flags),)? at.name.clone() $(, $argument)*).await;
            self.release(at)?;
            result
        }
    )*};
}

impl HostDescriptor for WasiFiles<'_> {
    async fn open_at(
        &mut self,
        directory: Fd,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let permit = self.call.plugin().descriptors().acquire_permit().ok_or(ErrorCode::Quota)?;
        let at = self.at(&directory, path_flags, path, Purpose::Open(needed(open_flags, flags)))?;
        let opened = self.open_checked(&at, open_flags, flags).await;
        let handled = opened.and_then(|fd| self.keep(fd, &at, permit));
        self.release(at)?;
        handled
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        self.live(&fd)?;
        let (bytes, end) = self.wasi.read(fd, length, offset).await?;
        self.account.streamed.add(bytes.len() as u64);
        Ok((bytes, end))
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        self.live(&fd)?;
        self.account.written.spend_at(offset, bytes.len() as u64).map_err(FsError::trap)?;
        self.wasi.write(fd, bytes, offset).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        let (permit, file) = (self.permit(&fd)?, self.file(&fd)?);
        let stream = self.wasi.read_via_stream(fd, offset)?;
        self.read_here(stream, file, offset, permit)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        let permit = self.permit(&fd)?;
        let stream = self.wasi.write_via_stream(fd, offset)?;
        self.limit_output(stream, offset, permit)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let (permit, end) = (self.permit(&fd)?, self.size(&fd)?);
        let stream = self.wasi.append_via_stream(fd)?;
        self.limit_output(stream, end, permit)
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        self.live(&fd)?;
        self.account.written.check_end(size).map_err(FsError::trap)?;
        self.wasi.set_size(fd, size).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        self.live(&fd)?;
        let directory = match self.wasi.table.get(&fd)? {
            Descriptor::Dir(directory) => directory.dir.clone(),
            Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
        };
        self.check_listing(&fd)?;
        let stream =
            self.wasi.table.push(DirectoryStream::read_directory(&directory, &self.hidden_in(&fd)?, self.listed)?)?;
        self.handles.add(stream.rep(), Handle::Listing);
        Ok(Resource::new_own(stream.rep()))
    }

    async fn link_at(&mut self, fd: Fd, flags: PathFlags, old: String, new_folder: Fd, new: String) -> FsResult<()> {
        if flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        let (from, to) = self.both(&fd, old, &new_folder, new)?;
        let names = (from.name.clone(), to.name.clone());
        let result = self.wasi.link_at(from.directory(), flags, names.0, to.directory(), names.1).await;
        self.release(from).and(self.release(to))?;
        result
    }

    async fn rename_at(&mut self, fd: Fd, old: String, new_folder: Fd, new: String) -> FsResult<()> {
        let (from, to) = self.both(&fd, old, &new_folder, new)?;
        let names = (from.name.clone(), to.name.clone());
        let result = match from.spot.as_ref().map_or(Ok(()), |spot| self.refuse_to_move(spot)) {
            Ok(()) => self.wasi.rename_at(from.directory(), names.0, to.directory(), names.1).await,
            Err(refused) => Err(refused),
        };
        self.release(from).and(self.release(to))?;
        result
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        let at = self.at(&fd, PathFlags::empty(), path, Purpose::Displace)?;
        let result = self.wasi.symlink_at(at.directory(), target, at.name.clone()).await;
        self.release(at)?;
        result
    }

    async fn is_same_object(&mut self, fd: Fd, other: Fd) -> wasmtime::Result<bool> {
        if self.live(&fd).is_err() || self.live(&other).is_err() {
            return Ok(false);
        }
        self.wasi.is_same_object(fd, other).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.handles.remove(fd.rep());
        HostDescriptor::drop(&mut self.wasi, fd)
    }

    on_handle! {
        fn advise(offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()>;
        fn sync_data() -> FsResult<()>;
        fn get_flags() -> FsResult<DescriptorFlags>;
        fn get_type() -> FsResult<DescriptorType>;
        fn set_times(accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>;
        fn sync() -> FsResult<()>;
        fn stat() -> FsResult<DescriptorStat>;
        fn metadata_hash() -> FsResult<MetadataHashValue>;
    }

    on_path! {
        fn create_directory_at(; path) -> FsResult<()>, Change;
        fn stat_at(flags; path) -> FsResult<DescriptorStat>, Look;
        fn set_times_at(flags; path, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>, Change;
        fn readlink_at(; path) -> FsResult<String>, Look;
        fn remove_directory_at(; path) -> FsResult<()>, Displace;
        fn unlink_file_at(; path) -> FsResult<()>, Displace;
        fn metadata_hash_at(flags; path) -> FsResult<MetadataHashValue>, Look;
    }
}

impl WasiFiles<'_> {
    async fn open_checked(&mut self, at: &At, open_flags: OpenFlags, flags: DescriptorFlags) -> FsResult<Fd> {
        match &at.spot {
            Some(spot) => {
                let is_ordinary = |found: &Metadata| found.is_file() || found.is_dir() || found.is_symlink();
                if spot.found.as_ref().is_some_and(|found| !is_ordinary(found)) {
                    return Err(ErrorCode::Unsupported.into());
                }
            }
            None => {
                if let Ok(stat) = self.wasi.stat_at(at.directory(), at.flags, at.name.clone()).await {
                    refuse_special(stat.type_)?;
                }
            }
        }
        #[cfg(not(unix))]
        return self.wasi.open_at(at.directory(), at.flags, at.name.clone(), open_flags, flags).await;
        #[cfg(unix)]
        {
            let Descriptor::Dir(directory) = self.wasi.table.get(&at.directory())? else {
                return Err(ErrorCode::NotDirectory.into());
            };
            let opened = open::open(directory, at, open_flags, flags)?;
            Ok(self.wasi.table.push(opened)?)
        }
    }

    /// Enters a new handle, if its target may be used.
    fn keep(&mut self, fd: Fd, at: &At, permit: DescriptorPermit) -> FsResult<Fd> {
        let permit = Arc::new(permit);
        let (handle, file) = match self.wasi.table.get(&fd)? {
            Descriptor::File(file) => (Handle::File { permit }, file.file.clone()),
            Descriptor::Dir(directory) => {
                let location = at.spot.as_ref().map(|spot| spot.target());
                (Handle::Directory { root: at.root, location, permit }, directory.dir.clone())
            }
        };
        let checked = self.opened(at.root)?.check(&file).map_err(FsError::from);
        if let Err(refused) = checked.and_then(|()| self.refuse_excluded(&file, at)) {
            self.wasi.table.delete(fd)?;
            return Err(refused);
        }
        self.account.files += 1;
        self.handles.add(fd.rep(), handle);
        Ok(fd)
    }

    /// Refuses an open file that is excluded, also if it took the place of the one that was found.
    fn refuse_excluded(&mut self, file: &std::fs::File, at: &At) -> FsResult<()> {
        let policy = self.call.plugin().policy();
        if policy.protected().exclusions().is_empty() {
            return Ok(());
        }
        match policy.excluded_file(&Metadata::from_file(file)?) {
            None => Ok(()),
            Some(pattern) => {
                self.account.excluded = Some(self.call.excluded(&at.name, &pattern, FileAccess::Read));
                Err(ErrorCode::NotPermitted.into())
            }
        }
    }

    /// Both ends of a rename or link.
    fn both(&mut self, fd: &Fd, old: String, new_folder: &Fd, new: String) -> FsResult<(At, At)> {
        let from = self.at(fd, PathFlags::empty(), old, Purpose::Displace)?;
        match self.at(new_folder, PathFlags::empty(), new, Purpose::Displace) {
            Ok(to) => Ok((from, to)),
            Err(refused) => {
                self.release(from)?;
                Err(refused)
            }
        }
    }

    /// The descriptor behind a file, which its streams keep open.
    fn permit(&self, fd: &Fd) -> FsResult<Arc<DescriptorPermit>> {
        match self.live(fd)? {
            Handle::File { permit } => Ok(permit.clone()),
            Handle::Granted(_) | Handle::Directory { .. } => Err(ErrorCode::IsDirectory.into()),
            _ => Err(ErrorCode::BadDescriptor.into()),
        }
    }
}

/// Anything but a file, a directory or a link.
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

impl WasiFiles<'_> {
    /// Replaces a stream by one that reads on the thread of the call.
    fn read_here(
        &mut self,
        stream: Resource<DynInputStream>,
        file: Arc<std::fs::File>,
        at: u64,
        permit: Arc<DescriptorPermit>,
    ) -> FsResult<Resource<DynInputStream>> {
        let (hold, alive) = StreamHold::new(permit);
        self.handles.add(stream.rep(), Handle::Input(alive));
        let slot = self.wasi.table.get_mut(&stream)?;
        *slot = Box::new(FileInput::new(file, at, self.account.streamed.clone(), hold));
        Ok(stream)
    }

    /// Holds a stream that writes from this offset on to the call's limits.
    fn limit_output(
        &mut self,
        stream: Resource<DynOutputStream>,
        at: u64,
        permit: Arc<DescriptorPermit>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let (hold, alive) = StreamHold::new(permit);
        self.handles.add(stream.rep(), Handle::Output(alive));
        let slot = self.wasi.table.get_mut(&stream)?;
        let inner = std::mem::replace(slot, Box::new(wasmtime_wasi::p2::pipe::SinkOutputStream));
        *slot = Box::new(Limited::new(inner, self.account.written.clone(), at, hold));
        Ok(stream)
    }

    /// The size of an open file; a stream that appends begins there.
    fn size(&self, fd: &Fd) -> FsResult<u64> {
        Ok(self.file(fd)?.metadata().map_or(0, |metadata| metadata.len()))
    }

    fn file(&self, fd: &Fd) -> FsResult<Arc<std::fs::File>> {
        match self.wasi.table.get(fd)? {
            Descriptor::File(file) => Ok(file.file.clone()),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }
}
