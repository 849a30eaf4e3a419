//! The predictions: a line of JSON for each instance, in the form that the harness of SWE-bench reads.

use pinion_app::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Attempts to lock the file, and the pause between two.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// One line of the predictions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prediction {
    pub(crate) instance_id: String,
    pub(crate) model_name_or_path: String,
    pub(crate) model_patch: String,
}

/// The file of the predictions, locked by the run that adds lines to it.
#[derive(Debug)]
pub(crate) struct PredictionFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl PredictionFile {
    /// Opens the file, and removes a last line that a kill cut off. Returns also the ids of the instances in it.
    ///
    /// # Errors
    /// Another run adds lines to it, the file cannot be read or written, or a complete line is damaged.
    pub(crate) fn open(path: &Path) -> Result<(Self, BTreeSet<String>)> {
        let failed = |error| Failure::failed(format!("cannot open `{}`", path.display())).because(error);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        lock(&file).map_err(|error| match error {
            TryLockError::WouldBlock => {
                Failure::failed(format!("another run writes to `{}`", path.display())).hint("wait for its end")
            }
            TryLockError::Error(error) => failed(error),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if complete < bytes.len() {
            file.set_len(complete as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
            bytes.truncate(complete);
        }
        let mut ids = BTreeSet::new();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            let prediction: Prediction = serde_json::from_slice(line).map_err(|error| {
                let at = format!("{}:{}", path.display(), number + 1);
                Failure::failed(format!("invalid prediction at {at}")).because(error).hint("remove the line")
            })?;
            ids.insert(prediction.instance_id);
        }
        Ok((Self { path: path.to_owned(), file: Mutex::new(file) }, ids))
    }

    /// Adds a line in one write, and waits until the disk has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&self, prediction: &Prediction) -> Result<()> {
        let failed = |error| Failure::failed(format!("cannot write `{}`", self.path.display())).because(error);
        let mut line = serde_json::to_vec(prediction).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).and_then(|()| file.sync_data()).map_err(failed)
    }
}

/// Locks a file. A process that another thread creates shares the lock of a file that was just closed, until it becomes
/// its program.
fn lock(file: &File) -> std::result::Result<(), TryLockError> {
    for _ in 0..ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            locked => return locked,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn prediction(id: &str) -> Prediction {
        let (model_name_or_path, model_patch) = ("pinion".to_owned(), "diff --git a/x b/x\r\n\"".to_owned());
        Prediction { instance_id: id.to_owned(), model_name_or_path, model_patch }
    }

    #[test]
    fn line_that_was_cut_off_is_removed_and_the_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("predictions.jsonl");
        let (file, ids) = PredictionFile::open(&path).unwrap();
        assert!(ids.is_empty());
        file.add(&prediction("a")).unwrap();
        assert!(PredictionFile::open(&path).unwrap_err().message().contains("another run"));
        file.add(&prediction("b")).unwrap();
        drop(file);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in first..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (file, ids) = PredictionFile::open(&path).unwrap();
            assert_eq!(ids.contains("b"), length == whole.len());
            if !ids.contains("b") {
                file.add(&prediction("b")).unwrap();
            }
            assert_eq!(fs::read(&path).unwrap(), whole, "{length}");
        }
        fs::write(&path, "{}\n").unwrap();
        assert!(PredictionFile::open(&path).unwrap_err().message().contains("predictions.jsonl:1"));
    }
}
