//! Protection of paths that no mount keeps as they are: files that a program left at a protected path are found once it
//! has ended, moved away, and never deleted.
//!
//! [`Protection::before`] notes the state of all [protected paths](crate::Protected). [`Protection::after`] compares, and
//! looks at repositories that are new:
//!
//! 1. A path that did not exist has nothing afterwards, except for content that its kind allows, such as a config with
//!    harmless settings. A link on the way to it goes, too.
//! 2. A free path is as it was, or gone.
//! 3. A closed path still is the same file. If it is not, it was replaced from outside, which takes the mount away, so that
//!    the program may have changed it: a config loses the settings that are neither old nor harmless, everything else is
//!    reported.
//!
//! All work goes from open directory to open directory, because other programs may be at work in them.

#[cfg(unix)]
mod judge;
#[cfg(unix)]
mod place;
mod state;

use crate::encoding;
use crate::protected::{Protected, ProtectedKind};
use pinion_git::GitUser;
use serde::{Deserialize, Serialize};
use state::PathState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of files that are kept in memory, to compare them and to put them back.
const MAX_CONTENT: usize = 8 * 1024 * 1024;

/// The protected paths before a program ran. Can be stored until the program has ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "StoredNote", into = "StoredNote")]
pub struct Protection {
    roots: Vec<PathBuf>,
    user: GitUser,
    records: BTreeMap<PathBuf, PathRecord>,
    repositories: BTreeSet<PathBuf>,
    trees: BTreeMap<PathBuf, PathBuf>,
    /// Settings deeper in the roots that were there.
    settings: BTreeSet<PathBuf>,
}

/// A path as it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PathRecord {
    kind: ProtectedKind,
    is_free: bool,
    state: PathState,
}

/// A protected path that was not in its required state, and the measure taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    /// The path.
    #[serde(with = "encoding::path")]
    pub path: PathBuf,
    /// The measure.
    pub fate: Fate,
}

/// A measure after a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// The content was moved to this path.
    Moved(#[serde(with = "encoding::path")] PathBuf),
    /// Only the parts that run nothing were kept. The original was moved to this path.
    Reduced(#[serde(with = "encoding::path")] PathBuf),
    /// The former content is back. The entry that was there instead, if any, was moved to this path.
    Restored(#[serde(with = "encoding::optional")] Option<PathBuf>),
    /// Another program replaced it while the program ran, so that the program could change it. It was left as it is.
    Replaced,
    /// It could not be changed, for this reason.
    Stays(String),
}

impl Protection {
    /// Notes the state of protected paths.
    pub fn before(protected: &Protected) -> Self {
        let mut left = MAX_CONTENT;
        let paths = protected.closed.iter().map(|(path, kind)| (path, *kind, false));
        let paths = paths.chain(protected.free.iter().map(|(path, kind)| (path, *kind, true)));
        let mut record = |path: &Path, kind: ProtectedKind, is_free: bool| PathRecord {
            kind,
            is_free,
            state: PathState::read_path(path, &mut left),
        };
        Self {
            roots: protected.roots.clone(),
            user: protected.user.clone(),
            records: paths.map(|(path, kind, is_free)| (path.clone(), record(path, kind, is_free))).collect(),
            repositories: protected.repositories.clone(),
            trees: protected.trees.clone(),
            settings: protected.settings.clone(),
        }
    }

    /// Returns the directories that the program could write to.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Removes files that a program left at protected paths. `repositories` are the directories that are or contain
    /// repositories now, and `settings` the settings deeper in the roots, as
    /// [`is_nested_setting`](crate::is_nested_setting) finds them; `removed` is the directory for moved files. Files
    /// that were created after `until` are left alone.
    #[cfg(unix)]
    pub fn after(
        &self,
        repositories: &[PathBuf],
        settings: &[PathBuf],
        removed: &Path,
        until: Option<SystemTime>,
    ) -> Vec<Reverted> {
        judge::judge(self, repositories, settings, removed, until)
    }

    /// No effect: no program was confined.
    #[cfg(not(unix))]
    pub fn after(
        &self,
        _repositories: &[PathBuf],
        _settings: &[PathBuf],
        _removed: &Path,
        _until: Option<SystemTime>,
    ) -> Vec<Reverted> {
        Vec::new()
    }
}

/// Directories that a program has closed to its user by their modes. They are open as long as this lives.
#[derive(Debug, Default)]
pub struct OpenedDirectories {
    #[cfg(unix)]
    opened: place::UnlockedDirectories,
}

impl OpenedDirectories {
    /// Opens directories that lie in `roots`, and those around them. Returns whether any was opened.
    #[cfg(unix)]
    pub fn open(&mut self, roots: &[PathBuf], closed: &[PathBuf]) -> bool {
        let before = self.opened.count();
        for path in closed {
            let around = roots.iter().filter(|root| path.starts_with(root));
            let Some(root) = around.max_by_key(|root| root.components().count()) else { continue };
            if let Ok(place::Reached::At(place)) = place::DirectoryName::reach(root, path, &mut self.opened) {
                // It may be open by now.
                let _ = self.opened.open(&place);
            }
        }
        self.opened.count() > before
    }

    /// No effect: no program was confined.
    #[cfg(not(unix))]
    pub fn open(&mut self, _roots: &[PathBuf], _closed: &[PathBuf]) -> bool {
        false
    }
}

/// The form of a note.
#[derive(Serialize, Deserialize)]
struct StoredNote {
    #[serde(with = "encoding::paths")]
    roots: Vec<PathBuf>,
    #[serde(with = "encoding::optional")]
    home: Option<PathBuf>,
    #[serde(with = "encoding::paths")]
    configs: Vec<PathBuf>,
    #[serde(with = "encoding::content")]
    environment: Option<Vec<u8>>,
    records: Vec<StoredRecord>,
    #[serde(with = "encoding::paths")]
    repositories: Vec<PathBuf>,
    #[serde(with = "encoding::paths")]
    trees: Vec<PathBuf>,
    #[serde(with = "encoding::paths")]
    shared: Vec<PathBuf>,
    #[serde(default, with = "encoding::paths")]
    settings: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    #[serde(with = "encoding::path")]
    path: PathBuf,
    record: PathRecord,
}

impl From<Protection> for StoredNote {
    fn from(protection: Protection) -> Self {
        let Protection { roots, user, records, repositories, trees, settings } = protection;
        let (trees, shared) = trees.into_iter().unzip();
        Self {
            roots,
            home: user.home,
            configs: user.configs,
            environment: Some(user.environment),
            records: records.into_iter().map(|(path, record)| StoredRecord { path, record }).collect(),
            repositories: repositories.into_iter().collect(),
            trees,
            shared,
            settings: settings.into_iter().collect(),
        }
    }
}

impl From<StoredNote> for Protection {
    fn from(stored: StoredNote) -> Self {
        let environment = stored.environment.unwrap_or_default();
        Self {
            roots: stored.roots,
            user: GitUser { home: stored.home, configs: stored.configs, environment },
            records: stored.records.into_iter().map(|stored| (stored.path, stored.record)).collect(),
            repositories: stored.repositories.into_iter().collect(),
            trees: stored.trees.into_iter().zip(stored.shared).collect(),
            settings: stored.settings.into_iter().collect(),
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
