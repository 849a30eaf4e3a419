//! `pinion eval swe-bench`: solves the instances of SWE-bench and writes predictions for its harness.

mod dataset;
mod instance;
mod predictions;

use self::dataset::{BenchInstance, find_clone, read_dataset};
use self::instance::{BenchSettings, run_instance};
use self::predictions::PredictionFile;
use clap::Args;
use futures_util::{StreamExt as _, stream};
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, count, note, print, text};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// The arguments of `pinion eval swe-bench`.
#[derive(Debug, Args)]
pub(crate) struct SweBench {
    /// Data set with one instance per line
    #[arg(value_name = "DATA.jsonl")]
    data: PathBuf,
    /// Directory with local clones of the repositories: OWNER/NAME, OWNER__NAME or NAME
    #[arg(long, value_name = "DIR")]
    repos: PathBuf,
    /// Directory of the results, which is continued if it exists
    #[arg(long, value_name = "DIR", default_value = "swe-bench")]
    out: PathBuf,
    /// Number of runs at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Run only the instance with this ID (repeatable)
    #[arg(long = "instance", value_name = "ID")]
    instances: Vec<String>,
    /// Name of the model in the predictions [default: the model that answered]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Keep the checkouts
    #[arg(long)]
    keep: bool,
    /// Model to use, as for `pinion -p`
    #[arg(short, long, value_name = "[PROVIDER/]MODEL")]
    model: Option<String>,
    /// Stop each run after this many turns, as for `pinion -p`
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Stop each run at this cost in US dollars, as for `pinion -p`
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Stop each run after this many seconds, as for `pinion -p`
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// More options of each run
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl SweBench {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let workspace = invocation.workspace()?;
        let instances = self.selected(read_dataset(&workspace.join(&self.data))?)?;
        let repositories = workspace.join(&self.repos);
        for instance in &instances {
            find_clone(&repositories, &instance.repo)?;
        }
        let out = workspace.join(&self.out);
        fs::create_dir_all(&out)
            .map_err(|error| Failure::usage(format!("cannot create `{}`", out.display())).because(error))?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed("cannot find the program `pinion`").because(error))?;
        let (options, keeps_checkouts) = (self.options(), self.keep);
        let settings = BenchSettings { program, options, repositories, out, name: self.name, keeps_checkouts };
        let summary = run_bench(&settings, &instances, usize::from(self.jobs)).await?;
        let file = settings.out.join("predictions.jsonl").display().to_string();
        print(&text!(
            "{} in {}, ${}\n",
            count(summary.predictions, "prediction"),
            file,
            format!("{:.2}", summary.cost)
        ))?;
        match summary.failed {
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{} failed", count(failed, "instance")))
                .hint("the same command tries them again")),
        }
    }

    /// Returns the instances that the user selects.
    fn selected(&self, mut instances: Vec<BenchInstance>) -> Result<Vec<BenchInstance>> {
        let is_known = |id: &&String| instances.iter().any(|instance| instance.instance_id == **id);
        if let Some(unknown) = self.instances.iter().find(|id| !is_known(id)) {
            return Err(Failure::usage(format!("the data set has no instance `{unknown}`")));
        }
        if !self.instances.is_empty() {
            instances.retain(|instance| self.instances.contains(&instance.instance_id));
        }
        Ok(instances)
    }

    /// Returns the options of each run.
    fn options(&self) -> Vec<OsString> {
        let named = [
            ("--model", self.model.clone()),
            ("--max-turns", self.max_turns.map(|turns| turns.to_string())),
            ("--max-cost", self.max_cost.map(|cost| cost.to_string())),
            ("--timeout", self.timeout.map(|seconds| seconds.to_string())),
        ];
        let named = named.into_iter().filter_map(|(option, value)| Some(format!("{option}={}", value?).into()));
        named.chain(self.options.iter().cloned()).collect()
    }
}

/// The result of running a data set.
#[derive(Debug, Default)]
struct BenchSummary {
    /// Predictions in the file, also of earlier runs.
    predictions: u64,
    /// Instances without a prediction.
    failed: u64,
    /// US dollars of the predictions that this run added, where prices are known.
    cost: f64,
}

/// Runs the instances that have no prediction, several at the same time, and reports each on stderr.
///
/// # Errors
/// The predictions cannot be read or written. A failing instance does not end the others.
async fn run_bench(settings: &BenchSettings, instances: &[BenchInstance], jobs: usize) -> Result<BenchSummary> {
    let (predictions, done) = PredictionFile::open(&settings.out.join("predictions.jsonl"))?;
    let mut summary = BenchSummary { predictions: done.len() as u64, ..BenchSummary::default() };
    let left = instances.iter().filter(|instance| !done.contains(&instance.instance_id));
    let runs = left.map(|instance| async move { (instance, run_instance(settings, instance).await) });
    let mut ended = stream::iter(runs).buffer_unordered(jobs);
    while let Some((instance, ended)) = ended.next().await {
        let id = &instance.instance_id;
        match ended {
            Ok((prediction, result)) => {
                predictions.add(&prediction)?;
                summary.predictions += 1;
                summary.cost += result.cost.unwrap_or(0.0);
                let size = prediction.model_patch.len() as u64;
                let turns = count(result.turns, "turn");
                note(&text!("{}: {}, {}, patch of {}", id, result.stop_reason, turns, count(size, "byte")));
            }
            Err(failure) => {
                summary.failed += 1;
                note(&text!("! {}: {}", id, Text::block(failure.message())));
            }
        }
    }
    Ok(summary)
}
