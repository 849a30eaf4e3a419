//! The file tree that a program sees: all of the machine's read-only, without secrets, with private directories for
//! temporary files, devices and processes.
//!
//! The tree is changed in place in a mount namespace of the program's own. A directory around a read-only path is mounted
//! over itself, because otherwise it could be renamed and another put in its place.

use crate::error::SandboxError;
use crate::linux::sys::{MountAttributes, NO_DEVICES, NO_SETUID, READ_ONLY, set_mount_attributes};
use crate::policy::{Policy, View};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, symlink};
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
                Some(original) => writable(original, directory)?,
                None => file_system("tmpfs", directory, MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777,size=2g")?,
            }
        }
    }
    let mut closed = Vec::new();
    if Path::new(RUN).is_dir() {
        file_system("tmpfs", RUN, hard, "mode=755,size=1m")?;
        for (path, original) in &parts {
            target(Path::new(path), original)?;
            bind(original, path)?;
        }
        closed.push(PathBuf::from(RUN));
    }
    for place in &places {
        apply(place, &places, &mut closed)?;
    }
    for socket in sockets.iter().filter(|socket| !policy.visible.contains(socket)) {
        if fs::symlink_metadata(socket).is_ok_and(|metadata| metadata.file_type().is_socket()) {
            bind_path(COVER, text(socket)?)?;
        }
    }
    for path in closed {
        change(text(&path)?, MountAttributes { set: READ_ONLY, ..MountAttributes::default() })?;
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
            View::Visible if path.parent().is_some_and(|around| views.of(around) == Some(View::Writable)) => continue,
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

fn apply(place: &Place, places: &[Place], closed: &mut Vec<PathBuf>) -> Result<(), SandboxError> {
    let path = text(&place.path)?;
    match place.change {
        Change::Hide if path == "/" => Err(SandboxError::step("hide `/`", "programs need it")),
        // A mount over the root would leave what is below it in reach by `/..`. It is read-only unless it is writable.
        Change::Read if path == "/" => Ok(()),
        Change::Hide if place.path.is_dir() => {
            let holds = |other: &Place| other.change != Change::Hide && other.path.starts_with(&place.path);
            let mode = if places.iter().any(holds) { "mode=755,size=1m" } else { "mode=000,size=4k" };
            let hard = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            file_system("tmpfs", path, hard, mode)?;
            closed.push(place.path.clone());
            Ok(())
        }
        // Beneath a private directory of the same name there is nothing to hide.
        Change::Hide if !place.path.exists() => Ok(()),
        Change::Hide => bind_path(COVER, path),
        // The root of the tree has no place to be mounted over.
        Change::Write | Change::Pin if path == "/" => {
            change(path, MountAttributes { clear: READ_ONLY, ..MountAttributes::default() })
        }
        Change::Write | Change::Pin => {
            target(&place.path, &place.original)?;
            writable(&place.original, path)
        }
        Change::Read => {
            target(&place.path, &place.original)?;
            bind(&place.original, path)?;
            // Where `/` is writable, so is a part of it that is mounted.
            change(path, MountAttributes { set: READ_ONLY, clear: 0, recursive: true })
        }
    }
}

/// Opens a path of a policy; none if it does not exist, is or leads through a link, or lies where this user sees nothing.
/// A link cannot be mounted over; what it leads to has a place of its own in the policy.
fn opened(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => Ok(None),
        Err(error) => Err(SandboxError::step(format!("open `{}`", path.display()), error.desc())),
    }
}

fn required(path: &Path) -> Result<OwnedFd, SandboxError> {
    opened(path)?.ok_or_else(|| SandboxError::step(format!("open `{}`", path.display()), Errno::ENOENT.desc()))
}

/// Creates the place for a mount if a private directory covers it.
fn target(path: &Path, original: &OwnedFd) -> Result<(), SandboxError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let create = || -> io::Result<()> {
        let parent = path.parent().unwrap_or(path);
        fs::create_dir_all(parent)?;
        match fs::metadata(descriptor(original))?.is_dir() {
            true => fs::create_dir(path),
            false => fs::File::create_new(path).map(drop),
        }
    };
    create().map_err(|error| SandboxError::step(format!("create `{}`", path.display()), error))
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
        fs::File::create_new(&path).map_err(failed)?;
        bind(original, &path)?;
        change(&path, MountAttributes { clear: NO_DEVICES | READ_ONLY, ..MountAttributes::default() })?;
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

/// Mounts a directory or file for reading and writing.
fn writable(original: &OwnedFd, path: &str) -> Result<(), SandboxError> {
    bind(original, path)?;
    let all = MountAttributes { clear: READ_ONLY, recursive: true, set: 0 };
    // Mounts below it that were read-only before stay so, which the system reports as an error for all.
    change(path, all).or_else(|_| change(path, MountAttributes { recursive: false, ..all }))
}

fn bind(original: &OwnedFd, path: &str) -> Result<(), SandboxError> {
    bind_path(&descriptor(original), path)
}

fn bind_path(from: &str, path: &str) -> Result<(), SandboxError> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from), path, None::<&str>, flags, None::<&str>).map_err(|error| mounting(path, error))
}

fn none(path: &str, flags: MsFlags) -> Result<(), SandboxError> {
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>).map_err(|error| mounting(path, error))
}

fn file_system(kind: &str, path: &str, flags: MsFlags, options: &str) -> Result<(), SandboxError> {
    mount(Some(kind), path, Some(kind), flags, Some(options)).map_err(|error| mounting(path, error))
}

fn change(path: &str, attributes: MountAttributes) -> Result<(), SandboxError> {
    set_mount_attributes(path, attributes)
        .map_err(|error| SandboxError::step(format!("change the mount of `{path}`"), error))
}

fn mounting(path: &str, error: Errno) -> SandboxError {
    SandboxError::step(format!("mount `{path}`"), error.desc())
}

fn descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn text(path: &Path) -> Result<&str, SandboxError> {
    path.to_str().ok_or_else(|| SandboxError::step(format!("mount `{}`", path.display()), "the path is not text"))
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
