//! Files of the cache directory: how they are opened, and a bound on the size of all of them.
//!
//! Other programs of the user may have put anything there.
//!
//! Compiled code of a plugin in Python or with a JavaScript engine inside takes 40 MB, and each rebuild leaves an entry. When
//! an entry is added and all of them together take too much, those that were used least recently go. The time of the last
//! use is the entry's modification time, which a use renews once a day.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes that all entries may take together: 25 plugins in Python, or some thousand in Rust.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// The age of a modification time that makes a use renew it.
const RENEWED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Characters of the hash that names an entry.
const NAME_CHARACTERS: usize = 64;

/// The ends of the names of entries that contain no code.
const KINDS: [&str; 3] = [".description", ".index", ".offer"];

/// Opens a file of the cache. A link or a pipe in its place is an error, and does not block.
pub(crate) fn open_entry(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
}

/// Notes that an entry is used.
pub(crate) fn touch(path: &Path) {
    let renew = || -> io::Result<()> {
        let (file, now) = (open_entry(path, OpenOptions::new().read(true))?, SystemTime::now());
        let age = now.duration_since(file.metadata()?.modified()?).unwrap_or_default();
        if age >= RENEWED_AFTER { file.set_modified(now) } else { Ok(()) }
    };
    if let Err(error) = renew() {
        tracing::debug!(entry = %path.display(), %error, "the use of a cache entry was not noted");
    }
}

/// Removes the entries that were used least recently, if all together take more than `max_bytes`, until a quarter of
/// that is free. Keeps `new`. A file that is not an entry neither counts nor goes.
pub(crate) fn evict(directory: &Path, new: &Path, max_bytes: u64) -> io::Result<()> {
    let mut entries = entries(directory)?;
    let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    if total <= max_bytes {
        return Ok(());
    }
    entries.sort_by_key(|entry| entry.used);
    for entry in entries.iter().filter(|entry| entry.path != new) {
        if total <= max_bytes / 4 * 3 {
            break;
        }
        // Another process may have removed it; its readers have it open.
        if fs::remove_file(&entry.path).is_ok() {
            tracing::debug!(entry = %entry.path.display(), "removed from the cache to make room");
        }
        total = total.saturating_sub(entry.bytes);
    }
    Ok(())
}

struct EvictionEntry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn entries(directory: &Path) -> io::Result<Vec<EvictionEntry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(directory)? {
        let found = found?;
        let is_entry = found.file_name().to_str().is_some_and(|name| {
            let hash = KINDS.iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(name);
            hash.len() == NAME_CHARACTERS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        // Others may remove entries at the same time.
        let Ok(metadata) = found.metadata() else { continue };
        if is_entry && metadata.is_file() {
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            entries.push(EvictionEntry { path: found.path(), bytes: metadata.len(), used });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = RENEWED_AFTER;

    fn entry(directory: &Path, digit: char, days: u32) -> PathBuf {
        let path = directory.join(digit.to_string().repeat(NAME_CHARACTERS));
        fs::write(&path, [0; 100]).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - DAY * days).unwrap();
        path
    }

    #[test]
    fn entries_unused_for_longest_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let [old, older, new, used] =
            [('a', 3), ('b', 9), ('c', 20), ('d', 7)].map(|(digit, days)| entry(at, digit, days));
        let index = entry(at, 'e', 30).with_extension("index");
        fs::rename(at.join("e".repeat(NAME_CHARACTERS)), &index).unwrap();
        let foreign = at.join("notes.txt");
        fs::write(&foreign, [0; 1000]).unwrap();
        touch(&used);
        evict(at, &new, 500).unwrap();
        assert!([&old, &older, &new, &used, &index].iter().all(|path| path.exists()), "within the bound");
        evict(at, &new, 499).unwrap();
        assert!(!index.exists() && !older.exists(), "least recently used");
        assert!(new.exists() && used.exists() && old.exists() && foreign.exists());
    }

    #[test]
    fn use_is_noted_once_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let [recent, old] = [('a', 0), ('b', 2)].map(|(digit, days)| entry(directory.path(), digit, days));
        let modified = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        let before = [modified(&recent), modified(&old)];
        touch(&recent);
        touch(&old);
        assert!(modified(&recent) == before[0] && modified(&old) > before[1]);
        touch(Path::new("/nonexistent/entry"));
    }
}
