//! `pinion eval export` and `import`: tasks and results of Harbor.

use super::failure;
use super::format::{ResultFormat, output};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_console::output::{count, note, text};
use pinion_eval::case::is_id;
use pinion_eval::evaluators::EvaluatorRegistry;
use pinion_eval::harbor::{export_tasks, import_job};
use pinion_eval::load::load_set;
use pinion_eval::store::ResultStore;
use std::path::PathBuf;

/// The arguments of `pinion eval export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// File of cases, in YAML or TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Create this directory with a Harbor task for each case
    #[arg(long, value_name = "DIR")]
    harbor: PathBuf,
}

/// The arguments of `pinion eval import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Directory of a Harbor job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// ID of the set, to compare with its other results
    #[arg(long, value_name = "ID", default_value = "harbor")]
    set: String,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: ResultFormat,
}

impl ExportArgs {
    pub(super) fn run(self, invocation: &Invocation) -> Result<()> {
        let directory = invocation.workspace()?;
        let set = load_set(&directory.join(&self.file), &EvaluatorRegistry::default()).map_err(failure)?;
        let target = directory.join(&self.harbor);
        let failed =
            |error: std::io::Error| Failure::failed(format!("could not create `{}`", target.display())).because(error);
        target
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::create_dir(&target))
            .map_err(failed)?;
        let exported = export_tasks(&set, &target).map_err(Failure::failed)?;
        exported.omissions.iter().for_each(|omission| note(&text!("! {}", omission.as_str())));
        match exported.cases.len() {
            0 => Err(Failure::failed("no case can be a task of Harbor")),
            tasks => {
                note(&text!("wrote {} to {}", count(tasks as u64, "task"), target));
                Ok(())
            }
        }
    }
}

impl ImportArgs {
    pub(super) fn run(self, invocation: &Invocation, store: &ResultStore) -> Result<()> {
        if !is_id(&self.set) {
            return Err(Failure::usage(format!("`{}` is not an id of a set", self.set)));
        }
        let mut result = import_job(&invocation.workspace()?.join(&self.job), &self.set).map_err(failure)?;
        let path = store.save(&mut result).map_err(failure)?;
        note(&text!("stored result {} in {}", result.id, path));
        output(&[result], self.format)
    }
}
