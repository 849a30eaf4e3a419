//! The file tree that a program sees: all of the machine's read-only, without secrets, with private directories for
//! temporary files, devices and processes.
//!
//! The tree is changed in place in a mount namespace of the program's own. A directory around a read-only path is mounted
//! over itself, because otherwise it could be renamed and another put in its place.
//!
//! Other programs of the user may change the same directories at the same time. So the source of a mount and its place
//! are open files; no place is reached through a link, and a mount has its attributes before it is attached.

use crate::error::SandboxError;
use crate::linux::places::{self, at, is_directory, opened, target};
use crate::linux::sockets::sockets_among;
use crate::linux::sys::{self, MountAttributes, NO_DEVICES, NO_SETUID, READ_ONLY, set_mount_attributes};
use crate::linux::watch::Covers;
use crate::policy::{SandboxPolicy, View};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directories for temporary files.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Devices that lead to nothing outside.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// A device that cannot be opened, even by root, which covers hidden files.
const COVER: &str = "/dev/.hidden";
/// An empty directory, which covers hidden directories.
const EMPTY: &str = "/dev/.empty";
/// Time that the system takes at most to replace a file.
const REPLACING: Duration = Duration::from_secs(2);
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

/// A change of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountChange {
    Hide,
    Write,
    /// Write as before, and never rename or replace.
    Pin,
    /// Keep as it is.
    Close,
    /// Show in a hidden directory.
    Show,
}

/// Changes at their paths, outer ones first.
type MountChanges = BTreeMap<PathBuf, MountChange>;

/// Builds the tree, and returns the covers that have to stay. Must be called in new user, mount and process namespaces, by the
/// first process of the latter.
///
/// # Errors
/// A step fails; the namespace is then not to be used.
pub(super) fn build(policy: &SandboxPolicy, sockets: &BTreeSet<PathBuf>) -> Result<Covers, SandboxError> {
    none("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    let read_only = MountAttributes { set: READ_ONLY | NO_DEVICES | NO_SETUID, clear: 0, recursive: true };
    change("/", read_only)?;
    let changes = changes(policy);
    // Private directories cover the content behind them, so the content is copied before.
    let mut originals = BTreeMap::new();
    let shown = changes.iter().filter(|(_, change)| **change != MountChange::Hide).map(|(path, _)| path);
    for path in shown.filter(|path| is_behind(path, &changes)) {
        if let Some(original) = opened(path)? {
            originals.insert(path.clone(), cloned(&original, path)?);
        }
    }
    let parts = RUN_PARTS.iter().filter_map(|path| opened(Path::new(path)).ok().flatten().map(|fd| (*path, fd)));
    let parts: Vec<_> = parts.collect();
    let temporary = policy.temporary.as_deref().map(places::required).transpose()?;
    devices(&policy.devices)?;
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
    let mut tree = MountTree {
        changes: &changes,
        originals,
        open: Vec::new(),
        covers: Covers::default(),
        without_link: PathBuf::new(),
    };
    if Path::new(RUN).is_dir() {
        tree.open.push(private(Path::new(RUN), c"755", c"1m")?);
        for (path, original) in &parts {
            bind(original, Path::new(path), KEEP)?;
        }
    }
    for (path, change) in &changes {
        tree.apply(path, *change)?;
    }
    for socket in sockets.iter().filter(|socket| !policy.visible.contains(socket)) {
        let found = opened(socket)?;
        if let Some(place) = found.filter(|found| places::kind(found).is_ok_and(|kind| kind == SFlag::S_IFSOCK)) {
            mount_at(&places::required(Path::new(COVER))?, &place, socket, KEEP)?;
        }
    }
    for directory in tree.open {
        let read_only = MountAttributes { set: READ_ONLY, ..MountAttributes::default() };
        set_mount_attributes(directory.as_fd(), read_only)
            .map_err(|error| SandboxError::step("close a directory", error))?;
    }
    change("/dev", MountAttributes { set: READ_ONLY, ..MountAttributes::default() })?;
    Ok(tree.covers)
}

/// Finds the sockets that other processes listen on. Must be called in the network namespace of these.
///
/// # Errors
/// The system does not say which there are, or there are too many to be covered.
pub(super) fn sockets() -> Result<BTreeSet<PathBuf>, SandboxError> {
    let table = fs::read("/proc/net/unix").map_err(|error| SandboxError::step("find the sockets of others", error))?;
    sockets_among(&table)
}

/// Returns the changes that the policy asks for, one at a path.
fn changes(policy: &SandboxPolicy) -> MountChanges {
    let views = policy.views();
    let mut changes = MountChanges::new();
    for (path, view) in views.iter() {
        let change = match view {
            // It is gone with the directory around it.
            View::Hidden | View::Excluded if path.parent().is_some_and(|around| views.hide(around)) => continue,
            View::Hidden | View::Excluded => MountChange::Hide,
            // The writable directory around it is visible.
            View::Visible
                if path.parent().is_some_and(|around| views.nearest_view(around) == Some(View::Writable))
                    && !policy.hidden.iter().any(|hidden| hidden == path) =>
            {
                continue;
            }
            View::Visible => MountChange::Show,
            View::Writable => MountChange::Write,
        };
        changes.insert(path.to_owned(), change);
    }
    // A hidden path cannot be written, and must not come into view.
    let read_only = policy.read_only.iter().filter(|path| !views.hide(path));
    changes.extend(read_only.map(|path| (path.clone(), MountChange::Close)));
    // A private directory keeps its name anyway.
    let pinned = pinned(policy).into_iter().filter(|path| !is_private(path));
    for path in pinned.filter(|path| views.nearest_view(path) == Some(View::Writable)) {
        changes.entry(path).or_insert(MountChange::Pin);
    }
    changes
}

/// Returns whether a program sees a private directory at a path, unless the policy changes that path.
fn is_private(path: &Path) -> bool {
    TEMPORARY.iter().chain(&[RUN, "/dev", "/proc"]).any(|directory| path == Path::new(directory))
}

/// Returns whether a private directory lies between a path and the change around it, or is the path itself.
fn is_behind(path: &Path, changes: &MountChanges) -> bool {
    let around = path.ancestors().skip(1).find_map(|around| Some((around, changes.get(around)?)));
    let mut between = path.ancestors().take_while(|path| around.is_none_or(|(around, _)| *path != around));
    between.any(is_private) || around.is_some_and(|(_, change)| *change == MountChange::Hide)
}

/// Returns the directories between a writable directory and a path in it that is read-only, hidden or writable itself.
/// If one of them were moved, another could replace its content, for this program or for a later one.
fn pinned(policy: &SandboxPolicy) -> BTreeSet<PathBuf> {
    let writable: BTreeSet<&Path> = policy.writable.iter().map(PathBuf::as_path).collect();
    let read_only: BTreeSet<&Path> = policy.read_only.iter().map(PathBuf::as_path).collect();
    let around = |path: &Path| path.ancestors().skip(1).any(|around| writable.contains(around));
    let mut pinned: BTreeSet<PathBuf> = policy.pinned.iter().filter(|path| around(path)).cloned().collect();
    for path in policy.read_only.iter().chain(&policy.hidden).chain(&policy.writable) {
        let mut inside: Vec<&Path> = path.ancestors().skip(1).collect();
        // Up to the outermost writable directory.
        let outermost = inside.iter().rposition(|around| writable.contains(around));
        inside.truncate(outermost.unwrap_or(0));
        pinned.extend(inside.into_iter().map(Path::to_owned));
    }
    // A directory in a read-only one keeps its name anyway, and must not become writable.
    pinned.retain(|path| {
        let closed = path.ancestors().find(|around| read_only.contains(around));
        let open = path.ancestors().skip(1).find(|around| writable.contains(around));
        closed.is_none_or(|closed| open.is_some_and(|open| open != closed && open.starts_with(closed)))
    });
    pinned
}

/// A tree that is being changed.
struct MountTree<'a> {
    changes: &'a MountChanges,
    /// Copies of the mounts of paths behind private directories.
    originals: BTreeMap<PathBuf, OwnedFd>,
    /// Private directories that become read-only in the end.
    open: Vec<OwnedFd>,
    covers: Covers,
    /// The directory of the last path that did not exist: there are a hundred such paths in a workspace.
    without_link: PathBuf,
}

impl MountTree<'_> {
    /// Makes a change. Paths that do not exist are left out.
    fn apply(&mut self, path: &Path, change: MountChange) -> Result<(), SandboxError> {
        let is_root = path == Path::new("/");
        match change {
            MountChange::Hide if is_root => Err(SandboxError::step("hide `/`", "programs need it")),
            // A mount over the root would leave everything below it in reach by `/..`. It is read-only unless it is
            // writable.
            MountChange::Close | MountChange::Show if is_root => Ok(()),
            MountChange::Write | MountChange::Pin if is_root => {
                self::change("/", MountAttributes { clear: READ_ONLY, ..MountAttributes::default() })
            }
            MountChange::Hide if self.has_open_inside(path) => {
                if opened(path)?.is_some_and(|found| is_directory(&found)) {
                    self.open.push(private(path, c"755", c"1m")?);
                    self.covers.kept.insert(path.to_owned());
                }
                Ok(())
            }
            MountChange::Hide => {
                if hide(path)? {
                    self.covers.renewed.insert(path.to_owned());
                }
                Ok(())
            }
            // Where `/` is writable, so is a part of it that is mounted.
            MountChange::Close => {
                if self.bind(path, READ)? {
                    self.covers.kept.insert(path.to_owned());
                }
                Ok(())
            }
            MountChange::Show => self.bind(path, READ).map(drop),
            MountChange::Write | MountChange::Pin => self.bind(path, WRITE).map(drop),
        }
    }

    /// Returns whether something in a hidden directory is open.
    fn has_open_inside(&self, path: &Path) -> bool {
        let inside = self.changes.range(path.to_owned()..).skip(1).take_while(|(inside, _)| inside.starts_with(path));
        inside.into_iter().any(|(_, change)| *change != MountChange::Hide)
    }

    /// Mounts the original content of a path, from before any change. Returns whether there is something.
    fn bind(&mut self, path: &Path, attributes: MountAttributes) -> Result<bool, SandboxError> {
        if let Some(original) = self.originals.remove(path) {
            let place = target(path, is_directory(&original))?;
            return attach(original, &place, path, attributes).map(|()| true);
        }
        // The path that a private directory covers did not exist.
        let is_gone = is_behind(path, self.changes);
        let Some(place) = places::at_unless_link(path, &mut self.without_link)?.filter(|_| !is_gone) else {
            return Ok(false);
        };
        mount_at(&place, &place, path, attributes).map(|()| true)
    }
}

/// Covers a file or directory, so that it cannot be read or changed. Returns whether there is something.
///
/// While another program replaces a file, the system has already taken the cover from the old one, still finds it by its
/// name, and refuses a mount. Then it is looked for again.
///
/// # Errors
/// The system does not let this process, or a link leads there.
pub(super) fn hide(path: &Path) -> Result<bool, SandboxError> {
    let started = Instant::now();
    loop {
        let Some(place) = at(path)? else { return Ok(false) };
        let cover = places::required(Path::new(if is_directory(&place) { EMPTY } else { COVER }))?;
        let tree = cloned(&cover, path)?;
        match sys::attach(tree.as_fd(), place.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && started.elapsed() < REPLACING => {
                std::thread::sleep(Duration::from_millis(1));
            }
            attached => return attached.map(|()| true).map_err(|error| mounting(path, error)),
        }
    }
}

/// Mounts a private `/dev`, with more devices than the usual ones.
fn devices(more: &[PathBuf]) -> Result<(), SandboxError> {
    let usual = DEVICES.iter().map(|name| Path::new("/dev").join(name));
    let all = usual.chain(more.iter().filter(|path| path.starts_with("/dev")).cloned());
    let originals: Vec<_> = all.filter_map(|path| opened(&path).ok()?.map(|original| (path, original))).collect();
    let hard = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    file_system("tmpfs", "/dev", hard, "mode=755,size=1m")?;
    let failed = |error: io::Error| SandboxError::step("create devices", error);
    for (path, original) in &originals {
        bind(original, path, MountAttributes { set: 0, clear: NO_DEVICES | READ_ONLY, recursive: true })?;
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
    fs::create_dir(EMPTY).map_err(failed)?;
    let empty = private(Path::new(EMPTY), c"000", c"4k")?;
    set_mount_attributes(empty.as_fd(), MountAttributes { set: READ_ONLY, ..MountAttributes::default() })
        .map_err(failed)?;
    // The only device that every user may create. A file system of this user opens no device.
    if mknod(COVER, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).is_ok() {
        return Ok(());
    }
    // Kernels before 5.8. Root reads it as empty.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(COVER).map(drop).map_err(failed)
}

/// The attributes of a separate mount: the original's attributes, for writing, or for reading alone.
const KEEP: MountAttributes = MountAttributes { set: 0, clear: 0, recursive: true };
const WRITE: MountAttributes = MountAttributes { set: 0, clear: READ_ONLY, recursive: true };
const READ: MountAttributes = MountAttributes { set: READ_ONLY, clear: 0, recursive: true };

/// Mounts a file or directory at a path, which is created if a private directory covers it.
fn bind(original: &OwnedFd, path: &Path, attributes: MountAttributes) -> Result<(), SandboxError> {
    let place = target(path, is_directory(original))?;
    mount_at(original, &place, path, attributes)
}

/// Mounts a file or directory at an open place.
fn mount_at(original: &OwnedFd, place: &OwnedFd, path: &Path, attributes: MountAttributes) -> Result<(), SandboxError> {
    attach(cloned(original, path)?, place, path, attributes)
}

/// Copies the mount of a file or directory with all that is mounted there by now.
fn cloned(original: &OwnedFd, path: &Path) -> Result<OwnedFd, SandboxError> {
    sys::clone_tree(original.as_fd()).map_err(|error| mounting(path, error))
}

/// Attaches a copy at an open place.
fn attach(tree: OwnedFd, place: &OwnedFd, path: &Path, attributes: MountAttributes) -> Result<(), SandboxError> {
    let mut changed = set_mount_attributes(tree.as_fd(), attributes);
    if changed.is_err() && attributes.set == 0 {
        // Mounts below it that were read-only before stay so, which the system reports as an error for all.
        changed = set_mount_attributes(tree.as_fd(), MountAttributes { recursive: false, ..attributes });
    }
    // So does the mount itself, such as a volume of a container: programs read it.
    let is_locked = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if changed.as_ref().is_err_and(is_locked) && attributes.set == 0 && attributes.clear == READ_ONLY {
        changed = Ok(());
    }
    changed.and_then(|()| sys::attach(tree.as_fd(), place.as_fd())).map_err(|error| mounting(path, error))
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
    let mount = places::required(Path::new(path))?;
    set_mount_attributes(mount.as_fd(), attributes)
        .map_err(|error| SandboxError::step(format!("change the mount of `{path}`"), error))
}

fn mounting(path: &Path, error: io::Error) -> SandboxError {
    SandboxError::step(format!("mount `{}`", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(writable: &[&str], read_only: &[&str], hidden: &[&str]) -> SandboxPolicy {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
        SandboxPolicy {
            writable: paths(writable),
            read_only: paths(read_only),
            hidden: paths(hidden),
            ..SandboxPolicy::default()
        }
    }

    #[test]
    fn directories_around_what_matters_are_pinned() {
        let policy = policy(&["/w", "/w/a/b"], &["/w/x/y/config", "/w/c", "/w/c/d/e", "/o/n"], &["/w/h/i"]);
        let pinned = pinned(&policy);
        let expected = ["/w/a", "/w/h", "/w/x", "/w/x/y"].map(PathBuf::from);
        assert!(pinned.iter().eq(expected.iter()), "{pinned:?}");
    }

    #[test]
    fn many_paths_are_pinned_in_a_moment() {
        let mut policy = policy(&["/w"], &[], &[]);
        policy.read_only =
            (0..6_000).map(|at| PathBuf::from(format!("/w/s{}/.git/modules/{at}/config", at % 49))).collect();
        let started = Instant::now();
        let changes = changes(&policy);
        assert!(changes.len() > 12_000 && changes.keys().filter(|path| is_behind(path, &changes)).count() == 0);
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    #[test]
    fn only_what_private_directories_cover_is_copied_before() {
        let mut policy = policy(&["/tmp/w", "/h/w", "/x"], &["/tmp/w/c", "/h/w/c", "/x/c"], &["/h"]);
        policy.visible = vec!["/run/s".into()];
        let changes = changes(&policy);
        let behind: Vec<&PathBuf> = changes.keys().filter(|path| is_behind(path, &changes)).collect();
        assert_eq!(behind, [Path::new("/h/w"), Path::new("/run/s"), Path::new("/tmp/w")]);
        // Where programs may write to `/`, the directory for temporary files is still their own, unless it is named, too.
        for (writable, expected) in [(vec!["/", "/tmp/w"], "/tmp/w"), (vec!["/tmp", "/tmp/w"], "/tmp")] {
            let changes = super::changes(&self::policy(&writable, &[], &[]));
            let behind: Vec<&PathBuf> = changes.keys().filter(|path| is_behind(path, &changes)).collect();
            assert_eq!(behind, [Path::new(expected)]);
        }
    }
}
