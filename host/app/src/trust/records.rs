//! The record of trusted content: `trust.toml` in the data directory, mode 0600.

use super::content::ProjectContent;
use crate::approve::audit::Audit;
use crate::failure::{Failure, Result};
use crate::files::paths::Paths;
use crate::files::repository::{Links, Repository};
use crate::output::line;
use pinion_agent::secrets::Secrets;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    #[serde(default, rename = "project")]
    projects: Vec<TrustRecord>,
}

/// The record of one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// Path of the workspace.
    pub path: String,
    /// The user's decision.
    pub state: TrustState,
    /// Digests by path relative to the project.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// The restrictions of the config, as TOML. They hold also after the content has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) narrowing: Option<String>,
    /// Plugin files that the user develops: the trust covers their later content, too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) developed: BTreeSet<String>,
    /// Digest of the file of packages whose installation the user refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused_packages: Option<String>,
}

/// A decision about the content of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustState {
    /// Trusted by `pinion trust add`.
    Trusted,
    /// Trusted by an entry of `trusted` in the config, as long as it exists.
    Config,
    /// No longer trusted, even if the config names it.
    Removed,
    /// Asked about, and not trusted with this content.
    Declined,
}

impl TrustRecord {
    /// Describes the differences from the record, one phrase for each file that the user does not develop.
    pub(super) fn changes(&self, content: &ProjectContent) -> Vec<String> {
        let is_fixed = |path: &String| !self.developed.contains(path);
        let fixed = content.digests().filter(|(path, _)| is_fixed(path));
        let new = fixed.filter_map(|(path, now)| match self.files.get(path) {
            None => Some(format!("new `{}`", line(path))),
            Some(digest) if digest != now => Some(format!("changed `{}`", line(path))),
            Some(_) => None,
        });
        let gone = self.files.keys().filter(|path| is_fixed(path) && content.digest(path).is_empty());
        new.chain(gone.map(|path| format!("removed `{}`", line(path)))).collect()
    }

    /// Returns whether the user trusts this content today. `is_wished` says whether the config names the directory.
    pub(super) fn holds(&self, is_wished: bool) -> bool {
        match self.state {
            TrustState::Trusted => true,
            TrustState::Config => is_wished,
            TrustState::Removed | TrustState::Declined => false,
        }
    }

    /// Returns whether the user has already decided not to trust this content.
    pub fn declines(&self, content: &ProjectContent) -> bool {
        match self.state {
            TrustState::Removed => true,
            TrustState::Declined => self.changes(content).is_empty(),
            TrustState::Trusted | TrustState::Config => false,
        }
    }

    /// Describes the current state of the directory for a list.
    pub fn describe(&self, is_wished: bool) -> &'static str {
        if !self.holds(is_wished) {
            return "not trusted";
        }
        match Path::new(&self.path).is_dir() {
            false => "no such directory",
            true if !self.changes(&ProjectContent::read(Path::new(&self.path))).is_empty() => "changed, not used",
            true if self.developed.is_empty() => "trusted",
            true => "developed",
        }
    }
}

impl Records {
    /// Reads the record; a missing file is empty.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(paths: &Paths) -> Result<Self> {
        let file = paths.trust_file();
        let failed = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("could not read `{}`: {error}", file.display()))
                .hint("remove it and run `pinion trust add` again")
        };
        let Ok(directory) = Repository::at(&paths.data) else { return Ok(Self::default()) };
        let name = file.file_name().map(Path::new).unwrap_or(Path::new(""));
        let Some(file) = directory.open(name, Links::Inside).map_err(|error| failed(&error))? else {
            return Ok(Self::default());
        };
        crate::files::private::check(&file).map_err(|error| failed(&error))?;
        let mut bytes = Vec::new();
        file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        toml::from_slice(&bytes).map_err(|error| failed(&error))
    }

    /// Changes the file under a lock.
    pub(super) fn update(paths: &Paths, change: impl FnOnce(&mut Self)) -> Result<()> {
        let file = paths.trust_file();
        let failed =
            |error: &dyn std::fmt::Display| Failure::failed(format!("could not write `{}`: {error}", file.display()));
        crate::files::private::create_directory(&paths.data).map_err(|error| failed(&error))?;
        let lock = crate::files::private::lock(&file.with_extension("lock")).map_err(|error| failed(&error))?;
        let mut records = Self::read(paths)?;
        change(&mut records);
        let text = toml::to_string(&records).map_err(|error| failed(&error))?;
        let written = crate::files::private::replace(&file, text.as_bytes()).map_err(|error| failed(&error));
        drop(lock);
        written
    }

    /// Returns the record of a workspace.
    pub fn find_record(&self, workspace: &Path) -> Option<TrustRecord> {
        self.projects.iter().find(|record| Path::new(&record.path) == workspace).cloned()
    }

    pub(super) fn store_record(&mut self, record: TrustRecord) {
        self.projects.retain(|other| other.path != record.path);
        self.projects.push(record);
    }

    /// Remembers that the user refused to install the packages of a trusted project, by the digest of its file.
    pub(super) fn refuse_packages(paths: &Paths, workspace: &Path, digest: &str) -> Result<()> {
        Self::update(paths, |records| {
            let record = records.projects.iter_mut().find(|record| Path::new(&record.path) == workspace);
            record.into_iter().for_each(|record| record.refused_packages = Some(digest.to_owned()));
        })
    }

    /// Returns all records.
    pub fn all(&self) -> &[TrustRecord] {
        &self.projects
    }

    /// Stops trusting a directory, which need not exist any more. An entry of `trusted` in the config does not restore
    /// the trust.
    ///
    /// # Errors
    /// The directory is not trusted, or the record cannot be written.
    pub fn remove(paths: &Paths, directory: &Path, is_wished: bool) -> Result<()> {
        let path = as_text(directory)?.to_owned();
        let is_trusted = Self::read(paths)?.find_record(directory).is_some_and(|record| record.holds(is_wished));
        if !is_trusted && !is_wished {
            return Err(Failure::usage(format!("`{}` is not trusted", line(&path)))
                .hint("`pinion trust list` lists trusted directories"));
        }
        let removed = TrustRecord {
            path: path.clone(),
            state: TrustState::Removed,
            files: BTreeMap::new(),
            narrowing: None,
            developed: BTreeSet::new(),
            refused_packages: None,
        };
        Self::update(paths, |records| match is_wished {
            true => records.store_record(removed),
            false => records.projects.retain(|record| record.path != path),
        })?;
        logged(paths, &path, "not trusted");
        Ok(())
    }
}

/// Adds a decision about a directory to the audit log.
pub(super) fn logged(paths: &Paths, directory: &str, to: &str) {
    let audit = Audit::new(paths.audit_file(), Secrets::default());
    audit.changed(&format!("trust in `{}`", line(directory)), to);
}

/// Returns a path in the form of the record.
///
/// # Errors
/// The path is not UTF-8.
pub(super) fn as_text(path: &Path) -> Result<&str> {
    let problem = || Failure::usage(format!("cannot trust `{}`: its path is not UTF-8", line(&path.to_string_lossy())));
    path.to_str().ok_or_else(problem)
}
