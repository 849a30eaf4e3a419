//! The values of one scope, and the stores that all calls of a process share.
//!
//! A [`ValueStore`] remembers where the values are in their file, and reads the records that other processes appended before
//! each use. Writers hold a lock of the system, so that a compare-and-set holds across processes; readers need no lock,
//! because records are only appended, and a file is rewritten as a new one. A change is one record, on the disk before
//! the caller gets the result: a kill at any byte leaves the value before or the one after.

use crate::journal::{
    self, FileId, HEAD_BYTES, JournalRecord, JournalRecordKind, MAX_KEY, MAX_VALUE, Prefix, ReadError,
};
use crate::place::StorageLocation;
use crate::private;
use pinion_files::{AtomicWrite, Durability, TemporaryFile};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Bytes that a value counts in addition to its own size and its key: roughly the host's overhead to find it.
pub(crate) const OVERHEAD: u64 = 256;
/// Bytes of records that no longer count, before a file is rewritten even if it has few others.
const SLACK: u64 = 1024 * 1024;
/// Bytes of the largest file that is read; no quota leads to a larger one.
const MAX_FILE: u64 = 1024 * 1024 * 1024;
/// Time to wait for a writer in another process.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// The most keys of one list.
const MAX_KEYS: u32 = 1000;

/// Stores that stay open between calls. An open one costs memory for its keys, and no file handle.
const MAX_OPEN: usize = 32;

/// The values of one scope.
pub struct ValueStore {
    place: StorageLocation,
    index: Mutex<RecordIndex>,
}

/// A condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version, or no value.
    Anything,
    /// This version, or no value.
    Version(Option<u32>),
}

/// An operation had no effect.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The key, the value or the limit is invalid; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// Bytes that the key and the value may have.
    #[error("only {0} bytes are left")]
    Quota(u64),
    /// The value is not at the expected version.
    #[error("the value has another version")]
    Changed,
    /// The file cannot be read or written, or is damaged; the text says why.
    #[error("{0}")]
    Io(String),
}

/// The records of a file that count.
#[derive(Default)]
struct RecordIndex {
    id: FileId,
    /// The offset behind the last complete record; 0 if nothing was read.
    end: u64,
    entries: BTreeMap<String, StorageEntry>,
    /// Bytes that count for the quota.
    used: u64,
    /// Bytes of the records of `entries`.
    live: u64,
    /// The version that was given last.
    version: u32,
}

#[derive(Clone, Copy)]
struct StorageEntry {
    at: u64,
    prefix: Prefix,
}

impl StorageEntry {
    fn cost(&self) -> u64 {
        u64::from(self.prefix.key) + u64::from(self.prefix.value) + OVERHEAD
    }
}

impl ValueStore {
    /// Creates the store of a file, which need not exist. Touches no disk.
    pub fn new(place: StorageLocation) -> Self {
        Self { place, index: Mutex::default() }
    }

    /// Returns a value and its version.
    pub async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, u32)>, StoreError> {
        check_key(key)?;
        let mut index = self.index.lock().await;
        let Some(mut file) = self.current(&mut index)? else { return Ok(None) };
        let Some(entry) = index.entries.get(key).copied() else { return Ok(None) };
        let value = journal::read_value(&mut file, &index.id, entry.at, entry.prefix);
        let value = value.map_err(|error| self.unreadable(&mut index, error))?;
        Ok(Some((value, entry.prefix.version)))
    }

    /// Returns up to `limit` keys that begin with `prefix` and follow `after`.
    pub async fn keys(&self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, StoreError> {
        if !(1..=MAX_KEYS).contains(&limit) {
            return Err(StoreError::Invalid(format!("the limit is {limit}, not 1 to {MAX_KEYS}")));
        }
        let mut index = self.index.lock().await;
        self.current(&mut index)?;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let keys = index.entries.range::<str, _>((start, Bound::Unbounded)).map(|(key, _)| key);
        Ok(keys.take_while(|key| key.starts_with(prefix)).take(limit as usize).cloned().collect())
    }

    /// Writes a value that has the expected version, and returns its new one.
    pub async fn write(
        &self,
        key: &str,
        value: &[u8],
        expected: ExpectedVersion,
        quota: u64,
    ) -> Result<u32, StoreError> {
        check_key(key)?;
        if value.len() > MAX_VALUE {
            return Err(StoreError::Invalid(format!("the value has {} bytes, more than {MAX_VALUE}", value.len())));
        }
        let mut index = self.index.lock().await;
        private::create_directories(&self.place.directories).map_err(|error| self.failed(&error))?;
        let _lock = self.lock().await?;
        let file = self.repaired(&mut index)?;
        let old = index.entries.get(key).copied();
        if let ExpectedVersion::Version(version) = expected
            && version != old.map(|old| old.prefix.version)
        {
            return Err(StoreError::Changed);
        }
        let (freed, cost) = (old.map_or(0, |old| old.cost()), (key.len() + value.len()) as u64 + OVERHEAD);
        let room = quota.saturating_sub(index.used - freed);
        // A value that shrinks is written even if the quota was lowered.
        if cost > room.max(freed) {
            return Err(StoreError::Quota(room.saturating_sub(OVERHEAD)));
        }
        self.append(&mut index, file, JournalRecordKind::Value, key, value).map_err(|error| self.failed(&error))
    }

    /// Removes a value; returns whether there was one.
    pub async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        check_key(key)?;
        let mut index = self.index.lock().await;
        if self.current(&mut index)?.is_none() {
            return Ok(false);
        }
        let _lock = self.lock().await?;
        let file = self.repaired(&mut index)?;
        if !index.entries.contains_key(key) {
            return Ok(false);
        }
        self.append(&mut index, file, JournalRecordKind::Removed, key, &[]).map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    /// Waits for the lock that writers of all processes share.
    async fn lock(&self) -> Result<File, StoreError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = private::open(&self.place.lock(), &mut options).map_err(|error| self.failed(&error))?;
        let (until, mut pause) = (Instant::now() + LOCK_PATIENCE, Duration::from_millis(1));
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(pause).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Io("another process has been writing for 10 seconds".to_owned()));
                }
                Err(TryLockError::Error(error)) => return Err(self.failed(&error)),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Opens the file, if there is one, and reads its new records.
    fn current(&self, index: &mut RecordIndex) -> Result<Option<File>, StoreError> {
        self.opened(index, OpenOptions::new().read(true)).map(|opened| opened.map(|(file, _)| file))
    }

    /// Opens the file for a writer, which cuts off a record that another writer was killed at.
    fn repaired(&self, index: &mut RecordIndex) -> Result<Option<File>, StoreError> {
        let Some((file, length)) = self.opened(index, OpenOptions::new().read(true).write(true))? else {
            return Ok(None);
        };
        if length > index.end {
            file.set_len(index.end).map_err(|error| self.failed(&error))?;
        }
        Ok(Some(file))
    }

    /// Opens the file and reads its new records. Returns its length, too.
    fn opened(&self, index: &mut RecordIndex, options: &mut OpenOptions) -> Result<Option<(File, u64)>, StoreError> {
        let is_there = private::check_directories(&self.place.directories).map_err(|error| self.failed(&error))?;
        let file = match is_there {
            true => private::open_existing(&self.place.values, options).map_err(|error| self.failed(&error))?,
            false => None,
        };
        let Some(mut file) = file else {
            // Another process removed the values.
            *index = RecordIndex::default();
            return Ok(None);
        };
        let read = index.read(&mut file);
        let length = read.map_err(|error| self.unreadable(index, error))?;
        Ok(Some((file, length)))
    }

    /// Adds a record, or rewrites the file with it. Returns its version.
    fn append(
        &self,
        index: &mut RecordIndex,
        file: Option<File>,
        kind: JournalRecordKind,
        key: &str,
        value: &[u8],
    ) -> io::Result<u32> {
        let version = index.version.wrapping_add(1);
        let garbage = index.end.saturating_sub(index.live);
        let Some(mut file) = file.filter(|_| garbage < index.live.max(SLACK)) else {
            return self.rewrite(index, kind, key, value);
        };
        let (prefix, bytes) = journal::encode(&index.id, kind, version, key.as_bytes(), value);
        let at = index.end;
        let written = (|| {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&bytes)?;
            file.sync_data()
        })();
        if let Err(error) = written {
            // Best effort: the next writer cuts off an incomplete record, but a complete one would count.
            let _ = file.set_len(at);
            return Err(error);
        }
        index.apply(prefix, at, key);
        Ok(version)
    }

    /// Writes a new file with the values that count and one change, in place of the present one.
    fn rewrite(&self, index: &mut RecordIndex, kind: JournalRecordKind, key: &str, value: &[u8]) -> io::Result<u32> {
        let new_id = unused_id();
        // Versions of a file begin anywhere, so that they do not repeat after the values were removed.
        let last =
            if index.end == 0 { u32::from_le_bytes([new_id[0], new_id[1], new_id[2], 0]) } else { index.version };
        let version = last.wrapping_add(1);
        let durable = AtomicWrite::private().durability(Durability::ContentAndName);
        let new = durable.create_at(&self.place.new_values())?;
        let mut new = Rewrite { index: RecordIndex { id: new_id, ..RecordIndex::default() }, out: BufWriter::new(new) };
        new.out.write_all(&journal::head(&new_id))?;
        new.index.end = HEAD_BYTES;
        let owner = serde_json::to_vec(&self.place.owner)?;
        new.append_record(JournalRecordKind::Owner, last, "", &owner[..owner.len().min(MAX_VALUE)])?;
        if index.end > 0 {
            let mut old = private::open(&self.place.values, OpenOptions::new().read(true))?;
            for (kept, entry) in index.entries.iter().filter(|(kept, _)| *kept != key) {
                let value =
                    journal::read_value(&mut old, &index.id, entry.at, entry.prefix).map_err(io::Error::other)?;
                new.append_record(JournalRecordKind::Value, entry.prefix.version, kept, &value)?;
            }
        }
        new.append_record(kind, version, key, value)?;
        let Rewrite { index: new_index, out } = new;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.replace(&self.place.values)?;
        *index = new_index;
        index.version = version;
        Ok(version)
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        tracing::warn!(file = %self.place.values.display(), %error, "stored values are not usable");
        StoreError::Io(format!("could not use the stored values: {error}"))
    }

    /// The error for a file that cannot be read. The next use reads it from the start.
    fn unreadable(&self, index: &mut RecordIndex, error: ReadError) -> StoreError {
        *index = RecordIndex::default();
        tracing::warn!(file = %self.place.values.display(), %error, "stored values cannot be read");
        let plugin = &self.place.owner.plugin;
        StoreError::Io(match error {
            ReadError::Io(error) => format!("could not read the stored values: {error}"),
            ReadError::Damaged(_) => format!(
                "could not read the stored values: the file is damaged\n\
                 hint: the user can remove all values of the plugin: pinion plugin storage {plugin} --clear"
            ),
        })
    }
}

/// A file that is being written, and its index.
struct Rewrite {
    index: RecordIndex,
    out: BufWriter<TemporaryFile>,
}

impl Rewrite {
    fn append_record(&mut self, kind: JournalRecordKind, version: u32, key: &str, value: &[u8]) -> io::Result<()> {
        let (prefix, bytes) = journal::encode(&self.index.id, kind, version, key.as_bytes(), value);
        self.out.write_all(&bytes)?;
        let at = self.index.end;
        self.index.apply(prefix, at, key);
        Ok(())
    }
}

impl RecordIndex {
    /// Reads the appended records, or everything if it is another file. Returns the length of the file.
    fn read(&mut self, file: &mut File) -> Result<u64, ReadError> {
        let length = file.metadata()?.len();
        if length > MAX_FILE {
            return Err(ReadError::Damaged(MAX_FILE));
        }
        let id = journal::read_head(file)?;
        if id != self.id || length < self.end {
            *self = Self { id, end: HEAD_BYTES, ..Self::default() };
        }
        if length > self.end {
            let from = self.end;
            let mut damage = None;
            self.end =
                journal::scan(
                    file,
                    &id,
                    from,
                    length,
                    |JournalRecord { prefix, at, key, .. }| match std::str::from_utf8(key) {
                        Ok(key) => self.apply(prefix, at, key),
                        Err(_) => damage = damage.or(Some(at)),
                    },
                )?;
            if let Some(at) = damage {
                return Err(ReadError::Damaged(at));
            }
        }
        Ok(length)
    }

    /// Enters the record at an offset.
    fn apply(&mut self, prefix: Prefix, at: u64, key: &str) {
        self.end = at + prefix.bytes();
        self.version = prefix.version;
        if prefix.kind == JournalRecordKind::Owner {
            return;
        }
        let entry = StorageEntry { at, prefix };
        let old = match prefix.kind {
            JournalRecordKind::Value => {
                self.used += entry.cost();
                self.live += prefix.bytes();
                self.entries.insert(key.to_owned(), entry)
            }
            JournalRecordKind::Owner | JournalRecordKind::Removed => self.entries.remove(key),
        };
        if let Some(old) = old {
            self.used -= old.cost();
            self.live -= old.prefix.bytes();
        }
    }
}

/// Checks the length of a key.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    match key.len() {
        0 => Err(StoreError::Invalid("the key is empty".to_owned())),
        bytes if bytes > MAX_KEY => Err(StoreError::Invalid(format!("the key has {bytes} bytes, more than {MAX_KEY}"))),
        _ => Ok(()),
    }
}

/// Returns an id that is unique to a file.
pub(crate) fn unused_id() -> FileId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&now.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}

/// The stores in use, by the path of their file.
#[derive(Default)]
pub struct SharedStores {
    open: std::sync::Mutex<OpenStores>,
}

#[derive(Default)]
struct OpenStores {
    /// Each with the time of its last use.
    stores: HashMap<PathBuf, (u64, Arc<ValueStore>)>,
    time: u64,
}

impl SharedStores {
    /// Returns the store of a file, the same for all calls that use it at the same time.
    pub fn at(&self, place: StorageLocation) -> Arc<ValueStore> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.time += 1;
        let now = open.time;
        if let Some((used, store)) = open.stores.get_mut(&place.values) {
            *used = now;
            return store.clone();
        }
        if open.stores.len() >= MAX_OPEN {
            open.forget_one();
        }
        let (path, store) = (place.values.clone(), Arc::new(ValueStore::new(place)));
        open.stores.insert(path, (now, store.clone()));
        store
    }
}

impl OpenStores {
    /// Drops the store that no call uses and whose last use is the longest ago.
    fn forget_one(&mut self) {
        let idle = self.stores.iter().filter(|(_, (_, store))| Arc::strong_count(store) == 1);
        if let Some(path) = idle.min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone()) {
            self.stores.remove(&path);
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
