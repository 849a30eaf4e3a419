//! Reloading plugins when their files change, while calls run.
//!
//! Authors build plugins, and models write tools, in the middle of a session; both expect the next call to use the new
//! version.
//!
//! 1. A [`Watch`] receives changes in the directories of plugin files, and a moment later asks the registry to
//!    [`refresh`](crate::runtime::Runtime::refresh).
//! 2. The registry finds files that differ from the last attempt, waits until they are no longer written to, and loads
//!    them alongside the old generation.
//! 3. If that works, names are checked and one pointer is swapped; if not, the old generation stays and a
//!    [`Notice`](crate::registry::notice::Notice) reports the error.
//! 4. A call does not rely on the watcher: it checks its plugin's file itself, and waits for 2 and 3 when the file has
//!    changed, within the bounds that [`crate::registry`] sets.
//!
//! Invariants: a call ends on the generation that it began on; a failed load never removes a working plugin; names are
//! checked and swapped under one lock.
//!
//! Compiling is in [`crate::loading`]; the authority of a plugin is in [`crate::capability`].

use crate::loading::source::{FileOrigin, PluginSource};
use crate::registry::Registry;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Changes within this time cause one refresh.
const REST: Duration = Duration::from_millis(30);

/// A directory with plugins: its files `*.wasm`, and `NAME/NAME.wasm` in directories below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginDirectory {
    /// The path of the directory.
    pub path: PathBuf,
    /// The origin of the plugins in it.
    pub origin: FileOrigin,
}

/// Watches plugin files until it is dropped.
pub struct Watch {
    task: JoinHandle<()>,
}

/// The system cannot watch the directories. Calls still check their plugin's file themselves.
#[derive(Debug, thiserror::Error)]
#[error("could not watch plugin files")]
pub struct WatchError(#[from] notify::Error);

impl Watch {
    /// Watches files, and directories with plugins.
    pub(crate) fn start(
        registry: Arc<Registry>,
        files: &[PathBuf],
        directories: Vec<PluginDirectory>,
    ) -> Result<Self, WatchError> {
        let (watcher, changes) = watcher(files, &directories)?;
        Ok(Self { task: tokio::spawn(follow(registry, directories, watcher, changes)) })
    }

    /// Begins to watch after a time, and then finds the changes until that moment, too. `files` lists the files when it
    /// begins.
    pub(crate) fn start_after(
        delay: Duration,
        registry: Arc<Registry>,
        files: fn(&Registry) -> Vec<PathBuf>,
        directories: Vec<PluginDirectory>,
    ) -> Self {
        let task = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            match watcher(&files(&registry), &directories) {
                Ok((watcher, changes)) => {
                    refresh(&registry, &directories);
                    follow(registry, directories, watcher, changes).await;
                }
                Err(error) => tracing::debug!(%error, "calls check their plugins' files themselves"),
            }
        });
        Self { task }
    }
}

/// Watches the directories of files, and directories with plugins. The receiver gets a signal after changes.
fn watcher(
    files: &[PathBuf],
    directories: &[PluginDirectory],
) -> Result<(RecommendedWatcher, mpsc::Receiver<()>), WatchError> {
    // One pending signal is enough, because a refresh checks every file.
    let (signal, changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = signal.try_send(());
        }
    })?;
    let mut watched: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    watched.extend(directories.iter().map(|directory| directory.path.as_path()));
    let found = plugins_in(directories);
    watched.extend(found.iter().filter_map(|plugin| plugin.path()?.parent()));
    watched.sort_unstable();
    watched.dedup();
    for directory in watched.into_iter().filter(|directory| directory.is_dir()) {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok((watcher, changes))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    registry: Arc<Registry>,
    directories: Vec<PluginDirectory>,
    _watcher: RecommendedWatcher,
    mut changes: mpsc::Receiver<()>,
) {
    while changes.recv().await.is_some() {
        tokio::time::sleep(REST).await;
        let _ = changes.try_recv();
        refresh(&registry, &directories);
    }
}

/// Begins to load what changed. Not awaited, so that a slow load does not delay the next change.
fn refresh(registry: &Arc<Registry>, directories: &[PluginDirectory]) {
    let _ = registry.begin_refresh_after_change();
    let _ = registry.begin(plugins_in(directories));
}

/// Returns the plugin files in these directories, sorted within each. A missing directory holds no files.
pub fn plugins_in(directories: &[PluginDirectory]) -> Vec<PluginSource> {
    let mut sources = Vec::new();
    for directory in directories {
        let entries = std::fs::read_dir(&directory.path).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| plugin_at(entry.path())).collect();
        files.sort_unstable();
        let origin = directory.origin;
        sources.extend(files.into_iter().map(|path| PluginSource::File { path, origin }));
    }
    sources
}

/// Returns the plugin file of an entry of a plugin directory: the entry itself, or `NAME.wasm` in the directory `NAME`.
fn plugin_at(entry: PathBuf) -> Option<PathBuf> {
    if entry.extension().is_some_and(|extension| extension == "wasm") {
        return Some(entry);
    }
    let mut name = entry.file_name()?.to_owned();
    name.push(".wasm");
    Some(entry.join(name)).filter(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_may_be_in_a_directory_of_its_name() {
        let directory = tempfile::TempDir::new().unwrap();
        for file in ["b.wasm", "notes.txt", "a.b/a.b.wasm", "a.b/other.wasm", "sources/lib.wasm", "c/d/c.wasm"] {
            let file = directory.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let searched = PluginDirectory { path: directory.path().to_owned(), origin: FileOrigin::User };
        let found = plugins_in(&[searched]);
        let names: Vec<&Path> =
            found.iter().map(|plugin| plugin.path().unwrap().strip_prefix(directory.path()).unwrap()).collect();
        assert_eq!(names, [Path::new("a.b/a.b.wasm"), Path::new("b.wasm")]);
    }
}
