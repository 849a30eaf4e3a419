//! A watch over the covers of a program's tree.
//!
//! When a covered file is replaced or removed outside of the sandbox, as editors do when they save, the system takes the
//! mount over it away, and the new file would be open to the program. The table of mounts tells when that happens. When they
//! rename it, the mount goes with it and the table tells nothing, so it is also looked at from time to time.
//!
//! - A *kept* cover protects files that affect the user's next commands. Without it, the program ends.
//! - A *renewed* cover hides something. Files such as the history of a shell are replaced often, so it is set up again.

use crate::error::SandboxError;
use nix::poll::{PollFd, PollFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Wait between looks while the table tells of no change.
const USUAL_WAIT: Duration = Duration::from_secs(1);
/// Waits between looks at a hidden file that is gone, such as one that an editor is about to write again.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The covers of a tree.
#[derive(Debug, Default)]
pub(super) struct Covers {
    /// Paths whose covers have to stay.
    pub(super) kept: BTreeSet<PathBuf>,
    /// Paths whose covers are renewed.
    pub(super) renewed: BTreeSet<PathBuf>,
}

/// The result of a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CoverState {
    /// All covers are there, or the paths that they covered are gone.
    Whole,
    /// Hidden paths have to be covered again.
    Renew(Vec<PathBuf>),
    /// A path lost its cover for good.
    Lost(PathBuf),
}

/// Watches covers. Must live in the mount namespace of the tree.
pub(super) struct Watch {
    covers: Covers,
    table: File,
    /// The time of the last look, and the wait until the next one.
    looked: Instant,
    wait: Duration,
}

impl Watch {
    /// Begins to watch. From then on, [`descriptor`](Self::descriptor) tells of changes.
    ///
    /// # Errors
    /// The system does not show its mounts, or a cover is gone already.
    pub(super) fn begin(covers: Covers) -> Result<Self, SandboxError> {
        let failed = |error: io::Error| SandboxError::step("watch the mounts", error);
        let table = File::open("/proc/self/mountinfo").map_err(failed)?;
        let mut watch = Self { covers, table, looked: Instant::now(), wait: USUAL_WAIT };
        match watch.check_covers().map_err(failed)? {
            CoverState::Whole => Ok(watch),
            CoverState::Renew(paths) => Err(replaced(&paths[0])),
            CoverState::Lost(path) => Err(replaced(&path)),
        }
    }

    /// Returns the descriptor that is ready when mounts have changed.
    pub(super) fn descriptor(&self) -> PollFd<'_> {
        PollFd::new(self.table.as_fd(), PollFlags::POLLPRI)
    }

    /// Returns the time until the next look if nothing changes.
    pub(super) fn wait(&self) -> Duration {
        self.wait.saturating_sub(self.looked.elapsed())
    }

    /// Looks at all covers.
    ///
    /// # Errors
    /// The system does not show its mounts.
    pub(super) fn check_covers(&mut self) -> io::Result<CoverState> {
        self.looked = Instant::now();
        let mut text = Vec::with_capacity(1 << 16);
        self.table.rewind()?;
        self.table.read_to_end(&mut text)?;
        let places = mounted(&text);
        let is_open = |path: &&PathBuf| !places.contains(path.as_path());
        if let Some(lost) = self.covers.kept.iter().find(is_open) {
            return Ok(CoverState::Lost(lost.clone()));
        }
        let open: Vec<&PathBuf> = self.covers.renewed.iter().filter(is_open).collect();
        if open.is_empty() {
            self.wait = USUAL_WAIT;
            return Ok(CoverState::Whole);
        }
        let is_link = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.is_symlink());
        if let Some(link) = open.iter().find(|path| is_link(path) == Some(true)) {
            // Nothing can be mounted over a link.
            return Ok(CoverState::Lost((*link).clone()));
        }
        let back: Vec<PathBuf> = open.into_iter().filter(|path| is_link(path).is_some()).cloned().collect();
        if back.is_empty() {
            self.wait = if self.wait > LAST_WAIT { FIRST_WAIT } else { (2 * self.wait).min(LAST_WAIT) };
            return Ok(CoverState::Whole);
        }
        // The new mount is a change.
        self.wait = LAST_WAIT;
        Ok(CoverState::Renew(back))
    }
}

/// Describes a path that lost its cover.
pub(super) fn replaced(path: &Path) -> SandboxError {
    SandboxError::Inside(format!(
        "sandbox: `{}` was replaced while the program ran, after which the program could have changed or read it, so the \
         program was ended\nhint: run it again",
        path.display()
    ))
}

/// Returns the places of the mounts in a table.
fn mounted(table: &[u8]) -> BTreeSet<PathBuf> {
    let place = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescaped);
    table.split(|byte| *byte == b'\n').filter_map(place).collect()
}

/// Replaces the escapes `\040` and the like.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut bytes, mut left) = (Vec::with_capacity(text.len()), text);
    while let Some((first, rest)) = left.split_first() {
        let digits =
            rest.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|byte| (b'0'..b'8').contains(byte)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |byte, digit| byte.wrapping_mul(8).wrapping_add(digit - b'0')));
                left = &rest[3..];
            }
            None => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(covers: Covers, table: &str) -> Watch {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, table.as_bytes()).unwrap();
        Watch { covers, table: file, looked: Instant::now(), wait: USUAL_WAIT }
    }

    fn covers(kept: &[&Path], renewed: &[&Path]) -> Covers {
        let set = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        Covers { kept: set(kept), renewed: set(renewed) }
    }

    #[test]
    fn places_in_the_table_are_escaped() {
        let table = "20 1 8:1 / / rw - ext4 /dev/a rw\n21 20 8:1 /x /a\\040b\\134c rw - ext4 /dev/a rw\n";
        let places = mounted(table.as_bytes());
        assert!(places.iter().eq([Path::new("/"), Path::new("/a b\\c")]), "{places:?}");
    }

    #[test]
    fn kept_covers_are_lost_and_hidden_paths_covered_again() {
        let directory = tempfile::tempdir().unwrap();
        let [there, gone, link] = ["there", "gone", "link"].map(|name| directory.path().join(name));
        fs::write(&there, "").unwrap();
        std::os::unix::fs::symlink("there", &link).unwrap();
        let table = format!("21 20 8:1 /x {} rw - ext4 /dev/a rw\n", directory.path().join("other").display());
        let look = |kept: &[&Path], renewed: &[&Path]| watch(covers(kept, renewed), &table).check_covers().unwrap();
        let other = directory.path().join("other");
        assert_eq!(look(&[&other], &[&other]), CoverState::Whole);
        assert_eq!(look(&[&there], &[]), CoverState::Lost(there.clone()));
        assert_eq!(look(&[&other], &[&there, &gone]), CoverState::Renew(vec![there.clone()]));
        assert_eq!(look(&[], &[&gone]), CoverState::Whole);
        assert_eq!(look(&[], &[&link]), CoverState::Lost(link.clone()));
        let mut missing = watch(covers(&[], &[&gone]), &table);
        let waits: Vec<_> = (0..9).map(|_| missing.check_covers().map(|_| missing.wait.as_millis()).unwrap()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }
}
