//! The file tree that a program sees: all of the machine's read-only, without secrets, with private directories for
//! temporary files, devices and processes.
//!
//! The tree is changed in place in a mount namespace of the program's own. A directory around a read-only path is mounted
//! over itself, because otherwise it could be renamed and another put in its place.
//!
//! Other programs of the user may change the same directories at the same time. So what is mounted, and the place for it, are
//! open files; no place is reached through a link, and a mount has its attributes before it is attached.

use crate::error::SandboxError;
use crate::linux::sys::{self, MountAttributes, NO_DEVICES, NO_SETUID, READ_ONLY, set_mount_attributes};
use crate::policy::{Policy, View};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, fstat, makedev, mkdirat, mknod, mknodat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Directories for temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Devices that lead to nothing outside.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// A device that nobody can open, root included, which covers hidden files.
const COVER: &str = "/dev/.hidden";
/// The directory of sockets of the system and of the user's session.
const RUN: &str = "/run";
/// Entries of it that programs need.
const RUN_PARTS: [&str; 6] = [
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
];
/// Bound sockets that are covered at most.
const MAX_SOCKETS: usize = 4096;

/// A change of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Hide,
    Write,
    /// Write as before, and never rename or replace.
    Pin,
    Read,
}

/// A change with its place.
struct Place {
    path: PathBuf,
    change: Change,
    /// The file or directory before anything changed.
    original: OwnedFd,
}

/// Finds the sockets that other processes listen on. Must be called in the network namespace of these.
pub(super) fn sockets() -> BTreeSet<PathBuf> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    bound_paths(&text).take(MAX_SOCKETS).collect()
}

/// Returns the absolute paths in a table of Unix sockets: the rest of each line behind seven fields and one space.
fn bound_paths(table: &str) -> impl Iterator<Item = PathBuf> {
    let path = |line: &str| {
        let mut rest = line;
        for _ in 0..7 {
            let field = rest.trim_start();
            rest = &field[field.find(char::is_whitespace)?..];
        }
        rest.strip_prefix(' ').filter(|path| path.starts_with('/')).map(PathBuf::from)
    };
    table.lines().filter_map(path)
}

/// Builds the tree. Must be called in new user, mount and process namespaces, by the first process of the latter.
///
/// # Errors
/// A step fails; the namespace is then not to be used.
pub(super) fn build(policy: &Policy, sockets: &BTreeSet<PathBuf>) -> Result<(), SandboxError> {
    none("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    let read_only = MountAttributes { set: READ_ONLY | NO_DEVICES | NO_SETUID, clear: 0, recursive: true };
    change("/", read_only)?;
    let places = places(policy)?;
    let parts = RUN_PARTS.iter().filter_map(|path| opened(Path::new(path)).ok().flatten().map(|fd| (*path, fd)));
    let parts: Vec<_> = parts.collect();
    let temporary = policy.temporary.as_deref().map(required).transpose()?;
    devices()?;
    let hard = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    file_system("proc", "/proc", hard | MsFlags::MS_RDONLY, "")?;
    for directory in TEMPORARY {
        // One of them may be a link to the other.
        if fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
            match &temporary {
                Some(original) => bind(original, Path::new(directory), WRITE)?,
                None => file_system("tmpfs", directory, MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777,size=2g")?,
            }
        }
    }
    let mut closed = Vec::new();
    if Path::new(RUN).is_dir() {
        closed.push(private(Path::new(RUN), c"755", c"1m")?);
        for (path, original) in &parts {
            bind(original, Path::new(path), KEEP)?;
        }
    }
    let cover = required(Path::new(COVER))?;
    for place in &places {
        apply(place, &places, &cover, &mut closed)?;
    }
    for socket in sockets.iter().filter(|socket| !policy.visible.contains(socket)) {
        let found = opened(socket)?;
        if let Some(found) = found.filter(|found| kind(found).is_ok_and(|kind| kind == SFlag::S_IFSOCK)) {
            let tree = sys::clone_tree(cover.as_fd()).map_err(|error| mounting(socket, error))?;
            sys::attach(tree.as_fd(), found.as_fd()).map_err(|error| mounting(socket, error))?;
        }
    }
    for tree in closed {
        let read_only = MountAttributes { set: READ_ONLY, ..MountAttributes::default() };
        set_mount_attributes(tree.as_fd(), read_only)
            .map_err(|error| SandboxError::step("close a directory", error))?;
    }
    change("/dev", MountAttributes { set: READ_ONLY, ..MountAttributes::default() })
}

/// Returns the changes that the policy asks for, one at a path and outer ones first. Paths that do not exist are left out.
fn places(policy: &Policy) -> Result<Vec<Place>, SandboxError> {
    let views = policy.views();
    let mut changes = BTreeMap::new();
    for (path, view) in views.iter() {
        let change = match view {
            // It is gone with the directory around it.
            View::Hidden | View::Excluded if path.parent().is_some_and(|around| views.hide(around)) => continue,
            View::Hidden | View::Excluded => Change::Hide,
            // What is writable around it is visible.
            View::Visible
                if path.parent().is_some_and(|around| views.of(around) == Some(View::Writable))
                    && !policy.hidden.iter().any(|hidden| hidden == path) =>
            {
                continue;
            }
            View::Visible => Change::Read,
            View::Writable => Change::Write,
        };
        changes.insert(path, change);
    }
    // What is hidden cannot be written, and must not come into view.
    let read_only = policy.read_only.iter().filter(|path| !views.hide(path));
    changes.extend(read_only.map(|path| (path.as_path(), Change::Read)));
    let pinned = pinned(policy);
    for path in pinned.iter().filter(|path| views.of(path) == Some(View::Writable)) {
        changes.entry(path).or_insert(Change::Pin);
    }
    let mut places = Vec::new();
    for (path, change) in changes {
        places.extend(opened(path)?.map(|original| Place { path: path.to_owned(), change, original }));
    }
    Ok(places)
}

/// Returns the directories between a writable directory and what lies in it and is read-only, hidden or writable itself. If
/// one of them were moved, another could take the place of what it holds, for this program or for a later one.
fn pinned(policy: &Policy) -> BTreeSet<PathBuf> {
    let mut pinned = BTreeSet::new();
    for path in policy.read_only.iter().chain(&policy.hidden).chain(&policy.writable) {
        if let Some(root) = roots(policy, path).min_by_key(|root| root.as_os_str().len()) {
            pinned.extend(path.ancestors().skip(1).take_while(|ancestor| ancestor != root).map(Path::to_owned));
        }
    }
    pinned.extend(policy.pinned.iter().filter(|path| roots(policy, path).next().is_some()).cloned());
    // A directory in a read-only one keeps its name anyway, and must not become writable.
    pinned.retain(|path| {
        let root = roots(policy, path).max_by_key(|root| root.as_os_str().len());
        !policy
            .read_only
            .iter()
            .any(|closed| path.starts_with(closed) && root.is_none_or(|root| closed.starts_with(root)))
    });
    pinned
}

/// Returns the writable directories around a path, which is none around itself.
fn roots<'a>(policy: &'a Policy, path: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
    policy.writable.iter().filter(move |root| path != *root && path.starts_with(root))
}

/// Makes a change. What is private to the program and becomes read-only in the end is added to `closed`.
fn apply(place: &Place, places: &[Place], cover: &OwnedFd, closed: &mut Vec<OwnedFd>) -> Result<(), SandboxError> {
    let path = place.path.as_path();
    let is_root = path == Path::new("/");
    match place.change {
        Change::Hide if is_root => Err(SandboxError::step("hide `/`", "programs need it")),
        // A mount over the root would leave what is below it in reach by `/..`. It is read-only unless it is writable.
        Change::Read if is_root => Ok(()),
        // Beneath a private directory of the same name there is nothing to hide.
        Change::Hide if at(path)?.is_none() => Ok(()),
        Change::Hide if is_directory(&place.original) => {
            let holds = |other: &Place| other.change != Change::Hide && other.path.starts_with(path);
            let (mode, size) = if places.iter().any(holds) { (c"755", c"1m") } else { (c"000", c"4k") };
            closed.push(private(path, mode, size)?);
            Ok(())
        }
        Change::Hide => bind(cover, path, KEEP),
        Change::Write | Change::Pin if is_root => {
            change("/", MountAttributes { clear: READ_ONLY, ..MountAttributes::default() })
        }
        Change::Write | Change::Pin => bind(&place.original, path, WRITE),
        // Where `/` is writable, so is a part of it that is mounted.
        Change::Read => bind(&place.original, path, READ),
    }
}

/// Opens a path that leads through no link, only to stand for what is there.
fn without_links(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(directory, path, how)
}

/// Opens a path of a policy; none if it does not exist, is or leads through a link, or lies where this user sees nothing.
/// A link cannot be mounted over; what it leads to has a place of its own in the policy.
fn opened(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    match without_links(AT_FDCWD, path) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => Ok(None),
        Err(error) => Err(SandboxError::step(format!("open `{}`", path.display()), error.desc())),
    }
}

fn required(path: &Path) -> Result<OwnedFd, SandboxError> {
    opened(path)?.ok_or_else(|| SandboxError::step(format!("open `{}`", path.display()), Errno::ENOENT.desc()))
}

/// Opens a place in the tree as it is by now; none if there is nothing.
///
/// # Errors
/// It is a link, or leads through one: another program has changed it meanwhile.
fn at(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    match without_links(AT_FDCWD, path) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(error) => Err(SandboxError::step(format!("open `{}`", path.display()), error.desc())),
    }
}

/// Opens the place for a mount, and creates it if a private directory covers it.
fn target(path: &Path, is_directory: bool) -> Result<OwnedFd, SandboxError> {
    if let Some(found) = at(path)? {
        return Ok(found);
    }
    let failed = |error: Errno| SandboxError::step(format!("create `{}`", path.display()), error.desc());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(failed(Errno::ENOENT)) };
    let parent = target(parent, true)?;
    let created = match is_directory {
        true => mkdirat(&parent, name, Mode::from_bits_truncate(0o755)),
        false => mknodat(&parent, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o644), 0),
    };
    created.map_err(failed)?;
    without_links(&parent, Path::new(name)).map_err(failed)
}

fn kind(file: &OwnedFd) -> Result<SFlag, Errno> {
    fstat(file).map(|found| SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()))
}

fn is_directory(file: &OwnedFd) -> bool {
    kind(file).is_ok_and(|kind| kind == SFlag::S_IFDIR)
}

/// Mounts a private `/dev`.
fn devices() -> Result<(), SandboxError> {
    let originals: Vec<_> =
        DEVICES.iter().filter_map(|name| Some((*name, opened(&Path::new("/dev").join(name)).ok()??))).collect();
    let hard = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    file_system("tmpfs", "/dev", hard, "mode=755,size=1m")?;
    let failed = |error: io::Error| SandboxError::step("create devices", error);
    for (name, original) in &originals {
        let path = format!("/dev/{name}");
        let usable = MountAttributes { clear: NO_DEVICES | READ_ONLY, ..MountAttributes::default() };
        bind(original, Path::new(&path), usable)?;
    }
    fs::create_dir("/dev/pts").map_err(failed)?;
    file_system("devpts", "/dev/pts", hard, "newinstance,ptmxmode=0666,mode=620")?;
    fs::create_dir("/dev/shm").map_err(failed)?;
    file_system("tmpfs", "/dev/shm", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777,size=50%")?;
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, to) in links {
        symlink(to, Path::new("/dev").join(name)).map_err(failed)?;
    }
    // The only device that every user may create. A file system of this user opens no device.
    if mknod(COVER, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).is_ok() {
        return Ok(());
    }
    // Kernels before 5.8. Root reads it as empty.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(COVER).map(drop).map_err(failed)
}

/// The attributes of a mount of its own: those of the original, for writing, or for reading alone.
const KEEP: MountAttributes = MountAttributes { set: 0, clear: 0, recursive: true };
const WRITE: MountAttributes = MountAttributes { set: 0, clear: READ_ONLY, recursive: true };
const READ: MountAttributes = MountAttributes { set: READ_ONLY, clear: 0, recursive: true };

/// Mounts a file or directory at a place.
fn bind(original: &OwnedFd, path: &Path, attributes: MountAttributes) -> Result<(), SandboxError> {
    let place = target(path, is_directory(original))?;
    let tree = sys::clone_tree(original.as_fd()).map_err(|error| mounting(path, error))?;
    let mut changed = set_mount_attributes(tree.as_fd(), attributes);
    if changed.is_err() && attributes.set == 0 {
        // Mounts below it that were read-only before stay so, which the system reports as an error for all.
        changed = set_mount_attributes(tree.as_fd(), MountAttributes { recursive: false, ..attributes });
    }
    changed.map_err(|error| mounting(path, error))?;
    sys::attach(tree.as_fd(), place.as_fd()).map_err(|error| mounting(path, error))
}

/// Mounts a private directory, and returns its mount.
fn private(path: &Path, mode: &CStr, size: &CStr) -> Result<OwnedFd, SandboxError> {
    let place = target(path, true)?;
    let tree = sys::new_tmpfs(&[(c"mode", mode), (c"size", size)]).map_err(|error| mounting(path, error))?;
    sys::attach(tree.as_fd(), place.as_fd()).map_err(|error| mounting(path, error))?;
    Ok(tree)
}

fn none(path: &str, flags: MsFlags) -> Result<(), SandboxError> {
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
        .map_err(|error| mounting(Path::new(path), error.into()))
}

fn file_system(kind: &str, path: &str, flags: MsFlags, options: &str) -> Result<(), SandboxError> {
    mount(Some(kind), path, Some(kind), flags, Some(options)).map_err(|error| mounting(Path::new(path), error.into()))
}

fn change(path: &str, attributes: MountAttributes) -> Result<(), SandboxError> {
    let mount = required(Path::new(path))?;
    set_mount_attributes(mount.as_fd(), attributes)
        .map_err(|error| SandboxError::step(format!("change the mount of `{path}`"), error))
}

fn mounting(path: &Path, error: io::Error) -> SandboxError {
    SandboxError::step(format!("mount `{}`", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets_may_contain_spaces() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 18033 /run/a b/s\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 99 @abstract\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 123456\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03     7  /x\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 18034 /run/c\n";
        let found: Vec<_> = bound_paths(table).collect();
        assert_eq!(found, [PathBuf::from("/run/a b/s"), PathBuf::from("/run/c")]);
    }
}
