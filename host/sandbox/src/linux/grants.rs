//! The places that Landlock opens. It knows no exceptions: everything beneath an opened directory is open.

use crate::error::SandboxError;
use crate::policy::{Enforcement, SandboxPolicy};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Entries that are looked at, beyond which the policy is refused.
const MAX_ENTRIES: usize = 50_000;
/// Devices that every program may use; they lead neither to the user's terminal nor to a disk.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx"];

/// The places that a program may use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Grants {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// Directories that can be listed, with everything beneath.
    pub(super) list: Vec<PathBuf>,
    pub(super) devices: Vec<PathBuf>,
}

/// Returns the grants for a program that sees only visible paths, because mounts show it nothing else.
pub(super) fn behind_mounts(policy: &SandboxPolicy) -> Grants {
    let private = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let devices = ["/dev/tty", "/dev/pts"];
    Grants {
        read: vec![PathBuf::from("/")],
        write: policy.writable.iter().cloned().chain(private).collect(),
        list: Vec::new(),
        devices: DEVICES.iter().chain(&devices).map(PathBuf::from).chain(policy.devices.iter().cloned()).collect(),
    }
}

/// Returns the grants for a program that sees the machine as it is: every directory around a hidden path is opened entry
/// by entry and cannot itself be listed. The same applies to read-only paths in writable directories if they are required;
/// nothing can then be created directly in the directories around them.
///
/// # Errors
/// A directory around a hidden path cannot be listed, or has too many entries.
pub(super) fn without_mounts(policy: &SandboxPolicy) -> Result<Grants, SandboxError> {
    let (mut entries, views) = (0, policy.views());
    // Devices are the user's terminals, and for root its disks.
    let mut hidden: Holes<'_> = policy.hidden.iter().map(PathBuf::as_path).chain([Path::new("/dev")]).collect();
    let devices = DEVICES.iter().map(PathBuf::from).chain(policy.devices.iter().cloned());
    let mut grants = Grants { devices: devices.collect(), ..Grants::default() };
    if policy.enforcement == Enforcement::Require {
        // Their names are no secret. Directories around hidden paths stay unlisted.
        let is_open = |path: &&Path| !has_inside(&hidden, path);
        let around = policy.excluded.iter().filter_map(|path| path.ancestors().skip(1).filter(is_open).last());
        grants.list = around.map(Path::to_owned).collect();
        grants.list.sort();
        grants.list.dedup();
        hidden.extend(policy.excluded.iter().map(PathBuf::as_path));
    }
    around(Path::new("/"), &hidden, &mut grants.read, &mut entries)?;
    for visible in policy.visible.iter().filter(|path| !views.hide(path)) {
        around(visible, &inside(&hidden, visible), &mut grants.read, &mut entries)?;
    }
    // A link, which a repository can contain, would open its target.
    let is_itself = |path: &Path| path.canonicalize().is_ok_and(|real| real == path);
    for read_only in policy.read_only.iter().filter(|path| is_itself(path) && !views.hide(path)) {
        around(read_only, &inside(&hidden, read_only), &mut grants.read, &mut entries)?;
    }
    if policy.enforcement == Enforcement::Require {
        hidden.extend(policy.read_only.iter().map(PathBuf::as_path));
    }
    for writable in policy.writable.iter().filter(|path| !views.hide(path)).chain(&policy.temporary) {
        // A directory of the host that it hands out is writable although it lies in a hidden one.
        around(writable, &inside(&hidden, writable), &mut grants.write, &mut entries)?;
    }
    Ok(grants)
}

/// Paths that are not open, in order.
type Holes<'a> = BTreeSet<&'a Path>;

/// Returns the holes in a directory. Those around it do not count.
fn inside<'a>(holes: &Holes<'a>, directory: &Path) -> Holes<'a> {
    let behind = holes.range::<Path, _>((Bound::Excluded(directory), Bound::Unbounded));
    behind.take_while(|hole| hole.starts_with(directory)).copied().collect()
}

/// Returns whether a path is a hole, or has one inside.
fn has_inside(holes: &Holes<'_>, path: &Path) -> bool {
    holes.range::<Path, _>((Bound::Included(path), Bound::Unbounded)).next().is_some_and(|hole| hole.starts_with(path))
}

/// Collects the largest parts of a tree that do not contain a hole. The tree itself is not inside a hole.
fn around(path: &Path, holes: &Holes<'_>, found: &mut Vec<PathBuf>, entries: &mut usize) -> Result<(), SandboxError> {
    if holes.contains(path) {
        return Ok(());
    }
    if !has_inside(holes, path) || path.is_file() {
        found.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| SandboxError::step(format!("list `{}`", path.display()), error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        *entries += 1;
        if *entries > MAX_ENTRIES {
            return Err(SandboxError::step("hide all paths", format!("`{}` has too many entries", path.display())));
        }
        // The target of a link is opened at its own place.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), holes, found, entries)?;
        }
    }
    Ok(())
}
