//! Bounded looks at files: of links, of content, and all of them together.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Bytes of a file of git that are read.
pub const MAX_FILE_BYTES: u64 = 512 * 1024;
/// Bytes whose reading counts as one look.
const BYTES_PER_LOOK: u64 = 256;
/// Links on the way to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// A budget of looks, each about a system call, and the results so far.
///
/// A repository can name any number of files, behind any number of links, and each program starts after all were looked at.
#[derive(Debug, Clone)]
pub struct LookBudget {
    left: usize,
    /// Directories that are no links.
    plain: HashSet<PathBuf>,
}

/// There is no budget left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

impl LookBudget {
    /// Begins with a number of looks.
    pub fn new(looks: usize) -> Self {
        Self { left: looks, plain: HashSet::new() }
    }

    /// Takes at most `most` looks out of the budget, for a part of the work.
    #[must_use]
    pub fn share(&mut self, most: usize) -> Self {
        let left = self.left.min(most);
        self.left -= left;
        Self { left, plain: std::mem::take(&mut self.plain) }
    }

    /// Returns the rest of a share to the budget.
    pub fn give_back(&mut self, share: Self) {
        self.left += share.left;
        self.plain = share.plain;
    }

    /// Spends looks.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn spend(&mut self, looks: usize) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(looks).ok_or(Exhausted)?;
        Ok(())
    }

    /// Returns the links on the way to a path, and at the end the path that they lead to, which need not exist. A chain of
    /// links without an end leads nowhere.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn resolve(&mut self, path: &Path) -> Result<Vec<PathBuf>, Exhausted> {
        let (mut links, mut done) = (Vec::new(), PathBuf::new());
        let mut left: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
        while let Some(part) = left.pop_front() {
            let part = Path::new(&part);
            match part.components().next() {
                None | Some(Component::CurDir) => continue,
                Some(Component::ParentDir) => {
                    done.pop();
                    continue;
                }
                Some(Component::RootDir | Component::Prefix(_)) => {
                    done.push(part);
                    continue;
                }
                Some(Component::Normal(_)) => done.push(part),
            }
            if self.plain.contains(&done) {
                continue;
            }
            self.spend(1)?;
            match fs::read_link(&done) {
                Ok(target) if links.len() < MAX_LINKS => {
                    links.push(done.clone());
                    done.pop();
                    target.components().rev().for_each(|part| left.push_front(part.as_os_str().to_owned()));
                }
                Ok(_) => return Ok(links),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // Nothing below it exists.
                    left.into_iter().for_each(|part| step(&mut done, Path::new(&part)));
                    break;
                }
                Err(_) => drop(self.plain.insert(done.clone())),
            }
        }
        links.push(done);
        Ok(links)
    }

    /// Reads a regular file, through links; returns `None` if there is no such file, or one that is too long.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, Exhausted> {
        self.spend(1)?;
        let real = self.resolve(path)?.pop();
        let Some(bytes) = real.and_then(|real| read(&real)) else { return Ok(None) };
        let looks = usize::try_from(bytes.len() as u64 / BYTES_PER_LOOK).unwrap_or(usize::MAX);
        self.spend(looks)?;
        Ok(Some(bytes))
    }

    /// Returns the kind of a path, through links.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn is_file(&mut self, path: &Path) -> Result<bool, Exhausted> {
        self.spend(1)?;
        Ok(path.is_file())
    }
}

fn step(path: &mut PathBuf, part: &Path) {
    for part in part.components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
}

/// Reads a regular file that is not a link; returns `None` for anything else, and for a file of more than
/// [`MAX_FILE_BYTES`].
pub fn read(path: &Path) -> Option<Vec<u8>> {
    read_at_most(path, MAX_FILE_BYTES)
}

/// Reads a regular file that is not a link; returns `None` for anything else, and for a file of more bytes than `most`.
pub fn read_at_most(path: &Path, most: u64) -> Option<Vec<u8>> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > most {
        return None;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // A program may put a pipe in its place, which blocks who opens it.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let mut bytes = Vec::new();
    options.open(path).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}
