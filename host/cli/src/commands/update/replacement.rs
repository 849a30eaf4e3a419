//! Replaces the files of an installation.

use pinion_app::failure::{Failure, Result};
use pinion_files::{AtomicWrite, Durability};
use pinion_packages::PackageFiles;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The programs, the main one last: it finds the matching helper from its first start on.
const PROGRAMS: [&str; 2] = ["pinion-sandbox", "pinion"];
/// Files whose presence shows that the directory is the unpacked archive as a whole, and not one of the user's programs.
const DOCUMENTS: [&str; 2] = ["completions/pinion.bash", "man/pinion.1"];
/// Time for the new program to print its version.
const TRIAL: Duration = Duration::from_secs(60);

/// Replaces the programs in a directory, and the documents if they are there. Each file is the old or the new one at any
/// moment.
///
/// # Errors
/// The release has no programs, the new one does not start, or the directory cannot be written.
pub(super) async fn replace(directory: &Path, files: &PackageFiles, version: &str) -> Result<()> {
    let failed = |error: io::Error| {
        let failed = Failure::failed(format!("could not write to `{}`", directory.display()));
        match error.kind() {
            io::ErrorKind::PermissionDenied => failed.hint("run it as the owner of that directory").because(error),
            _ => failed.because(error),
        }
    };
    let missing = |name: &str| Failure::failed(format!("the release has no program `{name}`"));
    let programs = PROGRAMS.map(|name| files.get(name).map(|bytes| (name, bytes)).ok_or_else(|| missing(name)));
    let [helper, program] = programs;
    let (helper, program) = (helper?, program?);
    let trial = tempfile::Builder::new().prefix(".pinion-update").tempdir_in(directory).map_err(failed)?;
    let candidate = trial.path().join("pinion");
    AtomicWrite::keeping_mode_or(0o755).replace(&candidate, program.1).map_err(failed)?;
    check_start(&candidate, version).await?;
    if DOCUMENTS.iter().all(|name| directory.join(name).is_file()) {
        for (path, bytes) in files.iter().filter(|(path, _)| !PROGRAMS.contains(path)) {
            let place = directory.join(path);
            std::fs::create_dir_all(place.parent().unwrap_or(directory)).map_err(failed)?;
            AtomicWrite::keeping_mode_or(0o644).replace(&place, bytes).map_err(failed)?;
        }
    }
    for (name, bytes) in [helper, program] {
        let write = AtomicWrite::keeping_mode_or(0o755).durability(Durability::Content);
        write.replace(&directory.join(name), bytes).map_err(failed)?;
    }
    Ok(())
}

/// Checks that a program runs on this machine and has the expected version.
async fn check_start(program: &Path, version: &str) -> Result<()> {
    let failed = || Failure::failed(format!("pinion {version} does not start on this machine"));
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(TRIAL, command.output()).await;
    let output = ended.map_err(|error| failed().because(error))?.map_err(|error| failed().because(error))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match output.status.success() && printed.trim() == format!("pinion {version}") {
        true => Ok(()),
        false => Err(failed().hint("the installed version stays")),
    }
}
