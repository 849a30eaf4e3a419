//! Opening files and directories for guests as wasmtime-wasi does, except that a pipe never makes the host wait.
//!
//! Whether a name is a pipe is known before it is opened, but another program may put one in its place in between.

use super::lookup::At;
use cap_primitives::fs::{FollowSymlinks, OpenOptions, OpenOptionsExt as _};
use std::fs::File;
use std::io;
use std::path::Path;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, OpenMode};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// Opens a place in a directory. Blocks, as all of WASI's files do here.
///
/// # Errors
/// The system's error, the flags contradict each other, or the directory is read-only.
pub(super) fn open(directory: &Dir, at: &At, open: OpenFlags, flags: DescriptorFlags) -> FsResult<Descriptor> {
    let changes = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(ErrorCode::Unsupported.into());
    }
    if open.contains(OpenFlags::DIRECTORY) && open.intersects(changes) {
        return Err(ErrorCode::Invalid.into());
    }
    let (options, mode) = options(at.flags, open, flags);
    if mode.contains(OpenMode::WRITE) && !matches!(directory.perms, FsPerms::ReadWrite) {
        return Err(ErrorCode::NotPermitted.into());
    }
    match open_ordinary(&directory.dir, Path::new(&at.name), &options)? {
        (opened, true) => Ok(Descriptor::Dir(Dir::new(opened, directory.perms, mode, true))),
        _ if open.contains(OpenFlags::DIRECTORY) => Err(ErrorCode::NotDirectory.into()),
        (opened, false) => Ok(Descriptor::File(WasiFile::new(opened, directory.perms, mode, true))),
    }
}

fn options(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> (OpenOptions, OpenMode) {
    let (mut options, mut mode) = (OpenOptions::new(), OpenMode::empty());
    if open.contains(OpenFlags::CREATE) {
        let is_new = open.contains(OpenFlags::EXCLUSIVE);
        if is_new {
            options.create_new(true)
        } else {
            options.create(true)
        };
    }
    let writes = flags.contains(DescriptorFlags::WRITE);
    if writes || open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE) {
        options.write(true).truncate(open.contains(OpenFlags::TRUNCATE));
        mode |= OpenMode::WRITE;
    }
    // A file that is not opened for writing is opened for reading, regardless of the guest's permissions.
    if flags.contains(DescriptorFlags::READ) || !writes {
        options.read(true);
        mode |= OpenMode::READ;
    }
    let follows = path.contains(PathFlags::SYMLINK_FOLLOW);
    // Public for `cap-fs-ext`, which only renames it.
    options._cap_fs_ext_follow(if follows { FollowSymlinks::Yes } else { FollowSymlinks::No });
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    (options, mode)
}

/// Opens a regular file or a directory. Returns whether it is a directory.
fn open_ordinary(directory: &File, name: &Path, options: &OpenOptions) -> io::Result<(File, bool)> {
    let opened = cap_primitives::fs::open(directory, name, options)?;
    let kind = opened.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok((opened, kind.is_dir()))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn pipe_in_place_of_a_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        let handle = File::open(directory.path()).unwrap();
        for flags in [DescriptorFlags::READ, DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::WRITE] {
            let (options, _) = options(PathFlags::empty(), OpenFlags::empty(), flags);
            assert!(open_ordinary(&handle, Path::new("pipe"), &options).is_err());
            assert!(!open_ordinary(&handle, Path::new("file"), &options).unwrap().1);
        }
        let (options, _) = options(PathFlags::empty(), OpenFlags::DIRECTORY, DescriptorFlags::READ);
        assert!(open_ordinary(&handle, Path::new("."), &options).unwrap().1);
    }
}
