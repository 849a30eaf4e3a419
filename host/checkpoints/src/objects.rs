//! Contents of files, each under the digest of its bytes.

use crate::error::Error;
use crate::path::RelPath;
use crate::root::{Stat, TreeRoot};
use crate::tree::{Digest, GapReason, TreeEntry};
use pinion_files::open::{create_directory, open_file};
use pinion_files::{AtomicWrite, TemporaryFile, UnplacedFile};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files up to this size are read into memory.
const SMALL: u64 = 1 << 20;
const CHUNK: usize = 256 * 1024;
/// Reads of a file that changes meanwhile.
const ATTEMPTS: usize = 3;
/// Time for the copy of a content of another store.
const MAX_TIME: Duration = Duration::from_secs(600);

/// The contents of the files of a project.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    directory: PathBuf,
    temporary: PathBuf,
}

/// The outcome of copying a file.
pub(crate) enum Copied {
    /// A copy exists. The facts describe the file that was read.
    Stored(TreeEntry, Stat),
    /// The file has no copy.
    Uncovered(GapReason),
    /// The file is gone.
    Gone,
}

impl Objects {
    pub(crate) fn new(store: &Path) -> Self {
        Self { directory: store.join("objects"), temporary: store.join("tmp") }
    }

    pub(crate) fn path(&self, content: Digest) -> PathBuf {
        let name = content.to_string();
        self.directory.join(&name[..2]).join(&name[2..])
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Copies a file of a tree; with `may_open`, also one that its mode closes.
    ///
    /// # Errors
    /// The copy cannot be written.
    pub(crate) fn copy(
        &self,
        root: &TreeRoot,
        path: &RelPath,
        may_open: bool,
        limit: u64,
        deadline: Instant,
    ) -> Result<Copied, Error> {
        for _ in 0..ATTEMPTS {
            if Instant::now() > deadline {
                return Ok(Copied::Uncovered(GapReason::Time));
            }
            let (mut file, stat) = match root.file(path, may_open) {
                Ok(opened) => opened,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO) => {
                    return Ok(Copied::Gone);
                }
                Err(_) => return Ok(Copied::Uncovered(GapReason::Unreadable)),
            };
            if stat.size > limit {
                return Ok(Copied::Uncovered(GapReason::LargeFile));
            }
            let read = match stat.size <= SMALL {
                true => self.copy_small(&mut file, stat.size)?,
                false => self.copy_large(&mut file, limit, deadline)?,
            };
            let (content, size) = match read {
                Ok(read) => read,
                Err(reason) => return Ok(Copied::Uncovered(reason)),
            };
            let now = rustix::fs::fstat(&file).map(|stat| Stat::from_stat(&stat));
            if now == Ok(stat) && size == stat.size {
                return Ok(Copied::Stored(
                    TreeEntry::File { mode: stat.bits(), size, content, owner: stat.foreign_owner() },
                    stat,
                ));
            }
        }
        Ok(Copied::Uncovered(GapReason::Unreadable))
    }

    fn copy_small(&self, file: &mut File, size: u64) -> Result<Result<(Digest, u64), GapReason>, Error> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        if file.take(SMALL + 1).read_to_end(&mut bytes).is_err() {
            return Ok(Err(GapReason::Unreadable));
        }
        self.write(&bytes).map(|content| Ok((content, bytes.len() as u64)))
    }

    /// Stores bytes, unless they are there already.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let content = Digest::from_bytes(bytes);
        let path = self.path(content);
        if fs::metadata(&path).is_ok_and(|there| there.len() == bytes.len() as u64) {
            return Ok(content);
        }
        let stored = || -> io::Result<()> {
            let mut file = AtomicWrite::private().create_in(&self.temporary)?;
            file.write_all(bytes)?;
            self.keep(file, &path)
        };
        stored().map_err(Error::io("write", &path))?;
        Ok(content)
    }

    /// Copies a large file: without its blocks where the file system can, else in parts.
    fn copy_large(
        &self,
        file: &mut File,
        limit: u64,
        deadline: Instant,
    ) -> Result<Result<(Digest, u64), GapReason>, Error> {
        let failed = || Error::io("write", &self.temporary);
        let mut copy = AtomicWrite::private().create_in(&self.temporary).map_err(|error| failed()(error))?;
        let is_clone = clone(file, copy.as_file());
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; CHUNK];
        let mut size = 0_u64;
        loop {
            let read = match is_clone {
                true => copy.as_file().read(&mut buffer),
                false => file.read(&mut buffer),
            };
            let Ok(read) = read else { return Ok(Err(GapReason::Unreadable)) };
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            hasher.update(part);
            size += read as u64;
            if size > limit {
                return Ok(Err(GapReason::LargeFile));
            }
            if Instant::now() > deadline {
                return Ok(Err(GapReason::Time));
            }
            if !is_clone {
                copy.write_all(part).map_err(|error| failed()(error))?;
            }
        }
        let content = Digest(*hasher.finalize().as_bytes());
        let path = self.path(content);
        if !fs::metadata(&path).is_ok_and(|there| there.len() == size) {
            self.keep(copy, &path).map_err(Error::io("write", &path))?;
        }
        Ok(Ok((content, size)))
    }

    /// Copies a file of any size. Returns its digest; `None` if it cannot be read.
    ///
    /// # Errors
    /// The copy cannot be written.
    pub(crate) fn copy_all(&self, file: &mut File) -> Result<Option<Digest>, Error> {
        let deadline = Instant::now() + MAX_TIME;
        Ok(self.copy_large(file, u64::MAX, deadline)?.ok().map(|(content, _)| content))
    }

    fn keep(&self, file: TemporaryFile, path: &Path) -> io::Result<()> {
        match file.replace(path) {
            Ok(_) => Ok(()),
            Err(UnplacedFile { cause, file: Some(file) }) if cause.kind() == io::ErrorKind::NotFound => {
                create_directory(path.parent().unwrap_or(path))?;
                file.replace(path)?;
                Ok(())
            }
            Err(failed) => Err(failed.cause),
        }
    }

    /// Writes a content to an empty file, and checks it.
    ///
    /// # Errors
    /// The content is missing or damaged, or the file cannot be written.
    pub(crate) fn restore(&self, content: Digest, to: &mut File) -> Result<(), Error> {
        let path = self.path(content);
        let mut from = open_file(&path).map_err(Error::io("read", &path))?;
        let is_clone = clone(&from, to);
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = from.read(&mut buffer).map_err(Error::io("read", &path))?;
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            hasher.update(part);
            if !is_clone {
                to.write_all(part).map_err(Error::io("write the copy of", &path))?;
            }
        }
        match hasher.finalize().as_bytes() == &content.0 {
            true => Ok(()),
            false => Err(Error::Damaged(path)),
        }
    }

    /// Reads a content, and returns whether it is as it was written. Removes a damaged one, because a file of the right
    /// length counts as stored.
    pub(crate) fn is_sound(&self, content: Digest) -> bool {
        let path = self.path(content);
        let found = open_file(&path).and_then(|mut file| digest(&mut file));
        let is_sound = found.is_ok_and(|(found, _)| found == content);
        if !is_sound {
            let _ = fs::remove_file(&path);
        }
        is_sound
    }

    /// Reads a content of at most `limit` bytes; `None` if it is longer, missing or damaged.
    pub(crate) fn read(&self, content: Digest, limit: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        open_file(&self.path(content)).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit && Digest::from_bytes(&bytes) == content).then_some(bytes)
    }
}

/// Makes a file share the blocks of another. Returns whether the file system can.
#[cfg(target_os = "linux")]
fn clone(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn clone(_from: &File, _to: &File) -> bool {
    false
}

/// Returns the digest of a reader's content.
pub(crate) fn digest(reader: &mut impl Read) -> io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(reader, &mut hasher)?;
    Ok((Digest(*hasher.finalize().as_bytes()), size))
}
