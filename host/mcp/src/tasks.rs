//! Handles of tasks at servers, on disk until their end is seen: a task may outlive a connection and this process.
//!
//! One file per task, of mode 0600. A file that is damaged or too old is ignored.

pub use pinion_protocol::mcp::McpTask as TaskHandle;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pinion_protocol::text::one_line;
use serde::{Deserialize, Serialize};

use crate::catalogue::cache::{read_text, replace};

/// Maximum tasks of one server, and bytes of a task's id.
const MAX_TASKS: usize = 64;
const MAX_ID: usize = 1 << 10;
/// Maximum bytes of a file.
const MAX_FILE: u64 = 16 << 10;
/// Seconds until a task is forgotten: no server keeps results forever.
const MAX_AGE: u64 = 7 * 24 * 3600;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TaskEntry {
    identity: String,
    #[serde(flatten)]
    handle: TaskHandle,
    /// A request waits for the task.
    #[serde(skip)]
    is_followed: bool,
}

impl TaskEntry {
    fn is(&self, identity: &str, id: &str) -> bool {
        self.identity == identity && self.handle.id == id
    }
}

/// The tasks of all servers.
#[derive(Debug)]
pub(crate) struct Tasks {
    directory: PathBuf,
    /// `None` until they are read from the disk.
    entries: Mutex<Option<Vec<TaskEntry>>>,
}

impl Tasks {
    pub(crate) fn new(directory: PathBuf) -> Arc<Self> {
        Arc::new(Self { directory, entries: Mutex::new(None) })
    }

    fn entries(&self) -> MutexGuard<'_, Option<Vec<TaskEntry>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get_or_insert_with(|| load(&self.directory));
        entries
    }

    /// Returns the tasks of a server that no request waits for.
    pub(crate) fn unattended(&self, identity: &str) -> Vec<TaskHandle> {
        let entries = self.entries();
        let of_server = entries.iter().flatten().filter(|entry| entry.identity == identity && !entry.is_followed);
        of_server.map(|entry| entry.handle.clone()).collect()
    }

    /// Keeps a task that a server has just begun.
    pub(crate) fn begin(self: &Arc<Self>, identity: &str, id: &str, tool: &str) -> Followed {
        let handle = TaskHandle { id: id.to_owned(), tool: one_line(tool, 128), created: now() };
        let entry = TaskEntry { identity: identity.to_owned(), handle, is_followed: true };
        let mut entries = self.entries();
        let entries = entries.get_or_insert_default();
        let has_room = entries.iter().filter(|entry| entry.identity == identity).count() < MAX_TASKS;
        if has_room && id.len() <= MAX_ID {
            if let Err(error) = self.write(&entry) {
                tracing::warn!("the task `{}` cannot be fetched after the end of pinion: {error}", one_line(id, 64));
            }
            entries.push(entry);
        }
        Followed { tasks: self.clone(), identity: identity.to_owned(), id: id.to_owned() }
    }

    /// Waits for a task again. `None` if there is no task with this id, or another request waits for it.
    pub(crate) fn resume(self: &Arc<Self>, identity: &str, id: &str) -> Option<Followed> {
        let mut entries = self.entries();
        let entry = entries.iter_mut().flatten().find(|entry| entry.is(identity, id) && !entry.is_followed)?;
        entry.is_followed = true;
        Some(Followed { tasks: self.clone(), identity: identity.to_owned(), id: id.to_owned() })
    }

    fn write(&self, entry: &TaskEntry) -> io::Result<()> {
        replace(&self.directory, &self.path(entry), &serde_json::to_vec(entry)?)
    }

    fn path(&self, entry: &TaskEntry) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(entry.identity.as_bytes()).update(b"\0").update(entry.handle.id.as_bytes());
        self.directory.join(format!("{}.json", hasher.finalize().to_hex()))
    }
}

/// A task that a request waits for. Dropping it leaves the task to a later request.
#[derive(Debug)]
pub(crate) struct Followed {
    tasks: Arc<Tasks>,
    identity: String,
    pub(crate) id: String,
}

impl Followed {
    /// Forgets the task, whose end was seen.
    pub(crate) fn end(self) {
        let mut entries = self.tasks.entries();
        let entries = entries.get_or_insert_default();
        if let Some(at) = entries.iter().position(|entry| entry.is(&self.identity, &self.id)) {
            let entry = entries.swap_remove(at);
            // It may never have been written.
            let _ = std::fs::remove_file(self.tasks.path(&entry));
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut entries = self.tasks.entries();
        if let Some(entry) = entries.iter_mut().flatten().find(|entry| entry.is(&self.identity, &self.id)) {
            entry.is_followed = false;
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn load(directory: &Path) -> Vec<TaskEntry> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = files.filter_map(|file| file.ok().map(|file| file.path()));
    let mut entries: Vec<TaskEntry> = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let entry = read_text(&path, MAX_FILE).ok().and_then(|text| serde_json::from_str::<TaskEntry>(&text).ok());
        match entry
            .filter(|entry| entry.handle.created.saturating_add(MAX_AGE) > now() && entry.handle.id.len() <= MAX_ID)
        {
            Some(entry) => entries.push(entry),
            // Best effort: the next process tries again.
            None => drop(std::fs::remove_file(&path)),
        }
    }
    entries.sort_by_key(|entry| entry.handle.created);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(tasks: &Arc<Tasks>, identity: &str) -> Vec<String> {
        tasks.unattended(identity).into_iter().map(|handle| handle.id).collect()
    }

    #[test]
    fn task_is_there_for_later_processes_until_its_end_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("tasks");
        let tasks = Tasks::new(place.clone());
        let followed = tasks.begin("server", "t/1", "build");
        drop(tasks.begin("server", "t/2", "build"));
        tasks.begin("other", "t/3", "build").end();
        assert_eq!((ids(&tasks, "server"), ids(&tasks, "other")), (vec!["t/2".to_owned()], vec![]));
        assert!(tasks.resume("server", "t/1").is_none() && tasks.resume("other", "t/2").is_none());
        // As after a kill.
        std::mem::forget(followed);
        let later = Tasks::new(place.clone());
        assert_eq!(ids(&later, "server").len(), 2);
        let resumed = later.resume("server", "t/1").unwrap();
        assert_eq!(ids(&later, "server"), ["t/2"]);
        resumed.end();
        assert_eq!(ids(&Tasks::new(place), "server"), ["t/2"]);
    }

    #[test]
    fn damaged_and_old_files_are_removed_and_the_number_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let entry = |created: u64| {
            let handle = TaskHandle { id: "t".to_owned(), tool: "x".to_owned(), created };
            serde_json::to_vec(&TaskEntry { identity: "server".to_owned(), handle, is_followed: false }).unwrap()
        };
        for (name, bytes) in [("a", b"{".to_vec()), ("b", entry(1)), ("c", vec![b' '; 1 << 20]), ("d", entry(now()))] {
            std::fs::write(directory.path().join(format!("{name}.json")), bytes).unwrap();
        }
        let tasks = Tasks::new(directory.path().to_owned());
        assert_eq!(ids(&tasks, "server"), ["t"]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let all: Vec<Followed> = (0..MAX_TASKS + 9).map(|n| tasks.begin("many", &n.to_string(), "x")).collect();
        drop(all);
        drop(tasks.begin("many", &"x".repeat(MAX_ID + 1), "x"));
        assert_eq!(ids(&tasks, "many").len(), MAX_TASKS);
    }
}
