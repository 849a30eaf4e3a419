//! Stored results: one JSON file each, `ROOT/SET/ID.json`.

use crate::case::is_id;
use crate::error::EvalError;
use crate::files;
use crate::result::{RESULT_VERSION, SetCompletion, SetResult, SetSums};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Maximum bytes of a result.
const MAX_RESULT: u64 = 1 << 30;

/// A directory of results.
#[derive(Debug, Clone)]
pub struct ResultStore {
    root: PathBuf,
}

/// The part of a result that lists show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSummary {
    /// Id of the result.
    pub id: String,
    /// Id of the set.
    pub set: String,
    /// Time of the start.
    pub started: Timestamp,
    /// Whether all trials took place.
    pub completion: SetCompletion,
    /// Sums over all trials.
    pub sums: SetSums,
}

impl ResultStore {
    /// Uses a directory, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Gives a result its id and writes it: it is there as a whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, result: &mut SetResult) -> Result<PathBuf, EvalError> {
        let time = result.started.strftime("%Y%m%dT%H%M%S%3f").to_string();
        let path_of = |id: &str| self.root.join(&result.set).join(format!("{id}.json"));
        let mut id = time.clone();
        let mut number = 1;
        while path_of(&id).exists() {
            number += 1;
            id = format!("{time}-{number}");
        }
        let path = path_of(&id);
        result.id = id;
        let text = serde_json::to_vec_pretty(result).map_err(|error| EvalError::write(&path)(error.into()))?;
        files::replace(&path, &text).map_err(EvalError::write(&path))?;
        Ok(path)
    }

    /// Returns the paths of all results, the latest first.
    fn paths(&self) -> Vec<PathBuf> {
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let results = entries(&self.root).flat_map(|set| entries(&set).collect::<Vec<_>>());
        let mut paths: Vec<PathBuf> = results.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
        paths.sort_by(|one, other| other.file_stem().cmp(&one.file_stem()).then_with(|| one.cmp(other)));
        paths
    }

    /// Returns the summaries of all results, the latest first, and the problems of those that cannot be read.
    pub fn list(&self) -> (Vec<StoredSummary>, Vec<EvalError>) {
        let (mut summaries, mut problems) = (Vec::new(), Vec::new());
        for path in self.paths() {
            match read(&path) {
                Ok(summary) => summaries.push(summary),
                Err(error) => problems.push(error),
            }
        }
        (summaries, problems)
    }

    /// Returns the file of the result whose id begins with `id`, or of the latest one for `latest`.
    ///
    /// # Errors
    /// No or several results match.
    pub fn find(&self, id: &str) -> Result<PathBuf, EvalError> {
        let missing = || EvalError::NoResult { id: id.to_owned() };
        let paths = self.paths();
        if id == "latest" {
            return paths.into_iter().next().ok_or_else(missing);
        }
        if !is_id(id) {
            return Err(missing());
        }
        let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(exact) = paths.iter().find(|path| stem(path) == id) {
            return Ok(exact.clone());
        }
        let mut found: Vec<PathBuf> = paths.into_iter().filter(|path| stem(path).starts_with(id)).collect();
        match found.len() {
            0 => Err(missing()),
            1 => Ok(found.remove(0)),
            count => Err(EvalError::Ambiguous { id: id.to_owned(), count }),
        }
    }

    /// Loads the result whose id begins with `id`, the latest one for `latest`, or the one in a file of that path.
    ///
    /// # Errors
    /// No result matches, or its file is damaged.
    pub fn load(&self, id: &str) -> Result<SetResult, EvalError> {
        let is_path = id.ends_with(".json") || id.contains(std::path::MAIN_SEPARATOR);
        load_file(if is_path { PathBuf::from(id) } else { self.find(id)? })
    }

    /// Loads the latest other result of the same set.
    ///
    /// # Errors
    /// The set has no other result, or the file is damaged.
    pub fn load_latest_other(&self, result: &SetResult) -> Result<SetResult, EvalError> {
        let is_other = |summary: &StoredSummary| summary.set == result.set && summary.id != result.id;
        let missing = || EvalError::NoOtherResult { set: result.set.clone() };
        let found = self.list().0.into_iter().find(is_other).ok_or_else(missing)?;
        load_file(self.root.join(&found.set).join(format!("{}.json", found.id)))
    }
}

fn load_file(path: PathBuf) -> Result<SetResult, EvalError> {
    let result: SetResult = read(&path)?;
    if result.version != RESULT_VERSION {
        let problem = format!("version {}, this program reads {RESULT_VERSION}", result.version);
        return Err(EvalError::Syntax { path, format: "a result of this program", problem });
    }
    Ok(result)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, EvalError> {
    let bytes = files::read(path, MAX_RESULT).map_err(EvalError::read(path))?;
    let damaged = |error: serde_json::Error| EvalError::Syntax {
        path: path.to_owned(),
        format: "a result",
        problem: error.to_string(),
    };
    serde_json::from_slice(&bytes).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(set: &str) -> SetResult {
        let started = "2026-01-02T03:04:05.006Z".parse().unwrap();
        SetResult { started, ..SetResult::new(set, Vec::new()) }
    }

    #[test]
    fn results_are_stored_listed_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let store = ResultStore::new(directory.path().join("results"));
        assert_eq!(store.list().0, []);
        let (mut one, mut other) = (result("a"), result("a"));
        store.save(&mut one).unwrap();
        let path = store.save(&mut other).unwrap();
        assert_eq!((one.id.as_str(), other.id.as_str()), ("20260102T030405006", "20260102T030405006-2"));
        assert_eq!(store.load(&one.id).unwrap(), one);
        assert_eq!(store.load("latest").unwrap(), other);
        assert_eq!(store.load(path.to_str().unwrap()).unwrap(), other);
        assert_eq!(
            (store.load_latest_other(&one).unwrap(), store.load_latest_other(&other).unwrap()),
            (other.clone(), one.clone())
        );
        let lone = result("b");
        assert!(matches!(store.load_latest_other(&lone), Err(EvalError::NoOtherResult { .. })));
        assert!(matches!(store.load("2026"), Err(EvalError::Ambiguous { count: 2, .. })));
        assert!(matches!(store.load("2025"), Err(EvalError::NoResult { .. })));
        std::fs::write(&path, "{").unwrap();
        let (listed, problems) = store.list();
        assert_eq!((listed.len(), problems.len()), (1, 1));
        assert!(problems[0].to_string().contains("is not a result"));
    }
}
