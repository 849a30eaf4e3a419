//! One instance: its checkout, its run, and the files that stay.
//!
//! ```text
//! log.txt         stderr of the run; locked while someone works on the instance
//! result.json     stdout of the run: the result with the patch, cost and turns
//! patch.diff      the patch
//! session.jsonl   the session
//! checkout/       the repository, removed after the run
//! ```

use super::dataset::{BenchInstance, find_clone};
use super::predictions::Prediction;
use pinion_app::failure::{Failure, Result};
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Time between two attempts to lock an instance.
const WAIT: Duration = Duration::from_millis(200);

/// The upload of a local clone, which also sends commits that no branch names.
const UPLOAD: &str = "--upload-pack=git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true upload-pack";

/// Settings of all runs.
#[derive(Debug, Clone)]
pub(crate) struct BenchSettings {
    /// The program `pinion`.
    pub(crate) program: PathBuf,
    /// Options of each run: the model and limits.
    pub(crate) options: Vec<OsString>,
    /// The directory of the local clones.
    pub(crate) repositories: PathBuf,
    /// The directory of the results.
    pub(crate) out: PathBuf,
    /// The name of the model in the predictions; by default the model that answered.
    pub(crate) name: Option<String>,
    pub(crate) keeps_checkouts: bool,
}

/// The part of a run's JSON result that counts here.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InstanceResult {
    pub(crate) stop_reason: String,
    pub(crate) turns: u64,
    pub(crate) cost: Option<f64>,
    model: String,
    patch: String,
}

impl InstanceResult {
    /// Reads the result of a run that ended by itself or at a limit; `None` for another end, which is not a prediction.
    fn read(path: &Path) -> Option<Self> {
        let result: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        matches!(result.stop_reason.as_str(), "stop" | "length" | "limit").then_some(result)
    }
}

/// Runs an instance, or takes the result of an earlier run that ended without a prediction in the file.
///
/// # Errors
/// The checkout cannot be prepared, or the run failed.
pub(crate) async fn run_instance(
    settings: &BenchSettings,
    instance: &BenchInstance,
) -> Result<(Prediction, InstanceResult)> {
    let directory = settings.out.join(&instance.instance_id);
    let failed = |error| Failure::failed(format!("cannot use `{}`", directory.display())).because(error);
    fs::create_dir_all(&directory).map_err(failed)?;
    let log = lock(&directory.join("log.txt")).await.map_err(failed)?;
    let saved = directory.join("result.json");
    let result = match InstanceResult::read(&saved) {
        Some(result) => result,
        None => {
            log.set_len(0).map_err(failed)?;
            clear(&directory).map_err(failed)?;
            let clone = find_clone(&settings.repositories, &instance.repo)?;
            prepare_checkout(&clone, &instance.base_commit, &directory.join("checkout")).await?;
            let ended = work(settings, instance, &directory, &log).await.map_err(failed)?;
            InstanceResult::read(&saved).ok_or_else(|| {
                let name = directory.join("log.txt");
                Failure::failed(format!("the run failed ({ended}): see `{}`", name.display()))
            })?
        }
    };
    if !settings.keeps_checkouts {
        remove(&directory.join("checkout")).map_err(failed)?;
    }
    let name = settings.name.clone().unwrap_or_else(|| result.model.clone());
    let (instance_id, model_patch) = (instance.instance_id.clone(), result.patch.clone());
    Ok((Prediction { instance_id, model_name_or_path: name, model_patch }, result))
}

/// Locks an instance. A run that outlived its killed parent still has the lock, because the log is its stderr.
async fn lock(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(WAIT).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Removes the files of an earlier run.
fn clear(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.ends_with("log.txt") {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file or a directory with everything in it; a missing one is no error.
fn remove(path: &Path) -> std::io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

async fn work(
    settings: &BenchSettings,
    instance: &BenchInstance,
    directory: &Path,
    log: &File,
) -> std::io::Result<std::process::ExitStatus> {
    let mut command = Command::new(&settings.program);
    command.arg("-C").arg(directory.join("checkout"));
    command.args(["-p", "--output-format", "json", "--patch"]).arg(directory.join("patch.diff"));
    command.arg("--session").arg(directory.join("session.jsonl")).args(&settings.options);
    command.stdin(Stdio::piped()).stdout(File::create(directory.join("result.json"))?).stderr(log.try_clone()?);
    let mut child = command.kill_on_drop(true).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A run that ended early says why in the log.
        let _ = stdin.write_all(prompt(instance).as_bytes()).await;
    }
    child.wait().await
}

fn prompt(instance: &BenchInstance) -> String {
    format!(
        "Resolve the following issue in the repository `{}`, which is in the current directory. Change the source code so \
         that the issue is fixed, and nothing else. Hidden tests check the change; do not edit existing tests. No one can \
         answer questions.\n\n<issue>\n{}\n</issue>\n",
        instance.repo,
        instance.problem_statement.trim()
    )
}

/// Makes a checkout of a commit. It contains this commit alone, because later ones of the clone may have the solution.
/// Neither hooks nor the user's settings of git have an effect on it.
///
/// # Errors
/// git is missing, the clone has no such commit, or the directory cannot be written.
async fn prepare_checkout(clone: &Path, commit: &str, to: &Path) -> Result<()> {
    let failed = |error| Failure::failed(format!("cannot create `{}`", to.display())).because(error);
    fs::create_dir_all(to).map_err(failed)?;
    let clone = fs::canonicalize(clone).map_err(failed)?;
    git(to, ["init", "--quiet", "--template="].map(Path::new)).await?;
    let fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", UPLOAD].map(Path::new);
    git(to, fetch.into_iter().chain([clone.as_path(), Path::new(commit)])).await?;
    git(to, ["checkout", "--quiet", "--detach", "FETCH_HEAD"].map(Path::new)).await
}

async fn git<'a>(directory: &Path, arguments: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"]);
    command.args(arguments).current_dir(directory);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| Failure::failed("cannot run `git`").because(error))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::failed(format!("cannot prepare the checkout: {}", said.trim())))
        }
    }
}
