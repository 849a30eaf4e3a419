//! `pinion plugin watch`: builds and installs a project after each change.
//!
//! A running pinion watches the plugin directory, so that its next call uses the new version. Files are compared every
//! 300 ms instead of through notifications: the list of files is short, files that `.gitignore` excludes must not
//! trigger a build, and editors, network file systems and containers then need no special case.

use crate::commands::plugin::build::{self, Destination};
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::args::OutputFormat;
use pinion_console::output::{bytes, json, note, print, report, text, written};
use pinion_console::process::signals::interruptible_by;
use pinion_devkit::sources;
use pinion_devkit::steps::Steps;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_millis(300);

/// The state of each file: time of change and length.
type WatchedFiles = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

pub(crate) async fn run(base: &Base, directory: &Path, as_json: bool) -> Result<()> {
    let root = base.workspace.join(directory);
    if !root.is_dir() {
        return Err(Failure::usage(format!("no directory `{}`", root.display())));
    }
    let token = CancellationToken::new();
    let end = token.clone();
    let work = async {
        loop {
            // Before the build, so that a change during the build starts another one.
            let built = files(&root);
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                done = once(base, directory, as_json) => done?,
            }
            loop {
                tokio::select! {
                    () = token.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PERIOD) => {}
                }
                let now = files(&root);
                // A save may consist of several writes: wait until nothing has changed for one period.
                if now != built {
                    tokio::time::sleep(PERIOD).await;
                    if files(&root) == now {
                        break;
                    }
                }
            }
        }
    };
    interruptible_by(move || end.cancel(), work).await.0
}

/// Builds and installs the project, and reports how that went. A failed build leaves the installed version as it is.
async fn once(base: &Base, directory: &Path, as_json: bool) -> Result<()> {
    match build::build(base, directory, Destination::Installed, Steps::IfChanged).await {
        Ok(built) if as_json => written(json(&built.as_json())),
        Ok(built) => {
            let warnings = built.checked.warnings();
            print(&text!("installed {} {}, {}\n{}", built.name, built.version, bytes(built.size), warnings))?;
            build::remind_of_grants(base, &built.name).await?;
            note(&text!("watching `{}`; Ctrl-C ends", directory));
            Ok(())
        }
        Err(failure) if as_json => written(json(&failure.as_json())),
        Err(failure) => {
            report(&failure, OutputFormat::Text);
            Ok(())
        }
    }
}

/// Lists the files of a project that a build may depend on, with their states.
fn files(root: &Path) -> WatchedFiles {
    // A directory that cannot be listed now has no changes; the build reports the problem.
    let stamped = sources(root).unwrap_or_default().into_iter().filter_map(|path| {
        let metadata = path.metadata().ok()?;
        Some((path, (metadata.modified().ok(), metadata.len())))
    });
    stamped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn build_output_and_ignored_files_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("src/plugin.js", "1");
        write(".gitignore", "*.log\n");
        let before = files(root.path());
        for name in ["build/plugin.wasm", "node_modules/a/b.js", "x.log"] {
            write(name, "1");
        }
        assert_eq!(files(root.path()), before);
        write("src/plugin.js", "12");
        assert_ne!(files(root.path()), before);
    }
}
