//! The file with the output of a program that is too long for memory.
//!
//! It is made once it is needed, from the output that was kept in memory until then. One file has a quota, and so have
//! all files in the directory together: the oldest make room for a new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one file. The contract names this number, and the built-in tool `bash` mentions the cut.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of all files in the directory, before another one is made.
const MAX_DIRECTORY_BYTES: u64 = 512 * 1024 * 1024;

/// Counts bytes that are about to be written to a file, and returns how many of them the limit of the caller admits.
pub type WriteBudget = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// All output of a program so far, and the file that takes it.
pub struct Spill {
    directory: PathBuf,
    /// Everything so far, as it came, until the file is needed.
    early: Vec<u8>,
    file: Option<(PathBuf, File)>,
    /// The bytes that the file has room for.
    room: u64,
    /// Bytes in the file count as written by the call, and it is cut at the limit of that.
    budget: WriteBudget,
    failed: bool,
}

impl Spill {
    /// Creates the output of a program, whose file is going to be in `directory`. Touches no disk.
    pub fn new(directory: &Path, budget: WriteBudget) -> Self {
        let (directory, room) = (directory.to_owned(), MAX_FILE_BYTES);
        Self { directory, early: Vec::new(), file: None, room, budget, failed: false }
    }

    /// Takes some output, which goes into the file if one is needed.
    pub fn push_output(&mut self, bytes: &[u8], needed: bool) {
        if self.failed {
            return;
        }
        if self.file.is_none() {
            self.early.extend_from_slice(bytes);
            if !needed {
                return;
            }
        }
        let early = std::mem::take(&mut self.early);
        let bytes = if early.is_empty() { bytes } else { &early };
        if let Err(error) = self.write(bytes) {
            tracing::warn!(directory = %self.directory.display(), %error, "long output is not kept in a file");
            self.failed = true;
            if let Some((path, _)) = self.file.take() {
                // Best effort: part of the output would pass for all of it.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some((_, file)) => file,
            None => &mut self.file.insert(create(&self.directory, MAX_DIRECTORY_BYTES)?).1,
        };
        let length = (self.budget)(self.room.min(bytes.len() as u64));
        self.room -= length;
        file.write_all(&bytes[..usize::try_from(length).unwrap_or(0)])
    }

    /// Returns the path of the file, if there is one.
    pub fn finish(self) -> Option<String> {
        let (path, _) = self.file?;
        path.to_str().map(str::to_owned)
    }
}

/// Creates a file that only the user can read, in a directory with room for it.
fn create(directory: &Path, max_bytes: u64) -> io::Result<(PathBuf, File)> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    make_room(directory, max_bytes)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0_u32.. {
        let path = directory.join(format!("output-{}-{attempt}.txt", std::process::id()));
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((path, opened?)),
        }
    }
    Err(io::Error::other("no free file name"))
}

/// Removes the oldest files until all together have at most `max_bytes`.
fn make_room(directory: &Path, max_bytes: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Another process may remove it meanwhile.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if bytes <= max_bytes {
            break;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => bytes -= length,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn spill(directory: &Path, bytes: u64) -> Spill {
        let left = AtomicU64::new(bytes);
        let take = move |wanted: u64| {
            let taken = wanted.min(left.load(Ordering::Relaxed));
            left.fetch_sub(taken, Ordering::Relaxed);
            taken
        };
        Spill::new(directory, Arc::new(take))
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_contains_the_output_in_order_up_to_the_limit_of_the_call() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = spill(&directory.path().join("new"), 10);
        spill.push_output(b"one ", false);
        spill.push_output(b"two ", true);
        spill.push_output(b"three", true);
        let path = spill.finish().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"one two th");
    }

    #[test]
    fn file_has_a_quota() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = Spill { room: 5, ..spill(directory.path(), 100) };
        spill.push_output(b"one ", true);
        spill.push_output(b"two ", true);
        spill.push_output(b"three", true);
        assert_eq!(fs::read(spill.finish().unwrap()).unwrap(), b"one t");
    }

    /// `/dev/full` stands for a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = spill(directory.path(), 100);
        spill.push_output(b"one", true);
        let (path, _) = spill.file.take().unwrap();
        assert_eq!(names(directory.path()).len(), 1);
        spill.file = Some((path, OpenOptions::new().write(true).open("/dev/full").unwrap()));
        spill.push_output(b"two", true);
        assert_eq!((names(directory.path()).len(), spill.finish()), (0, None));
    }

    #[test]
    fn oldest_files_make_room() {
        let directory = tempfile::tempdir().unwrap();
        for (age, name) in ["new", "old", "older"].iter().enumerate() {
            let path = directory.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * age as u64);
            File::options().write(true).open(path).unwrap().set_modified(changed).unwrap();
        }
        create(directory.path(), 200).unwrap();
        assert_eq!(names(directory.path()).len(), 3);
        assert!(!directory.path().join("older").exists());
        create(directory.path(), 1000).unwrap();
        assert!(directory.path().join("old").exists());
    }
}
