//! Everything that is stored, for the application: the owner of each value, copies for new sessions, and removal.

use crate::journal::{self, JournalRecordKind};
use crate::place::{Owner, session_name};
use crate::private;
use pinion_files::{AtomicWrite, Durability};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The extension of files of values.
const VALUES: &str = "values";

/// The values that plugins store in a directory.
#[derive(Debug, Clone)]
pub struct PluginStorage {
    directory: PathBuf,
}

/// A plugin that stores values, whether it is installed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlugin {
    /// Identifies it: 32 hexadecimal digits.
    pub key: String,
    /// The name in its manifest; empty if its files are damaged.
    pub name: String,
    /// The path of its file, or `built-in`.
    pub source: String,
    /// Its values.
    pub scopes: Vec<StoredScope>,
}

/// The values of a plugin in one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredScope {
    /// `everywhere`, the path of a workspace, or `session ID`.
    pub name: String,
    /// The size of the file.
    pub bytes: u64,
    /// The file is damaged.
    pub is_damaged: bool,
    pub(crate) file: PathBuf,
}

impl PluginStorage {
    /// Uses a directory, which need not exist. Touches no disk.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The directory, as grants name it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the plugins that store values, by name.
    ///
    /// # Errors
    /// A directory cannot be read, is a link, or belongs to another user.
    pub fn plugins(&self) -> io::Result<Vec<StoredPlugin>> {
        let mut plugins: BTreeMap<String, StoredPlugin> = BTreeMap::new();
        for directory in self.entries("plugins")? {
            for file in files(&directory)? {
                add(&mut plugins, &name_of(&directory), file, None);
            }
        }
        for directory in self.entries("sessions")? {
            for file in files(&directory)? {
                let key = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                add(&mut plugins, &key, file, Some(&name_of(&directory)));
            }
        }
        let mut plugins: Vec<StoredPlugin> = plugins.into_values().collect();
        plugins.sort_by(|one, other| (&one.name, &one.source).cmp(&(&other.name, &other.source)));
        Ok(plugins)
    }

    /// Removes all values of a plugin. Waits for writers; calls that run see no values from then on.
    ///
    /// # Errors
    /// A file cannot be locked or removed.
    pub fn clear(&self, plugin: &StoredPlugin) -> io::Result<()> {
        for scope in &plugin.scopes {
            let mut options = OpenOptions::new();
            let lock = scope.file.with_extension("lock");
            let lock = private::open(&lock, options.write(true).create(true).truncate(false))?;
            lock.lock()?;
            match fs::remove_file(&scope.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies the values of one session to another one without values.
    ///
    /// # Errors
    /// The values cannot be read or written.
    pub fn copy_session(&self, from: &str, to: &str) -> io::Result<()> {
        let sessions = self.directory.join("sessions");
        let (source, target) = (sessions.join(session_name(from)), sessions.join(session_name(to)));
        if !private::check_directories(&[&self.directory, &sessions, &source])? {
            return Ok(());
        }
        for file in files(&source)? {
            let Some(mut values) = private::open_existing(&file, OpenOptions::new().read(true))? else { continue };
            private::create_directories(&[&self.directory, &sessions, &target])?;
            let name = target.join(file.file_name().unwrap_or_default());
            let durable = AtomicWrite::private().durability(Durability::ContentAndName);
            let mut copy = durable.create_at(&name.with_extension("new"))?;
            // A record that is being written meanwhile is incomplete in the copy, and does not count there.
            io::copy(&mut values, &mut copy)?;
            copy.replace(&name)?;
        }
        Ok(())
    }

    /// Removes the values of a session, of all plugins.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn remove_session(&self, session: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.directory.join("sessions").join(session_name(session))) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            removed => removed,
        }
    }

    /// Removes the values of sessions whose ids begin with `prefix` and that were not written to for `age`.
    ///
    /// # Errors
    /// They cannot be found or removed.
    pub fn remove_old_sessions(&self, prefix: &str, age: Duration) -> io::Result<()> {
        for directory in self.entries("sessions")? {
            let is_old = fs::symlink_metadata(&directory)?.modified()?.elapsed().is_ok_and(|elapsed| elapsed > age);
            if is_old && name_of(&directory).starts_with(prefix) {
                fs::remove_dir_all(directory)?;
            }
        }
        Ok(())
    }

    /// Returns the directories of a group.
    fn entries(&self, group: &str) -> io::Result<Vec<PathBuf>> {
        let group = self.directory.join(group);
        if !private::check_directories(&[&self.directory, &group])? {
            return Ok(Vec::new());
        }
        let mut directories = Vec::new();
        for entry in fs::read_dir(group)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            }
        }
        Ok(directories)
    }
}

/// Returns the files of values in a directory.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == VALUES) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Adds a file to the plugin with this key.
fn add(plugins: &mut BTreeMap<String, StoredPlugin>, key: &str, file: PathBuf, session: Option<&str>) {
    let (owner, bytes) = owner_of(&file);
    let is_damaged = owner.is_none();
    let owner = owner.unwrap_or_default();
    let name = match (session, owner.scope) {
        (Some(session), _) => format!("session {session}"),
        (None, Some(workspace)) => workspace,
        (None, None) => "everywhere".to_owned(),
    };
    let plugin = plugins.entry(key.to_owned()).or_insert_with(|| StoredPlugin {
        key: key.to_owned(),
        name: String::new(),
        source: String::new(),
        scopes: Vec::new(),
    });
    if !is_damaged {
        (plugin.name, plugin.source) = (owner.plugin, owner.source);
    }
    plugin.scopes.push(StoredScope { name, bytes, is_damaged, file });
}

/// Returns the owner that a file names, and its size. No owner if the file is damaged anywhere.
fn owner_of(path: &Path) -> (Option<Owner>, u64) {
    let Ok(Some(mut file)) = private::open_existing(path, OpenOptions::new().read(true)) else { return (None, 0) };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut owner = None;
    let read = journal::read_head(&mut file).and_then(|id| {
        journal::scan(&mut file, &id, journal::HEAD_BYTES, length, |record| {
            if record.prefix.kind == JournalRecordKind::Owner {
                owner = serde_json::from_slice(record.value).ok();
            }
        })
    });
    (owner.filter(|_| read.is_ok()), length)
}
