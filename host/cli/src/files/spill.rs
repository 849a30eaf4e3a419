//! Directories for output of programs that is too long to be kept: one for each session.
//!
//! `<cache>/output/<session id>/`, mode 0700. A process that uses one holds a lock on it. It goes when its session is
//! deleted, and a later process removes it when it is old, or when all of them together are too large.

use crate::files::private::create_folder;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// From the start of a run until old output is removed.
const SWEEP_DELAY: Duration = Duration::from_millis(500);
/// Directories that were not written to for so long are removed.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// When there is more than this in bytes, the oldest directories are removed.
const MAX_BYTES: u64 = 1 << 30;
/// The longest name that is used as it is.
const MAX_NAME: usize = 64;

/// Where long output of this process goes.
#[derive(Debug)]
pub(crate) struct Output {
    root: PathBuf,
    used: OnceLock<Used>,
}

#[derive(Debug)]
struct Used {
    path: PathBuf,
    /// Tells other processes that it is in use. None when it could not be locked.
    _lock: Option<File>,
    /// It belongs to no session that anybody can come back to.
    is_temporary: bool,
}

impl Output {
    /// Uses a directory in `root`, which need not exist. Touches no disk.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, used: OnceLock::new() }
    }

    /// Uses the directory of a session from now on. Without effect when one is in use.
    pub(crate) fn begin(&self, session: &str, is_kept: bool) {
        self.used.get_or_init(|| Used::new(&self.root, session, !is_kept));
    }

    /// The directory: that of the session, or one for this process alone.
    pub(crate) fn directory(&self) -> &Path {
        &self.used.get_or_init(|| Used::new(&self.root, &format!("process-{}", uniquely()), false)).path
    }

    /// Removes the directory when nothing is in it, or nobody can come back to it. To be called at the end.
    pub(crate) fn close(&self) {
        let Some(used) = self.used.get() else { return };
        // What is left is removed by a later process.
        let _ = match used.is_temporary {
            true => fs::remove_dir_all(&used.path),
            false => fs::remove_dir(&used.path),
        };
    }

    /// Removes what is old, in the background and after a while: a short run neither waits for it nor slows down, and
    /// leaves it to a later one.
    pub(crate) fn sweep(&self) {
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

/// Removes the output of a session.
pub(crate) fn delete(root: &Path, session: &str) -> io::Result<()> {
    match fs::remove_dir_all(root.join(name_of(session))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Used {
    fn new(root: &Path, session: &str, is_temporary: bool) -> Self {
        let name = if is_temporary { format!("{session}-{}", uniquely()) } else { session.to_owned() };
        let path = root.join(name_of(&name));
        let lock = create_folder(root).and_then(|()| claim(&path));
        let lock = lock.inspect_err(|error| tracing::warn!(%error, "long output of programs is not kept")).ok();
        Self { path, _lock: lock, is_temporary }
    }
}

/// Makes a directory of our own, and locks it. One that is there is used when it is a directory of this user's; its mode is
/// set right. A second process with the same session shares the lock.
fn claim(path: &Path) -> io::Result<File> {
    create_folder(path)?;
    if !fs::symlink_metadata(path)?.is_dir() {
        return Err(io::Error::other(format!("`{}` is no directory", path.display())));
    }
    let directory = File::open(path)?;
    #[cfg(unix)]
    directory.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    // Some file systems know no locks: then its age alone protects it.
    let _ = directory.try_lock_shared();
    Ok(directory)
}

/// A session's id as the name of a directory, whatever a file says that it is.
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

/// What lies in the root: a directory, or a file of an older version.
struct Entry {
    path: PathBuf,
    metadata: Metadata,
    changed: SystemTime,
    bytes: u64,
}

/// Removes what is old, and then the oldest as long as there is more than `max_bytes`. What is in use stays.
fn sweep(root: &Path, now: SystemTime, max_bytes: u64) -> io::Result<()> {
    let mut entries = entries(root)?;
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

fn entries(root: &Path) -> io::Result<Vec<Entry>> {
    let listed = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut entries = Vec::new();
    for path in listed.map(|entry| entry.map(|entry| entry.path())) {
        let path = path?;
        let metadata = fs::symlink_metadata(&path)?;
        let mut entry = Entry { changed: metadata.modified()?, bytes: metadata.len(), path, metadata };
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

/// Returns whether it was removed. A link is removed, not followed.
fn remove_unused(entry: &Entry) -> io::Result<bool> {
    if !entry.metadata.is_dir() {
        return fs::remove_file(&entry.path).map(|()| true);
    }
    let directory = File::open(&entry.path)?;
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
        let output = Output::new(root.path().join("output"));
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
    fn a_directory_goes_with_a_process_that_kept_nothing() {
        let root = TempDir::new().unwrap();
        let (empty, temporary) = (Output::new(root.path().into()), Output::new(root.path().into()));
        empty.begin("kept", true);
        temporary.begin("unkept", false);
        fs::write(temporary.directory().join("a"), "x").unwrap();
        empty.close();
        temporary.close();
        assert_eq!(names(root.path()), Vec::<String>::new());
    }

    #[test]
    fn no_session_id_leads_out_of_the_root() {
        for id in ["../x", "/etc", "", ".", "a/b", &"x".repeat(65)] {
            assert!(name_of(id).chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        }
    }

    #[test]
    fn a_link_is_no_directory_for_output() {
        let (root, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("linked")).unwrap();
        assert!(claim(&root.path().join("linked")).is_err());
    }

    #[test]
    fn old_and_surplus_output_is_removed_and_what_is_in_use_stays() {
        let root = TempDir::new().unwrap();
        let used = Output::new(root.path().into());
        used.begin("used", true);
        for name in ["old", "new"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("a"), [0; 100]).unwrap();
        }
        fs::write(root.path().join("output-1-0.txt"), "of an older version").unwrap();
        sweep(root.path(), SystemTime::now(), u64::MAX).unwrap();
        assert_eq!(names(root.path()).len(), 4);
        sweep(root.path(), SystemTime::now() + MAX_AGE + Duration::from_secs(60), u64::MAX).unwrap();
        assert_eq!(names(root.path()), ["used"]);
        fs::create_dir(root.path().join("large")).unwrap();
        sweep(root.path(), SystemTime::now(), 1).unwrap();
        assert_eq!(names(root.path()), ["used"]);
    }
}
