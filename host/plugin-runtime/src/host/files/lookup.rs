//! Resolves a guest's handle and path to a place that was checked.
//!
//! Where a call may read everything in a granted directory and does no more than read, the path is left to WASI, which
//! resolves it in the kernel. In all other cases it is walked here ([`pinion_workspace::paths::beneath`]), the location is
//! checked against the call's authority, and the operation is done on the last name alone, in the handle of the directory
//! that holds it, without following links. So the checked entry is the used one.

use super::{Fd, WasiFiles};
use cap_primitives::fs::{self, Metadata};
use pinion_plugin_streams::handles::{Handle, blank};
use pinion_workspace::grants::access::FileAccess;
use pinion_workspace::grants::protected::is_read_only_name;
use pinion_workspace::grants::roots::OpenRoot;
use pinion_workspace::paths::beneath::{AtEnd, Spot};
use pinion_workspace::paths::identity::identity;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// Maximum entries to examine before a directory is renamed.
const MAX_LOOKED_AT: usize = 100_000;
/// Maximum depth of the directories to examine.
const MAX_LOOKED_DEEP: usize = 64;

/// An operation on a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Read metadata.
    Look,
    /// Open it.
    Open(FileAccess),
    /// Create or change it.
    Change,
    /// Rename, replace or remove it.
    Displace,
}

/// A place that was checked.
pub(super) struct At {
    pub(super) directory: Fd,
    pub(super) name: String,
    pub(super) flags: PathFlags,
    /// The directory is in the table for this operation only.
    is_temporary: bool,
    /// The granted directory that it lies in.
    pub(super) root: usize,
    /// The resolved place; `None` if WASI resolves the path.
    pub(super) spot: Option<Spot>,
}

impl At {
    pub(super) fn directory(&self) -> Fd {
        Resource::new_borrow(self.directory.rep())
    }

    /// Returns the flags for an operation that the guest requested with `wanted`: links were followed already, or WASI
    /// follows them.
    pub(super) fn flags_for(&self, wanted: PathFlags) -> PathFlags {
        if self.spot.is_some() { self.flags } else { wanted }
    }
}

/// Returns the access that opening needs.
pub(super) fn needed(open: OpenFlags, flags: DescriptorFlags) -> FileAccess {
    let writes = flags.contains(DescriptorFlags::WRITE)
        || open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE);
    if writes { FileAccess::Write } else { FileAccess::Read }
}

impl WasiFiles<'_> {
    /// Returns a handle that belongs to this call, or to a granted directory that this call may use.
    pub(super) fn live(&self, fd: &Fd) -> FsResult<&Handle> {
        match self.handles.get(fd.rep()) {
            Some(Handle::Granted(_)) if self.call.files().is_none() => Err(ErrorCode::NotPermitted.into()),
            Some(handle) => Ok(handle),
            None => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// Finds a place and checks that it may be used for a purpose.
    pub(super) fn at(&mut self, fd: &Fd, flags: PathFlags, path: String, purpose: Purpose) -> FsResult<At> {
        let (root, location) = match self.live(fd)? {
            Handle::Granted(root) => (*root, Some(self.opened(*root)?.location.clone())),
            Handle::Directory { root, location, .. } => (*root, location.clone()),
            _ => return Err(ErrorCode::NotDirectory.into()),
        };
        let at_most = self.call.files();
        if at_most < Some(purpose.access()) {
            return Err(ErrorCode::NotPermitted.into());
        }
        let opened = self.opened(root)?;
        let is_free = match purpose {
            // The grant is for a single file in the directory.
            _ if opened.is_file() => false,
            Purpose::Look => opened.denied.is_empty(),
            // Everything that a writing call opens must have a location.
            Purpose::Open(FileAccess::Read) => {
                let excludes_nothing = self.call.plugin().policy().protected().exclusions().is_empty();
                opened.denied.is_empty() && at_most == Some(FileAccess::Read) && excludes_nothing
            }
            _ => false,
        };
        if is_free {
            let directory = Resource::new_borrow(fd.rep());
            return Ok(At { directory, name: path, flags, is_temporary: false, root, spot: None });
        }
        let location = location.ok_or(ErrorCode::NotPermitted)?;
        self.walk(fd, root, &location, flags, &path, purpose)
    }

    fn walk(
        &mut self,
        fd: &Fd,
        root: usize,
        location: &Path,
        flags: PathFlags,
        path: &str,
        purpose: Purpose,
    ) -> FsResult<At> {
        let directory = match self.wasi.table.get(fd)? {
            Descriptor::Dir(directory) => directory.dir.clone(),
            Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
        };
        let end = if flags.contains(PathFlags::SYMLINK_FOLLOW) { AtEnd::Follow } else { AtEnd::Keep };
        let spot = pinion_workspace::paths::beneath::find(&directory, location, Path::new(path), end)?;
        let permissions = self.check(path, &spot, purpose)?;
        let name = match &spot.name {
            Some(name) => name.to_str().ok_or(ErrorCode::IllegalByteSequence)?.to_owned(),
            None => ".".to_owned(),
        };
        let directory = self.temporary(&spot.directory, permissions)?;
        Ok(At { directory, name, flags: PathFlags::empty(), is_temporary: true, root, spot: Some(spot) })
    }

    /// Checks a place, and returns the permissions of its directory.
    fn check(&mut self, path: &str, spot: &Spot, purpose: Purpose) -> FsResult<FsPerms> {
        let target = spot.target();
        let access = self.call.access(&target);
        if access < Some(purpose.access()) {
            return Err(ErrorCode::NotPermitted.into());
        }
        // Names and sizes of excluded files are not secret.
        if purpose != Purpose::Look
            && let Some(denied) = self.call.exclusion(path, spot, purpose.access())
        {
            self.account.excluded = Some(denied);
            return Err(ErrorCode::NotPermitted.into());
        }
        let policy = self.call.plugin().policy();
        let is_plugin =
            || spot.found.as_ref().and_then(identity).is_some_and(|file| policy.protected().is_plugin(file));
        if purpose.access() == FileAccess::Write && is_plugin() {
            return Err(ErrorCode::NotPermitted.into());
        }
        if purpose == Purpose::Displace && (spot.name.is_none() || policy.is_pinned(&target)) {
            return Err(ErrorCode::NotPermitted.into());
        }
        Ok(if access == Some(FileAccess::Write) { FsPerms::ReadWrite } else { FsPerms::ReadOnly })
    }

    /// Puts a directory into the table, for one operation.
    fn temporary(&mut self, directory: &Arc<File>, permissions: FsPerms) -> FsResult<Fd> {
        let mut temporary = blank().ok_or(ErrorCode::Io)?.clone();
        temporary.dir = directory.clone();
        temporary.perms = permissions;
        Ok(self.wasi.table.push(Descriptor::Dir(temporary))?)
    }

    /// Ends the use of a place.
    pub(super) fn release(&mut self, at: At) -> FsResult<()> {
        if at.is_temporary {
            self.wasi.table.delete(at.directory)?;
        }
        Ok(())
    }

    /// Names in a directory that are denied, and left out of its listing: guests ask about each entry, and would fail.
    pub(super) fn hidden_in(&self, fd: &Fd) -> FsResult<Vec<OsString>> {
        let (opened, location) = match self.live(fd)? {
            Handle::Granted(root) => (self.opened(*root)?, None),
            Handle::Directory { root, location, .. } => (self.opened(*root)?, Some(location.as_deref())),
            _ => return Err(ErrorCode::NotDirectory.into()),
        };
        let location = location.unwrap_or(Some(opened.location.as_path()));
        let here = opened.denied.iter().filter(|denied| denied.parent() == location);
        Ok(here.filter_map(|denied| denied.file_name().map(OsStr::to_owned)).collect())
    }

    /// Refuses to list the directory of a granted file, unless another grant allows it.
    pub(super) fn check_listing(&self, fd: &Fd) -> FsResult<()> {
        let Handle::Granted(root) = self.live(fd)? else { return Ok(()) };
        let opened = self.opened(*root)?;
        if opened.is_file() && self.call.access(&opened.location) < Some(FileAccess::Read) {
            return Err(ErrorCode::NotPermitted.into());
        }
        Ok(())
    }

    pub(super) fn opened(&self, root: usize) -> FsResult<Arc<OpenRoot>> {
        let plugin = self.call.plugin();
        let root = plugin.roots().get(root).ok_or(ErrorCode::BadDescriptor)?;
        Ok(plugin.open(root)?.clone())
    }
}

impl Purpose {
    fn access(self) -> FileAccess {
        match self {
            Self::Look => FileAccess::Read,
            Self::Open(access) => access,
            Self::Change | Self::Displace => FileAccess::Write,
        }
    }
}

impl WasiFiles<'_> {
    /// Refuses to rename a directory that has a read-only name somewhere inside, or too many entries to be sure: that
    /// would move files that decide which programs run. Refuses one with an excluded file for the same reason.
    pub(super) fn refuse_to_move(&mut self, spot: &Spot) -> FsResult<()> {
        let exclusions = self.call.plugin().policy().protected().exclusions().clone();
        let from = spot.target();
        let mut excluded = None;
        let mut is_fixed = |path: &Path, is_directory: bool| {
            let name = path.file_name().unwrap_or_default();
            let pattern = exclusions.exclusions().of_entry(&from.join(path), is_directory);
            excluded = excluded.take().or_else(|| Some((path.to_owned(), pattern?.clone())));
            is_read_only_name(name) || pattern.is_some()
        };
        let refused = refuse_inside(spot, &mut is_fixed);
        if let Some((path, pattern)) = excluded {
            self.account.excluded =
                Some(self.call.excluded(&from.join(path).to_string_lossy(), &pattern, FileAccess::Write));
        }
        refused
    }
}

/// Decides about a path in a directory before its renaming.
type IsFixed<'a> = &'a mut dyn FnMut(&Path, bool) -> bool;

fn refuse_inside(spot: &Spot, is_fixed: IsFixed<'_>) -> FsResult<()> {
    if !spot.found.as_ref().is_some_and(Metadata::is_dir) {
        return Ok(());
    }
    let name = spot.name.as_deref().map(Path::new).ok_or(ErrorCode::NotPermitted)?;
    let mut left = MAX_LOOKED_AT;
    let directory = fs::open_dir_nofollow(&spot.directory, name)?;
    if has_fixed_inside(&directory, Path::new(""), MAX_LOOKED_DEEP, &mut left, is_fixed)? {
        Err(ErrorCode::NotPermitted.into())
    } else {
        Ok(())
    }
}

fn has_fixed_inside(
    directory: &File,
    path: &Path,
    depth: usize,
    left: &mut usize,
    is_fixed: IsFixed<'_>,
) -> std::io::Result<bool> {
    for entry in fs::read_base_dir(directory)? {
        let entry = entry?;
        let (path, is_directory) = (path.join(entry.file_name()), entry.file_type()?.is_dir());
        if *left == 0 || is_fixed(&path, is_directory) {
            return Ok(true);
        }
        *left -= 1;
        if !is_directory {
            continue;
        }
        if depth == 0 {
            return Ok(true);
        }
        let below = fs::open_dir_nofollow(directory, Path::new(&entry.file_name()))?;
        if has_fixed_inside(&below, &path, depth - 1, left, is_fixed)? {
            return Ok(true);
        }
    }
    Ok(false)
}
