//! Directories for program output that is too long for a tool result, one for each session.
//!
//! They are `<cache>/output/<session id>/`, mode 0700. A process holds a lock on the directory that it uses. A
//! directory is removed with its session, or by a later process once it is old or all of them together are too large.

use crate::private::{create_directory, open_directory};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Delay between the start of a run and the removal of old output.
const SWEEP_DELAY: Duration = Duration::from_millis(500);
/// Directories without writes for this long are removed.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Total size in bytes above which the oldest directories are removed.
const MAX_BYTES: u64 = 1 << 30;
/// Subdirectory that programs see as `/tmp`.
pub const TEMPORARY: &str = "tmp";
/// Maximum length in bytes of a session ID that is used as a name unchanged.
const MAX_NAME: usize = 64;

/// The directory of this process for long output.
#[derive(Debug)]
pub struct SpillDirectory {
    root: PathBuf,
    used: OnceLock<Used>,
}

#[derive(Debug)]
struct Used {
    path: PathBuf,
    /// Marks the directory as in use for other processes. None if it could not be locked.
    _lock: Option<File>,
    /// The directory belongs to a session that cannot be resumed.
    is_temporary: bool,
}

impl SpillDirectory {
    /// Uses a directory in `root`, which need not exist. Does not touch the disk.
    pub fn new(root: PathBuf) -> Self {
        Self { root, used: OnceLock::new() }
    }

    /// Uses the directory of a session from now on. Has no effect if a directory is in use already.
    pub fn begin(&self, session: &str, is_kept: bool) {
        self.used.get_or_init(|| Used::new(&self.root, session, !is_kept));
    }

    /// Returns the directory of the session, or else one for this process alone.
    pub fn directory(&self) -> &Path {
        &self.used.get_or_init(|| Used::new(&self.root, &format!("process-{}", uniquely()), false)).path
    }

    /// Removes the directory if it is empty or its session cannot be resumed. Called once, at the end of the process.
    pub fn close(&self) {
        let Some(used) = self.used.get() else { return };
        // Temporary files of programs belong to this process, although their session may continue in another.
        let _ = fs::remove_dir_all(used.path.join(TEMPORARY));
        let _ = fs::remove_file(certificates_in(&used.path));
        // A later process removes the rest.
        let _ = match used.is_temporary {
            true => fs::remove_dir_all(&used.path),
            false => fs::remove_dir(&used.path),
        };
    }

    /// Removes old output in the background after a delay, so that a short run neither waits for it nor slows down.
    pub fn sweep(&self) {
        let root = self.root.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SWEEP_DELAY).await;
            let sweeping = tokio::task::spawn_blocking(move || {
                if let Err(error) = sweep(&root, SystemTime::now(), MAX_BYTES) {
                    tracing::debug!(root = %root.display(), %error, "old output was not removed");
                }
            });
            sweeping.await
        });
    }
}

/// Returns the file of this process with the certificates that programs trust. Programs can read it and not write it.
pub fn certificates_in(directory: &Path) -> PathBuf {
    directory.join(format!("certificates-{}.pem", std::process::id()))
}

/// Removes the output of a session.
pub fn delete(root: &Path, session: &str) -> io::Result<()> {
    match fs::remove_dir_all(root.join(name_of(session))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Used {
    fn new(root: &Path, session: &str, is_temporary: bool) -> Self {
        let name = if is_temporary { format!("{session}-{}", uniquely()) } else { session.to_owned() };
        let path = root.join(name_of(&name));
        let lock = create_directory(root).and_then(|()| claim(&path));
        let lock = lock.inspect_err(|error| tracing::warn!(%error, "long output of programs is not kept")).ok();
        Self { path, _lock: lock, is_temporary }
    }
}

/// Creates and locks a directory. An existing one is used if it belongs to this user, and its mode is corrected. Two
/// processes with the same session share the lock.
fn claim(path: &Path) -> io::Result<File> {
    create_directory(path)?;
    if !fs::symlink_metadata(path)?.is_dir() {
        return Err(io::Error::other(format!("`{}` is not a directory", path.display())));
    }
    let directory = open_directory(path)?;
    #[cfg(unix)]
    directory.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    // Some file systems have no locks; then only its age protects the directory.
    let _ = directory.try_lock_shared();
    Ok(directory)
}

/// Returns a directory name for a session ID, which may come from a forged file.
fn name_of(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !session.is_empty() && session.len() <= MAX_NAME && session.chars().all(is_plain) {
        true => session.to_owned(),
        false => blake3::hash(session.as_bytes()).to_hex().to_string(),
    }
}

fn uniquely() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}", std::process::id(), now.as_nanos())
}

/// An entry of the root.
struct SpillEntry {
    path: PathBuf,
    metadata: Metadata,
    changed: SystemTime,
    bytes: u64,
}

/// Removes files that programs of killed processes left in their `/tmp`, old entries, and then the oldest ones until at
/// most `max_bytes` are left. Entries in use stay.
fn sweep(root: &Path, now: SystemTime, max_bytes: u64) -> io::Result<()> {
    let mut entries = entries(root)?;
    for entry in &entries {
        remove_temporary(entry);
    }
    entries.sort_by_key(|entry| entry.changed);
    let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    for entry in entries {
        let is_old = now.duration_since(entry.changed).is_ok_and(|age| age > MAX_AGE);
        if (is_old || bytes > max_bytes) && remove_unused(&entry)? {
            bytes -= entry.bytes;
        }
    }
    Ok(())
}

fn entries(root: &Path) -> io::Result<Vec<SpillEntry>> {
    let listed = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut entries = Vec::new();
    for path in listed.map(|entry| entry.map(|entry| entry.path())) {
        let path = path?;
        let metadata = fs::symlink_metadata(&path)?;
        let mut entry = SpillEntry { changed: metadata.modified()?, bytes: metadata.len(), path, metadata };
        if entry.metadata.is_dir() {
            for file in fs::read_dir(&entry.path)?.flatten() {
                let found = file.metadata()?;
                entry.bytes += found.len();
                entry.changed = entry.changed.max(found.modified()?);
            }
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Removes the `/tmp` of a directory that is not in use. Its size has no bound, so it does not wait for its age.
fn remove_temporary(entry: &SpillEntry) {
    let temporary = entry.path.join(TEMPORARY);
    if !entry.metadata.is_dir() || fs::symlink_metadata(&temporary).is_err() {
        return;
    }
    let removed = open_directory(&entry.path).map(|directory| match directory.try_lock() {
        Ok(()) => fs::remove_dir_all(&temporary),
        Err(_) => Ok(()),
    });
    if let Err(error) = removed.flatten() {
        tracing::debug!(path = %temporary.display(), %error, "temporary files of programs were not removed");
    }
}

/// Removes an entry unless it is in use; returns whether it did. Removes a link without following it.
fn remove_unused(entry: &SpillEntry) -> io::Result<bool> {
    if !entry.metadata.is_dir() {
        return fs::remove_file(&entry.path).map(|()| true);
    }
    let directory = open_directory(&entry.path)?;
    if directory.try_lock().is_err() {
        return Ok(false);
    }
    fs::remove_dir_all(&entry.path).map(|()| true)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn each_session_has_a_private_directory() {
        let root = TempDir::new().unwrap();
        let output = SpillDirectory::new(root.path().join("output"));
        output.begin("0d2f3c4e", true);
        let directory = output.directory().to_owned();
        assert_eq!(directory.file_name().unwrap(), "0d2f3c4e");
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(directory.join("a"), "x").unwrap();
        output.close();
        assert!(directory.is_dir());
        delete(directory.parent().unwrap(), "0d2f3c4e").unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn empty_and_temporary_directories_are_removed_at_the_end() {
        let root = TempDir::new().unwrap();
        let (empty, temporary) = (SpillDirectory::new(root.path().into()), SpillDirectory::new(root.path().into()));
        empty.begin("kept", true);
        temporary.begin("unkept", false);
        fs::write(temporary.directory().join("a"), "x").unwrap();
        empty.close();
        temporary.close();
        assert_eq!(names(root.path()), Vec::<String>::new());
    }

    #[test]
    fn session_ids_cannot_lead_out_of_the_root() {
        for id in ["../x", "/etc", "", ".", "a/b", &"x".repeat(65)] {
            assert!(name_of(id).chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        }
    }

    #[test]
    fn output_directory_must_not_be_a_link() {
        let (root, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("linked")).unwrap();
        assert!(claim(&root.path().join("linked")).is_err());
    }

    #[test]
    fn sweep_removes_temporary_files_of_killed_processes() {
        let root = TempDir::new().unwrap();
        let used = SpillDirectory::new(root.path().into());
        used.begin("used", true);
        for name in ["used", "killed"] {
            fs::create_dir_all(root.path().join(name).join(TEMPORARY).join("deep")).unwrap();
            fs::write(root.path().join(name).join("output.txt"), "kept").unwrap();
        }
        sweep(root.path(), SystemTime::now(), u64::MAX).unwrap();
        assert_eq!(names(&root.path().join("used")), ["output.txt", TEMPORARY]);
        assert_eq!(names(&root.path().join("killed")), ["output.txt"]);
    }

    #[test]
    fn sweep_removes_old_and_surplus_output_not_in_use() {
        let root = TempDir::new().unwrap();
        let used = SpillDirectory::new(root.path().into());
        used.begin("used", true);
        for name in ["old", "new"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("a"), [0; 100]).unwrap();
        }
        fs::write(root.path().join("output-1-0.txt"), "no directory").unwrap();
        sweep(root.path(), SystemTime::now(), u64::MAX).unwrap();
        assert_eq!(names(root.path()).len(), 4);
        sweep(root.path(), SystemTime::now() + MAX_AGE + Duration::from_secs(60), u64::MAX).unwrap();
        assert_eq!(names(root.path()), ["used"]);
        fs::create_dir(root.path().join("large")).unwrap();
        sweep(root.path(), SystemTime::now(), 1).unwrap();
        assert_eq!(names(root.path()), ["used"]);
    }
}
