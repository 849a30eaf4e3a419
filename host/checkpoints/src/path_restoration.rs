//! Changes the paths of a restoration.
//!
//! Each path is compared with the plan just before it is changed, and the replaced entry just after: changes made in
//! the meantime are put back.

use crate::error::Error;
use crate::objects::digest;
use crate::path::RelPath;
use crate::restore::{Planned, Restoration, RestoreReport};
use crate::root::{SET_ID, Stat, TreeRoot, open_directory, set_mode, stat_in};
use crate::store::CheckpointStore;
use crate::tree::{GapReason, Owner, TreeEntry};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, fstat, mkdirat, openat, readlinkat,
    renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;

/// A restoration at work.
pub(crate) struct RestoreWork<'a> {
    pub(crate) store: &'a CheckpointStore,
    pub(crate) root: &'a TreeRoot,
    pub(crate) restoration: &'a Restoration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RestoreProgress {
    Pending,
    /// The old content is removed.
    Cleared,
    /// The old content has another name now.
    Aside,
    Done,
    /// As planned, but for the owner.
    Unowned,
    Kept,
    Failed(String),
}

impl RestoreWork<'_> {
    pub(crate) fn run(self) -> RestoreReport {
        let changes = &self.restoration.changes;
        for (number, change) in changes.iter().enumerate() {
            self.open(change);
            if let Ok(parent) = self.root.parent(&change.path) {
                let _ = unlinkat(&parent, self.temporary(number), AtFlags::empty());
            }
        }
        let mut report = RestoreReport::default();
        let mut progress = vec![RestoreProgress::Pending; changes.len()];
        for (at, change) in changes.iter().enumerate().rev() {
            progress[at] = self.clear(at, change).unwrap_or_else(|error| RestoreProgress::Failed(error.to_string()));
            if progress[at] == RestoreProgress::Aside {
                report.aside.push((change.path.clone(), self.aside(&change.path)));
                progress[at] = RestoreProgress::Cleared;
            }
        }
        for (at, change) in changes.iter().enumerate() {
            if matches!(progress[at], RestoreProgress::Pending | RestoreProgress::Cleared) {
                let is_cleared = progress[at] == RestoreProgress::Cleared;
                progress[at] = self.create(at, change, is_cleared).unwrap_or_else(RestoreProgress::Failed);
            }
        }
        for (at, change) in changes.iter().enumerate().rev() {
            if let (Some(TreeEntry::Directory { mode, owner }), RestoreProgress::Done) = (&change.to, &progress[at]) {
                let set = self.root.directory(&change.path).and_then(|fd| set_attributes(&fd, *mode, *owner));
                progress[at] = set.unwrap_or_else(|error| RestoreProgress::Failed(error.to_string()));
            }
        }
        let planned = changes.iter().zip(progress).filter(|(change, _)| change.from != change.to);
        for (change, progress) in planned {
            if progress == RestoreProgress::Unowned {
                report.unowned.push(change.path.clone());
            }
            match progress {
                RestoreProgress::Kept => report.kept.push(change.path.clone()),
                RestoreProgress::Failed(cause) => report.failed.push((change.path.clone(), cause)),
                _ => report.restored.push(change.path.clone()),
            }
        }
        report
    }

    fn temporary(&self, number: usize) -> String {
        format!(".pinion-restore-{:016x}-{number}", self.restoration.id)
    }

    /// Returns the temporary name of an entry that is moved out of the way.
    fn aside(&self, path: &RelPath) -> RelPath {
        let name =
            [path.name().as_encoded_bytes(), format!(".undone-{:016x}", self.restoration.id).as_bytes()].concat();
        RelPath::join(path.parent().as_ref(), &name)
    }

    /// Makes a directory that is among the changes readable and writable for a while.
    fn open(&self, change: &Planned) {
        if !matches!(change.from, Some(TreeEntry::Directory { .. })) {
            return;
        }
        let Ok(Some(stat)) = self.root.stat(&change.path) else { return };
        if stat.kind() == FileType::Directory && stat.bits() & 0o700 != 0o700 {
            let (parent, name) = (self.root.parent(&change.path), change.path.name().as_encoded_bytes());
            // If this fails, so does the change, which is reported.
            let _ = parent.and_then(|parent| set_mode(&parent, name, stat.bits() | 0o700));
        }
    }

    /// Describes the current entry at the path of a change. A file without a copy is known by its size and time.
    fn inspect_path(&self, change: &Planned) -> rustix::io::Result<Option<TreeEntry>> {
        if let Some(TreeEntry::Uncovered { size, changed, .. }) = &change.from
            && let Some(stat) = self.root.stat(&change.path)?
            && (stat.size, stat.changed) == (*size, *changed)
        {
            return Ok(change.from.clone());
        }
        observe(self.root, &change.path)
    }

    /// Removes entries that have to go before anything is created: all that are not replaced in place.
    fn clear(&self, number: usize, change: &Planned) -> rustix::io::Result<RestoreProgress> {
        let now = self.inspect_path(change)?;
        if now == change.to {
            return Ok(RestoreProgress::Done);
        }
        let is_replaced = kind(&change.from) != kind(&change.to);
        if now.is_none() && is_replaced && change.from.is_some() {
            // An interrupted restoration already did this.
            return Ok(if change.to.is_none() { RestoreProgress::Done } else { RestoreProgress::Cleared });
        }
        if !is_same(&now, &change.from) {
            // The mode of a directory is set at the end.
            let is_begun = is_same(&now, &change.to);
            return Ok(if is_begun { RestoreProgress::Pending } else { RestoreProgress::Kept });
        }
        if !is_replaced || change.from.is_none() {
            return Ok(RestoreProgress::Pending);
        }
        let parent = self.root.parent(&change.path)?;
        let name = change.path.name();
        match change.from {
            Some(TreeEntry::Uncovered { .. }) => {
                let aside = self.aside(&change.path);
                rename_new(&parent, name.as_encoded_bytes(), aside.name().as_encoded_bytes())?;
                return Ok(RestoreProgress::Aside);
            }
            Some(TreeEntry::Directory { .. }) => match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(RestoreProgress::Kept),
                Err(error) => return Err(error),
            },
            _ => {
                let temporary = self.temporary(number);
                renameat(&parent, name, &parent, temporary.as_str())?;
                if !self.is_at(change, &temporary, &now) {
                    rename_new(&parent, temporary.as_bytes(), name.as_encoded_bytes())?;
                    return Ok(RestoreProgress::Kept);
                }
                unlinkat(&parent, temporary.as_str(), AtFlags::empty())?;
            }
        }
        Ok(if change.to.is_none() { RestoreProgress::Done } else { RestoreProgress::Cleared })
    }

    /// Returns whether the temporary name of a change has this content.
    fn is_at(&self, change: &Planned, temporary: &str, expected: &Option<TreeEntry>) -> bool {
        let path = RelPath::join(change.path.parent().as_ref(), temporary.as_bytes());
        observe(self.root, &path).is_ok_and(|found| found == *expected)
    }

    fn create(&self, number: usize, change: &Planned, is_cleared: bool) -> Result<RestoreProgress, String> {
        let text = |error: Errno| error.to_string();
        let now = if is_cleared { None } else { self.inspect_path(change).map_err(text)? };
        let is_expected = is_cleared || is_same(&now, &change.from) || is_same(&now, &change.to);
        if !is_expected {
            return Ok(RestoreProgress::Kept);
        }
        let parent = self.make_parent(&change.path).map_err(text)?;
        let (name, temporary) = (change.path.name(), self.temporary(number));
        match &change.to {
            Some(TreeEntry::Directory { .. }) => match mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
                Ok(()) => Ok(RestoreProgress::Done),
                Err(Errno::EXIST) if matches!(now, Some(TreeEntry::Directory { .. })) => Ok(RestoreProgress::Done),
                Err(error) => Err(text(error)),
            },
            Some(TreeEntry::Link { target }) => {
                symlinkat(target.as_slice(), &parent, temporary.as_str()).map_err(text)?;
                self.rename_into_place(&parent, &temporary, change, &now, RestoreProgress::Done).map_err(text)
            }
            Some(TreeEntry::File { mode, content, owner, .. }) => {
                let is_content_there = matches!(&now, Some(TreeEntry::File { content: now, .. }) if now == content);
                if is_content_there && let Ok((file, _)) = self.root.file(&change.path, true) {
                    return set_attributes(&file, *mode, *owner).map_err(text);
                }
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(&parent, temporary.as_str(), flags, Mode::from_raw_mode(0o600)).map_err(text)?;
                let mut file = File::from(file);
                let written = self.store.objects.restore(*content, &mut file).map_err(|error| with_cause(&error));
                match written.and_then(|()| set_attributes(&file, *mode, *owner).map_err(text)) {
                    Ok(done) => self.rename_into_place(&parent, &temporary, change, &now, done).map_err(text),
                    Err(error) => {
                        let _ = unlinkat(&parent, temporary.as_str(), AtFlags::empty());
                        Err(error)
                    }
                }
            }
            None => Ok(RestoreProgress::Done),
            Some(_) => Ok(RestoreProgress::Kept),
        }
    }

    /// Renames a file that was written next to its place. Replaces nothing where nothing is expected, and nothing that
    /// differs from the entry `before`.
    fn rename_into_place(
        &self,
        parent: &OwnedFd,
        temporary: &str,
        change: &Planned,
        before: &Option<TreeEntry>,
        done: RestoreProgress,
    ) -> rustix::io::Result<RestoreProgress> {
        let name = change.path.name();
        let exchange = || renameat_with(parent, temporary, parent, name, RenameFlags::EXCHANGE);
        let put = match before {
            None => rename_new(parent, temporary.as_bytes(), name.as_encoded_bytes()).map(|()| done),
            Some(_) => match exchange() {
                Ok(()) if self.is_at(change, temporary, before) => {
                    unlinkat(parent, temporary, AtFlags::empty()).map(|()| done)
                }
                Ok(()) => exchange().and_then(|()| {
                    unlinkat(parent, temporary, AtFlags::empty())?;
                    Ok(RestoreProgress::Kept)
                }),
                Err(Errno::INVAL | Errno::NOSYS) => renameat(parent, temporary, parent, name).map(|()| done),
                Err(Errno::BUSY) if matches!(change.to, Some(TreeEntry::File { .. })) => {
                    overwrite(parent, temporary, name).map(|()| done)
                }
                Err(error) => Err(error),
            },
        };
        if let Err(Errno::EXIST | Errno::NOENT) = put {
            let _ = unlinkat(parent, temporary, AtFlags::empty());
            return Ok(RestoreProgress::Kept);
        }
        if put.is_err() {
            let _ = unlinkat(parent, temporary, AtFlags::empty());
        }
        put
    }

    /// Opens the directory that contains a path, creating directories that no snapshot covers.
    fn make_parent(&self, path: &RelPath) -> rustix::io::Result<OwnedFd> {
        match self.root.parent(path) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let Some(parent) = path.parent() else { return Err(Errno::NOENT) };
        let above = self.make_parent(&parent)?;
        match mkdirat(&above, parent.name(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => open_directory(&above, parent.name().as_encoded_bytes()),
            Err(error) => Err(error),
        }
    }
}

/// Gives a file its owner, then its mode. A file without its owner does not get the bits that give programs its rights:
/// the one who restores it may have more.
fn set_attributes(file: &impl AsFd, mode: u32, owner: Option<Owner>) -> rustix::io::Result<RestoreProgress> {
    let stat = Stat::from_stat(&fstat(file)?);
    let set = |owner: Owner| fchown(file, Some(Uid::from_raw(owner.user)), Some(Gid::from_raw(owner.group)));
    let is_owned = owner.is_some_and(|owner| stat.owner() == owner || set(owner).is_ok());
    let is_limited = !is_owned && stat.kind() != FileType::Directory && mode & SET_ID != 0;
    fchmod(file, mode_of(if is_limited { mode & !SET_ID } else { mode }))?;
    let is_complete = !is_limited && (is_owned || owner.is_none());
    Ok(if is_complete { RestoreProgress::Done } else { RestoreProgress::Unowned })
}

/// Copies a file over another one and removes it. A file that is a mount point, such as a single file in a container,
/// can be written but not replaced.
fn overwrite(parent: &OwnedFd, from: &str, to: &OsStr) -> rustix::io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(openat(parent, from, OFlags::RDONLY | flags, Mode::empty())?);
    let mut target = File::from(openat(parent, to, OFlags::WRONLY | flags, Mode::empty())?);
    let stat = Stat::from_stat(&fstat(&source)?);
    if Stat::from_stat(&fstat(&target)?).kind() != FileType::RegularFile {
        return Err(Errno::BUSY);
    }
    let copied = target.set_len(0).and_then(|()| io::copy(&mut source, &mut target));
    copied.and_then(|_| target.sync_all()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    set_attributes(&target, stat.bits(), Some(stat.owner()))?;
    unlinkat(parent, from, AtFlags::empty())
}

/// Renames within a directory, and replaces nothing where the file system can tell.
fn rename_new(parent: &OwnedFd, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    match renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => renameat(parent, from, parent, to),
        renamed => renamed,
    }
}

fn mode_of(bits: u32) -> Mode {
    // Permission bits fit into the smaller type of some systems.
    Mode::from_bits_truncate(bits as rustix::fs::RawMode)
}

fn with_cause(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

fn kind(entry: &Option<TreeEntry>) -> u8 {
    match entry {
        None => 0,
        Some(TreeEntry::File { .. }) => 1,
        Some(TreeEntry::Link { .. }) => 2,
        Some(TreeEntry::Directory { .. }) => 3,
        Some(_) => 4,
    }
}

/// Compares the current entry with the planned one. A directory may have been made writable for a while, or created and
/// not have its mode yet.
fn is_same(now: &Option<TreeEntry>, planned: &Option<TreeEntry>) -> bool {
    match (now, planned) {
        (Some(TreeEntry::Directory { mode: now, .. }), Some(TreeEntry::Directory { mode, .. })) => {
            now == mode || *now == mode | 0o700 || *now == 0o700
        }
        _ => now == planned,
    }
}

/// Describes the current entry.
fn observe(root: &TreeRoot, path: &RelPath) -> rustix::io::Result<Option<TreeEntry>> {
    let parent = match root.parent(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    let stat = match stat_in(&parent, path.name().as_encoded_bytes()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found?,
    };
    Ok(Some(match stat.kind() {
        FileType::Directory => TreeEntry::Directory { mode: stat.bits(), owner: stat.foreign_owner() },
        FileType::Symlink => TreeEntry::Link { target: readlinkat(&parent, path.name(), Vec::new())?.into_bytes() },
        FileType::RegularFile => match root.file(path, true) {
            Ok((mut file, stat)) => {
                let (content, size) = digest(&mut file).map_err(|_| Errno::IO)?;
                TreeEntry::File { mode: stat.bits(), size, content, owner: stat.foreign_owner() }
            }
            Err(_) => TreeEntry::Uncovered { reason: GapReason::Unreadable, size: stat.size, changed: stat.changed },
        },
        _ => TreeEntry::Uncovered { reason: GapReason::Special, size: stat.size, changed: stat.changed },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn file_that_cannot_be_replaced_is_overwritten_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("before"), "old").unwrap();
        std::fs::set_permissions(path("before"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::write(path("mounted"), "a longer text").unwrap();
        let parent = OwnedFd::from(File::open(directory.path()).unwrap());
        overwrite(&parent, "before", OsStr::new("mounted")).unwrap();
        assert_eq!(std::fs::read_to_string(path("mounted")).unwrap(), "old");
        assert_eq!(path("mounted").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!path("before").exists());
        std::fs::write(path("before"), "old").unwrap();
        std::os::unix::fs::symlink("elsewhere", path("link")).unwrap();
        assert!(overwrite(&parent, "before", OsStr::new("link")).is_err() && path("before").exists());
    }
}
