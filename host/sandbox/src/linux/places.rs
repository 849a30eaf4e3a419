//! Places for mounts: open files and directories that are reached through no link.

use crate::error::SandboxError;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat, mknodat};
use rustix::fs::{RenameFlags, renameat_with};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Names that are tried for an entry in the way.
const ATTEMPTS: usize = 1_000;

/// Opens a path that leads through no link, only as a handle of its entry.
fn without_links(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(directory, path, how)
}

/// Opens a path of a policy; `None` if it does not exist, is or leads through a link, or lies where this user sees
/// nothing. A link cannot be mounted over; its target has a separate place in the policy.
pub(super) fn opened(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    match without_links(AT_FDCWD, path) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => Ok(None),
        Err(error) => Err(failed("open", path, error)),
    }
}

pub(super) fn required(path: &Path) -> Result<OwnedFd, SandboxError> {
    opened(path)?.ok_or_else(|| failed("open", path, Errno::ENOENT))
}

/// Opens a place in the current tree; `None` if there is nothing.
///
/// # Errors
/// It is a link, or leads through one: another program has changed it meanwhile.
pub(super) fn at(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    match without_links(AT_FDCWD, path) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(None),
        Err(error) => Err(failed("open", path, error)),
    }
}

/// Like [`at`], for a path that may be a link itself, as the repository of a stranger can make it. `checked` is the last
/// directory that no link leads to.
///
/// # Errors
/// A link leads to it: another program has changed it meanwhile.
pub(super) fn at_unless_link(path: &Path, checked: &mut PathBuf) -> Result<Option<OwnedFd>, SandboxError> {
    if let Some(found) = opened(path)? {
        return Ok(Some(found));
    }
    if let Some(around) = path.parent().filter(|around| *around != checked.as_path()) {
        at(around)?;
        around.clone_into(checked);
    }
    Ok(None)
}

/// Opens the place for a mount, and creates it if a private directory covers it.
///
/// The session's directory for temporary files may have anything at a place, because programs can write there. It is renamed.
pub(super) fn target(path: &Path, is_directory: bool) -> Result<OwnedFd, SandboxError> {
    let mut here = without_links(AT_FDCWD, Path::new("/")).map_err(|error| failed("open", path, error))?;
    let mut done = PathBuf::from("/");
    let names: Vec<&OsStr> = path.iter().skip(1).collect();
    for (number, name) in names.iter().enumerate() {
        done.push(name);
        let wants_directory = number + 1 < names.len() || is_directory;
        here = step(&here, Path::new(name), wants_directory).map_err(|error| failed("create", &done, error))?;
    }
    Ok(here)
}

/// Opens or creates a file or directory in a directory.
fn step(around: &OwnedFd, name: &Path, wants_directory: bool) -> Result<OwnedFd, Errno> {
    match without_links(around, name) {
        Ok(found) if is_directory(&found) == wants_directory => return Ok(found),
        Ok(_) | Err(Errno::ELOOP) => move_aside(around, name)?,
        Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    match wants_directory {
        true => mkdirat(around, name, Mode::from_bits_truncate(0o755))?,
        false => mknodat(around, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o644), 0)?,
    }
    without_links(around, name)
}

/// Renames the entry at a place, if the place is in a directory for temporary files and not in one of the user's.
fn move_aside(around: &OwnedFd, name: &Path) -> Result<(), Errno> {
    if !super::mounts::TEMPORARY.iter().any(|directory| is_same_mount(around, Path::new(directory))) {
        return Err(Errno::ELOOP);
    }
    for number in 1..=ATTEMPTS {
        let aside = format!("{}.in-the-way-{number}", name.display());
        match renameat_with(around, name, around, aside, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => {}
            renamed => return renamed.map_err(|error| Errno::from_raw(error.raw_os_error())),
        }
    }
    Err(Errno::EEXIST)
}

/// Returns whether an open directory belongs to the mount at a path.
fn is_same_mount(directory: &OwnedFd, path: &Path) -> bool {
    let mount = |file: &OwnedFd| {
        let text = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(|id| id.trim().to_owned())
    };
    let other = without_links(AT_FDCWD, path).ok().and_then(|other| mount(&other));
    other.is_some() && mount(directory) == other
}

pub(super) fn kind(file: &OwnedFd) -> Result<SFlag, Errno> {
    fstat(file).map(|found| SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()))
}

pub(super) fn is_directory(file: &OwnedFd) -> bool {
    kind(file).is_ok_and(|kind| kind == SFlag::S_IFDIR)
}

fn failed(what: &str, path: &Path, error: Errno) -> SandboxError {
    SandboxError::step(format!("{what} `{}`", path.display()), error.desc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn places_are_created_and_lead_through_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        assert!(is_directory(&target(&root.join("a/b"), true).unwrap()) && root.join("a/b").is_dir());
        assert!(!is_directory(&target(&root.join("a/file"), false).unwrap()) && root.join("a/file").is_file());
        target(&root.join("a/file"), false).unwrap();
        symlink("a", root.join("link")).unwrap();
        fs::create_dir(root.join("mine")).unwrap();
        // This test works in this machine's directory for temporary files, which is the user's elsewhere.
        let is_private = super::super::mounts::TEMPORARY
            .iter()
            .any(|temporary| is_same_mount(&required(&root).unwrap(), Path::new(temporary)));
        let through = target(&root.join("link/b"), true);
        assert_eq!(through.is_ok(), is_private);
        assert!(root.join("link.in-the-way-1").is_symlink() == is_private && !root.join("a/b/b").exists());
    }
}
