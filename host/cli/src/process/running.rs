//! Notes about the programs that run, so that what one creates at a protected path is moved away even if this process is killed
//! before the program has ended.
//!
//! A note is a file that its process holds locked. The next start finds those that nobody holds any more.

use crate::files::private::create_directory;
use pinion_agent::serde_json;
use pinion_sandbox::{Policy, Protection};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names of notes that are not complete.
const NEW: &str = "new-";
/// Notes that a start looks at.
const MAX_NOTES: usize = 1000;
/// Bytes of a note.
const MAX_BYTES: u64 = 4 << 20;

/// Protected paths with what was moved away from there; none for what could only be removed.
pub(crate) type Reverted = Vec<(PathBuf, Option<PathBuf>)>;

/// The protection around a program that runs.
pub(crate) struct Running {
    protection: Protection,
    /// The note, and its lock.
    note: Option<(PathBuf, File)>,
    removed: PathBuf,
}

impl Running {
    /// Remembers the protected paths before a program starts. `removed` is the directory to which their content is moved.
    pub(crate) fn begin(policy: &Policy, removed: &Path) -> Self {
        let protection = Protection::before(policy);
        let note = note(&protection, &notes(removed));
        if let Err(error) = &note {
            tracing::debug!(%error, "protected paths are not checked if this process is killed");
        }
        Self { protection, note: note.ok(), removed: removed.to_owned() }
    }

    /// Moves away what a program created, once it has ended.
    pub(crate) fn revert(self) -> Reverted {
        let reverted = self.protection.revert(&self.removed);
        if let Some((path, _lock)) = self.note {
            let _ = fs::remove_file(path);
        }
        reverted
    }
}

fn notes(removed: &Path) -> PathBuf {
    removed.join("running")
}

fn note(protection: &Protection, directory: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    create_directory(directory)?;
    let (new, path) = (directory.join(format!("{NEW}{name}")), directory.join(name));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    // Before it gets the name by which others find it.
    file.try_lock()?;
    file.write_all(&serde_json::to_vec(protection)?)?;
    fs::rename(&new, &path)?;
    Ok((path, file))
}

/// Moves away what programs created whose host was killed.
pub(crate) fn revert_killed(removed: &Path) -> Reverted {
    let mut reverted = Vec::new();
    for entry in fs::read_dir(notes(removed)).into_iter().flatten().flatten().take(MAX_NOTES) {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(NEW.as_bytes()) {
            continue;
        }
        let Some(lock) = OpenOptions::new().read(true).write(true).open(&path).ok() else { continue };
        // Removed in the meantime: its process has ended well.
        if lock.try_lock().is_err() || !path.exists() {
            continue;
        }
        let is_small = lock.metadata().is_ok_and(|found| found.len() <= MAX_BYTES);
        let protection = is_small.then(|| serde_json::from_reader::<_, Protection>(io::BufReader::new(&lock)));
        if let Some(Ok(protection)) = protection {
            reverted.extend(protection.revert(removed));
        }
        let _ = fs::remove_file(path);
    }
    reverted
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_sandbox::{GitUser, protected_in};

    #[test]
    fn what_a_killed_host_left_is_moved_away_by_the_next_start_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (work, removed) = (root.join("work"), root.join("removed"));
        fs::create_dir(&work).unwrap();
        let policy = Policy { read_only: protected_in(&work, &GitUser::default()), ..Policy::default() };
        let running = Running::begin(&policy, &removed);
        fs::write(work.join(".envrc"), "x").unwrap();
        // Its process lives.
        assert!(revert_killed(&removed).is_empty() && work.join(".envrc").exists());
        // A killed process gives up its locks.
        drop(running);
        let reverted = revert_killed(&removed);
        assert_eq!(reverted.len(), 1, "{reverted:?}");
        assert!(!work.join(".envrc").exists() && reverted[0].1.as_ref().unwrap().exists());
        fs::write(work.join(".envrc"), "mine").unwrap();
        assert!(revert_killed(&removed).is_empty());
        fs::write(notes(&removed).join("1-1"), "damaged").unwrap();
        assert!(revert_killed(&removed).is_empty());
        assert_eq!(fs::read_dir(notes(&removed)).unwrap().count(), 0);
        let running = Running::begin(&policy, &removed);
        assert!(running.revert().is_empty());
        assert_eq!(fs::read_dir(notes(&removed)).unwrap().count(), 0);
    }
}
