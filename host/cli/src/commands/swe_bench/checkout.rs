//! Checkouts of repositories at the commit where an instance begins.

use pinion_app::failure::{Failure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The upload of a local clone, which also sends commits that no branch names.
const UPLOAD: &str = "--upload-pack=git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true upload-pack";

/// Makes a checkout of a commit. It contains this commit alone, because later ones of the clone may have the solution.
/// Neither hooks nor the user's settings of git have an effect on it.
///
/// # Errors
/// git is missing, the clone has no such commit, or the directory cannot be written.
pub(crate) async fn prepare_checkout(clone: &Path, commit: &str, to: &Path) -> Result<()> {
    let failed = |error| Failure::failed(format!("cannot create `{}`", to.display())).because(error);
    fs::create_dir_all(to).map_err(failed)?;
    let clone = fs::canonicalize(clone).map_err(failed)?;
    let clone: PathBuf = clone;
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
    let output = command.stdin(std::process::Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| Failure::failed("cannot run `git`").because(error))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::failed(format!("cannot prepare the checkout: {}", said.trim())))
        }
    }
}
